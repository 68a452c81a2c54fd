"""A bounded queue and the thread that empties it into a sink, so that no streaming thread waits for a disk."""

from __future__ import annotations

import enum
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from sluice.messages.sinks import Sink

_MOST = 256
"""Messages written at once: enough to share the cost of a transaction."""


class Overflow(enum.Enum):
    """What happens to a message when the queue is full."""

    WAIT = "wait"
    """The giver waits for room: nothing is lost, and a source that can wait (a file) runs at the sink's speed."""
    DROP_OLDEST = "drop-oldest"
    """The oldest message goes, and is counted: a live source never waits."""
    DROP_NEWEST = "drop-newest"
    """The new message goes, and is counted."""


@dataclass
class Counters:
    """How many messages came in and what became of them: queued = written + dropped + failed + those still waiting.

    Attributes:
        queued: given to the writer.
        written: written to the sink.
        dropped: given up because the queue was full, or waiting at a stop that could not wait.
        failed: refused by the sink.
    """

    queued: int = 0
    written: int = 0
    dropped: int = 0
    failed: int = 0

    @property
    def settled(self) -> int:
        """How many of the queued ones do not wait any more."""
        return self.written + self.dropped + self.failed


class Writer:
    """Writes messages to a sink on a daemon thread of its own, in the order given.

    The sink belongs to the writer and is closed on its thread. ``on_error`` is called there too: with the exception at
    the first message that fails, and again only after one has succeeded. Callbacks are called without a lock held.
    """

    def __init__(
        self,
        sink: Sink,
        *,
        capacity: int,
        overflow: Overflow,
        on_error: Callable[[Exception], None],
    ) -> None:
        """Start the thread.

        Args:
            sink: where to write.
            capacity: the most messages that wait, at least 1.
            overflow: what to do with one message more.
            on_error: told about a failure, see above.
        """
        self._sink = sink
        self._capacity = capacity
        self._overflow = overflow
        self._on_error = on_error
        self._changed = threading.Condition()
        self._waiting: deque[bytes | Callable[[], None]] = deque()
        self._messages = 0
        self._counters = Counters()
        self._released = False
        self._closing = False
        self._failing = False
        self._thread = threading.Thread(target=self._run, name="sluice-messages", daemon=True)
        self._thread.start()

    @property
    def counters(self) -> Counters:
        """A copy of the counters."""
        with self._changed:
            return Counters(**vars(self._counters))

    def put(self, *messages: bytes) -> None:
        """Queue messages; waits for room only with Overflow.WAIT, and not while `release` is in force."""
        with self._changed:
            for message in messages:
                self._queue(message)
            self._changed.notify_all()

    def _queue(self, message: bytes) -> None:
        """Queue one message; called with the lock."""
        if self._overflow is Overflow.WAIT and self._messages >= self._capacity:
            self._changed.notify_all()  # the thread does not know yet of what was queued just before
            self._changed.wait_for(lambda: self._messages < self._capacity or self._released)
        self._counters.queued += 1
        if self._messages >= self._capacity:
            if self._overflow is Overflow.DROP_NEWEST:
                self._counters.dropped += 1
                return
            self._drop_oldest()
        self._waiting.append(message)
        self._messages += 1

    def wait_written(self) -> None:
        """Wait until the sink has had all messages queued so far; not while `release` is in force."""
        with self._changed:
            queued = self._counters.queued
            self._changed.wait_for(lambda: self._counters.settled >= queued or self._released)

    def set_overflow(self, overflow: Overflow) -> None:
        """Change what a full queue does, from the next `put` on."""
        with self._changed:
            self._overflow = overflow

    def release(self) -> None:
        """Let every `put` through at once, for a flush or a stop; the oldest message goes when there is no room."""
        with self._changed:
            self._released = True
            self._changed.notify_all()

    def resume(self) -> None:
        """End `release`."""
        with self._changed:
            self._released = False

    def when_written(self, done: Callable[[], None]) -> None:
        """Call ``done`` on the writer's thread once all messages queued so far have been written out, or failed."""
        with self._changed:
            self._waiting.append(done)
            self._changed.notify_all()

    def close(self, timeout: float) -> bool:
        """Write what waits, close the sink and end the thread; False when that took longer than ``timeout`` seconds.

        Then the rest is given up, and counted as dropped; the thread ends when the sink lets go of it.
        """
        with self._changed:
            self._closing = self._released = True
            self._changed.notify_all()
        self._thread.join(timeout)
        with self._changed:
            while self._messages:
                self._drop_oldest()
        return not self._thread.is_alive()

    def _drop_oldest(self) -> None:
        """Give up the oldest message; callbacks among them keep their place."""
        del self._waiting[next(index for index, item in enumerate(self._waiting) if isinstance(item, bytes))]
        self._messages -= 1
        self._counters.dropped += 1

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._closing)
                if not self._waiting:
                    break
                taken = self._take()
                self._changed.notify_all()
            if isinstance(taken, list):
                self._write(taken)
            else:
                self._try(self._sink.flush)
                taken()
        self._try(self._sink.flush)
        self._try(self._sink.close)

    def _take(self) -> list[bytes] | Callable[[], None]:
        """Take a callback, or the messages up to the next one, from the front of what waits; called with the lock."""
        first = self._waiting.popleft()
        if not isinstance(first, bytes):
            return first
        taken = [first]
        while self._waiting and len(taken) < _MOST and isinstance(item := self._waiting[0], bytes):
            taken.append(item)
            self._waiting.popleft()
        self._messages -= len(taken)
        return taken

    def _write(self, messages: list[bytes]) -> None:
        try:
            results = self._sink.write(messages)
        except Exception as error:
            results = [error] * len(messages)
        failed = sum(result is not None for result in results)
        with self._changed:
            self._counters.written += len(messages) - failed
            self._counters.failed += failed
            self._changed.notify_all()
        for result in results:
            self._note(result)

    def _try(self, action: Callable[[], None]) -> None:
        """Do something with the sink; report the first failure in a row."""
        try:
            action()
        except Exception as error:
            self._note(error)
        else:
            self._note(None)

    def _note(self, failure: Exception | None) -> None:
        report, self._failing = failure is not None and not self._failing, failure is not None
        if failure is not None and report:
            self._on_error(failure)
