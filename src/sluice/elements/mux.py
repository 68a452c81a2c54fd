"""sluicemux: many streams in, batches of their frames with NvDsBatchMeta out.

Frames are queued, batched and pushed in C, by `sluice.contract.collector`: no frame and no batch enters Python.
Which streams fit together is `sluice.elements.mux_output`. Here is what the pads and the events need.
"""

import functools
from collections.abc import Callable
from typing import Any

import gi

gi.require_version("Gst", "1.0")
from gi.repository import GObject, Gst

from sluice.contract.structures import required_structure
from sluice.elements import events, mux_input, queries
from sluice.elements.base import SourceTaskElement, guarded, post_error
from sluice.elements.frame_caps import NVMM_FORMATS
from sluice.elements.mux_input import Input
from sluice.elements.mux_properties import DEFAULTS, GPROPERTIES
from sluice.elements.mux_unlinked import UnlinkedWatch
from sluice.elements.pad_numbers import PadNumbers
from sluice.errors import ConfigurationError, ContractError

_RAW = f"video/x-raw; video/x-raw(memory:CUDAMemory); video/x-raw(memory:NVMM), format=(string){NVMM_FORMATS}"
_BATCHES = "video/x-raw(memory:SluiceSurface); video/x-raw(memory:NVMM)"
# Of one stream only, and without a meaning for the batches.
_SWALLOWED = (int(Gst.EventType.GAP), int(Gst.EventType.STREAM_GROUP_DONE), int(Gst.EventType.STREAM_COLLECTION))


