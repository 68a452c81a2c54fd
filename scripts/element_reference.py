#!/usr/bin/env python3
"""Prints the reference of Sluice's elements as Markdown, from what the elements say of themselves.

.venv/bin/python scripts/element_reference.py > docs/elements.md
"""

from __future__ import annotations

from typing import Any

import gi

gi.require_version("Gst", "1.0")
from gi.repository import GObject, Gst

from sluice.contract.structures import required_structure
from sluice.elements import ELEMENTS, register_all
from sluice.elements.enums import words_of

_DIRECTIONS = {Gst.PadDirection.SINK: "sink", Gst.PadDirection.SRC: "source"}
_PRESENCES = {
    Gst.PadPresence.ALWAYS: "always",
    Gst.PadPresence.REQUEST: "on request",
    Gst.PadPresence.SOMETIMES: "sometimes",
}
# GObject types as people call them.
# Properties of GStreamer's own base classes, the same for every element.
_KINDS = {
    "gchararray": "text",
    "gboolean": "yes or no",
    **dict.fromkeys(("guint", "gint", "guint64", "gint64", "gfloat", "gdouble"), "number"),
    "GstStructure": "structure",
    "GstFraction": "fraction",
    "PyObject": "text or object",
}
_OF_EVERY_ELEMENT = {"name", "parent", "qos"}


def page() -> str:
    """The whole page."""
    head = (
        "# Elements\n\nEvery element with its pads, properties and signals, as `gst-inspect-1.0 NAME` shows them after "
        '`eval "$(sluice env)"`. A name that DeepStream\'s elements have too means the same here.\n'
    )
    return "\n".join([head, *(section(name) for name in ELEMENTS)])


def section(name: str) -> str:
    """One element: its purpose, pads, properties and signals."""
    element = Gst.ElementFactory.make(name)
    element_class = type(element)
    lines = [f"## {name}\n", f"{element.get_factory().get_metadata('description')}.".replace("..", "."), ""]
    lines += ["| pad | direction | there | takes |", "|---|---|---|---|"]
    for template in element.get_pad_template_list():
        direction, presence = _DIRECTIONS[template.direction], _PRESENCES[template.presence]
        lines.append(f"| `{template.name_template}` | {direction} | {presence} | {_media(template.get_caps())} |")
    lines += ["", "| property | type | default | what it does |", "|---|---|---|---|"]
    lines += [_row(element, spec) for spec in _own_properties(element_class)]
    signals = [GObject.signal_query(signal) for signal in GObject.signal_list_ids(element_class)]
    if signals:
        lines += ["", "Signals: " + ", ".join(_signal(query) for query in signals) + "."]
    return "\n".join(lines) + "\n"


def _own_properties(element_class: type[Gst.Element]) -> list[GObject.ParamSpec]:
    found = (spec for spec in element_class.list_properties() if spec.name not in _OF_EVERY_ELEMENT)
    return sorted(found, key=lambda spec: str(spec.name))


def _media(caps: Gst.Caps) -> str:
    """The media types and memory features of caps, without their formats and sizes."""
    if caps.is_any():
        return "anything"
    kinds = []
    for index in range(caps.get_size()):
        features = caps.get_features(index)
        kind = required_structure(caps, index).get_name()
        if features is not None and not features.is_any() and features.to_string() != "memory:SystemMemory":
            kind += f"({features.to_string()})"
        kinds.append(f"`{kind}`")
    return ", ".join(dict.fromkeys(kinds))


def _row(element: Gst.Element, spec: GObject.ParamSpec) -> str:
    name = GObject.type_name(spec.value_type)
    words = ", ".join(f"`{word}`" for word in words_of(name))
    kind = f"one of {words}" if words else _KINDS.get(name, name)
    writable = bool(spec.flags & GObject.ParamFlags.WRITABLE)
    default = _default(element, spec) if writable else "read only"
    return f"| `{spec.name}` | {kind} | {default} | {_cell(spec.blurb)} |"


def _default(element: Gst.Element, spec: GObject.ParamSpec) -> str:
    value: Any = element.get_property(spec.name) if spec.flags & GObject.ParamFlags.READABLE else spec.default_value
    if value is None or value == "":
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"`{value:.6g}`"
    return f"`{getattr(value, 'value_nick', value)}`"


def _signal(query: Any) -> str:
    parameters = ", ".join(GObject.type_name(kind) for kind in query.param_types)
    return f"`{query.signal_name}({parameters})`"


def _cell(text: str | None) -> str:
    return (text or "").replace("|", "\\|").replace("\n", " ")


if __name__ == "__main__":
    register_all()
    print(page(), end="")
