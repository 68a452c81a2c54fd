"""What a service writes into its log while it runs: the model, and each change of a stream, as lines for people."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta

from sluice.app.allowance import Allowance
from sluice.app.remarks import REMARKS
from sluice.app.streams import Event, EventLog, StreamState

LOGGER = "sluice.serve"
"""Name of the logger that has the lines, faults as warnings; whoever sets up logging lets its infos through."""
_LOOK = 0.3  # seconds between looks at what has happened
_ENDING = 1.0  # seconds that a log which nobody reads may hold up the end
_ROUTINE = ("segment-finished", "clip-started", "clip-finished", "vlm-answered", "vlm-dropped")
_FAULTS = ("-failed", "-refused", "-lost", "-not-added", "-not-kept", "-warning")
_log = logging.getLogger(LOGGER)


@dataclass(frozen=True)
class Line:
    """One line of the log: its level, as `logging` has them, and its text."""

    level: int
    text: str


class Journal:
    """Makes lines of events, and writes them on a thread of its own: a log that is not read holds up nobody."""

    def __init__(
        self, events: EventLog, clock: Callable[[], float] = time.monotonic, *, begun: int = 0, all_kinds: bool = False
    ) -> None:
        """Make lines of every event that is kept, and of those to come.

        Args:
            events: what happens.
            clock: seconds that only go forward.
            begun: number of the last event of the start: streams that were added up to it are no news.
            all_kinds: also of what happens all day without meaning anything, such as a segment that is finished.
        """
        self._events = events
        self._clock = clock
        self._begun = begun
        self._left_out = () if all_kinds else _ROUTINE
        self._read = 0
        self._allowed: dict[tuple[str, str], Allowance[Line]] = {}
        self._states: dict[str, StreamState] = {}
        self._away: dict[str, float] = {}  # since when a stream gives no frames
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sluice-journal", daemon=True)

    def start(self) -> None:
        """Begin to write."""
        self._thread.start()

    def stop(self) -> None:
        """Write what has happened so far, and end; waits a second for that at most."""
        self._stop.set()
        self._thread.join(_ENDING)

    def lines(self) -> Iterator[Line]:
        """The lines that are due now."""
        now = self._clock()
        for event in self._events.since(self._read):
            if self._read and event.number != self._read + 1:
                yield Line(logging.WARNING, f"{event.number - self._read - 1} events came too fast to be written here")
            self._read = event.number
            text = self._text(event)
            if text is not None:
                yield from self._limited(event, Line(_level(event), text), now)
        yield from self._held(now)

    def _text(self, event: Event) -> str | None:
        """Say what happened; None where nobody wants to know."""
        if event.kind in self._left_out or (event.kind == "stream-added" and event.number <= self._begun):
            return None
        if event.stream is None:
            return event.text
        text = event.text if event.text.startswith(f"{event.stream}: ") else f"{event.stream}: {event.text}"
        state = _state(event)
        if event.kind == "stream-removed":
            self._states.pop(event.stream, None)
            self._away.pop(event.stream, None)
        if state is None:
            return text
        before, self._states[event.stream] = self._states.get(event.stream), state
        if state is before:  # for another reason: GStreamer has many words for one fault
            return None
        if state is not StreamState.PLAYING:
            if not state.is_passing:
                self._away.setdefault(event.stream, event.time)
            return text
        away = self._away.pop(event.stream, None)
        if away is not None:
            return f"{text} again, after {timedelta(seconds=max(0, round(event.time - away)))}"
        return None if before is not None and before.is_passing else text

    def _limited(self, event: Event, line: Line, now: float) -> Iterator[Line]:
        if event.stream is None or event.kind in REMARKS:  # few come of the whole pipeline, and of elements
            yield line
            return
        key = (event.stream, "state" if _state(event) is not None else event.kind)
        if self._allowed.setdefault(key, Allowance(now)).say(line, now):
            yield line
        if event.kind == "stream-removed":
            for other in [other for other in self._allowed if other[0] == event.stream]:
                del self._allowed[other]

    def _held(self, now: float) -> Iterator[Line]:
        """The newest line of whatever has been kept from writing long enough."""
        for allowance in self._allowed.values():
            if (due := allowance.due(now)) is not None:
                line, left_out = due
                more = f" ({left_out} changes before this one are not written: there are many)" if left_out else ""
                yield Line(line.level, line.text + more)

    def _run(self) -> None:
        while True:
            last = self._stop.wait(_LOOK)
            for line in self.lines():
                _log.log(line.level, "%s", line.text)
            if last:
                return


def _state(event: Event) -> StreamState | None:
    """The state of a stream that an event tells of."""
    name = event.details.get("state")
    return StreamState(name) if event.kind == f"stream-{name}" else None


def _level(event: Event) -> int:
    state = _state(event)
    faulty = event.kind.endswith(_FAULTS) if state is None else state.is_fault or state is StreamState.FAILED
    return logging.WARNING if faulty else logging.INFO
