"""The stream events, control events, messages and queries that NVIDIA's elements exchange, built and parsed.

Stream events have numbers that GStreamer's enumeration does not know, so PyGObject cannot build them: that is done
through C. ``event_type`` reads an event's type as a plain number for the same reason.
"""

import ctypes
import functools
import itertools
from dataclasses import dataclass
from typing import Any

import gi

gi.require_version("Gst", "1.0")
from gi.repository import GObject, Gst

from sluice.contract.structures import fields_of, required_structure, structure_of

_STREAM_FLAGS = 0x1E  # downstream | serialized | sticky | sticky-multi
_CONTROL_FLAGS = 0x06  # downstream | serialized

PAD_ADDED = 400 << 8 | _STREAM_FLAGS
PAD_DELETED = 401 << 8 | _STREAM_FLAGS
STREAM_EOS = 402 << 8 | _STREAM_FLAGS
STREAM_SEGMENT = 403 << 8 | _STREAM_FLAGS
STREAM_RESET = 404 << 8 | _STREAM_FLAGS
STREAM_START = 405 << 8 | _STREAM_FLAGS
UPDATE_CAPS = 406 << 8 | _STREAM_FLAGS
ROI_UPDATE = 406 << 8 | _CONTROL_FLAGS
INFER_INTERVAL_UPDATE = 407 << 8 | _CONTROL_FLAGS
OSD_PROCESS_MODE_UPDATE = 408 << 8 | _CONTROL_FLAGS
ANALYTICS_RELOAD_CONFIG = 409 << 8 | _CONTROL_FLAGS
TRACKER_CONFIG_UPDATE = 410 << 8 | _CONTROL_FLAGS

# Of our own, from the application to a sink pad of sluicemux.
DELIVERY = "sluice-delivery"
ABSENT = "sluice-absent"
CAPTURE = "sluice-capture"

_STREAM_NAMES = {
    PAD_ADDED: "nv-pad-added",
    PAD_DELETED: "nv-pad-deleted",
    STREAM_EOS: "nv-stream-eos",
    STREAM_SEGMENT: "nv-stream-segment",
    STREAM_RESET: "nv-stream-reset",
    STREAM_START: "nv-stream-start",
    UPDATE_CAPS: "update-caps",
}
_CONTROL_NAMES = {
    ROI_UPDATE: "nv-roi-update",
    INFER_INTERVAL_UPDATE: "nv-infer-interval-update",
    OSD_PROCESS_MODE_UPDATE: "nv-osd-process-mode-update",
    ANALYTICS_RELOAD_CONFIG: "nv-analytics-reload_config-update",
    TRACKER_CONFIG_UPDATE: "nv-tracker-config-update",
}

_EVENT_TYPE_OFFSET = 64  # GstEvent {GstMiniObject mini_object (64 bytes); GstEventType type; ...}
# Sticky events are told apart by their names, and pads keep one of each name for ever. NVIDIA's names count on and on,
# so that a camera that comes and goes all day fills the memory; here so many names of each kind take turns.
_NAMES = 256
_serials = itertools.count(1)
_turns = {kind: itertools.count() for kind in range(400, 407)}


@dataclass(frozen=True)
class StreamEvent:
    """What a stream event says.

    Attributes:
        kind: one of `PAD_ADDED` to `UPDATE_CAPS`.
        source_id: number of the muxer's sink pad.
        stream_id: the stream's id text, of `STREAM_START` and `UPDATE_CAPS`.
        segment: the stream's own segment, of `STREAM_SEGMENT`.
        width, height: the stream's size in pixels, of `UPDATE_CAPS`.
        framerate: numerator and denominator, of `UPDATE_CAPS`.
        caps: the stream's own caps, of an `UPDATE_CAPS` that sluicemux sent; None from others.
    """

    kind: int
    source_id: int
    stream_id: str | None = None
    segment: Gst.Segment | None = None
    width: int | None = None
    height: int | None = None
    framerate: tuple[int, int] | None = None
    caps: Gst.Caps | None = None


@functools.cache
def _c() -> tuple[ctypes.CDLL, ctypes.CDLL]:
    """Return GStreamer's and GObject's C libraries with the functions used here declared."""
    gst, gobject = ctypes.CDLL("libgstreamer-1.0.so.0"), ctypes.CDLL("libgobject-2.0.so.0")
    pointer: Any = ctypes.c_void_p
    for function, result, arguments in (
        (gst.gst_event_new_custom, pointer, [ctypes.c_int, pointer]),
        (gst.gst_structure_copy, pointer, [pointer]),
        (gst.gst_structure_set_value, None, [pointer, ctypes.c_char_p, pointer]),
        (gst.gst_query_writable_structure, pointer, [pointer]),
        (gst.gst_query_set_caps_result, None, [pointer, pointer]),
        (gobject.g_value_take_boxed, None, [pointer, pointer]),
    ):
        function.restype, function.argtypes = result, arguments
    return gst, gobject


