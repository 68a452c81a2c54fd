"""What a pipeline is told of slow models, and what it tells of them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sluice.errors import ConfigurationError, ModelError, SluiceError, text_of

if TYPE_CHECKING:
    from gi.repository import Gst

    from sluice.app.streams.events import EventLog


@dataclass(frozen=True)
class VlmOptions:
    """A vision-language model, or another slow thinker, that is asked about segments of each stream; see docs/vlm.md.

    Attributes:
        backend: who answers: the URL of an OpenAI-compatible endpoint, "transformers", "vllm",
            ``package.module:Class``, ``file.py:Class``, or an object with ``answer(images, prompt)``.
        model: name of the endpoint's model; a folder or a name of the Hugging Face hub for models in this process.
        prompt: what it is asked; None for a description of what happens.
        every: seconds from one segment to the next; 0: none by time.
        frames: pictures per segment.
        overlap: how many of them are also the last of the segment before.
        trigger: what begins a segment besides, as in ``object:person;line:exit``.
        labels: the answer is one of these.
        schema: file with the JSON Schema that the answer must fit.
        policy: "newest", "oldest" or "wait".
        config: YAML file with settings of single streams.
        key_env: name of the environment variable with the endpoint's key.
        properties: more properties of ``sluicevlm`` by name, as in ``{"timeout": 20}``.
    """

    backend: Any
    model: str | None = None
    prompt: str | None = None
    every: float | None = None
    frames: int | None = None
    overlap: int | None = None
    trigger: str | None = None
    labels: Sequence[str] | str | None = None
    schema: str | Path | None = None
    policy: str | None = None
    config: str | Path | None = None
    key_env: str | None = None
    properties: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, value: Any) -> VlmOptions | None:
        """Take these options, a mapping with their names, or a back end alone.

        Raises:
            ConfigurationError: a mapping with a name that is none of theirs, or without a back end.
        """
        if value is None or isinstance(value, cls):
            return value
        if not isinstance(value, Mapping):
            return cls(value)
        known = {option.name for option in fields(cls)}
        unknown = sorted(set(value) - known)
        if unknown:
            raise ConfigurationError(f"vlm has no option {unknown[0]!r}; there are {', '.join(sorted(known))}")
        if not value.get("backend"):
            raise ConfigurationError("vlm has no backend: the URL of an endpoint, transformers, vllm or file.py:Class")
        return cls(**value)

    def element_properties(self, backend: str) -> dict[str, Any]:
        """Return the properties of ``sluicevlm``, with the back end under the text that names it."""
        labels = self.labels if isinstance(self.labels, str | None) else ";".join(self.labels)
        values = {
            "backend": backend,
            "model": self.model or _name_of_object(self.backend),
            "prompt": self.prompt,
            "every": self.every,
            "frames": self.frames,
            "overlap": self.overlap,
            "trigger": self.trigger,
            "labels": labels,
            "schema-file": None if self.schema is None else str(self.schema),
            "policy": self.policy,
            "config-file": None if self.config is None else str(self.config),
            "api-key-env": self.key_env,
            **{name.replace("_", "-"): value for name, value in self.properties.items()},
        }
        return {name: value for name, value in values.items() if value is not None}


def check_vlm(options: VlmOptions) -> None:
    """Check all of it but what only loading a model shows; nobody is asked anything.

    Raises:
        SluiceError: a value, a file, or who is to answer cannot be used.
    """
    from sluice.app.gst import make_element, set_checked
    from sluice.elements.vlm_properties import DEFAULTS
    from sluice.elements.vlm_setup import backend_of, policy_of, settings_of

    element = make_element("sluicevlm")
    for name, value in options.element_properties(str(options.backend)).items():
        set_checked(element, name, value)
    values = {name: element.get_property(name) for name in DEFAULTS}
    policy_of(values)
    try:
        backend_of(values, settings_of(values))
    except SluiceError:
        raise
    except Exception as error:  # of a user's own class
        raise ModelError(f"{options.backend}: {text_of(error)}") from error


def _name_of_object(backend: Any) -> str | None:
    if isinstance(backend, str | Path):
        return None
    return str(getattr(backend, "__name__", type(backend).__name__))


def note_outcome(events: EventLog, message: Gst.Message) -> None:
    """Note what became of a segment, as ``sluicevlm`` told it: "vlm-answered", "vlm-dropped" or "vlm-failed"."""
    structure = message.get_structure()
    kind, name, text = (structure.get_string(key) or "" for key in ("event", "name", "text"))
    details: dict[str, Any] = {
        "segment": structure.get_value("segment"),
        "cause": structure.get_string("cause"),
        "number": structure.get_value("stream"),
    }
    if kind == "answered":
        details["answer"] = json.loads(structure.get_string("answer") or "null")
    else:
        details["reason"] = structure.get_string("reason")
    events.add(f"vlm-{kind}", name, text, **details)
