"""One stream of a pipeline: its source of the moment, its place in the graph, and what has been counted of it."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from sluice.app.flow import StreamFlow
from sluice.app.frame_queue import Gate
from sluice.app.sources import Source
from sluice.app.streams.policy import StreamPolicy
from sluice.app.streams.states import CaptureTime, StreamState, StreamStatus
from sluice.app.streams.supervisor import Sight, Supervisor
from sluice.app.streams.worker import Worker
from sluice.app.summary import StreamSummary

if TYPE_CHECKING:
    from sluice.app.collector import StreamCounts
    from sluice.app.source_bin import SourceBin
    from sluice.app.streams.branch import Branch

_RATE_SECONDS = 2.0  # over which the rate is measured
_RATE_POINTS = 5
_PACKETS_IN_DECODER = 20  # more than any decoder holds back before it gives a picture


class Stream:
    """A stream keeps its number, name, mux pad, branch and counts while its source may be opened many times.

    Attributes:
        number: of its mux pad, and of its frames.
        name: unique in the pipeline.
        source: what is opened.
        policy: the user's choice for it.
        supervisor: decides when it is opened and closed; the engine's.
        flow: the end of its source.
        gate: holds it back where the program is slow.
        worker: opens and closes its source.
        summary: what is reported at the end.
        members: JSON values that its messages have besides its name.
        mux_pad: its sink pad of the mux, once it has joined the graph.
        branch: what stands behind its pad of the demuxer, if there is one, and that pad.
        counts: what was seen of it behind the tracker.
        replaced: frames that gave way to newer ones in the mux, as last counted.
        ending: whether the source is to end and the stream with it.
        leaving: whether the stream is being removed.
        closing: whether the last steps of that are on their way.
        finished: whether the stream's end has been sent into the mux.
        branch_ended: set once everything of the branch is written.
        broke: what the present source said before it ended, where that was no proper end.
        size: width and height of the pictures in pixels as last seen; zeros before.
        codec: how they were encoded, as last seen; "" before.
        announced: the state and the reason that the last event told of.
        jumps: how many jumps of the sender's clock have been reported.
        region_fault: what has been reported of a region that its picture has nothing of.
    """

    def __init__(self, number: int, name: str, source: Source, policy: StreamPolicy, supervisor: Supervisor) -> None:
        """Describe a stream that is not part of a graph yet."""
        self.number = number
        self.name = name
        self.source = source
        self.policy = policy
        self.supervisor = supervisor
        self.flow = StreamFlow(source.live)
        self.flow.set_rate(policy.fps)
        self.gate = Gate()
        self.worker = Worker(f"sluice-stream-{number}")
        self.summary = StreamSummary(source.shown, name=name)
        self.members: Mapping[str, Any] = {}
        self.mux_pad: Any = None
        self.branch: Branch | None = None
        self.branch_pad: Any = None
        self.counts: StreamCounts | None = None
        self.replaced = 0
        self.ending = False
        self.leaving = False
        self.closing = False
        self.finished = False
        self.branch_ended = threading.Event()
        self.broke = ""
        self.size = (0, 0)
        self.codec = ""
        self.jumps = 0
        self.region_fault = ""
        self.announced = (StreamState.CONNECTING, "")
        self.since = time.time()
        self.warned = 0
        # The present source, and the frames and dropped frames of those before: exchanged in one step, so that whoever
        # adds them up counts nothing twice.
        self._books: tuple[SourceBin | None, int, int] = (None, 0, 0)
        self._opened_frames = 0
        self._seen = (0, 0)  # frames of the present source, and the packets there were when the last of them was new
        self._points: deque[tuple[float, int]] = deque(maxlen=_RATE_POINTS)
        self._picture = ("", 0, 0)
        self._memory = ""

    # The source of the moment; changed by the worker, read by everybody

    @property
    def session(self) -> SourceBin | None:
        """The present source, None while there is none."""
        return self._books[0]

    def began(self, session: SourceBin) -> None:
        """Take note of a new source."""
        self._opened_frames = self.flow.read().arrived
        self._seen = (0, 0)
        _, frames, dropped = self._books
        self._books = (session, frames, dropped)

    def ceased(self) -> None:
        """Take note that the present source is gone, and keep its counts."""
        session, frames, dropped = self._books
        if session is not None:
            self._picture = session.picture()
            self._memory = session.memory or self._memory
            self._books = (None, frames + session.frames_in, dropped + session.frames_dropped)

    @property
    def memory(self) -> str:
        """Which memory its frames go to the mux in, see `SourceBin.memory`; that of the last source between two."""
        session = self.session
        return (session.memory if session is not None else "") or self._memory

    # What is seen of it

    def sight(self) -> Sight:
        """Return what the supervisor looks at."""
        session, counts = self.session, self.flow.read()
        if session is None:
            return Sight()
        frames = counts.arrived - self._opened_frames
        packets = session.packets
        if frames != self._seen[0]:
            self._seen = (frames, packets)
        # One packet may be on its way through the decoder; so many can't be.
        undecoded = packets - self._seen[1] > _PACKETS_IN_DECODER
        return Sight(frames, counts.last_arrival if frames else None, session.waiting > 0, undecoded)

    @property
    def source_ended(self) -> bool:
        """Whether the present source has given all it had; true too where there is none."""
        return self.session is None or self.flow.read().ended

    @property
    def frames_in(self) -> int:
        """Frames that left the decoder, over all restarts."""
        session, frames, _ = self._books
        return frames + (session.frames_in if session is not None else 0)

    @property
    def frames_overtaken(self) -> int:
        """Frames that gave way to newer ones in front of the model: in the queue of their source, and in the mux."""
        session, _, dropped = self._books
        return self.replaced + dropped + (session.frames_dropped if session is not None else 0)

    @property
    def frames_dropped(self) -> int:
        """Frames left out by policy in front of the model: those that were overtaken, and those beyond a rate."""
        return self.frames_overtaken + self.flow.read().skipped

    @property
    def frames_seen(self) -> int:
        """Frames seen behind the tracker."""
        return 0 if self.counts is None else self.counts.frames

    @property
    def frames_out(self) -> int:
        """Frames that left the last element which keeps streams apart."""
        return self.frames_seen if self.branch is None else self.branch.frames_out

    def measure(self, now: float) -> None:
        """Look how many frames have come, so that a rate is known; `now` in seconds of any steady clock."""
        if not self._points or now - self._points[-1][0] >= _RATE_SECONDS / (_RATE_POINTS - 1):
            self._points.append((now, self.flow.read().arrived))

    @property
    def fps(self) -> float:
        """Frames per second that came lately."""
        points = list(self._points)
        if len(points) < 2:
            return 0.0
        return (points[-1][1] - points[0][1]) / (points[-1][0] - points[0][0])

    def status(
        self, dropped_behind: int, waiting: int, capture: CaptureTime, clock: float, next_retry: float | None
    ) -> StreamStatus:
        """Return the stream as it is now.

        Args:
            dropped_behind: frames left out behind the model.
            waiting: frames that wait in the mux.
            capture: where the frames' capture time comes from.
            clock: seconds of the monotonic clock.
            next_retry: in seconds since 1970, if one is due.
        """
        supervisor, counts, session = self.supervisor, self.flow.read(), self.session
        decoder, width, height = session.picture() if session is not None else self._picture
        return StreamStatus(
            name=self.name,
            number=self.number,
            uri=self.source.shown,
            live=self.source.live,
            state=supervisor.state,
            since=self.since,
            reason=supervisor.reason,
            frames_in=self.frames_in,
            frames_out=self.frames_seen,
            dropped=self.frames_dropped + dropped_behind,
            overtaken=self.frames_overtaken,
            waiting=waiting,
            fps=self.fps,
            reconnects=supervisor.reconnects,
            decoder=decoder or self._picture[0],
            width=width or self._picture[1],
            height=height or self._picture[2],
            last_frame_age=None if counts.last_arrival is None else max(0.0, clock - counts.last_arrival),
            next_retry=next_retry,
            capture_time_from=capture,
        )
