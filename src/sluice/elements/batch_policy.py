"""When a batch of many streams leaves, and which frames are in it. Without GStreamer.

Each stream has a bounded queue of frames and of the events between them. One thread collects: it gets the events that
stand at the head of the queues as they come, and a batch when there are enough frames or the oldest has waited long
enough. An event is never taken before the frames that came before it in its stream, nor put into the middle of a batch.
"""

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

UNLIMITED = -1


@dataclass
class Settings:
    """The properties that decide when a batch leaves; they may change while the streams run.

    Attributes:
        batch_size: the most frames in a batch, at least 1.
        timeout: seconds after which a waiting frame leaves in a batch that is not full; negative: never.
        max_same_source_frames: the most frames of one stream in a batch, at least 1.
        queue_size: frames one stream may have waiting before `Batcher.put_frame` blocks.
        sync_window: with synchronised inputs (seconds before, seconds after): a frame takes part once the running time
            has passed its own by the first number, and is discarded when it has passed it by the sum; None without.
    """

    batch_size: int = 1
    timeout: float = 0.033
    max_same_source_frames: int = 1
    queue_size: int = 4
    sync_window: tuple[float, float] | None = None


@dataclass
class Counts:
    """Frames of one stream: that came in, left in a batch, or were discarded by a flush, a removal or for lateness."""

    frames_in: int = 0
    frames_out: int = 0
    discarded: int = 0
    late: int = 0


@dataclass(slots=True)
class Waiting:
    """One frame in a queue, or one event when ``event`` is not None."""

    frame: Any = None
    event: Any = None
    arrival: float = 0.0
    running_time: float = 0.0


@dataclass
class Stream:
    """One sink pad's queue and state; changed only with the batcher's lock held."""

    number: int
    queue: deque[Waiting] = field(default_factory=deque)
    frames: int = 0
    ended: bool = False
    flushing: bool = False
    removed: bool = False
    counts: Counts = field(default_factory=Counts)


@dataclass
class Step:
    """What `Batcher.collect` returns: events, or the frames of one batch, each with its stream; never both."""

    events: list[tuple[Stream, Any]] = field(default_factory=list)
    frames: list[tuple[Stream, Any]] = field(default_factory=list)


def _nothing(_event: Any) -> bool:
    """Keep no event."""
    return False