def event_type(event: Gst.Event) -> int:
    """Return the GstEventType of an event as a number, also where GStreamer's enumeration has no name for it."""
    from sluice.contract import gstref

    return ctypes.c_int.from_address(gstref.address(event) + _EVENT_TYPE_OFFSET).value


def new_event(kind: int, structure: Gst.Structure) -> Gst.Event:
    """Return an event of any type number, with a copy of the structure."""
    from sluice.contract import gstref

    gst, gobject = _c()
    value = GObject.Value()
    value.init(Gst.Event.__gtype__)
    event = gst.gst_event_new_custom(kind, gst.gst_structure_copy(gstref.address(structure)))
    gobject.g_value_take_boxed(gstref.address(value), event)
    return value.get_boxed()


def _uint(number: int) -> GObject.Value:
    return GObject.Value(GObject.TYPE_UINT, number)


def _stream_event(kind: int, source_id: int, id_field: str = "source-id", **fields: Any) -> Gst.Event:
    structure = Gst.Structure.new_empty(f"{_STREAM_NAMES[kind]}-{next(_turns[kind >> 8]) % _NAMES}")
    structure.set_value(id_field, _uint(source_id))
    structure.set_value("serial", GObject.Value(GObject.TYPE_UINT64, next(_serials)))
    for name, value in fields.items():
        structure.set_value(name.replace("_", "-"), value)
    return new_event(kind, structure)


def pad_added(source_id: int) -> Gst.Event:
    """A sink pad of the muxer exists from here on."""
    return _stream_event(PAD_ADDED, source_id)


def pad_deleted(source_id: int) -> Gst.Event:
    """A sink pad of the muxer is gone."""
    return _stream_event(PAD_DELETED, source_id)


def stream_eos(source_id: int) -> Gst.Event:
    """A stream has ended; the others go on."""
    return _stream_event(STREAM_EOS, source_id)


def stream_segment(source_id: int, segment: Gst.Segment) -> Gst.Event:
    """The segment of one stream, that its frames' ``buf_pts`` belong to."""
    return _stream_event(STREAM_SEGMENT, source_id, segment=segment)


def stream_reset(source_id: int) -> Gst.Event:
    """A stream begins anew; whoever keeps state of it forgets it."""
    return _stream_event(STREAM_RESET, source_id)


def stream_start(source_id: int, stream_id: str) -> Gst.Event:
    """A stream begins, with the id text of its own STREAM_START."""
    return _stream_event(STREAM_START, source_id, stream_id=stream_id)


def update_caps(source_id: int, stream_id: str, caps: Gst.Caps) -> Gst.Event:
    """One stream's size and rate, from its raw video caps.

    Besides NVIDIA's fields the event carries the caps themselves, for sluicedemux. A missing rate is given as 0/1.
    """
    structure = required_structure(caps, 0)
    _, width = structure.get_int("width")
    _, height = structure.get_int("height")
    found, numerator, denominator = structure.get_fraction("framerate")
    rate = GObject.Value(Gst.Fraction)
    Gst.value_set_fraction(rate, *((numerator, denominator) if found else (0, 1)))
    return _stream_event(
        UPDATE_CAPS,
        source_id,
        "stream-id",
        stream_id_str=stream_id,
        width_val=_uint(width),
        height_val=_uint(height),
        frame_rate=rate,
        caps=caps,
    )


def parse_stream_event(event: Gst.Event) -> StreamEvent | None:
    """Return what a stream event says; None for any other event, and for one without its number or segment."""
    kind = event_type(event)
    structure = structure_of(event) if kind in _STREAM_NAMES else None
    if structure is None:
        return None
    # PyGObject's wrappers of the values in a structure hold no reference, so what may outlive the event is copied.
    text_field, id_field = ("stream-id-str", "stream-id") if kind == UPDATE_CAPS else ("stream-id", "source-id")
    found, source_id = structure.get_uint(id_field)
    segment = structure.get_value("segment") if kind == STREAM_SEGMENT else None
    if not found or (kind == STREAM_SEGMENT and not isinstance(segment, Gst.Segment)):
        return None
    _, width = structure.get_uint("width-val")
    _, height = structure.get_uint("height-val")
    has_rate, numerator, denominator = structure.get_fraction("frame-rate")
    caps = structure.get_value("caps") if structure.has_field("caps") else None
    return StreamEvent(
        kind,
        source_id,
        stream_id=structure.get_string(text_field) if kind in (STREAM_START, UPDATE_CAPS) else None,
        segment=None if segment is None else segment.copy(),
        width=width if kind == UPDATE_CAPS else None,
        height=height if kind == UPDATE_CAPS else None,
        framerate=(numerator, denominator) if has_rate else None,
        caps=caps.copy() if isinstance(caps, Gst.Caps) else None,
    )


def identity(event: Gst.Event) -> str:
    """Return what tells a stream event from any other of its kind, and not from its repetition.

    They are sticky, and sent again after a flush or a new link.
    """
    structure = required_structure(event)
    found, serial = structure.get_uint64("serial")
    return str(serial) if found else str(structure.get_name())


