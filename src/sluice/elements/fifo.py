"""The one queue of an in-flight element: buffers and serialized events, in the order they came. Without GStreamer."""

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any


class Entry:
    """One buffer or one serialized event on its way through the element.

    Attributes:
        held: a list with the buffer's wrapper, empty for an event; whoever pushes the buffer empties it.
        event: the event, or None for a buffer.
        pending: the result the buffer waits for, or None when it waits for nothing.
    """

    __slots__ = ("event", "held", "pending")

    def __init__(self, buffer: Any = None, event: Any = None) -> None:
        self.held = [] if buffer is None else [buffer]
        self.event = event
        self.pending: Future[Any] | None = None


class Fifo:
    """Buffers and events in order of arrival, with a limit on the buffers; waiters are woken by `flush` and `stop`.

    One thread puts (the sink pad's), one thread takes (the source pad's task), any thread may flush or stop. Nothing
    is called with the lock held.

    Args:
        limit: called at every put; how many buffers may be inside, at least 1.
    """

    def __init__(self, limit: Callable[[], int]) -> None:
        self._limit = limit
        self._entries: deque[Entry] = deque()
        self._changed = threading.Condition()
        self._stopped = True
        self._flushing = False
        self._taken: int | None = None  # the thread that works on an entry it took
        self._reserved = 0

    def start(self) -> None:
        """Begin to accept and deliver, empty."""
        with self._changed:
            self._entries.clear()
            self._stopped = self._flushing = False
            self._reserved = 0
            self._changed.notify_all()

    def stop(self) -> None:
        """Refuse everything, abandon what is inside and wake every waiter."""
        self._end(stopped=True)

    def flush(self) -> None:
        """Refuse everything until `resume`, abandon what is inside and wake every waiter but the taking thread."""
        self._end(stopped=False)

    def _end(self, *, stopped: bool) -> None:
        with self._changed:
            self._stopped = self._stopped or stopped
            self._flushing = True
            abandoned = list(self._entries)
            self._entries.clear()
            self._reserved = 0
            self._changed.notify_all()
        for entry in abandoned:
            if entry.pending is not None:
                entry.pending.cancel()

    def settle(self) -> None:
        """During a flush, wait until the taking thread has finished with what it took before."""
        with self._changed:
            me = threading.get_ident()
            self._changed.wait_for(lambda: self._stopped or self._taken in (None, me))

    def resume(self) -> None:
        """Accept again after a flush."""
        with self._changed:
            self._flushing = self._stopped
            self._changed.notify_all()

    def reserve(self) -> bool:
        """Wait for room for one more buffer and take it; False when flushing or stopped."""
        with self._changed:
            self._changed.wait_for(lambda: self._flushing or self._reserved < max(1, self._limit()))
            if self._flushing:
                return False
            self._reserved += 1
            return True

    def put(self, entry: Entry) -> bool:
        """Append an event, or a buffer for which `reserve` made room; False when flushing or stopped."""
        with self._changed:
            accepted = not self._flushing
            if accepted:
                self._entries.append(entry)
                self._changed.notify_all()
        if entry.pending is not None:
            if accepted:
                entry.pending.add_done_callback(self._wake)
            else:
                entry.pending.cancel()
        return accepted

    def _wake(self, _pending: "Future[Any]") -> None:
        with self._changed:
            self._changed.notify_all()

    def take(self) -> Entry | None:
        """Wait until the oldest entry is ready, remove and return it; None when stopped.

        During a flush it goes on waiting for what comes afterwards.
        """
        with self._changed:
            self._taken = None
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._stopped or self._head_is_ready())
            if self._stopped:
                return None
            entry = self._entries.popleft()
            self._taken = threading.get_ident()
            if entry.event is None:
                self._reserved -= 1
                self._changed.notify_all()
            return entry

    def _head_is_ready(self) -> bool:
        if not self._entries:
            return False
        pending = self._entries[0].pending
        return pending is None or pending.done()

    def drain(self) -> bool:
        """Wait until everything inside has left; False when flushing or stopped."""
        with self._changed:
            self._changed.wait_for(lambda: self._flushing or (not self._entries and self._taken is None))
            return not self._flushing

    def __len__(self) -> int:
        return len(self._entries)
