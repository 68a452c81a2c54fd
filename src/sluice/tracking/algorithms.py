"""The tracking algorithms by name, and their options as text, checked against the algorithm's own constructor.

The algorithms are those of the ``trackers`` library (https://github.com/roboflow/trackers), of which some have a
batched form of ours too (see `rules`), and two of ours; this table is the only place that lists them.
"""

from __future__ import annotations

import importlib
import inspect
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from sluice.errors import ConfigurationError
from sluice.tracking.rules import OWN

DEFAULT_ALGORITHM = "bytetrack"


@dataclass(frozen=True)
class Algorithm:
    """One row of the table: the library's class, if it has one, and the pixels it wants to compensate the camera's
    motion, if any."""

    name: str
    class_name: str | None
    pixels: Literal["bgr", "rgb"] | None
    summary: str


ALGORITHMS: Mapping[str, Algorithm] = {
    row.name: row
    for row in (
        Algorithm("bytetrack", "ByteTrackTracker", None, "motion in two rounds: sure detections, then weak ones"),
        Algorithm("sort", "SORTTracker", None, "motion only, the simplest and the fastest"),
        Algorithm("ocsort", "OCSORTTracker", None, "motion led by observations: for objects that stop and turn"),
        Algorithm("botsort", "BoTSORTTracker", "bgr", "ByteTrack with the camera's motion taken out (reads pixels)"),
        Algorithm("cbiou", "CBIoUTracker", None, "boxes widened before they are compared: for fast or low-rate motion"),
        Algorithm("iou", None, None, "overlap alone, for objects that move little between frames"),
        Algorithm(
            "deepsort", None, None, "BoT-SORT's rounds with looks: embeddings from a ReID model before the tracker"
        ),
        Algorithm("mcbyte", "McByteTracker", "rgb", "BoT-SORT's rounds with other thresholds (reads pixels)"),
    )
}

DEFAULTS: Mapping[str, Mapping[str, bool | int | float | str]] = {
    "bytetrack": {
        "lost_track_buffer": 30,
        "frame_rate": 30.0,
        "track_activation_threshold": 0.7,
        "minimum_consecutive_frames": 2,
        "minimum_iou_threshold": 0.1,
        "high_conf_det_threshold": 0.6,
    },
    "sort": {
        "lost_track_buffer": 30,
        "frame_rate": 30.0,
        "track_activation_threshold": 0.25,
        "minimum_consecutive_frames": 3,
        "minimum_iou_threshold": 0.3,
    },
    "ocsort": {
        "lost_track_buffer": 30,
        "frame_rate": 30.0,
        "minimum_consecutive_frames": 3,
        "minimum_iou_threshold": 0.3,
        "direction_consistency_weight": 0.2,
        "high_conf_det_threshold": 0.6,
        "delta_t": 3,
    },
}
"""The library's defaults of algorithms that can run without it: importing it takes most of a second and 70 MB."""


THRESHOLDS = ("track_activation_threshold", "high_conf_det_threshold")
"""The options that say from which score a detection begins a track, and takes part in the first round of matching."""


def algorithm(name: str) -> Algorithm:
    """Return the table's row for a name.

    Raises:
        ConfigurationError: no algorithm has that name; the message lists those there are.
    """
    row = ALGORITHMS.get(name)
    if row is None:
        raise ConfigurationError(f"algorithm {name!r} is not known; there are: {', '.join(ALGORITHMS)}")
    return row


def tracker_class(row: Algorithm) -> type[Any]:
    """Import the library and return the algorithm's class (the first call takes about a second).

    Raises:
        ConfigurationError: the library does not have it.
    """
    if row.class_name is None:
        raise ConfigurationError(f"{row.name} is not an algorithm of the trackers library")
    cls: type[Any] = getattr(importlib.import_module("trackers"), row.class_name)
    return cls


def parse_options(name: str, text: str) -> dict[str, bool | int | float | str]:
    """Read ``"key=value,key=value"`` into arguments of the algorithm's constructor.

    A value takes the type of the argument's default: whole number, number, true or false, or text. Blanks around keys
    and values do not count; an empty text means no options.

    Raises:
        ConfigurationError: an item is not ``key=value``, the algorithm has no such option, the option takes an object
            that cannot be written as text, or the value has the wrong type.
    """
    defaults = _text_options(name)
    options: dict[str, bool | int | float | str] = {}
    for item in filter(None, (part.strip() for part in text.split(","))):
        key, equals, value = (part.strip() for part in item.partition("="))
        if not equals or not key:
            raise ConfigurationError(f"tracker option {item!r} is not key=value, as in lost_track_buffer=60")
        if key not in defaults:
            raise ConfigurationError(
                f"{name} has no option {key!r} that can be set as text; it has: {', '.join(defaults)}"
            )
        option = options[key] = _convert(f"{name} option {key}", value, defaults[key])
        if "threshold" in key and isinstance(option, float) and option > 1:
            raise ConfigurationError(f"{name} option {key} is {option}; nothing reaches more than 1")
    return options


def make_tracker(name: str, options: Mapping[str, Any]) -> Any:
    """Make one tracker of the library.

    Raises:
        ConfigurationError: the library refuses a value or lacks a package for it, with its own reason.
    """
    try:
        return tracker_class(algorithm(name))(**options)
    except (TypeError, ValueError, ImportError) as error:
        raise ConfigurationError(f"{name} refuses its options {dict(options)}: {error}") from error


def reads_pixels(name: str, options: Mapping[str, Any]) -> Literal["bgr", "rgb"] | None:
    """Return the colour order of the picture the algorithm wants with each update, or None when it reads no pixels."""
    row = algorithm(name)
    if row.pixels is None:
        return None
    return row.pixels if with_defaults(name, options)["enable_cmc"] else None


def with_defaults(name: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return all options of an algorithm that can be set as text: those given, and the defaults of the others."""
    return {**_text_options(name), **options}


def threshold_options(name: str) -> list[str]:
    """Return those of `THRESHOLDS` that an algorithm has."""
    return [option for option in THRESHOLDS if option in _text_options(name)]


def _text_options(name: str) -> dict[str, bool | int | float | str]:
    """Return the constructor's arguments that text can give, with their defaults."""
    if name in DEFAULTS:
        return dict(DEFAULTS[name])
    maker: Any = OWN[name] if name in OWN else tracker_class(algorithm(name))
    parameters = inspect.signature(maker).parameters.values()
    return {p.name: p.default for p in parameters if isinstance(p.default, (bool, int, float, str))}


def _convert(what: str, text: str, default: bool | int | float | str) -> bool | int | float | str:
    if isinstance(default, bool):
        if text.lower() not in ("true", "false"):
            raise ConfigurationError(f"{what} is {text!r}; true or false would be right")
        return text.lower() == "true"
    if isinstance(default, str):
        return text
    try:
        value = type(default)(text)
        if not math.isfinite(value):
            raise ValueError(text)
        return value
    except (ValueError, OverflowError):
        kind = "a whole number" if isinstance(default, int) else "a number"
        raise ConfigurationError(f"{what} is {text!r}; {kind} such as {default} would be right") from None
