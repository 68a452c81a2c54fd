"""Reading the structures in caps, events and queries alike on every GStreamer release."""

from typing import Any

import gi

gi.require_version("Gst", "1.0")
from gi.repository import Gst


def structure_of(item: Any, index: int | None = None) -> Gst.Structure | None:
    """Return a copy of the structure of an event, query or message, or of structure ``index`` of caps; None if none.

    From 1.26 on GStreamer's Python bindings return a context manager from ``get_structure`` of caps, events and
    queries, before that the structure itself, which dies with its owner.
    """
    found = item.get_structure() if index is None else item.get_structure(index)
    if hasattr(found, "__enter__"):
        with found as inner:
            return None if inner is None else inner.copy()
    return None if found is None else found.copy()


def required_structure(item: Any, index: int | None = None) -> Gst.Structure:
    """`structure_of` for an item that has one.

    Raises:
        ValueError: it has none.
    """
    found = structure_of(item, index)
    if found is None:
        raise ValueError(f"{item} carries no structure")
    return found


def fields_of(structure: Gst.Structure) -> dict[str, Any]:
    """Return a structure's fields, such as an element's ``stats``, by name and in its order."""
    names = [structure.nth_field_name(index) for index in range(structure.n_fields())]
    return {name: structure.get_value(name) for name in names}
