"""sluicemux: many streams in, batches of their frames with NvDsBatchMeta out.

Which frames make a batch, and when it leaves, is `sluice.elements.batch_policy`; how a batch is made is
`sluice.elements.mux_output`. Here is what the streams' pads and the events need.
"""

import time
from collections.abc import Callable
from typing import Any

import gi

gi.require_version("Gst", "1.0")
from gi.repository import GObject, Gst

from sluice.contract.structures import required_structure
from sluice.elements import events, mux_input, queries
from sluice.elements.base import SourceTaskElement, guarded, post_error
from sluice.elements.batch_policy import Batcher, Settings
from sluice.elements.mux_input import Input
from sluice.elements.mux_properties import DEFAULTS, GPROPERTIES
from sluice.errors import ConfigurationError

_RAW = "video/x-raw; video/x-raw(memory:CUDAMemory); video/x-raw(memory:NVMM), format=(string){ NV12, RGBA, I420, RGB }"
_BATCHES = "video/x-raw(memory:SluiceSurface); video/x-raw(memory:NVMM)"
_KEPT_IN_FLUSH = (int(Gst.EventType.STREAM_START), int(Gst.EventType.CAPS))
# Of one stream only, and without a meaning for the batches.
_SWALLOWED = (int(Gst.EventType.GAP), int(Gst.EventType.STREAM_GROUP_DONE), int(Gst.EventType.STREAM_COLLECTION))