class Batcher:
    """The queues of all streams, and the rule by which batches leave them.

    The rule: a batch leaves when it holds ``min(batch_size, live streams * max_same_source_frames)`` frames, or when
    no stream can add to it, or ``timeout`` after the arrival of the oldest frame waiting. A live stream is one that
    has not ended. Because each waiting frame has its own deadline, a stream whose frames come faster than the
    timeout keeps its rate beside slower ones. Frames are taken one per stream and turn, beginning after the stream
    that was taken from last.

    Nothing is called with the lock held but ``clock`` and ``running_time``, which must not block.

    Args:
        settings: read at every decision.
        clock: seconds, for the timeout.
        running_time: the pipeline's running time in seconds, for synchronised inputs; None when there is none yet.
    """

    def __init__(
        self,
        settings: Settings,
        clock: Callable[[], float] = time.monotonic,
        running_time: Callable[[], float | None] = lambda: None,
    ) -> None:
        self.settings = settings
        self._clock = clock
        self._running_time = running_time
        lock = threading.RLock()
        self._changed = threading.Condition(lock)  # for the collector
        self._room = threading.Condition(lock)  # for streams that wait to put a frame
        # What the collector waits for: so many more frames, and whether it looks again by itself before.
        self._missing = 0
        self._has_deadline = False
        self._streams: dict[int, Stream] = {}
        self._notices: deque[tuple[Stream, Any]] = deque()
        self._last = -1
        self._stopped = True

    def start(self) -> None:
        """Begin to accept and deliver, with empty queues and no stream ended."""
        with self._changed:
            self._stopped = False
            for stream in self._streams.values():
                self._discard(stream, _nothing)
                stream.ended = stream.flushing = False

    def stop(self) -> None:
        """Refuse everything and wake every waiter; what is queued counts as discarded."""
        with self._changed:
            self._stopped = True
            self._notices.clear()
            for stream in self._streams.values():
                self._discard(stream, _nothing)
            self._wake_all()

    def add(self, number: int) -> Stream:
        """Add a stream and return it."""
        with self._changed:
            stream = self._streams[number] = Stream(number)
            self._wake_all()
            return stream

    def remove(self, stream: Stream, notice: Any) -> int:
        """Take a stream out at once, wake its waiter, and return how many of its frames were discarded.

        ``notice`` is delivered by `collect` as an event of the stream.
        """
        with self._changed:
            stream.removed = True
            discarded = self._discard(stream, _nothing)
            self._streams.pop(stream.number, None)
            if not self._stopped:
                self._notices.append((stream, notice))
            self._wake_all()
            return discarded

    def flush(self, stream: Stream, keep: Callable[[Any], bool]) -> None:
        """Refuse a stream's data until `resume` and discard what waits, but the events for which ``keep`` is true."""
        with self._changed:
            stream.flushing = True
            self._discard(stream, keep)
            self._wake_all()

    def resume(self, stream: Stream) -> None:
        """Accept a stream's data again after a flush; it has not ended any more."""
        with self._changed:
            stream.flushing = stream.ended = False
            self._wake_all()

    def put_frame(self, stream: Stream, frame: Any, running_time: float = 0.0) -> bool:
        """Queue a frame, waiting for room; False when the stream is flushing or removed, or everything stopped."""
        with self._changed:
            while stream.frames >= self.settings.queue_size and not self._refuses(stream):
                self._room.wait()
            if self._refuses(stream):
                return False
            stream.queue.append(Waiting(frame=frame, arrival=self._clock(), running_time=running_time))
            stream.frames += 1
            stream.counts.frames_in += 1
            if stream.frames <= self.settings.max_same_source_frames or self.settings.sync_window is not None:
                self._missing -= 1
                # The collector is not woken for a frame that can neither fill the batch nor set its deadline.
                if self._missing <= 0 or not self._has_deadline:
                    self._changed.notify_all()
            return True

    def put_event(self, stream: Stream, event: Any) -> bool:
        """Queue an event behind the frames that came before it; False as for `put_frame`."""
        with self._changed:
            if self._refuses(stream):
                return False
            stream.queue.append(Waiting(event=event))
            self._changed.notify_all()
            return True

    def mark_ended(self, stream: Stream) -> bool:
        """Note that a stream has ended, in reply to its event; return whether no stream is left that has not."""
        with self._changed:
            stream.ended = True
            self._changed.notify_all()
            return self._all_ended()

    def mark_live(self, stream: Stream) -> None:
        """Note that a stream that had ended begins again."""
        with self._changed:
            stream.ended = False

    def all_ended(self) -> bool:
        """Whether there are streams, and every one has ended."""
        with self._changed:
            return self._all_ended()

    def numbers(self) -> list[int]:
        """Return the numbers of the streams present."""
        with self._changed:
            return sorted(self._streams)

    def wake(self) -> None:
        """Let the waiters look again, after settings changed."""
        with self._changed:
            self._wake_all()

    def _wake_all(self) -> None:
        self._changed.notify_all()
        self._room.notify_all()

    def collect(self) -> Step | None:
        """Wait for events at the heads of the queues or for a batch, and return one or the other; None when stopped."""
        with self._changed:
            while not self._stopped:
                if events := self._take_events():
                    return Step(events=events)
                wait = self._seconds_to_wait()
                if wait is not None and wait <= 0:
                    if frames := self._take_frames():
                        return Step(frames=frames)
                    continue
                self._has_deadline = wait is not None
                self._changed.wait(wait)
            return None

    def _refuses(self, stream: Stream) -> bool:
        return self._stopped or stream.flushing or stream.removed

    def _all_ended(self) -> bool:
        return bool(self._streams) and all(stream.ended for stream in self._streams.values())

    def _discard(self, stream: Stream, keep: Callable[[Any], bool]) -> int:
        discarded, stream.frames = stream.frames, 0
        stream.counts.discarded += discarded
        stream.queue = deque(waiting for waiting in stream.queue if waiting.event is not None and keep(waiting.event))
        return discarded

    def _take_events(self) -> list[tuple[Stream, Any]]:
        """Remove and return one event: each may change what the next decision sees."""
        if self._notices:
            return [self._notices.popleft()]
        for stream in self._in_turn():
            if stream.queue and stream.queue[0].event is not None:
                return [(stream, stream.queue.popleft().event)]
        return []

    def _in_turn(self) -> list[Stream]:
        """Return the streams, beginning after the one that was taken from last."""
        numbers = sorted(self._streams)
        first = next((index for index, number in enumerate(numbers) if number > self._last), 0)
        return [self._streams[number] for number in numbers[first:] + numbers[:first]]

    def _ready(self, stream: Stream) -> tuple[int, bool]:
        """Return how many frames a stream can give now, and whether that is all it can give to this batch."""
        limit = self.settings.max_same_source_frames
        ready = 0
        for waiting in stream.queue:
            if waiting.event is not None:
                return ready, ready > 0
            if ready == limit:
                break
            if self._seconds_early(waiting) > 0:
                return ready, False
            ready += 1
        # A full queue cannot grow until something is taken from it.
        return ready, ready >= min(limit, self.settings.queue_size)

    def _seconds_to_wait(self) -> float | None:
        """Return how long until the next batch is due by what is known now; 0 for now, None for until a change."""
        if self.settings.sync_window is not None:
            self._discard_late()
        streams = [stream for stream in self._streams.values() if stream.queue or not stream.ended]
        states = [self._ready(stream) for stream in streams]
        total = sum(ready for ready, _ in states)
        live = sum(not stream.ended for stream in streams)
        full = min(self.settings.batch_size, max(1, live) * self.settings.max_same_source_frames)
        self._missing = full - total
        if total == 0:
            return self._seconds_until_on_time(streams)
        if total >= full or all(complete for _, complete in states):
            return 0.0
        waits = [] if (early := self._seconds_until_on_time(streams)) is None else [early]
        if self.settings.timeout >= 0:
            oldest = min(
                stream.queue[0].arrival for stream, (ready, _) in zip(streams, states, strict=True) if ready > 0
            )
            waits.append(oldest + self.settings.timeout - self._clock())
        return max(0.0, min(waits)) if waits else None

    def _take_frames(self) -> list[tuple[Stream, Any]]:
        """Remove and return the frames of a batch, one per stream and turn."""
        taken: list[tuple[Stream, Any]] = []
        turn = self._in_turn()
        left = {stream.number: self._ready(stream)[0] for stream in turn}
        while len(taken) < self.settings.batch_size and any(left.values()):
            for stream in turn:
                if left[stream.number] and len(taken) < self.settings.batch_size:
                    left[stream.number] -= 1
                    stream.frames -= 1
                    stream.counts.frames_out += 1
                    taken.append((stream, stream.queue.popleft().frame))
                    self._last = stream.number
        self._room.notify_all()
        return taken

    def _seconds_early(self, waiting: Waiting) -> float:
        """Return how long a frame has to wait to be on time with synchronised inputs; 0 or less when it is."""
        now = self._running_time() if self.settings.sync_window is not None else None
        if now is None or self.settings.sync_window is None:
            return 0.0
        return waiting.running_time + self.settings.sync_window[0] - now

    def _seconds_until_on_time(self, streams: list[Stream]) -> float | None:
        heads = [self._seconds_early(stream.queue[0]) for stream in streams if stream.queue]
        early = [seconds for seconds in heads if seconds > 0]
        return min(early) if early else None

    def _discard_late(self) -> None:
        """With synchronised inputs, discard the frames at the heads of the queues that have missed their window."""
        for stream in self._streams.values():
            while stream.queue and stream.queue[0].event is None and self.settings.sync_window is not None:
                if self._seconds_early(stream.queue[0]) >= -self.settings.sync_window[1]:
                    break
                stream.queue.popleft()
                stream.frames -= 1
                stream.counts.late += 1
                stream.counts.discarded += 1
                self._room.notify_all()