def control_event(kind: int, **fields: Any) -> Gst.Event:
    """Return a control event (`ROI_UPDATE` to `TRACKER_CONFIG_UPDATE`); ints become uint fields.

    Field names are NVIDIA's, such as ``stream_id`` (text) and ``interval``; "-" in a name is written as "__".
    """
    structure = Gst.Structure.new_empty(_CONTROL_NAMES[kind])
    for name, value in fields.items():
        structure.set_value(name.replace("__", "-"), _uint(value) if isinstance(value, int) else value)
    return new_event(kind, structure)


def parse_control_event(event: Gst.Event) -> dict[str, Any] | None:
    """Return the fields of a control event by name; None for any other event."""
    structure = structure_of(event) if event_type(event) in _CONTROL_NAMES else None
    return None if structure is None else fields_of(structure)


def time_segment() -> Gst.Event:
    """A SEGMENT event of time from 0, with which a PTS is a running time."""
    segment = Gst.Segment()
    segment.init(Gst.Format.TIME)
    return Gst.Event.new_segment(segment)


def delivery(freshest: bool) -> Gst.Event:
    """For a sink pad of sluicemux: whether a frame that waits there gives way to a newer one, or the source waits."""
    structure = Gst.Structure.new_empty(DELIVERY)
    structure.set_value("freshest", freshest)
    return Gst.Event.new_custom(Gst.EventType.CUSTOM_DOWNSTREAM_OOB, structure)


def capture(source: str | None) -> Gst.Event:
    """For a sink pad of sluicemux: what ``ntp_timestamp`` is, "rtcp" or "arrival"; None: as attach-sys-ts says."""
    structure = Gst.Structure.new_empty(CAPTURE)
    structure.set_value("source", source or "")
    return Gst.Event.new_custom(Gst.EventType.CUSTOM_DOWNSTREAM_OOB, structure)


def absent() -> Gst.Event:
    """For a sink pad of sluicemux: no batch waits for its stream until the next frame, as its source is away."""
    return Gst.Event.new_custom(Gst.EventType.CUSTOM_DOWNSTREAM_OOB, Gst.Structure.new_empty(ABSENT))


def stream_eos_message(element: Gst.Element, source_id: int) -> Gst.Event:
    """Return the event that makes the sinks post the message ``stream-eos`` when everything before it was shown."""
    structure = Gst.Structure.new_empty("stream-eos")
    structure.set_value("stream-id", _uint(source_id))
    return Gst.Event.new_sink_message("stream-eos", Gst.Message.new_element(element, structure))


def query_name(query: Gst.Query) -> str | None:
    """Return the name of a custom query's structure; None for any other query."""
    structure = structure_of(query) if query.type == Gst.QueryType.CUSTOM else None
    return None if structure is None else str(structure.get_name())


def numbers_structure(name: str, numbers: dict[str, int]) -> Gst.Structure:
    """Return a structure of uint64 fields, as elements give their statistics."""
    structure = Gst.Structure.new_empty(name)
    for field, number in numbers.items():
        structure.set_value(field, GObject.Value(GObject.TYPE_UINT64, number))
    return structure


def answer(query: Gst.Query, **numbers: int) -> bool:
    """Write uint fields into a custom query's structure ("_" in a name stands for "-"); True, as a query function."""
    from sluice.contract import gstref

    return answer_address(gstref.address(query), **numbers)


def answer_address(query: int, **numbers: int) -> bool:
    """`answer` for the query at an address, which a probe needs: its wrapper of the query would make it read-only."""
    from sluice.contract import gstref

    gst, _ = _c()
    # PyGObject's writable_structure() returns a copy.
    structure = gst.gst_query_writable_structure(query)
    for name, number in numbers.items():
        value = _uint(number)
        gst.gst_structure_set_value(structure, name.replace("_", "-").encode(), gstref.address(value))
    return True


def answer_caps_address(query: int, caps: Gst.Caps) -> None:
    """Answer a CAPS query at an address, as `answer_address` does."""
    from sluice.contract import gstref

    gst, _ = _c()
    gst.gst_query_set_caps_result(query, gstref.address(caps))


def ask(pad: Gst.Pad, name: str, field: str) -> int | None:
    """Ask a pad's peer for a number through a custom query; None when nobody answers.

    Args:
        pad: the pad whose peer is asked; a sink pad asks upstream.
        name: the query's structure, such as ``nv-batch-size``.
        field: the uint field of the answer, such as ``batch-size``.
    """
    query = Gst.Query.new_custom(Gst.QueryType.CUSTOM, Gst.Structure.new_empty(name))
    if not pad.peer_query(query):
        return None
    found, number = required_structure(query).get_uint(field)
    return int(number) if found else None


def ask_batch_size(pad: Gst.Pad) -> int | None:
    """Ask a pad's peer how many frames a batch may hold."""
    return ask(pad, "nv-batch-size", "batch-size")


def ask_stream_count(pad: Gst.Pad) -> int | None:
    """Ask a pad's peer how many streams the muxer has."""
    return ask(pad, "nv-numStreams-size", "numStreams-size")
