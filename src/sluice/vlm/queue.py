"""The bounded queue between streams and a slow model."""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")

POLICIES = ("newest", "oldest", "wait")


class StreamQueue(Generic[T]):
    """A queue per stream, taken from in turn, so that a stream with many segments does not starve the others.

    A full queue of a stream drops its own: with "newest" the one that waited longest, with "oldest" the one that comes.
    With "wait" nothing is dropped here; what waits is bounded by the buffers that are held back for it.

    Args:
        policy: of `POLICIES`.
        limit: how many may wait per stream, at least 1.
    """

    def __init__(self, policy: str, limit: int) -> None:
        self._policy = policy
        self._limit = limit
        self._streams: OrderedDict[int, deque[T]] = OrderedDict()
        self._changed = threading.Condition()
        self._closed = False

    def put(self, stream: int, item: T) -> T | None:
        """Add an item; return the one that was dropped for it, perhaps itself."""
        with self._changed:
            if self._closed:
                return item
            waiting = self._streams.setdefault(stream, deque())
            dropped: T | None = None
            if self._policy != "wait" and len(waiting) >= self._limit:
                if self._policy == "oldest":
                    return item
                dropped = waiting.popleft()
            waiting.append(item)
            self._changed.notify()
            return dropped

    def get(self) -> T | None:
        """Wait for an item of the stream whose turn it is; None once closed."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self._streams)
            if self._closed:
                return None
            stream, waiting = self._streams.popitem(last=False)
            item = waiting.popleft()
            if waiting:
                self._streams[stream] = waiting
            return item

    def remove(self, unwanted: Callable[[T], bool]) -> list[T]:
        """Take out the items for which a function is true, and return them."""
        with self._changed:
            removed = []
            for stream, waiting in list(self._streams.items()):
                removed += [item for item in waiting if unwanted(item)]
                kept = deque(item for item in waiting if not unwanted(item))
                if kept:
                    self._streams[stream] = kept
                else:
                    del self._streams[stream]
            return removed

    def close(self) -> list[T]:
        """Refuse all further items, wake every waiter, and return what was still there."""
        with self._changed:
            self._closed = True
            left = [item for waiting in self._streams.values() for item in waiting]
            self._streams.clear()
            self._changed.notify_all()
            return left

    def __len__(self) -> int:
        with self._changed:
            return sum(map(len, self._streams.values()))
