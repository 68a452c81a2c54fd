"""Fields of metadata as JSON values, and back, exactly: numbers, texts, arrays."""

from __future__ import annotations

import base64
import zlib
from typing import Any

import numpy as np
import numpy.typing as npt

from sluice.contract.metadata import DisplayMeta, ObjectMeta
from sluice.contract.metadata import View as Struct

OBJECT = (
    "unique_component_id",
    "class_id",
    "object_id",
    "confidence",
    "tracker_confidence",
    "label",
    "box",
    "rotation",
    "detector_box",
    "tracker_box",
    "mask_threshold",
    "misc",
)
LOOKS = ("border_width", "border_color", "has_bg_color", "bg_color")
TEXT = (
    "display_text",
    "x_offset",
    "y_offset",
    "font_name",
    "font_size",
    "font_color",
    "set_bg_clr",
    "text_bg_clr",
)
LABEL = ("label", "long_label", "class_id", "label_id", "probability", "num_classes")
SHAPES = {
    "rects": ("num_rects", ("box", *LOOKS, "rotation_angle")),
    "texts": ("num_labels", TEXT),
    "lines": ("num_lines", ("x1", "y1", "x2", "y2", "line_width", "line_color")),
    "arrows": ("num_arrows", ("x1", "y1", "x2", "y2", "arrow_width", "arrow_head", "arrow_color")),
    "circles": (
        "num_circles",
        ("xc", "yc", "radius", "circle_width", "circle_color", "has_bg_color", "bg_color"),
    ),
}
"""What a display meta holds: list, its counter, and the fields of each entry."""


def read_fields(view: Struct, names: tuple[str, ...]) -> dict[str, Any]:
    """Return fields of a view by name."""
    return {name: getattr(view, name) for name in names}


def write_fields(view: Struct, names: tuple[str, ...], values: dict[str, Any]) -> None:
    """Set fields of a view from what `read_fields` returned, be it through JSON."""
    for name in names:
        value = values[name]
        setattr(view, name, tuple(value) if isinstance(value, list) else value)


def pack(array: npt.NDArray[Any]) -> dict[str, Any]:
    """Return an array as its shape, type and zlib-compressed bytes in base64."""
    data = zlib.compress(np.ascontiguousarray(array).tobytes(), 1)
    return {"shape": list(array.shape), "dtype": array.dtype.str, "zlib": base64.b64encode(data).decode()}


def unpack(packed: dict[str, Any]) -> npt.NDArray[Any]:
    """Return the array that `pack` was given."""
    data = zlib.decompress(base64.b64decode(packed["zlib"]))
    return np.frombuffer(data, np.dtype(packed["dtype"])).reshape(packed["shape"])


def read_display(display: DisplayMeta) -> dict[str, Any]:
    """Return what a display meta draws; kinds that it has none of are absent."""
    found = {}
    for kind, (_, names) in SHAPES.items():
        entries = [read_fields(entry, names) for entry in getattr(display, kind)]
        if entries:
            found[kind] = entries
    return found


def write_display(display: DisplayMeta, values: dict[str, Any]) -> None:
    """Fill an empty display meta from what `read_display` returned."""
    for kind, entries in values.items():
        counter, names = SHAPES[kind]
        setattr(display, counter, len(entries))
        for entry, given in zip(getattr(display, kind), entries, strict=True):
            write_fields(entry, names, given)


def read_classifiers(obj: ObjectMeta) -> list[dict[str, Any]]:
    """Return the classifier results of an object, the first added first."""
    return [
        {
            "component": classifier.unique_component_id,
            "type": classifier.classifier_type,
            "labels": [read_fields(label, LABEL) for label in reversed(classifier.labels)],
        }
        for classifier in reversed(obj.classifiers)
    ]


def write_classifiers(obj: ObjectMeta, values: list[dict[str, Any]]) -> None:
    """Add classifier results to an object."""
    for given in values:
        classifier = obj.add_classifier(given["component"], given["type"])
        for label in given["labels"]:
            write_fields(classifier.add_label(label["label"]), LABEL, label)
