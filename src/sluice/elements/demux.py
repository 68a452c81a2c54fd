"""sluicedemux: batches in, one pad per stream out, with the very buffers that came into the muxer.

Batches of nvstreammux, and batches of batches, are cut into batches of one surface, without copying pixels. A buffer
that somebody else holds too, such as a decoder its reference pictures, goes on as a new buffer around the same memory,
since its metadata must not be seen there.

Frames in GPU memory stay there, under the caps that they came into the muxer with. Where an element has brought them to
the host on the way (sluiceosd, sluicehost), the caps of their streams say system memory.
"""

import ctypes
import weakref
from typing import Any

import gi

gi.require_version("Gst", "1.0")
from gi.repository import GObject, Gst

from sluice.contract.structures import required_structure, structure_of
from sluice.elements import events
from sluice.elements.base import Lifecycle, guarded, post_error
from sluice.elements.demux_streams import Output, Stream
from sluice.elements.flow import push_address
from sluice.elements.host_caps import is_batch
from sluice.elements.pad_numbers import PadNumbers
from sluice.errors import SluiceError

_BATCHES = "video/x-raw(memory:SluiceSurface); video/x-raw(memory:NVMM)"
_FRAMES = "video/x-raw; video/x-raw(memory:CUDAMemory); video/x-raw(memory:NVMM)"
_FATAL = (Gst.FlowReturn.ERROR, Gst.FlowReturn.NOT_NEGOTIATED)
_SWALLOWED = (
    int(Gst.EventType.STREAM_START),
    int(Gst.EventType.SEGMENT),
    int(Gst.EventType.TAG),
    int(Gst.EventType.GAP),
    int(Gst.EventType.STREAM_COLLECTION),
    events.PAD_ADDED,
    events.STREAM_RESET,
)

_GPROPERTIES: dict[str, tuple[Any, ...]] = {
    "per-stream-eos": (
        bool,
        "EOS per stream",
        "End a stream's pad when the stream ends; false: all pads when the pipeline ends",
        True,
        GObject.ParamFlags.READWRITE,
    ),
    "stats": (
        Gst.Structure,
        "Statistics",
        "Numbers per stream: src_N-frames-out and src_N-dropped (its pad is missing, not linked or has failed)",
        GObject.ParamFlags.READABLE,
    ),
}


