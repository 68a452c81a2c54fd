"""Making and linking GStreamer elements, with errors that name what is missing."""

import itertools
from typing import Any

import gi

gi.require_version("Gst", "1.0")
from gi.repository import GLib, GObject, Gst

from sluice.elements import ELEMENTS, register
from sluice.errors import ConfigurationError


def make_element(factory: str, **properties: Any) -> Gst.Element:
    """Return a new element with its properties set; "_" stands for "-" in a property's name, enums are given by nick.

    Raises:
        ConfigurationError: GStreamer has no such element.
    """
    element = _make_own(factory) if factory in ELEMENTS else Gst.ElementFactory.make(factory)
    if element is None:
        raise ConfigurationError(f"GStreamer has no element {factory!r}; `sluice doctor` says what is missing")
    for name, value in properties.items():
        name = name.replace("_", "-")
        if isinstance(value, str) and element.find_property(name).value_type != GObject.TYPE_STRING:
            Gst.util_set_object_arg(element, name, value)
        else:
            element.set_property(name, value)
    return element


def _read(text: str, spec: GObject.ParamSpec) -> Any:
    """Return a text as a value of a property's type, or as it is where it is none."""
    if spec.value_type == GObject.TYPE_BOOLEAN:
        return {"true": True, "1": True, "false": False, "0": False}.get(text.lower(), text)
    kind = {GObject.TYPE_DOUBLE: float, GObject.TYPE_FLOAT: float, GObject.TYPE_UINT: int, GObject.TYPE_INT: int}
    try:
        return kind.get(spec.value_type, str)(text)
    except ValueError:
        return text


def set_checked(element: Gst.Element, name: str, value: Any) -> None:
    """Set a property that a user named, to a value of his.

    Raises:
        ConfigurationError: there is no such property, or it cannot have this value.
    """
    factory = element.get_factory().get_name()
    spec = element.find_property(name)
    if spec is None or not spec.flags & GObject.ParamFlags.WRITABLE:
        raise ConfigurationError(f"{factory} has no property {name!r} to set; `gst-inspect-1.0 {factory}` lists them")
    value = _read(value, spec) if isinstance(value, str) else value
    if isinstance(value, int | float) and hasattr(spec, "minimum") and not spec.minimum <= value <= spec.maximum:
        raise ConfigurationError(
            f"{factory}: {name} cannot be {value!r}; right is a number from {spec.minimum} to {spec.maximum}"
        )
    try:
        element.set_property(name, value)
    except (TypeError, ValueError, OverflowError) as error:
        raise ConfigurationError(f"{factory}: {name} cannot be {value!r}: {error}") from error


def _make_own(factory: str) -> Gst.Element | None:
    """Make one of our elements, without the critical that GStreamer 1.22 prints for every element written in Python.

    It says that the element should be floating, which is harmless.
    """
    register(factory)
    handler = GLib.log_set_handler("GStreamer", GLib.LogLevelFlags.LEVEL_CRITICAL, _log_all_but_floating)
    try:
        return Gst.ElementFactory.make(factory, factory)
    finally:
        GLib.log_remove_handler("GStreamer", handler)


def _log_all_but_floating(domain: str, level: GLib.LogLevelFlags, text: str, *_: object) -> None:
    if "should be floating" not in text:
        GLib.log_default_handler(domain, level, text, None)


def add_chain(bin: Gst.Bin, *elements: Gst.Element) -> None:
    """Add the elements to a bin and link each to the next.

    Raises:
        ConfigurationError: two of them cannot be linked.
    """
    for element in elements:
        bin.add(element)
    for first, second in itertools.pairwise(elements):
        if not first.link(second):
            raise ConfigurationError(f"{first.get_name()} cannot be linked to {second.get_name()}")


def link_pads(source: Gst.Pad, sink: Gst.Pad) -> None:
    """Link two pads.

    Raises:
        ConfigurationError: they do not fit, with the formats of the source pad.
    """
    try:
        source.link(sink)
    except Gst.LinkError as error:
        caps = source.query_caps(None).to_string()
        owner = sink.get_parent_element().get_name()
        raise ConfigurationError(f"{owner} does not take {caps} ({error.args[0].value_nick})") from error


def elements_in(bin: Gst.Bin, *, recurse: bool = False) -> list[Gst.Element]:
    """Return the elements of a bin, with those of the bins in it if asked for, also while others come and go."""
    found: list[Gst.Element] = []
    elements = bin.iterate_recurse() if recurse else bin.iterate_elements()
    while True:
        result, element = elements.next()
        if result == Gst.IteratorResult.OK:
            found.append(element)
        elif result == Gst.IteratorResult.RESYNC:  # the bin has changed, and it is begun anew
            found.clear()
            elements.resync()
        else:
            return found


def reason_in(debug: str) -> str:
    """Return the part of a GStreamer debug text that says more than the message: what follows the element's path."""
    reason = debug.partition(":\n")[2].strip().splitlines()
    return f" ({reason[0]})" if reason else ""


def describe(message: Gst.Message) -> tuple[str, str]:
    """Return the text and the debug text of an error, warning or info message."""
    parse = {
        Gst.MessageType.ERROR: message.parse_error,
        Gst.MessageType.WARNING: message.parse_warning,
        Gst.MessageType.INFO: message.parse_info,
    }[message.type]
    error, debug = parse()
    return error.message, debug or ""
