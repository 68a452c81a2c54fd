"""Changing the model and its thresholds while the streams play; how a change ended is an event."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import gi

gi.require_version("Gst", "1.0")
from gi.repository import Gst

from sluice.app.options import Options
from sluice.app.streams.events import EventLog
from sluice.elements.infer_properties import CHOICES
from sluice.errors import ConfigurationError


class ModelControl:
    """The model of one run. Any thread may call; nothing waits for a model to be loaded."""

    def __init__(self, infer: Gst.Element, options: Options, log: EventLog) -> None:
        """Control the model of a ``sluiceinfer`` element that was set up by these options."""
        self._infer = infer
        self._options = options
        self._log = log
        self._lock = threading.Lock()
        self._name = options.model_name
        self._asked = ""
        self._state = "running"
        self._reason = ""

    def swap(self, model: str, policy: str = "beside") -> None:
        """Begin to load a model that takes the place of the one that runs, between two batches.

        Args:
            model: as for a pipeline.
            policy: "beside": the old one runs until the new one can; "in-place": the old one makes room first.

        Raises:
            ConfigurationError: there is no such policy, or the run has no model to be replaced.
        """
        if policy not in CHOICES["swap-policy"]:
            raise ConfigurationError(f"policy is {policy!r}; it is one of {', '.join(CHOICES['swap-policy'])}")
        if self._options.model is None:
            raise ConfigurationError("this run was started without a model, and can't take one")
        self._infer.set_property("swap-policy", policy)
        self._load(model)

    def set_thresholds(
        self,
        confidence: float | None = None,
        iou: float | None = None,
        classes: Sequence[int | str] | None = None,
    ) -> None:
        """Change which detections count; the model is loaded anew beside the one that runs. None: stays as it is.

        Args:
            confidence: least score of a detection, 0..1.
            iou: overlap from which boxes of one class are merged, 0..1.
            classes: labels or class ids to keep; empty: all.

        Raises:
            ConfigurationError: a value cannot be used.
        """
        Options(confidence=confidence, iou=iou)  # checks them
        named = {
            "confidence-threshold": confidence,
            "iou-threshold": iou,
            "classes": None if classes is None else ";".join(map(str, classes)),
        }
        for name, value in named.items():
            if value is not None:
                self._infer.set_property(name, value)
        self._load(self._infer.get_property("model"))

    def set_prompt(self, texts: Sequence[str]) -> None:
        """Begin to have an open-vocabulary model look for other things; `prompted` is told how that ended."""
        self._infer.set_property("prompt", ";".join(texts))

    def prompted(self, message: Gst.Message) -> None:
        """Note how a change of the prompt ended: the event "prompt-changed" or "prompt-refused"."""
        structure = message.get_structure()
        prompt, reason = structure.get_string("prompt") or "", structure.get_string("reason") or ""
        if structure.get_value("status"):
            self._log.add("prompt-refused", None, reason, prompt=prompt)
        else:
            self._log.add("prompt-changed", None, f"the model looks for {prompt}", prompt=prompt)

    def _load(self, model: str) -> None:
        with self._lock:
            self._asked, self._state, self._reason = model, "loading", ""
        self._log.add("model-loading", None, f"the model {self._shown(model)} is being loaded", model=model)
        self._infer.set_property("model", model)

    def ended(self, message: Gst.Message) -> None:
        """Take note of an element message ``model-updated``."""
        said = message.get_structure()
        status, path, reason = said.get_int("status")[1], said.get_string("path") or "", said.get_string("reason") or ""
        shown = self._shown(path)
        with self._lock:
            first = not self._asked  # the model that the run began with
            self._state, self._reason = "running", reason
            if status == 0:
                self._name = shown
        if first:
            return
        if status == 0:
            self._log.add("model-swapped", None, f"the model {shown} runs", model=shown)
        else:
            self._log.add("model-refused", None, f"{shown}: {reason}", model=shown, status=status, reason=reason)

    @property
    def status(self) -> dict[str, Any]:
        """Name and runtime of the model that runs, "running" or "loading" as state, and why the last was refused."""
        with self._lock:
            name, state, reason = self._name, self._state, self._reason
        own = name == self._options.model_name
        runtime = self._options.runtime_name if own else replace(self._options, model=name).runtime_name
        return {"name": name, "runtime": runtime, "state": state, "reason": reason}

    def _shown(self, model: str) -> str:
        """The name for people: that of an object from Python is made up."""
        return self._options.model_name if model.startswith("sluice.app.handover:") else model