class SluiceDemux(Lifecycle, Gst.Element):  # type: ignore[misc]
    """Request pads ``src_%u``, whose number is the frames' ``pad_index``; see the module.

    Each frame leaves with an NvDsBatchMeta of its own that holds a copy of its metadata, its ``buf_pts`` as PTS, and
    its stream's caps, segment and end. Frames of streams without a linked pad are dropped and counted. A branch that
    fails loses its own frames only; when every branch has failed or ended, the muxer's side is told.
    """

    __gtype_name__ = "SluiceDemux"
    __gstmetadata__ = (
        "Sluice stream demuxer",
        "Generic/Video/Demuxer",
        "Takes batches apart into their streams, giving back the buffers the muxer received, with their metadata",
        "The Sluice developers",
    )
    __gsttemplates__ = (
        Gst.PadTemplate.new("sink", Gst.PadDirection.SINK, Gst.PadPresence.ALWAYS, Gst.Caps.from_string(_BATCHES)),
        Gst.PadTemplate.new("src_%u", Gst.PadDirection.SRC, Gst.PadPresence.REQUEST, Gst.Caps.from_string(_FRAMES)),
    )
    __gproperties__ = _GPROPERTIES

    def __init__(self) -> None:
        super().__init__()
        self.sinkpad = Gst.Pad.new_from_template(self.__gsttemplates__[0], "sink")
        self.sinkpad.set_event_function_full(_sink_event, None)
        _set_chain(self.sinkpad)
        self.add_pad(self.sinkpad)
        self._outputs: dict[int, Output] = {}
        self._streams: dict[int, Stream] = {}
        self._gone: set[int] = set()
        self._caps = Gst.Caps.new_empty()
        self._group = 0
        self._numbers = PadNumbers("src_")
        self._per_stream_eos = True
        self._on_host = False  # whether the last batch was in system memory
        self._frames: Any = None
        _by_address[_address(self)] = self

    @guarded(Gst.StateChangeReturn.FAILURE)
    def do_change_state(self, transition: Gst.StateChange) -> Gst.StateChangeReturn:
        """Before data flow, forget the streams of the last run; the pads that were requested stay."""
        if transition == Gst.StateChange.READY_TO_PAUSED:
            self._streams.clear()
            self._group = Gst.util_group_id_next()
            for output in list(self._outputs.values()):
                output.sent.clear()
                output.flow, output.ended = Gst.FlowReturn.OK, False
        return self.change_state(transition)

    def start(self) -> None:
        from sluice.elements import demux_frames

        self._frames = demux_frames

    @guarded(failure=None)
    def do_set_property(self, _spec: GObject.ParamSpec, value: bool) -> None:
        self._per_stream_eos = value

    @guarded(failure=None)
    def do_get_property(self, spec: GObject.ParamSpec) -> bool | Gst.Structure:
        return self._per_stream_eos if spec.name == "per-stream-eos" else self._stats()

    def _stats(self) -> Gst.Structure:
        numbers = {}
        for number, stream in sorted(self._streams.items()):
            numbers[f"src_{number}-frames-out"] = stream.frames
            numbers[f"src_{number}-dropped"] = stream.dropped
        return events.numbers_structure("sluicedemux-stats", numbers)

    # Pads

    @guarded(failure=None)
    def do_request_new_pad(self, template: Gst.PadTemplate, name: str | None, _caps: Gst.Caps | None) -> Gst.Pad | None:
        """Add pad ``src_N``, for the stream of mux pad N; None, with an error in the log, where it cannot be."""
        number = self._numbers.take(None if name == template.name_template else name)
        if number is None:
            Gst.error(f"{self.get_name()}: pad {name!r} is not src_ with a number, or exists already")
            return None
        pad = Gst.Pad.new_from_template(template, f"src_{number}")
        pad.set_event_function_full(_src_event, None)
        pad.set_query_function_full(_src_query, None)
        if self.sinkpad.is_active():
            pad.set_active(True)
        self._outputs[number] = Output(pad)
        self.add_pad(pad)
        return pad

    @guarded(failure=None)
    def do_release_pad(self, pad: Gst.Pad) -> None:
        """Remove a pad; the frames of its stream are dropped, and counted, from now on."""
        number = int(pad.get_name().removeprefix("src_"))
        self._outputs.pop(number, None)
        self._forget_gone()
        pad.set_active(False)
        self.remove_pad(pad)
        self._numbers.give_back(number)

    # Frames

    def chain_address(self, batch: int) -> Gst.FlowReturn:
        """Take the batch at a buffer's address apart and push its frames; the reference is this element's."""
        from sluice.contract import gstref
        from sluice.contract.host import is_host_batch

        try:
            self._on_host = is_host_batch(batch)
            parts = self._frames.split(batch, self._wants, self._undescribed)
        finally:
            # Before the frames go on: the batch holds a reference of each.
            gstref.unref(batch)
        try:
            for part in parts:
                self._push(part)
        finally:
            for part in parts:
                self._frames.discard(part)
        return self._combined_flow()

    def _wants(self, number: int) -> bool:
        """Whether frames of a stream can go on; counts those that cannot."""
        output = self._outputs.get(number)
        if output is not None and output.flow == Gst.FlowReturn.OK and output.pad.is_linked():
            return True
        self._stream(number).dropped += 1
        return False

    def _undescribed(self, number: int) -> tuple[int, int] | None:
        """The frame rate of a stream whose caps nobody has told in words for single frames."""
        event = self._stream(number).caps
        if event is not None and not is_batch(event.parse_caps()):
            return None
        found, *rate = required_structure(self._caps, 0).get_fraction("framerate")
        return (rate[0], rate[1]) if found else (0, 1)

    def _push(self, part: Any) -> None:
        stream, output = self._stream(part.stream), self._outputs.get(part.stream)
        if part.caps is not None:
            stream.caps = Gst.Event.new_caps(part.caps)
        if output is None:
            stream.dropped += 1
            return
        self._begin(output, stream)
        output.flow = push_address(output.pad, self._frames.finish(part))
        stream.frames += 1
        if output.flow == Gst.FlowReturn.NOT_NEGOTIATED:
            error = SluiceError(
                f"{output.pad.get_name()}: downstream does not take {_text(stream.told_caps(self._on_host))}"
            )
            post_error(self, error, stream=part.stream)

    def _combined_flow(self) -> Gst.FlowReturn:
        """Return OK while any branch is alive, else the worst that was returned."""
        flows = [output.flow for output in list(self._outputs.values()) if output.pad.is_linked()]
        alive = [flow for flow in flows if flow in (Gst.FlowReturn.OK, Gst.FlowReturn.NOT_LINKED)]
        if alive or not flows:
            return Gst.FlowReturn.OK
        return next((flow for flow in flows if flow in _FATAL), max(flows, key=int))

    # Events

    def _stream(self, number: int) -> Stream:
        return self._streams.setdefault(number, Stream())

    def _begin(self, output: Output, stream: Stream) -> None:
        """Push those of the stream's begin events that the pad has not been sent.

        The legacy nvstreammux names neither the streams nor their caps, which are those of the batches then.
        """
        if stream.start is None:
            stream.start = self._start_event(f"{self.get_name()}/{output.pad.get_name()}")
        if stream.caps is None and _has_format(self._caps):
            caps = self._caps.copy()
            caps.set_value("batch-size", 1)
            stream.caps = Gst.Event.new_caps(caps)
        if stream.segment is None:
            stream.segment = events.time_segment()
        begin = {"start": stream.start, "caps": stream.told_caps(self._on_host), "segment": stream.segment}
        for name, event in begin.items():
            if event is not None and output.sent.get(name) is not event:
                output.sent[name] = event
                if name == "start":
                    output.ended = False
                    output.flow = Gst.FlowReturn.OK
                output.pad.push_event(event)

    def sink_event(self, event: Gst.Event) -> bool:
        """Give each stream's events to its own pad, and to all what concerns all."""
        kind = events.event_type(event)
        parsed = events.parse_stream_event(event)
        if kind == Gst.EventType.CAPS:
            self._caps = event.parse_caps()
        elif kind == Gst.EventType.EOS:
            # A copy: to make the items' pairs may collect garbage, whose finalizers let other threads add a pad.
            for number, output in self._outputs.copy().items():
                self._end(output, self._stream(number))
        elif kind == Gst.EventType.SINK_MESSAGE:
            self._forward_message(event)
        elif parsed is not None:
            self._stream_event(parsed)
        elif kind not in _SWALLOWED:
            if kind == Gst.EventType.FLUSH_STOP:
                self._flushed()
            self._push_to_all(event)
        return True

    def _stream_event(self, event: events.StreamEvent) -> None:
        stream, output = self._stream(event.source_id), self._outputs.get(event.source_id)
        if event.kind == events.STREAM_START:
            stream.start = self._start_event(event.stream_id or f"{self.get_name()}/{event.source_id}")
        elif event.kind == events.UPDATE_CAPS:
            stream.caps = Gst.Event.new_caps(event.caps or self._stream_caps(event))
        elif event.kind == events.STREAM_SEGMENT:
            stream.segment = Gst.Event.new_segment(event.segment)
        elif event.kind in (events.STREAM_EOS, events.PAD_DELETED) and output is not None and self._per_stream_eos:
            self._end_own(output, stream, removed=event.kind == events.PAD_DELETED)
        if event.kind == events.PAD_ADDED:
            self._gone.discard(event.source_id)
        elif event.kind == events.PAD_DELETED:
            self._gone.add(event.source_id)
            self._forget_gone()

    def _forget_gone(self) -> None:
        """Forget the streams that the muxer has removed and whose pads are released."""
        for number in [number for number in list(self._gone) if number not in self._outputs]:
            self._gone.discard(number)
            self._streams.pop(number, None)

    def _start_event(self, stream_id: str) -> Gst.Event:
        event = Gst.Event.new_stream_start(stream_id)
        event.set_group_id(self._group)
        return event

    def _stream_caps(self, event: events.StreamEvent) -> Gst.Caps:
        """Return a stream's caps where the muxer sent none: the batches' own, with the stream's size and rate."""
        caps = self._caps.copy()
        numerator, denominator = event.framerate or (0, 1)
        for field, value in (
            ("width", event.width),
            ("height", event.height),
            ("framerate", Gst.Fraction(numerator, denominator)),
            ("batch-size", 1),
        ):
            caps.set_value(field, value)
        return caps

    def _end(self, output: Output, stream: Stream) -> None:
        if not output.ended:
            self._begin(output, stream)
            output.ended = True
            output.pad.push_event(Gst.Event.new_eos())

    def _end_own(self, output: Output, stream: Stream, *, removed: bool) -> None:
        """End a pad with its stream; one requested after the last frame of a removed stream is for one yet to come."""
        if output.sent or not removed:
            self._end(output, stream)

    def _forward_message(self, event: Gst.Event) -> None:
        """Send the event with a stream's end message to that stream's pad, any other to all."""
        structure = structure_of(event.parse_sink_message())
        found, number = structure.get_uint("stream-id") if structure else (False, 0)
        if not found:
            self._push_to_all(event)
        elif (output := self._outputs.get(number)) is not None:
            output.pad.push_event(event)

    def _push_to_all(self, event: Gst.Event) -> None:
        for output in list(self._outputs.values()):
            output.pad.push_event(event)

    def _flushed(self) -> None:
        for output in list(self._outputs.values()):
            output.flow, output.ended = Gst.FlowReturn.OK, False
            output.sent.pop("segment", None)

    def src_query(self, pad: Gst.Pad, query: Gst.Query) -> bool:
        """Answer a query from one stream's branch."""
        if events.query_name(query) == "nv-batch-size":
            return events.answer(query, batch_size=1)
        return bool(pad.query_default(self, query))


