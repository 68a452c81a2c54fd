"""Changing the model and its thresholds while the streams play; how a change ended is an event."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import gi

gi.require_version("Gst", "1.0")
from gi.repository import Gst

from sluice.app.options import UNCHANGED, Options, Unchanged
from sluice.app.streams.events import EventLog
from sluice.elements.infer_properties import BY_NAME, CHOICES
from sluice.errors import ConfigurationError, SluiceError

_PROPERTIES = {"confidence": "confidence-threshold", "iou": "iou-threshold", "classes": "classes"}


class BusyModel(ConfigurationError):
    """A change of the model has not ended yet."""


def check_policy(policy: str) -> None:
    """Raise ConfigurationError unless there is such a way to change the model."""
    if policy not in CHOICES["swap-policy"]:
        raise ConfigurationError(f"policy is {policy!r}; it is one of {', '.join(CHOICES['swap-policy'])}")


class ModelControl:
    """The model of one run. Any thread may call; nothing waits for a model to be loaded.

    One change is under way at a time, so that it is known of which one the element reports. Thresholds that are asked
    for meanwhile follow it.
    """

    def __init__(self, infer: Gst.Element, options: Options, log: EventLog) -> None:
        """Control the model of a ``sluiceinfer`` element that was set up by these options."""
        self._infer = infer
        self._options = options
        self._log = log
        self._lock = threading.Lock()
        self._name = options.model_name
        self._runtime = self._runtime_of(self._name)
        self._reason = ""
        self._busy = True  # with the start, and then with one change after another
        self._started = False  # whether the element has told so, which is the first that it tells
        self._kept: dict[str, Any] = {name: getattr(options, name) for name in _PROPERTIES}  # of the model that runs
        self._tried = self._kept  # of the one that is being loaded
        self._wanted: dict[str, Any] = {}  # what is to be changed next

    def started(self) -> None:
        """Take note that the element runs; before that nothing is changed."""
        self._go_on()

    def swap(self, model: str, policy: str = "beside") -> int:
        """Begin to load a model that takes the place of the one that runs, between two batches.

        Args:
            model: as for a pipeline.
            policy: "beside": the old one runs until the new one can; "in-place": the old one makes room first.

        Returns:
            the number of the event "model-loading"; the first "model-swapped" or "model-refused" behind it says how
            this change ended.

        Raises:
            BusyModel: another change is under way.
            ConfigurationError: there is no such policy, or the run has no model to be replaced.
        """
        check_policy(policy)
        if self._options.model is None:
            raise ConfigurationError("this run was started without a model, and can't take one")
        with self._lock:
            if self._busy:
                raise BusyModel("another model is being loaded; try again when an event has said how that ended")
            self._busy = True
        self._infer.set_property("swap-policy", policy)
        return self._load(model)

    def set_thresholds(
        self,
        confidence: float | Unchanged | None = UNCHANGED,
        iou: float | Unchanged | None = UNCHANGED,
        classes: Sequence[int | str] | Unchanged | None = UNCHANGED,
    ) -> None:
        """Change which detections count; the model is loaded anew beside the one that runs.

        Args:
            confidence: least score of a detection, 0..1; None: the model's own.
            iou: overlap from which boxes of one class are merged, 0..1; None: the model's own.
            classes: labels or class ids to keep; None or empty: all.

        Raises:
            ConfigurationError: a value cannot be used.
        """
        given = {"confidence": confidence, "iou": iou, "classes": classes}
        changes: dict[str, Any] = {name: value for name, value in given.items() if value is not UNCHANGED}
        Options(**changes)  # checks them
        with self._lock:
            self._wanted.update(changes)
            busy, self._busy = self._busy, True
        if not busy:
            self._begin_thresholds()

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

    def ended(self, message: Gst.Message) -> None:
        """Note how a change of the model ended: the event "model-swapped" or "model-refused"."""
        if message.src != self._infer:
            return
        said = message.get_structure()
        status, path, reason = said.get_int("status")[1], said.get_string("path") or "", said.get_string("reason") or ""
        shown = self._shown(path)
        runtime = self._runtime_of(shown) if status == 0 else ""
        with self._lock:
            begins, self._started = not self._started, True
            if begins:  # the model that the run began with
                return
            refused, self._reason = self._tried, reason
            if status == 0:
                self._name, self._runtime, self._kept = shown, runtime, self._tried
            self._tried = kept = self._kept
        if status == 0:
            text = f"the model {shown} runs"
            self._go_on(lambda: self._log.add("model-swapped", None, text, model=shown, thresholds=kept))
        else:
            self._set(kept, instead_of=refused)  # or the next model would be asked for the same again
            text = f"the model {shown} was refused: {reason}"
            details = {"model": shown, "status": status, "reason": reason}
            self._go_on(lambda: self._log.add("model-refused", None, text, **details))

    @property
    def status(self) -> dict[str, Any]:
        """Name and runtime of the model that runs, "running" or "loading" as state, and why the last was refused."""
        with self._lock:
            state = "loading" if self._busy else "running"
            return {"name": self._name, "runtime": self._runtime, "state": state, "reason": self._reason}

    def _runtime_of(self, name: str) -> str:
        """Look what executes a model, once: the file that says so may be changed or gone while the model runs."""
        own = name == self._options.model_name
        try:
            return self._options.runtime_name if own else replace(self._options, model=name).runtime_name
        except SluiceError:
            return "unknown"

    def _go_on(self, note: Callable[[], object] = lambda: None) -> None:
        """Begin what was asked for meanwhile; called by who is through with a change, of which `note` tells."""
        with self._lock:  # who hears of it may ask for the next change at once
            note()
            self._busy = more = bool(self._wanted)
        if more:
            self._begin_thresholds()

    def _begin_thresholds(self) -> None:
        """Have the model loaded with the thresholds that are wanted; called by who has set `_busy`."""
        with self._lock:
            self._tried, self._wanted = {**self._kept, **self._wanted}, {}
        self._set(self._tried, instead_of=self._kept)
        self._load(self._infer.get_property("model"))

    def _set(self, values: Mapping[str, Any], instead_of: Mapping[str, Any]) -> None:
        """Set the properties that differ, None to what stands for the model's own."""
        for name, value in values.items():
            if value != instead_of[name]:
                prop = _PROPERTIES[name]
                text = ";".join(map(str, value)) if name == "classes" and value is not None else value
                self._infer.set_property(prop, BY_NAME[prop].default if text is None else text)

    def _load(self, model: str) -> int:
        text = f"the model {self._shown(model)} is being loaded"
        event = self._log.add("model-loading", None, text, model=model)
        self._infer.set_property("model", model)
        return event.number

    def _shown(self, model: str) -> str:
        """The name for people: that of an object from Python is made up."""
        return self._options.model_name if model.startswith("sluice.app.handover:") else model
