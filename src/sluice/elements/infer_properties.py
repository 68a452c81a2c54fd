"""The properties of ``sluiceinfer``: one table for their types, defaults, documentation and aliases.

Imports gi and the standard library only: it is read when GStreamer scans its plugins.
"""

import re
from dataclasses import dataclass
from typing import Any

import gi

gi.require_version("Gst", "1.0")
from gi.repository import GLib, GObject, Gst

from sluice.elements.infer_nvinfer import NVINFER_PROPERTIES, Nvinfer
from sluice.elements.infer_property import Change, Property
from sluice.elements.infer_scope import SCOPE_PROPERTIES, Scope
from sluice.errors import ConfigurationError

#: Properties that take one of a few words.
CHOICES = {"on-error": ("fail", "skip"), "swap-policy": ("beside", "in-place")}

MOST_PROMPTS, MOST_PROMPT_CHARACTERS = 1000, 500
"""Of `prompt`: how many texts, and how long; more than any model was trained for."""
MOST_IN_FLIGHT = 8
"""Batches between the pads of an element."""

PROPERTIES = (
    Property(
        "model",
        str,
        None,
        "The model: a file (net.onnx), a configuration file of nvinfer (pgie.txt or .yml), a registered name (people), "
        "package.module:Class or file.py:Class; "
        "'none' passes frames on without inference. Set while running, it loads beside the model that runs and takes "
        "its place between two batches; the signal model-updated says how that ended",
        change=Change.SWAPS,
    ),
    Property(
        "prompt",
        str,
        None,
        "What an open-vocabulary model looks for, as in red truck;person with a helmet; default: its own classes. Set "
        "while running, it is encoded beside the model and counts from one of the next batches on; one that cannot be "
        "used changes nothing. An element message prompt-updated says how that ended",
        change=Change.PROMPTS,
    ),
    Property(
        "swap-policy",
        str,
        "beside",
        "How a model set while running takes the old one's place: 'beside' loads it while the old one runs, "
        "'in-place' unloads the old one first, and passes frames on without inference meanwhile",
        change=Change.AT_ONCE,
    ),
    Property(
        "labels",
        str,
        None,
        "File with one label per line, in the order of the class ids; default: the model's own",
        change=Change.WITH_MODEL,
    ),
    Property(
        "runtime",
        str,
        "auto",
        "What executes a network: auto, onnxruntime, ... ('sluice models' lists them)",
        change=Change.WITH_MODEL,
    ),
    Property("device", str, "auto", "Where the model runs: auto, cpu, cuda, cuda:1, ...", change=Change.WITH_MODEL),
    Property("model-options", str, None, "Options for the model itself: key=value;key=value", change=Change.WITH_MODEL),
    Property(
        "confidence-threshold",
        float,
        -1.0,
        "Detections with a lower score are not attached; -1: the model's own threshold",
        (-1.0, 1.0),
        Change.WITH_MODEL,
    ),
    Property(
        "iou-threshold",
        float,
        -1.0,
        "Boxes of a class that overlap more than this are merged by the decoder; -1: the model's own threshold",
        (-1.0, 1.0),
        Change.WITH_MODEL,
    ),
    Property(
        "max-detections",
        GObject.TYPE_UINT,
        0,
        "Most detections attached per frame, the best scores first; 0: the model's own limit, and at most 10000",
        (0, GLib.MAXINT),
        Change.WITH_MODEL,
    ),
    Property(
        "classes",
        str,
        None,
        "Class ids or labels to attach, such as 0;2 or person;car; default: all",
        change=Change.WITH_MODEL,
    ),
    Property(
        "interval",
        GObject.TYPE_UINT,
        0,
        "Number of batches passed on without inference after each batch with it",
        (0, GLib.MAXUINT),
        Change.AT_ONCE,
    ),
    Property(
        "unique-id",
        GObject.TYPE_UINT,
        15,
        "Written to unique_component_id of each object, so that elements behind can tell whose it is",
        (0, GLib.MAXINT),
    ),
    Property(
        "batch-size",
        GObject.TYPE_UINT,
        0,
        "Most frames given to the model in one call; larger batches take several calls; 0: the whole batch",
        (0, 1024),
    ),
    Property(
        "on-error",
        str,
        "fail",
        "When the model raises or returns something unusable: 'fail' ends the stream with its traceback, "
        "'skip' passes the frames on without detections, warns and counts them",
        change=Change.AT_ONCE,
    ),
    Property(
        "in-flight",
        GObject.TYPE_UINT,
        2,
        "Most batches between the sink pad and the source pad at a time",
        (1, MOST_IN_FLIGHT),
    ),
    Property(
        "model-instance-id",
        str,
        None,
        "Elements with the same id share one loaded model and its thread; they must agree on what defines it",
    ),
    *NVINFER_PROPERTIES,
    *SCOPE_PROPERTIES,
)

#: Names that other elements use for the same thing; setting one sets the property.
ALIASES = {"model-engine": "model", "model-path": "model", "model-engine-file": "model"}

BY_NAME = {entry.name: entry for entry in PROPERTIES}