class SluiceMux(SourceTaskElement):
    """Request pads ``sink_%u`` in, one pad with batches out; see the module.

    The batch's PTS is the largest running time of its frames, and never goes back; each frame's own PTS is its meta's
    ``buf_pts``. Frames keep their size and format unless ``width`` and ``height`` are set.
    """

    __gstmetadata__ = (
        "Sluice stream muxer",
        "Generic/Video/Muxer",
        "Batches the frames of many streams, without copying pixels, and creates their NvDsBatchMeta",
        "The Sluice developers",
    )
    __gsttemplates__ = (
        Gst.PadTemplate.new("sink_%u", Gst.PadDirection.SINK, Gst.PadPresence.REQUEST, Gst.Caps.from_string(_RAW)),
        Gst.PadTemplate.new("src", Gst.PadDirection.SRC, Gst.PadPresence.ALWAYS, Gst.Caps.from_string(_BATCHES)),
    )
    __gproperties__ = GPROPERTIES

    def __init__(self) -> None:
        super().__init__()
        self._values: dict[str, Any] = dict(DEFAULTS)
        self._inputs: dict[Gst.Pad, Input] = {}
        self._clock_offset: float | None = None
        self._batcher = Batcher(Settings(), running_time=self._running_time)
        self._builder: Any = None
        self._head: set[str] = set()
        self._pipeline_eos = False
        self._upstream_latency = 0
        self._released_discarded = 0

    # Properties

    @guarded(failure=None)
    def do_get_property(self, spec: GObject.ParamSpec) -> Any:
        return self._stats() if spec.name == "stats" else self._values[spec.name]

    @guarded(failure=None)
    def do_set_property(self, spec: GObject.ParamSpec, value: Any) -> None:
        self._values[spec.name] = value
        self._apply_settings()
        if spec.name in ("batched-push-timeout", "max-latency"):
            self.post_message(Gst.Message.new_latency(self))

    def _apply_settings(self) -> None:
        """Hand the properties to the batcher; the capacity of a running mux stays."""
        values, settings = self._values, self._batcher.settings
        timeout = values["batched-push-timeout"] / 1e6
        settings.batch_size = self._builder.capacity if self._builder else max(1, values["batch-size"])
        settings.timeout = timeout
        settings.max_same_source_frames = values["max-same-source-frames"]
        settings.queue_size = max(4, 2 * settings.max_same_source_frames)
        latency = (values["max-latency"] + self._upstream_latency) / Gst.SECOND
        settings.sync_window = (max(0.0, timeout), max(latency, timeout)) if values["sync-inputs"] else None
        self._batcher.wake()

    def _stats(self) -> Gst.Structure:
        """Return the counts of every pad, in fields such as ``sink_0-frames-in``, the number of batches, and
        the frames discarded with released pads.

        Flat, since PyGObject's wrapper of a structure within a structure does not keep the outer one alive.
        """
        numbers = {
            "batches": self._builder.batches if self._builder else 0,
            "released-discarded": self._released_discarded,
        }
        for entry in sorted(self._inputs.values(), key=lambda entry: entry.number):
            numbers |= {f"{entry.pad.get_name()}-{name}": count for name, count in entry.stats().items()}
        return events.numbers_structure("sluicemux-stats", numbers)

    # States

    def start(self) -> None:
        from sluice.elements.mux_output import BatchBuilder

        values = self._values
        if not values["batch-size"]:
            raise ConfigurationError(f"{self.get_name()}: batch-size is not set; set it to the number of streams, say")
        if bool(values["width"]) != bool(values["height"]):
            raise ConfigurationError(
                f"{self.get_name()}: width={values['width']} height={values['height']}: set both to scale, or neither"
            )
        if values["sync-inputs"] and values["batched-push-timeout"] < 0:
            raise ConfigurationError(f"{self.get_name()}: sync-inputs needs a batched-push-timeout of 0 or more")
        self._builder = BatchBuilder(values)
        self._apply_settings()

    def stop(self) -> None:
        self._builder = None

    def activate(self) -> None:
        self.flow = Gst.FlowReturn.OK
        self._head.clear()
        self._pipeline_eos = False
        self._released_discarded = 0
        for entry in self._inputs.values():
            entry.reset()
        self._builder.reset()
        self._batcher.start()

    def deactivate(self) -> None:
        self._batcher.stop()

    def _running_time(self) -> float | None:
        """Return the running time in seconds without calling into GStreamer; None before it is known."""
        return None if self._clock_offset is None else time.monotonic() + self._clock_offset

    def read_clock(self) -> None:
        """Note how the pipeline's running time stands to the monotonic clock, for synchronised inputs."""
        clock = self.get_clock()
        if clock is not None and self.get_base_time() > 0:
            self._clock_offset = (clock.get_time() - self.get_base_time()) / Gst.SECOND - time.monotonic()

    # Pads

    @guarded(failure=None)
    def do_request_new_pad(self, template: Gst.PadTemplate, name: str | None, _caps: Gst.Caps | None) -> Gst.Pad | None:
        taken = {entry.number for entry in self._inputs.values()}
        if name is None or name == template.name_template:
            number = next(number for number in range(len(taken) + 1) if number not in taken)
        else:
            digits = name.removeprefix("sink_")
            if not digits.isdecimal() or int(digits) in taken:
                Gst.error(f"{self.get_name()}: pad {name!r} is not sink_ with a number, or exists already")
                return None
            number = int(digits)
        pad = Gst.Pad.new_from_template(template, f"sink_{number}")
        pad.set_chain_function_full(_sink_chain, None)
        pad.set_event_function_full(_sink_event, None)
        pad.set_query_function_full(_sink_query, None)
        self._inputs[pad] = Input(pad, number, self._batcher.add(number))
        if self.srcpad.is_active():
            pad.set_active(True)
        self.add_pad(pad)
        return pad

    @guarded(failure=None)
    def do_release_pad(self, pad: Gst.Pad) -> None:
        entry = self._inputs.pop(pad, None)
        if entry is None:
            return
        self._released_discarded += self._batcher.remove(entry.stream, (entry, None))
        pad.set_active(False)
        self.remove_pad(pad)

    # Data and events from upstream, on the streams' own threads

    def chain(self, pad: Gst.Pad, buffer: Gst.Buffer) -> Gst.FlowReturn:
        """Queue a frame of one stream; waits for room."""
        entry = self._inputs.get(pad)
        if entry is None:
            return Gst.FlowReturn.FLUSHING
        if self.flow != Gst.FlowReturn.OK:
            entry.refused += 1
            return self.flow
        if entry.caps is None:
            return Gst.FlowReturn.NOT_NEGOTIATED
        if self._values["sync-inputs"]:
            self.read_clock()
        frame, untimed = entry.frame(buffer)
        if untimed and entry.untimed == 1:
            text = f"{pad.get_name()}: frames without a timestamp; theirs are counted from the frame rate"
            self.message_full(
                Gst.MessageType.WARNING, Gst.StreamError.quark(), int(Gst.StreamError.FORMAT), text, None, "", "", 0
            )
        accepted = self._batcher.put_frame(entry.stream, frame, frame.running_time / Gst.SECOND)
        return Gst.FlowReturn.OK if accepted else Gst.FlowReturn.FLUSHING

    def sink_event(self, pad: Gst.Pad, event: Gst.Event) -> bool:
        """Take an event of one stream; serialized ones wait in the stream's queue."""
        entry = self._inputs.get(pad)
        kind = events.event_type(event)
        if entry is None:
            return False
        if kind == Gst.EventType.FLUSH_START:
            self._batcher.flush(entry.stream, keep=lambda item: events.event_type(item[1]) in _KEPT_IN_FLUSH)
            return True
        if kind == Gst.EventType.FLUSH_STOP:
            entry.flushed()
            self._batcher.resume(entry.stream)
            return True
        if not kind & int(Gst.EventTypeFlags.SERIALIZED):
            return bool(self.srcpad.push_event(event))
        if kind == Gst.EventType.CAPS:
            entry.set_caps(event.parse_caps(), self._builder)
        elif kind == Gst.EventType.SEGMENT:
            entry.set_segment(event.parse_segment())
        elif (kind == Gst.EventType.EOS and self._values["frame-num-reset-on-eos"]) or (
            kind == events.STREAM_RESET and self._values["frame-num-reset-on-stream-reset"]
        ):
            entry.number_next = 0
        return self._batcher.put_event(entry.stream, (entry, event))

    def sink_query(self, pad: Gst.Pad, query: Gst.Query) -> bool:
        """Answer a query of one stream's source."""
        if query.type == Gst.QueryType.CAPS:
            return mux_input.answer_caps(pad, query)
        if query.type == Gst.QueryType.ACCEPT_CAPS:
            query.set_accept_caps_result(query.parse_accept_caps().is_subset(pad.get_pad_template_caps()))
            return True
        if query.type == Gst.QueryType.ALLOCATION:
            # What waits here and is in one batch; a pool that has more may be used up by what follows.
            settings = self._batcher.settings
            return mux_input.answer_allocation(query, settings.queue_size + settings.max_same_source_frames)
        if events.query_name(query) == "nv-batch-size":
            return events.answer(query, batch_size=1)
        return bool(pad.query_default(self, query))

    # Queries from downstream

    def on_src_query(self, query: Gst.Query) -> bool:
        if query.type == Gst.QueryType.LATENCY:
            return self._answer_latency(query)
        name = events.query_name(query)
        if name == "nv-batch-size":
            return events.answer(query, batch_size=self._values["batch-size"])
        if name == "nv-numStreams-size":
            return events.answer(query, numStreams_size=len(self._inputs))
        if name == "nv-uri-from-streamid":
            found, number = required_structure(query).get_uint("streamid")
            pad = next((pad for pad, entry in self._inputs.items() if found and entry.number == number), None)
            return pad is not None and bool(pad.peer_query(query))
        return super().on_src_query(query)

    def _answer_latency(self, query: Gst.Query) -> bool:
        """Answer with the largest latency of the live streams, and what a frame may wait here for its batch."""
        found = [answer for pad in list(self._inputs) if (answer := queries.ask_latency(pad)) and answer[0]]
        lowest = max((minimum for _, minimum, _ in found), default=0)
        bounds = [maximum for *_, maximum in found if maximum != Gst.CLOCK_TIME_NONE]
        if found:
            self._upstream_latency = lowest
            self._apply_settings()
        own = max(0, self._values["batched-push-timeout"]) * 1000 if found else 0
        if self._values["sync-inputs"]:
            own += self._values["max-latency"]
        query.set_latency(bool(found), lowest + own, min(bounds) + own if bounds else Gst.CLOCK_TIME_NONE)
        return True

    # The task

    def iterate(self) -> bool:
        step = self._batcher.collect()
        if step is None:
            return False
        for _, (entry, event) in step.events:
            self._handle(entry, event)
        if step.frames:
            self._push_batch(step)
        return True

    def _push_batch(self, step: Any) -> None:
        """Make a batch and push it; the frames are let go before, so that the batch alone holds them."""
        frames = [frame for _, frame in step.frames]
        step.frames.clear()
        if self.flow != Gst.FlowReturn.OK:
            for frame in frames:
                frame.source.refused_batched += 1
            return
        try:
            held = [self._builder.build(frames)]
            frames.clear()
            self.push_held(held)
        except BaseException as error:
            post_error(self, error)
            self.flow = Gst.FlowReturn.ERROR

    def _once(self, name: str, make: Callable[[], Gst.Event]) -> None:
        """Push an event of the batches' own stream, unless it has been since the start or the last EOS."""
        if name not in self._head:
            self._head.add(name)
            self.push_event(make())

    def _handle(self, entry: Input, event: Gst.Event | None) -> None:
        """Turn an event that was reached in a stream's queue into those that go downstream."""
        if event is None:
            self._removed(entry)
            return
        kind = events.event_type(event)
        if kind == Gst.EventType.STREAM_START:
            self._stream_start(entry, event)
        elif kind == Gst.EventType.CAPS:
            self._announce(entry)
            caps = event.parse_caps()
            self._once("caps", lambda: Gst.Event.new_caps(self._builder.caps(caps)))
            leaving = self._builder.stream_caps(caps)
            self.push_event(events.update_caps(entry.number, entry.stream_id, leaving))
        elif kind == Gst.EventType.SEGMENT:
            self._announce(entry)
            self._once("segment", mux_input.time_segment)
            self.push_event(events.stream_segment(entry.number, event.parse_segment()))
        elif kind == Gst.EventType.EOS:
            self._stream_eos(entry)
        elif kind == events.STREAM_RESET:
            self.push_event(events.stream_reset(entry.number))
        elif kind not in _SWALLOWED:
            self.push_event(event)

    def _stream_start(self, entry: Input, event: Gst.Event) -> None:
        entry.stream_id = event.parse_stream_start()
        self._batcher.mark_live(entry.stream)
        if self._pipeline_eos:
            self._pipeline_eos = False
            self._head.clear()
        self._announce(entry)
        self.push_event(events.stream_start(entry.number, entry.stream_id))

    def _announce(self, entry: Input) -> None:
        """Begin the batches' stream, and let downstream know of a pad, where that has not been done."""
        self._once("stream-start", self._new_stream_start)
        if not entry.announced:
            entry.announced = True
            self.push_event(events.pad_added(entry.number))

    def _new_stream_start(self) -> Gst.Event:
        event = Gst.Event.new_stream_start(f"{self.get_name()}/batches")
        event.set_group_id(Gst.util_group_id_next())
        return event

    def _stream_eos(self, entry: Input) -> None:
        self._announce(entry)
        self.push_event(events.stream_eos(entry.number))
        self.push_event(events.stream_eos_message(self, entry.number))
        if self._batcher.mark_ended(entry.stream):
            self._end()

    def _removed(self, entry: Input) -> None:
        """Say that a pad is gone; when only ended streams are left, that ends the batches too."""
        if entry.announced:
            self.push_event(events.pad_deleted(entry.number))
        if self._batcher.all_ended():
            self._end()

    def _end(self) -> None:
        if not self._pipeline_eos and not self._values["drop-pipeline-eos"]:
            self._pipeline_eos = True
            self.push_event(Gst.Event.new_eos())


@guarded(Gst.FlowReturn.ERROR)
def _sink_chain(pad: Gst.Pad, parent: SluiceMux, buffer: Gst.Buffer) -> Gst.FlowReturn:
    return parent.chain(pad, buffer)


@guarded(failure=False)
def _sink_event(pad: Gst.Pad, parent: SluiceMux, event: Gst.Event) -> bool:
    return parent.sink_event(pad, event)


@guarded(failure=False)
def _sink_query(pad: Gst.Pad, parent: SluiceMux, query: Gst.Query) -> bool:
    return parent.sink_query(pad, query)