class SluiceMux(SourceTaskElement):
    """Request pads ``sink_%u`` in, one pad with batches out; see the module.

    The batch's PTS is the largest running time of its frames, but always more than the batch's before; each frame's own
    is its meta's ``buf_pts``. Frames keep their size and format unless ``width`` and ``height`` are set.
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
        self._inputs: dict[Gst.Pad, Input] = {}  # pads come and go on any thread: only copies are walked through
        # Every stream that events may still come from, by its address: those of the pads, and removed ones.
        self._streams: dict[int, Input] = {}
        self._form: Any = None
        self._head: set[str] = set()
        self._pipeline_eos = False
        self._upstream_latency = 0
        self._released_discarded = 0
        self._numbers = PadNumbers("sink_")
        self._unlinked = UnlinkedWatch()

    # Properties

    @guarded(failure=None)
    def do_get_property(self, spec: GObject.ParamSpec) -> Any:
        return self._stats() if spec.name == "stats" else self._values[spec.name]

    @guarded(failure=None)
    def do_set_property(self, spec: GObject.ParamSpec, value: Any) -> None:
        """Set a property, at once also while running; a new deadline makes the pipeline ask for the latency again."""
        self._values[spec.name] = value
        self._apply_settings()
        if spec.name in ("batched-push-timeout", "max-latency"):
            self.post_message(Gst.Message.new_latency(self))

    @functools.cached_property
    def _collector(self) -> Any:
        """The streams' queues; made with the first pad, as a mere look at the element imports nothing."""
        from sluice.contract.collector import Collector

        return Collector()

    def _apply_settings(self) -> None:
        """Hand the properties to the collector, from NULL→READY on; the capacity of a running mux stays."""
        if self._form is None:
            return
        from sluice.contract.collector import UNLIMITED, Settings

        values = self._values
        timeout = values["batched-push-timeout"] * 1000
        latency = values["max-latency"] + self._upstream_latency
        self._collector.configure(
            Settings(
                batch_size=self._form.capacity,
                timeout=UNLIMITED if timeout < 0 else timeout,
                max_same_source_frames=values["max-same-source-frames"],
                queue_size=self._queue_size(),
                sync_window=(max(0, timeout), max(latency, timeout)) if values["sync-inputs"] else None,
                wall_clock=values["attach-sys-ts"],
            )
        )

    def _queue_size(self) -> int:
        """Return how many frames of one stream may wait."""
        return max(2, 2 * int(self._values["max-same-source-frames"]))

    def _stats(self) -> Gst.Structure:
        """Return the counts of every pad, in fields such as ``sink_0-frames-in``, the number of batches, and
        the frames discarded with released pads.

        Flat, since PyGObject's wrapper of a structure within a structure does not keep the outer one alive.
        """
        numbers = {
            "batches": self._collector.batches(),
            "released-discarded": self._released_discarded,
        }
        for entry in sorted(self._inputs.values(), key=lambda entry: entry.number):
            numbers |= {f"{entry.pad.get_name()}-{name}": count for name, count in entry.stats().items()}
        return events.numbers_structure("sluicemux-stats", numbers)

    # States

    def start(self) -> None:
        from sluice.elements.mux_output import BatchForm

        values = self._values
        if not values["batch-size"]:
            raise ConfigurationError(f"{self.get_name()}: batch-size is not set; set it to the number of streams, say")
        if bool(values["width"]) != bool(values["height"]):
            raise ConfigurationError(
                f"{self.get_name()}: width={values['width']} height={values['height']}: set both to scale, or neither"
            )
        if values["sync-inputs"] and values["batched-push-timeout"] < 0:
            raise ConfigurationError(f"{self.get_name()}: sync-inputs needs a batched-push-timeout of 0 or more")
        self._form = BatchForm(values)
        self._apply_settings()
        for entry in list(self._inputs.values()):
            self._take_frames(entry)

    def stop(self) -> None:
        self._form = None

    def activate(self) -> None:
        self.flow = Gst.FlowReturn.OK
        self._head.clear()
        self._pipeline_eos = False
        self._released_discarded = 0
        self._forget_removed()
        for entry in list(self._inputs.values()):
            entry.reset()
        self._form.reset()
        self._collector.start()
        if not self._inputs and not self._values["drop-pipeline-eos"]:
            self._unlinked.begin(self)

    def deactivate(self) -> None:
        self._unlinked.end()
        self._collector.stop()
        self._forget_removed()

    def _forget_removed(self) -> None:
        """Keep the present pads' streams only: no more notices come."""
        self._streams = {entry.stream.address: entry for entry in list(self._inputs.values())}

    # Pads

    @guarded(failure=None)
    def do_request_new_pad(self, template: Gst.PadTemplate, name: str | None, _caps: Gst.Caps | None) -> Gst.Pad | None:
        """Add pad ``sink_N``, at any time; None, with an error in the log, where it cannot be."""
        number = self._numbers.take(None if name == template.name_template else name)
        if number is None:
            Gst.error(f"{self.get_name()}: pad {name!r} is not sink_ with a number, or exists already")
            return None
        pad = Gst.Pad.new_from_template(template, f"sink_{number}")
        pad.set_event_function_full(_sink_event, None)
        pad.set_query_function_full(_sink_query, None)
        entry = Input(pad, number, self._collector.add(number))
        entry.stream.bind(pad)
        self._take_frames(entry)
        self._inputs[pad] = self._streams[entry.stream.address] = entry
        self._unlinked.end()
        if self.srcpad.is_active():
            pad.set_active(True)
        self.add_pad(pad)
        return pad

    def _take_frames(self, entry: Input) -> None:
        """Let the pad's frames be queued in C; where they are scaled, by way of Python, on the pad's own thread."""
        if self._form is not None and self._form.size:
            entry.pad.set_chain_function_full(_sink_chain_scaling, None)
        else:
            entry.stream.take_frames_of(entry.pad)

    @guarded(failure=None)
    def do_release_pad(self, pad: Gst.Pad) -> None:
        """Remove a pad; frames of it that wait are discarded, and counted."""
        entry = self._inputs.pop(pad, None)
        if entry is None:
            return
        discarded, noticed = entry.stream.remove()
        self._released_discarded += discarded
        if not noticed:
            self._streams.pop(entry.stream.address, None)
        pad.set_active(False)
        self.remove_pad(pad)
        self._numbers.give_back(entry.number)

    # Data and events from upstream, on the streams' own threads

    def chain_scaling(self, pad: Gst.Pad, buffer: Gst.Buffer) -> Gst.FlowReturn:
        """Scale a frame of one stream and queue it; waits for room."""
        entry = self._inputs.get(pad)
        if entry is None:
            return Gst.FlowReturn.FLUSHING
        scaled = self._form.scale(buffer, entry.raw_format) if entry.raw_format else buffer
        return Gst.FlowReturn(entry.stream.put(scaled, self))

    def sink_event(self, pad: Gst.Pad, event: Gst.Event) -> bool:
        """Take an event of one stream; serialized ones wait in the stream's queue."""
        entry = self._inputs.get(pad)
        kind = events.event_type(event)
        if entry is None:
            return False
        if kind == Gst.EventType.FLUSH_START:
            entry.stream.flush()
            return True
        if kind == Gst.EventType.FLUSH_STOP:
            entry.stream.resume()
            return True
        if kind == Gst.EventType.CUSTOM_DOWNSTREAM_OOB and mux_input.obey(entry, event):
            return True
        if not kind & int(Gst.EventTypeFlags.SERIALIZED):
            return bool(self.srcpad.push_event(event))
        if kind == Gst.EventType.CAPS:
            entry.set_caps(event.parse_caps(), self._form)
        elif (kind == Gst.EventType.EOS and self._values["frame-num-reset-on-eos"]) or (
            kind == events.STREAM_RESET and self._values["frame-num-reset-on-stream-reset"]
        ):
            entry.stream.renumber()
        return bool(entry.stream.put_event(event))

    def sink_query(self, pad: Gst.Pad, query: Gst.Query) -> bool:
        """Answer a query of one stream's source."""
        if query.type == Gst.QueryType.CAPS:
            return mux_input.answer_caps(pad, query)
        if query.type == Gst.QueryType.ACCEPT_CAPS:
            query.set_accept_caps_result(query.parse_accept_caps().is_subset(pad.get_pad_template_caps()))
            return True
        if query.type == Gst.QueryType.ALLOCATION:
            # What waits here and is in one batch; a pool that has more may be used up by what follows.
            held = self._queue_size() + self._values["max-same-source-frames"]
            return mux_input.answer_allocation(query, held)
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
            pad = next((pad for pad, entry in self._inputs.copy().items() if found and entry.number == number), None)
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
        try:
            step = self._collector.run(self._form.capacity, self.srcpad)
        except ContractError as error:
            post_error(self, error)
            self.flow = Gst.FlowReturn.ERROR
            return True
        if step is None:
            return False
        if step.flow != Gst.FlowReturn.OK:
            self.flow = Gst.FlowReturn(step.flow)
        elif (entry := self._streams.get(step.stream)) is not None:
            self._handle(entry, step.event)
        return True

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
            self._once("caps", lambda: Gst.Event.new_caps(self._form.caps(caps)))
            leaving = self._form.stream_caps(caps)
            self.push_event(events.update_caps(entry.number, entry.stream_id, leaving))
        elif kind == Gst.EventType.SEGMENT:
            self._announce(entry)
            self._once("segment", events.time_segment)
            self.push_event(events.stream_segment(entry.number, event.parse_segment()))
        elif kind == Gst.EventType.EOS:
            self._stream_eos(entry)
        elif kind == events.STREAM_RESET:
            self.push_event(events.stream_reset(entry.number))
        elif kind not in _SWALLOWED:
            self.push_event(event)

    def _stream_start(self, entry: Input, event: Gst.Event) -> None:
        entry.stream_id = event.parse_stream_start()
        entry.stream.mark_ended(False)
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
        if entry.stream.mark_ended():
            self._end()

    def _removed(self, entry: Input) -> None:
        """Say that a pad is gone; when only ended streams are left, that ends the batches too."""
        self._streams.pop(entry.stream.address, None)
        if entry.announced:
            self.push_event(events.pad_deleted(entry.number))
        if self._collector.all_ended():
            self._end()

    def _end(self) -> None:
        if not self._pipeline_eos and not self._values["drop-pipeline-eos"]:
            self._pipeline_eos = True
            self.push_event(Gst.Event.new_eos())


@guarded(Gst.FlowReturn.ERROR)
def _sink_chain_scaling(pad: Gst.Pad, parent: SluiceMux, buffer: Gst.Buffer) -> Gst.FlowReturn:
    return parent.chain_scaling(pad, buffer)


@guarded(failure=False)
def _sink_event(pad: Gst.Pad, parent: SluiceMux, event: Gst.Event) -> bool:
    return parent.sink_event(pad, event)


@guarded(failure=False)
def _sink_query(pad: Gst.Pad, parent: SluiceMux, query: Gst.Query) -> bool:
    return parent.sink_query(pad, query)
