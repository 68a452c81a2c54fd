"""What the engine does with its streams: has the supervisor's decisions carried out, and says what happened."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import gi

gi.require_version("Gst", "1.0")
from gi.repository import Gst

from sluice.app.credentials import redact
from sluice.app.gst import describe, reason_in
from sluice.app.source_setup import UnknownHost, check_host, diagnose
from sluice.app.sources import Source
from sluice.app.streams.events import EventLog
from sluice.app.streams.explaining import explain
from sluice.app.streams.faults import classify
from sluice.app.streams.policy import StreamPolicy
from sluice.app.streams.states import CaptureTime, StreamState, StreamStatus
from sluice.app.streams.stream import Stream
from sluice.app.streams.supervisor import Action, Supervisor
from sluice.app.summary import Summary
from sluice.errors import SluiceError

if TYPE_CHECKING:
    from sluice.app.graph import Graph
    from sluice.app.source_bin import SourceBin

_logger = logging.getLogger(__name__)
_MOST_TEXTS = 20
_LEAVING = 2.0  # seconds that the frames of a removed stream have to pass, and then its file to be finished
_HOW_IT_IS_OPENED = ("delivery", "decoder", "transport", "latency_ms", "loop")
_SILENT = (StreamState.CONNECTING, StreamState.REMOVED)
"""States that are no event: the first follows an event always, the second has one of its own when all is done."""


class Tending:
    """Used by the engine's thread, but for `maker`, `join` and `status`."""

    def __init__(
        self,
        graph: Graph,
        log: EventLog,
        summary: Summary,
        post: Callable[[Callable[[], None]], None],
        service: bool,
        random: Callable[[], float],
    ) -> None:
        """Tend the streams of a graph.

        Args:
            graph: what they are part of.
            log: where it is said what happens to them.
            summary: the run's.
            post: has something done by the engine's thread.
            service: whether the run goes on for ever.
            random: numbers from 0 to 1.
        """
        self._graph = graph
        self._log = log
        self._summary = summary
        self._post = post
        self._service = service
        self._random = random

    def maker(self, source: Source, policy: StreamPolicy) -> Callable[[int, str], Stream]:
        """Return what makes a stream of a number and a name."""

        def make(number: int, name: str) -> Stream:
            supervisor = Supervisor(
                policy,
                live=source.live,
                remote=source.remote,
                service=self._service,
                clock=time.monotonic,
                random=self._random,
                noted=lambda state, reason: self._noted(stream, state, reason),
            )
            stream = Stream(number, name, source, policy, supervisor)
            return stream

        return make

    # What the engine is asked for

    def join(self, stream: Stream) -> None:
        """Give a stream its place in the graph, unless it has that from before the start; on its worker."""
        try:
            if stream.mux_pad is None:
                self._graph.join(stream)
            self._graph.brief_mux(stream)
        except Exception as error:  # whatever it is: it concerns this stream alone, and who looks at it must see it
            _note_unexpected(stream, error)
            reason = redact(str(error) or type(error).__name__)
            self._post(lambda: self._do(stream, stream.supervisor.give_up(reason)))

    def begin(self, stream: Stream) -> None:
        """Open a stream for the first time or anew."""
        if not stream.leaving:
            self._do(stream, stream.supervisor.begin())

    def end(self, stream: Stream) -> None:
        """End a stream behind the frames that it has given."""
        if stream.ending:
            return
        stream.ending = True
        stream.worker.submit(lambda: self._end_source(stream))

    def remove(self, stream: Stream, done: Callable[[], None]) -> None:
        """Take a stream out of the graph; `done` is called when nothing is left of it."""
        stream.supervisor.removed()

        def take_out() -> None:
            for step in (
                lambda: self._graph.close_source(stream),
                lambda: self._graph.leave(stream, _LEAVING),
                lambda: self.count([stream]),
                lambda: stream.branch is None or stream.branch_ended.wait(_LEAVING),
                lambda: self.count([stream]),
                lambda: self._graph.drop_branch(stream),
            ):
                try:
                    step()
                except Exception:  # such as outputs that do not answer: else its name would be taken for ever
                    _logger.exception("the stream %s was not taken out whole", stream.name)
            self._log.add("stream-removed", stream.name, f"{stream.source.shown} is removed", number=stream.number)
            done()

        stream.worker.submit(take_out)

    def update(self, stream: Stream, policy: StreamPolicy) -> None:
        """Go on by another policy."""
        old, stream.policy, stream.supervisor.policy = stream.policy, policy, policy
        stream.flow.set_rate(policy.fps)
        self._log.add("stream-updated", stream.name, "the stream has another policy")
        if any(getattr(policy, name) != getattr(old, name) for name in _HOW_IT_IS_OPENED):
            stream.worker.submit(lambda: self._graph.set_delivery(stream))
            self.begin(stream)
        elif policy.region != old.region:
            stream.worker.submit(lambda: self._graph.set_region(stream))

    # What happens

    def fault(self, stream: Stream, message: Gst.Message) -> None:
        """Take note of an error of a stream's source."""
        session = stream.session
        if session is not None and session.ended_on_request:  # what it complains about then is no failure
            return
        text, debug = describe(message)
        said, found = redact(f"GStreamer: {text}{reason_in(debug)}"), classify(message)
        if stream.supervisor.state == StreamState.FAILED:
            self._note_error(stream, explain(found, stream.source, said))
        # An element that was given nothing says that it understands nothing, sometimes before the one says that failed.
        vague = found in (StreamState.LOST, StreamState.UNSUPPORTED)
        if vague and stream.source.remote and not stream.sight().frames:
            stream.worker.submit(lambda: self._diagnose(stream, session, found, said))
        else:
            self._do(stream, stream.supervisor.fault(found, explain(found, stream.source, said)))

    def _diagnose(self, stream: Stream, session: SourceBin | None, found: StreamState, said: str) -> None:
        """Find out why a source gave nothing where its elements do not say; on the stream's worker."""
        state, said = diagnose(stream.source) or (found, said)
        reason = explain(state, stream.source, redact(said))
        if stream.session is session:
            self._post(lambda: self._do(stream, stream.supervisor.fault(state, reason)))

    def give_up(self, stream: Stream, message: Gst.Message) -> None:
        """Take note of an error behind the mux that ends one stream."""
        text, debug = describe(message)
        reason = redact(text + reason_in(debug))
        self._note_error(stream, reason)  # also of a stream that has ended and whose file cannot be
        self._do(stream, stream.supervisor.give_up(reason))

    def warned(self, stream: Stream, message: Gst.Message) -> bool:
        """Keep a warning that may say why a source ends; return whether it is one, which is told with the end."""
        of_reading = bool(message.parse_warning()[0].matches(Gst.ResourceError.quark(), int(Gst.ResourceError.READ)))
        if of_reading:
            stream.broke = redact(describe(message)[0])
        return of_reading

    def branch_ended(self, bin: Gst.Element, streams: Sequence[Stream]) -> None:
        """Take note that everything of a branch is written."""
        for stream in streams:
            if stream.branch is not None and stream.branch.bin == bin:
                stream.branch_ended.set()

    def look(self, stream: Stream, now: float) -> None:
        """Look at a stream and do what is due."""
        stream.measure(now)
        if stream.leaving:
            return
        if stream.ending:
            if stream.source_ended and not stream.closing:
                self._close_and_finish(stream)
            return
        session, counts = stream.session, stream.flow.read()
        if session is not None:
            self._look_at_region(stream, session.region_fault)
        if session is not None and counts.ended:
            self._source_ended(stream)
            return
        if session is not None:
            session.give_up_if_empty(now)
        self._do(stream, stream.supervisor.look(stream.sight()))
        self._look_for_changes(stream)

    def _source_ended(self, stream: Stream) -> None:
        session = stream.session
        if session is None or stream.supervisor.next_attempt is not None:
            return
        frames = stream.sight().frames
        if session.ended_on_request:
            self._do(stream, stream.supervisor.finish())
        else:
            self._do(stream, stream.supervisor.ended(frames, stream.broke))

    def _look_for_changes(self, stream: Stream) -> None:
        counts, session = stream.flow.read(), stream.session
        if counts.jumps != stream.jumps:
            stream.jumps = counts.jumps
            stream.supervisor.changed(
                StreamState.CLOCK_JUMPED, f"the sender's clock jumped by {counts.last_jump:+.1f} s"
            )
        if session is None or not stream.supervisor.plays:
            return
        _, width, height = session.picture()
        if width and stream.size not in ((0, 0), (width, height)):
            was = "{}x{}".format(*stream.size)
            stream.supervisor.changed(StreamState.FORMAT_CHANGED, f"{was} became {width}x{height}")
        if width:
            stream.size = (width, height)
        codec = session.codec
        if codec and stream.codec not in ("", codec):
            stream.supervisor.changed(StreamState.CODEC_CHANGED, f"{stream.codec} became {codec}")
        stream.codec = codec or stream.codec

    def _look_at_region(self, stream: Stream, fault: str) -> None:
        if fault == stream.region_fault:
            return
        stream.region_fault = fault
        if fault:
            text = f"{fault}; the model is given the whole picture"
            if len(stream.summary.warnings) < _MOST_TEXTS:
                stream.summary.warnings.append(text)
            self._log.add("stream-region-refused", stream.name, f"{stream.source.shown}: {text}", reason=fault)

    # What is known

    def statuses(self, streams: Sequence[Stream]) -> list[StreamStatus]:
        """Return what each stream is doing; the muxer's counters, which are of all, are read once."""
        stats = self._graph.mux_stats()
        return [self.status(stream, stats) for stream in streams]

    def status(self, stream: Stream, stats: Gst.Structure | None = None) -> StreamStatus:
        """Return what a stream is doing, by the muxer's counters if they were read."""
        queue, due, clock = self._graph.queue, stream.supervisor.next_attempt, time.monotonic()
        behind = queue.dropped(stream.number) if queue is not None else 0
        stats = self._graph.mux_stats() if stats is None else stats
        self._graph.count_replaced(stream, stats)
        retry = None if due is None else time.time() + max(0.0, due - clock)
        return stream.status(behind, self._graph.waiting(stream, stats), self._capture(stream), clock, retry)

    def count(self, streams: Sequence[Stream]) -> None:
        """Bring the numbers of the streams' summaries up to date."""
        for stream, status in zip(streams, self.statuses(streams), strict=True):
            summary = stream.summary
            summary.frames_in, summary.frames_out = status.frames_in, stream.frames_out
            if stream.counts is not None:
                summary.objects, summary.tracks = stream.counts.objects, stream.counts.tracks
            summary.dropped, summary.overtaken = status.dropped, status.overtaken
            summary.reconnects, summary.decoder, summary.memory = status.reconnects, status.decoder, stream.memory

    def _capture(self, stream: Stream) -> CaptureTime:
        source, counts = self._graph.options.capture_of(stream.source), stream.flow.read()
        known = counts.captured if source == "rtcp" else counts.arrived
        return source if source is not None and known else "none"

    # What is done

    def _do(self, stream: Stream, action: Action | None) -> None:
        if action == Action.OPEN:
            stream.broke = ""
            stream.worker.submit(lambda: self._open(stream))
        elif action == Action.CLOSE or (action == Action.END and self._service):
            stream.worker.submit(lambda: self._graph.close_source(stream))
        elif action == Action.END:
            self.end(stream)

    def _open(self, stream: Stream) -> None:
        if stream.leaving or stream.ending:
            return
        try:
            check_host(stream.source)
            begun = self._graph.open(stream)
        except UnknownHost as error:
            self._graph.close_source(stream)
            state = StreamState.UNKNOWN_HOST
            reason = explain(state, stream.source, str(error))
        except SluiceError as error:
            reason, state = redact(str(error)), StreamState.UNSUPPORTED
        except Exception as error:
            _note_unexpected(stream, error)
            reason, state = redact(str(error) or type(error).__name__), StreamState.LOST
        else:
            if begun:
                return
            state = StreamState.REFUSED
            reason = explain(state, stream.source, "it cannot be opened")
        # What the source itself says of it is on the bus, and heard before this.
        self._post(lambda: self._do(stream, stream.supervisor.fault(state, reason)))

    def _end_source(self, stream: Stream) -> None:
        session = stream.session
        if session is None or stream.source_ended or not session.end():
            self._post(lambda: self._close_and_finish(stream))

    def _close_and_finish(self, stream: Stream) -> None:
        if stream.closing:
            return
        stream.closing = True

        def finish() -> None:
            self._graph.close_source(stream)
            self._graph.finish(stream)

        stream.worker.submit(finish)

    def _noted(self, stream: Stream, state: StreamState, reason: str) -> None:
        stream.since = time.time()
        if state == StreamState.FAILED:
            self._note_error(stream, reason)
        if state not in _SILENT and (state, reason) != stream.announced:  # one event, however many attempts
            stream.announced = (state, reason)
            text = f"{stream.source.shown}: {state}" + (f": {reason}" if reason else "")
            self._log.add(f"stream-{state}", stream.name, text, state=str(state), reason=reason)

    def _note_error(self, stream: Stream, reason: str) -> None:
        noted, text = stream.summary.errors, f"{stream.source.shown}: {reason}"
        if len(noted) < _MOST_TEXTS and text not in noted:
            noted.append(text)


def _note_unexpected(stream: Stream, error: Exception) -> None:
    """Keep the traceback of an error that is none of ours."""
    if not isinstance(error, SluiceError):
        _logger.error("the stream %s failed", stream.name, exc_info=error)
