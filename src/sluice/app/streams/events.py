"""What happened to the streams: a bounded log that can be read from any point and subscribed to."""

from __future__ import annotations

import itertools
import logging
import queue
import threading
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

MOST_EVENTS = 1000
"""Events kept; of more, the oldest are forgotten."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Event:
    """One thing that happened.

    Attributes:
        time: when, in seconds since 1970 (UTC).
        kind: what, in kebab-case: "stream-added", "stream-playing", "stream-lost", "model-swapped", ...
        stream: name of the stream it happened to; None for the whole pipeline.
        text: for people, without credentials.
        details: for programs.
        number: place in the order of all events of the log, from 1.
    """

    time: float
    kind: str
    stream: str | None
    text: str
    details: Mapping[str, Any] = field(default_factory=dict)
    number: int = 0


class EventLog:
    """The events of one pipeline, oldest first. Every method may be called by any thread."""

    def __init__(self, clock: Callable[[], float], most: int = MOST_EVENTS) -> None:
        """Make an empty log that keeps `most` events; `clock` gives seconds since 1970."""
        self._clock = clock
        self._events: deque[Event] = deque(maxlen=most)
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)
        self._subscribers: dict[int, Callable[[Event], None]] = {}
        self._keys = itertools.count()
        self._inbox: queue.SimpleQueue[Event | None] | None = None

    def add(self, kind: str, stream: str | None, text: str, **details: Any) -> Event:
        """Note an event and tell the subscribers; waits for nobody."""
        with self._lock:
            event = Event(self._clock(), kind, stream, text, details, next(self._numbers))
            self._events.append(event)
            if self._inbox is not None:
                self._inbox.put(event)
        return event

    def since(self, number: int = 0) -> list[Event]:
        """Return the events behind the one of that number that are still kept; 0: all."""
        with self._lock:
            return [event for event in self._events if event.number > number]

    def subscribe(self, callback: Callable[[Event], None]) -> Callable[[], None]:
        """Have every event from now on passed to a function, in order, on the log's own thread.

        A slow subscriber delays the others and nothing else; what it raises is logged.

        Returns:
            a function that ends it.
        """
        key = next(self._keys)
        with self._lock:
            self._subscribers[key] = callback
            if self._inbox is None:
                self._inbox = queue.SimpleQueue()
                threading.Thread(target=self._tell, args=(self._inbox,), name="sluice-events", daemon=True).start()

        def unsubscribe() -> None:
            with self._lock:
                self._subscribers.pop(key, None)

        return unsubscribe

    def close(self) -> None:
        """Let the subscribers have what happened so far, and end their thread."""
        with self._lock:
            inbox, self._inbox = self._inbox, None
        if inbox is not None:
            inbox.put(None)

    def _tell(self, inbox: queue.SimpleQueue[Event | None]) -> None:
        while (event := inbox.get()) is not None:
            with self._lock:
                callbacks = list(self._subscribers.values())
            for callback in callbacks:
                try:
                    callback(event)
                except Exception:
                    _log.exception("a subscriber of the pipeline's events failed at %s", event.kind)