#: The properties that define a model, see `sluice.models.instance.ModelDefinition`.
DEFINING = tuple(
    entry.name for entry in PROPERTIES if entry.change in (Change.SWAPS, Change.WITH_MODEL, Change.PROMPTS)
)


def declarations() -> dict[str, tuple[Any, ...]]:
    """Return the element's ``__gproperties__``: the table, the aliases and the read-only ``stats``."""
    declared = {entry.name: entry.declaration() for entry in PROPERTIES}
    for alias, name in ALIASES.items():
        kind, _, _, *rest = BY_NAME[name].declaration()
        declared[alias] = (kind, alias, f"Another name of {name}", *rest)
    declared["stats"] = (
        Gst.Structure,
        "stats",
        "Counters since the last start: batches, frames; inferred, the frames (or the parts of frames, for objects and "
        "regions) that the model saw; skipped (by interval), errors, objects, cut (detections "
        "beyond the 10000 of max-detections=0), model-ms-total, model-ms-mean, model-ms-max (of calls), model",
        GObject.ParamFlags.READABLE,
    )
    return declared


def property_name(name: str) -> str:
    """Return the name under which a property or an alias of it is kept."""
    return ALIASES.get(name, name)


@dataclass(frozen=True)
class Settings:
    """The properties' values in the form the code uses: checked, with None for "the model's own"."""

    model: str
    labels: str | None
    runtime: str
    device: str
    options: tuple[tuple[str, str], ...]
    prompt: tuple[str, ...]
    confidence: float | None
    iou: float | None
    max_detections: int | None
    classes: tuple[int | str, ...] | None
    unique_id: int
    batch_size: int
    instance_id: str | None
    scope: Scope
    nvinfer: Nvinfer

    @classmethod
    def from_values(cls, values: dict[str, Any]) -> "Settings":
        """Check the values of an element's properties.

        Raises:
            ConfigurationError: a value cannot be used; names the property and what would be right.
        """
        if not (values["model"] or values["config-file-path"]):
            raise ConfigurationError(
                "model is not set: name a file (model=net.onnx), a registered model (model=people), "
                "a class (model=file.py:Class), or model=none to pass frames on without inference"
            )
        for name, words in CHOICES.items():
            if values[name] not in words:
                raise ConfigurationError(choice_fault(name, values[name]))
        nvinfer = Nvinfer.from_values(values)
        return cls(
            model=nvinfer.model,
            labels=values["labels"] or None,
            runtime=values["runtime"] or "auto",
            device=nvinfer.device,
            options=parse_options(values["model-options"]),
            prompt=parse_prompt(values["prompt"]),
            confidence=own_if_negative(values["confidence-threshold"]),
            iou=own_if_negative(values["iou-threshold"]),
            max_detections=values["max-detections"] or None,
            classes=parse_classes(values["classes"]),
            unique_id=values["unique-id"],
            batch_size=values["batch-size"],
            instance_id=values["model-instance-id"] or None,
            scope=Scope.from_values(values),
            nvinfer=nvinfer,
        )


def choice_fault(name: str, value: str | None) -> str:
    """Say what is wrong with a value of a property that takes one of a few words."""
    return f"{name} is {value!r}; it can be {' or '.join(map(repr, CHOICES[name]))}"


def own_if_negative(value: float) -> float | None:
    """Return None, which is "the model's own", for a negative number, else the number."""
    return None if value < 0 else value


def parse_options(text: str | None) -> tuple[tuple[str, str], ...]:
    """Split ``key=value;key=value`` into pairs; a value may hold "=".

    Raises:
        ConfigurationError: a part has no "=" or no key.
    """
    pairs = []
    for part in filter(None, (p.strip() for p in (text or "").split(";"))):
        key, equals, value = (word.strip() for word in part.partition("="))
        if not key or not equals:
            raise ConfigurationError(f"model-options has {part!r}; each option is written key=value, separated by ';'")
        pairs.append((key, value))
    return tuple(pairs)


def parse_prompt(text: str | None) -> tuple[str, ...]:
    """Split ``red truck; person with a helmet``; () for an empty text.

    Raises:
        ConfigurationError: too many or too long texts, or one twice.
    """
    labels = tuple(label.strip() for label in (text or "").split(";") if label.strip())
    if len(labels) > MOST_PROMPTS or any(len(label) > MOST_PROMPT_CHARACTERS for label in labels):
        raise ConfigurationError(
            f"prompt has at most {MOST_PROMPTS} texts of at most {MOST_PROMPT_CHARACTERS} characters"
        )
    if len(set(labels)) != len(labels):
        raise ConfigurationError(f"prompt names {next(one for one in labels if labels.count(one) > 1)!r} twice")
    return labels


def parse_classes(text: str | None) -> tuple[int | str, ...] | None:
    """Split class ids or labels at ``;``, ``,`` or ``:``; numbers are ids. None or "" is None, which is all classes."""
    words = [word.strip() for word in re.split("[;,:]", text or "") if word.strip()]
    return tuple(int(word) if word.isdecimal() else word for word in words) or None