@guarded(failure=False)
def _sink_event(_pad: Gst.Pad, parent: SluiceDemux, event: Gst.Event) -> bool:
    return parent.sink_event(event)


@guarded(failure=False)
def _src_event(pad: Gst.Pad, parent: SluiceDemux, event: Gst.Event) -> bool:
    return events.event_type(event) == Gst.EventType.QOS or bool(pad.event_default(parent, event))


@guarded(failure=False)
def _src_query(pad: Gst.Pad, parent: SluiceDemux, query: Gst.Query) -> bool:
    return parent.src_query(pad, query)


def _has_format(caps: Gst.Caps) -> bool:
    return bool(caps.get_size()) and required_structure(caps, 0).has_field("format")


def _text(caps: Gst.Event | None) -> str:
    return "frames without caps" if caps is None else str(caps.parse_caps().to_string())


# The chain function is given to GStreamer through C: PyGObject would hold a reference of the batch until it returns,
# and with it every frame would arrive downstream shared.

_by_address: "weakref.WeakValueDictionary[int, SluiceDemux]" = weakref.WeakValueDictionary()


def _address(item: Any) -> int:
    from sluice.contract import gstref

    return gstref.address(item)


@guarded(Gst.FlowReturn.ERROR)
def _chain_guarded(element: SluiceDemux, batch: int) -> Gst.FlowReturn:
    return element.chain_address(batch)


def _sink_chain(_pad: int, parent: int, batch: int) -> int:
    element = _by_address.get(parent)
    return int(Gst.FlowReturn.FLUSHING if element is None else _chain_guarded(element, batch))


_c_sink_chain = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * 3)(_sink_chain)  # kept as long as the process


def _set_chain(pad: Gst.Pad) -> None:
    function = ctypes.CDLL("libgstreamer-1.0.so.0").gst_pad_set_chain_function_full
    function.restype, function.argtypes = None, [ctypes.c_void_p] * 4
    function(_address(pad), ctypes.cast(_c_sink_chain, ctypes.c_void_p), None, None)
