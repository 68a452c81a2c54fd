"""The elements of a whole run and how they are linked; starting and ending them is the job's affair.

sources → sluicemux → sluiceinfer → sluicetracker → (sluiceanalytics) → (sluicemsgconv → sluicemsgbroker) → one of

* sluicedemux → per stream: drawing, encoding, one file
* sluicetiler → drawing, encoding, one file
* nothing

Streams join and leave while it plays.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Sequence
from functools import partial

import gi

gi.require_version("Gst", "1.0")
from gi.repository import Gst

from sluice.app import handover, stuck
from sluice.app.allocation import Trimmer
from sluice.app.behind_tracker import BehindTracker
from sluice.app.collector import Collector
from sluice.app.endings import Endings
from sluice.app.frame_memory import FrameMemory
from sluice.app.frame_queue import FrameQueue
from sluice.app.gst import add_chain, link_pads, make_element
from sluice.app.in_step import InStep
from sluice.app.latency import ask_once
from sluice.app.options import MOST_STREAMS_PER_BATCH, Options
from sluice.app.outputs import check_distinct
from sluice.app.places import SOURCE, Place, find
from sluice.app.region import region_event
from sluice.app.source_bin import SourceBin
from sluice.app.sources import Source
from sluice.app.streams.branch import BranchFactory
from sluice.app.streams.stream import Stream
from sluice.app.telling import StreamTexts
from sluice.elements import events
from sluice.errors import ConfigurationError

# A frame of a stream whose neighbours are slow waits so long for company, in microseconds: one frame at 25 fps.
_BATCH_TIMEOUT_US = 40_000
# With as many batches as networks at once, a core rests while a result is written. For files one more is under way; for
# cameras it would be one more that waits where they are faster than the model.
_FILES_IN_FLIGHT = 3
# Frames of a source that is closed may still leave for the mux so long, in seconds.
_DRAINING = 0.1
# At the end, sources that can't be closed in so many seconds are left behind.
_CLOSING = 0.5
_GONE_FROM_MUX = ("frames-out", "discarded", "refused", "replaced")


class Graph:
    """All elements of one run.

    Attributes:
        pipeline: the ``Gst.Pipeline``.
        stopped: whether the run is being stopped before its streams have ended.
        endings: what the streams end in.
        collector: what was seen behind the tracker, per stream.
        queue: frames for a program that iterates; None when nobody does.
        memory: whether decoded frames stay in GPU memory up to the model.
    """

    def __init__(
        self, sources: Sequence[Source], options: Options, iterated: bool, branches: BranchFactory | None = None
    ) -> None:
        """Build and link what all streams share, for sources that are to join.

        Raises:
            ConfigurationError: an element is missing or a value cannot be used.
        """
        check_distinct(sources, options)
        self.options = options
        self.stopped = False
        self.pipeline = Gst.Pipeline.new()
        self.pipeline.set_property("message-forward", True)  # each end's own EOS is then seen on the bus
        self._lent = handover.Lent()
        self.memory = FrameMemory(options)
        self._sessions = 0
        self._trimmer = Trimmer()
        self._expected = len(sources)
        self._members: StreamTexts | None = None  # what messages tell of the streams
        batch_size = options.batch_size or (
            MOST_STREAMS_PER_BATCH if options.service else min(len(sources), MOST_STREAMS_PER_BATCH)
        )
        self.mux = make_element(
            "sluicemux",
            batch_size=batch_size,
            batched_push_timeout=_BATCH_TIMEOUT_US,
            drop_pipeline_eos=options.service,
        )
        waits = not options.service and not any(source.live for source in sources)
        self.infer = self._make_infer(waits=waits)
        self.tracker: Gst.Element | None = None
        chain = [self.mux, self.infer]
        if options.tracker is not None:
            self.tracker = make_element(
                "sluicetracker", algorithm=options.tracker, keep_unconfirmed=options.keep_unconfirmed
            )
            if options.confidence is not None:  # all that was asked for may begin a track
                threshold = min(options.confidence, self.tracker.get_property("track-threshold"))
                self.tracker.set_property("track-threshold", threshold)
            chain.append(self.tracker)
        if options.analytics is not None:
            chain.append(make_element("sluiceanalytics", config_file=str(options.analytics)))
        self.behind = BehindTracker(options, self._lent, waits=waits)
        chain += self.behind.elements
        observed = chain[-1]
        if options.messages is not None:
            converter = make_element("sluicemsgconv")
            self._members = StreamTexts(json.dumps, partial(converter.set_property, "stream-members"))
            broker = make_element("sluicemsgbroker", location=str(options.messages))
            if options.spool is not None:
                broker.set_property("spool", str(options.spool))
            chain += [converter, broker]
        add_chain(self.pipeline, *chain)
        self.queue = FrameQueue() if iterated else None
        self.collector = Collector(self.queue)
        self.collector.watch(observed)
        self.endings = Endings(self.pipeline, chain[-1], options, sources, branches)
        alike = not options.policy.loop and not any(source.live for source in sources)
        self._in_step = InStep() if self.endings.tiled and alike else None
        if self._in_step is not None:
            self._in_step.watch_batches(self.mux.get_static_pad("src"))
        ask_once(self.pipeline, chain[-1].get_static_pad("src"))
        if options.messages is not None:
            self.endings.elements.append(chain[-1])

    # Streams that come and go; all of this may wait, and is called by the stream's own worker once the pipeline plays

    def join(self, stream: Stream) -> None:
        """Give a stream its place: a pad of the mux, and a branch where streams have their own.

        Raises:
            ConfigurationError: its branch cannot be made.
        """
        pad = self.mux.request_pad_simple(f"sink_{stream.number}")
        if pad is None:
            raise ConfigurationError(f"sluicemux has no pad sink_{stream.number}")
        stream.mux_pad = pad
        if self._in_step is not None and stream.number < self._expected:  # one that comes later would be far behind
            self._keep_in_step(stream, self._in_step)
        self.memory.expect(stream.source, stream.policy)
        self.behind.name(stream.number, stream.name)
        if self._members is not None:
            self._members.tell(stream.number, {"name": stream.name, **stream.members})
        stream.counts = self.collector.join(stream.number, stream.source.shown)
        if self.queue is not None:
            self.queue.join(stream.number, stream.gate, held_back=not stream.policy.freshest(stream.source.live))
        self.endings.join(stream)

    def brief_mux(self, stream: Stream) -> None:
        """Tell the mux what it has to know of a stream that has joined and gives nothing yet; the pipeline plays.

        Before that its pads are not active, and take no event.
        """
        self.set_delivery(stream)
        if stream.source.live:
            self._tell_mux(stream, events.absent())
            self._tell_mux(stream, events.capture(self.options.capture_of(stream.source)))

    def hold_nothing_back(self) -> None:
        """Let every frame go on to the model at once: the run is to end soon."""
        self.stopped = True
        if self._in_step is not None:
            self._in_step.close()

    def _keep_in_step(self, stream: Stream, steps: InStep) -> None:
        def gives_none() -> bool:
            """Whether no frame of it waits for the model."""
            session = stream.session
            return session is None or not session.waiting

        def ended() -> bool:
            """Whether it gives no more frames, be it that it failed."""
            return stream.finished or stream.supervisor.state.is_final or stream.flow.read().ended

        steps.join(stream.number, gives_none, ended, lambda: self._tell_mux(stream, events.absent()))

    def _decoder_threads(self, stream: int) -> int:
        """How many threads the decoder of a stream uses: all of them together as many as there are cores.

        More would win no speed, and each holds frames.
        """
        return max(1, len(os.sched_getaffinity(0)) // max(self._expected, stream + 1))

    def open(self, stream: Stream) -> bool:
        """Open a stream's source anew; return whether that could be begun.

        Raises:
            ConfigurationError: an element is missing.
        """
        again = stream.session is not None or stream.frames_in > 0
        self.close_source(stream)
        self._sessions += 1
        limit = max(1, self.options.frames - stream.frames_in) if self.options.frames else 0
        session = SourceBin(
            stream.source,
            f"{SOURCE}{stream.number}_{self._sessions}",
            stream.number,
            stream.flow,
            stream.policy,
            frame_limit=limit,
            decoder_threads=self._decoder_threads(stream.number),
            memory=self.memory,
            again=again,
        )
        stream.began(session)
        stream.gate.move(session.pad)
        if self._in_step is not None:
            self._in_step.watch(session.pad, stream.number)
        self.pipeline.add(session.bin)
        link_pads(session.bin.get_static_pad("src"), stream.mux_pad)
        if session.bin.sync_state_with_parent():
            return True
        # Left to itself it would be asked to start again by every later change of state, and fail that too.
        session.bin.set_locked_state(True)
        return False

    def set_region(self, stream: Stream) -> None:
        """Have the model be given the region that the stream's policy names, from the next frame on."""
        if (session := stream.session) is not None:
            session.set_region(stream.policy.region)
        else:  # the next source names its own
            self._tell_mux(stream, region_event(stream.number, None))

    def set_delivery(self, stream: Stream) -> None:
        """Have frames that wait give way to newer ones, or not, as the stream's policy says."""
        freshest = stream.policy.freshest(stream.source.live)
        self._tell_mux(stream, events.delivery(freshest))
        if self.queue is not None:
            self.queue.hold(stream.number, not freshest)

    def close_source(self, stream: Stream) -> None:
        """Close what is open of a stream; the stream stays, without frames, and what was known of its objects ends."""
        session = stream.session
        if session is None:
            return
        if self._in_step is not None:  # its thread waits perhaps
            self._in_step.leave(stream.number)
        deadline = time.monotonic() + _DRAINING
        while session.waiting and time.monotonic() < deadline:
            time.sleep(0.005)
        self._note_damage(stream, session)
        stream.flow.leave()
        outside = session.bin.get_static_pad("src")
        stream.ceased()
        blocked = session.waiting > 0 or stream.leaving
        if blocked:  # its thread waits for the model, perhaps for long; the frames that wait there are given up
            self._tell_mux(stream, Gst.Event.new_flush_start())
        if (peer := outside.get_peer()) is not None:
            outside.unlink(peer)
        session.bin.set_locked_state(True)
        with stuck.bounded(stream.source):
            session.bin.set_state(Gst.State.NULL)
        session.close()
        self.pipeline.remove(session.bin)
        self._trimmer.trim()
        if blocked:
            self._tell_mux(stream, Gst.Event.new_flush_stop(True))
        if not stream.ending:
            self._tell_mux(stream, events.absent())
            self._tell_mux(stream, events.stream_reset(stream.number))

    def finish(self, stream: Stream) -> None:
        """End a stream for the elements behind the mux."""
        if stream.finished or stream.mux_pad is None:
            return
        stream.finished = True
        if stream.mux_pad.get_sticky_event(Gst.EventType.STREAM_START, 0) is None:
            self._tell_mux(stream, Gst.Event.new_stream_start(f"stream_{stream.number}"))
        self._tell_mux(stream, Gst.Event.new_eos())

    def leave(self, stream: Stream, seconds: float) -> None:
        """Take away the mux pad of a stream whose source was closed; wait so long at most for its frames to pass."""
        pad, stream.mux_pad = stream.mux_pad, None
        if pad is None:
            return
        self.collector.expected[stream.number] = passed = threading.Event()
        announced = pad.get_sticky_event(Gst.EventType.STREAM_START, 0) is not None
        self.count_replaced(stream, self.mux_stats())
        self.mux.release_request_pad(pad)
        if announced:  # else nothing behind the mux has heard of it
            passed.wait(seconds)
        self.collector.expected.pop(stream.number, None)

    def drop_branch(self, stream: Stream) -> None:
        """Take away what stands behind the demuxer for a stream; its frames have left, or are given up."""
        self.collector.leave(stream.number)
        self.behind.forget(stream.number)
        if self._members is not None:
            self._members.forget(stream.number)
        if self.queue is not None:
            self.queue.leave(stream.number)
        self.endings.leave(stream)

    # For the whole run

    def place_of(self, message: Gst.Message, streams: Sequence[Stream]) -> Place | None:
        """Return what a message comes from, see `places.find`."""
        endings = self.endings
        return find(message, streams, pipeline=self.pipeline, splitter=endings.demuxer, whole=endings.whole)

    def inferred_with_errors(self) -> int:
        """Frames that the model failed on and that were passed on without detections."""
        return _count_of(self.infer, "errors")

    def model_seconds(self) -> float:
        """Seconds that all calls of the model took."""
        return float(self.infer.get_property("stats").get_value("model-ms-total")) / 1e3

    def unconfirmed(self) -> int:
        """Objects that the tracker removed, since they belonged to no confirmed track."""
        return 0 if self.tracker is None else _count_of(self.tracker, "removed")

    def mux_stats(self) -> Gst.Structure:
        """The muxer's counters, of all streams: to be read once for many."""
        return self.mux.get_property("stats")

    def count_replaced(self, stream: Stream, stats: Gst.Structure) -> None:
        """Take note of the frames of a stream that gave way to newer ones in the mux, by its counters."""
        # The counter is gone with the pad.
        stream.replaced = max(stream.replaced, _mux_count(stats, stream, "replaced"))

    def waiting(self, stream: Stream, stats: Gst.Structure) -> int:
        """Frames of a stream that wait in the mux, by its counters."""
        gone = sum(_mux_count(stats, stream, name) for name in _GONE_FROM_MUX)
        return max(0, _mux_count(stats, stream, "frames-in") - gone)

    def close(self, streams: Sequence[Stream]) -> None:
        """Stop everything and let go of what would keep it alive."""
        for stream in streams:
            stream.ending = True
            stream.worker.submit(partial(self.close_source, stream))
        deadline = time.monotonic() + _CLOSING
        for stream in streams:
            stream.worker.join(max(0.0, deadline - time.monotonic()))
        for stream in streams:
            session = stream.session
            if session is not None:  # it hangs; its own thread goes on trying
                session.bin.set_locked_state(True)
                session.close()
        self.pipeline.set_state(Gst.State.NULL)
        self.endings.close()
        self._lent.forget()

    def _note_damage(self, stream: Stream, session: SourceBin) -> None:
        damage = session.damage() if session.ended and stream.ending and not self.stopped else []
        stream.summary.damaged = stream.summary.damaged or bool(damage)
        stream.summary.warnings += damage

    def _tell_mux(self, stream: Stream, event: Gst.Event) -> None:
        if stream.mux_pad is not None:
            stream.mux_pad.send_event(event)

    def _make_infer(self, *, waits: bool) -> Gst.Element:
        model = self.options.model
        name = "none" if model is None else self._lent.name_of(model) or "none"
        infer = make_element("sluiceinfer")
        for prop, value in self.options.infer_properties(name).items():
            infer.set_property(prop, value)
        if waits:
            infer.set_property("in-flight", _FILES_IN_FLIGHT)
        return infer


def _mux_count(stats: Gst.Structure, stream: Stream, name: str) -> int:
    """One of the mux's counters of a stream; 0 where it has no pad."""
    found, value = stats.get_uint64(f"sink_{stream.number}-{name}")
    return int(value) if found else 0


def _count_of(element: Gst.Element, name: str) -> int:
    """One of an element's counters."""
    found, value = element.get_property("stats").get_uint64(name)
    return value if found else 0
