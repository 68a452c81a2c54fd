"""Which frames of one stream are shown to a model: by time, and by triggers. Times are in nanoseconds of the stream."""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from sluice.errors import ConfigurationError

SECOND = 1_000_000_000
MOST_FRAMES = 64
"""The most pictures in a segment: more than any model of today takes in one request."""

MOST_ASKED = 8
"""Requests by programs that may wait for their stream's next frame."""

_MOST_IDS = 10_000  # ids of one stream that a trigger remembers
_TRIGGER = re.compile(r"\s*(object|line)\s*:\s*(.+?)\s*")

P = TypeVar("P")


@dataclass(frozen=True)
class Trigger:
    """What begins a segment.

    Attributes:
        kind: "object": an object of a class appears; "line": one crosses a line of sluiceanalytics.
        name: the class's label, or the line's name; "*" for any.
    """

    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"


def parse_triggers(text: str) -> tuple[Trigger, ...]:
    """Read ``object:person; line:exit``.

    Raises:
        ConfigurationError: something else is there.
    """
    found = []
    for part in filter(str.strip, text.split(";")):
        match = _TRIGGER.fullmatch(part)
        if match is None:
            raise ConfigurationError(
                f"trigger is {text!r}; right is object:LABEL or line:NAME, several between semicolons, * for any"
            )
        found.append(Trigger(match[1], match[2]))
    return tuple(found)


@dataclass(frozen=True)
class Selection:
    """How segments are chosen.

    Attributes:
        every: seconds from one segment to the next; 0: none by time.
        frames: pictures per segment.
        overlap: how many of them are also the last of the segment before.
        spacing: seconds between the pictures of a segment; 0: so that segments follow each other without a gap, or 1
            second where `every` is 0.
        triggers: what begins a segment besides.
        cooldown: seconds after a triggered segment began in which none of the triggers begins another.
    """

    every: float = 10.0
    frames: int = 1
    overlap: int = 0
    spacing: float = 0.0
    triggers: tuple[Trigger, ...] = ()
    cooldown: float = 1.0

    def __post_init__(self) -> None:
        """Check the values.

        Raises:
            ConfigurationError: one cannot be used.
        """
        for name in ("every", "spacing", "cooldown"):
            if not 0 <= getattr(self, name) <= 1e6:
                raise ConfigurationError(f"{name} is {getattr(self, name)}; right is a number of seconds from 0 to 1e6")
        if not 1 <= self.frames <= MOST_FRAMES:
            raise ConfigurationError(f"frames is {self.frames}; right is a number from 1 to {MOST_FRAMES}")
        if not 0 <= self.overlap < self.frames:
            raise ConfigurationError(
                f"overlap is {self.overlap}; right is a number from 0 to {self.frames - 1}, less than frames"
            )

    @property
    def interval(self) -> int:
        """Nanoseconds between two pictures of a segment."""
        seconds = self.spacing or (self.every / (self.frames - self.overlap) if self.every else 1.0)
        return max(1, round(seconds * SECOND))

    @property
    def watches_objects(self) -> bool:
        """Whether the objects of every frame must be known."""
        return any(trigger.kind == "object" for trigger in self.triggers)

    @property
    def watches_lines(self) -> bool:
        """Whether the crossings of every frame must be known."""
        return any(trigger.kind == "line" for trigger in self.triggers)


@dataclass(frozen=True)
class Seen:
    """What is on one frame, as far as triggers need it.

    Attributes:
        objects: label and id (None while untracked) of each object.
        lines: names of the lines crossed in this frame.
    """

    objects: Sequence[tuple[str, int | None]] = ()
    lines: Sequence[str] = ()


NOTHING = Seen()


@dataclass
class Segment(Generic[P]):
    """Pictures that belong together, perhaps still being gathered.

    Attributes:
        number: of its stream's segments, from 0.
        cause: "time", a trigger such as "object:person", or "ask".
        prompt: the program's own prompt, of a segment that it asked for; else None.
        pictures: oldest first.
    """

    number: int
    cause: str
    prompt: str | None = None
    pictures: list[P] = field(default_factory=list)


class _Appearances:
    """Which objects are new: by their ids, or, untracked, by a class that was not on the frame before."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, int], None] = {}
        self._before: frozenset[str] = frozenset()

    def update(self, objects: Sequence[tuple[str, int | None]]) -> set[str]:
        """Return the labels of which an object appeared."""
        appeared = set()
        untracked = frozenset(label for label, identity in objects if identity is None)
        for label, identity in objects:
            if identity is None:
                continue
            if (label, identity) not in self._known:
                appeared.add(label)
            self._known.pop((label, identity), None)
            self._known[label, identity] = None
        while len(self._known) > _MOST_IDS:
            del self._known[next(iter(self._known))]
        appeared |= untracked - self._before
        self._before = untracked
        return appeared


class StreamSelector(Generic[P]):
    """Chooses the frames of one stream. Not for use by two threads at once.

    For each frame `wants` tells whether its picture is needed. If it is not given to `take` then, the next frame is
    wanted in its place.
    """

    def __init__(self, selection: Selection) -> None:
        self._selection = selection
        self._count = 0
        self._time: int | None = None
        self._timed = _Gathering[P]()
        self._kept: deque[P] = deque(maxlen=selection.overlap)
        self._extra = _Gathering[P]()
        self._quiet_until = 0
        self._asked: deque[str | None] = deque()
        self._appearances = _Appearances()
        self.suppressed: Counter[str] = Counter()
        """Triggers that began no segment: one was being gathered, or `cooldown` was not over."""

    def ask(self, prompt: str | None) -> bool:
        """Have a segment begin at the next frame; False where too many wait already.

        Args:
            prompt: in place of the stream's own.
        """
        if len(self._asked) >= MOST_ASKED:
            return False
        self._asked.append(prompt)
        return True

    def goes_back(self, time: int) -> bool:
        """Whether a time lies before the last frame's, so that `abandon` must be called first."""
        return self._time is not None and time < self._time

    def wants(self, time: int, seen: Seen = NOTHING) -> bool:
        """Whether the picture of the next frame is needed.

        Args:
            time: the frame's time, not before the last one's.
            seen: what is on it.
        """
        self._time = time
        if self._selection.every and self._timed.next is None:
            self._timed.next = time
        self._look_at_triggers(time, seen)
        return self._timed.is_due(time) or self._extra.is_due(time)

    def take(self, picture: P) -> list[Segment[P]]:
        """Take the picture that was wanted; return the segments that are complete with it."""
        time, complete = self._time, []
        assert time is not None
        if self._timed.is_due(time):
            if self._timed.segment is None:
                self._timed.segment = self._begin("time", pictures=list(self._kept))
            self._kept.append(picture)
            segment = self._timed.add(picture, time, self._selection)
            if segment is not None:
                complete.append(segment)
        if self._extra.is_due(time):
            segment = self._extra.add(picture, time, self._selection)
            if segment is not None:
                complete.append(segment)
                self._extra.next = None
        return complete

    def abandon(self) -> list[Segment[P]]:
        """Forget what was gathered, at the end of the stream or a jump; return the segments that were begun."""
        begun = [gathering.segment for gathering in (self._timed, self._extra) if gathering.segment is not None]
        self._timed, self._extra = _Gathering(), _Gathering()
        self._time = None
        self._kept.clear()
        self._quiet_until = 0
        self._appearances = _Appearances()
        return begun

    def _begin(self, cause: str, prompt: str | None = None, pictures: list[P] | None = None) -> Segment[P]:
        segment: Segment[P] = Segment(self._count, cause, prompt, pictures or [])
        self._count += 1
        return segment

    def _look_at_triggers(self, time: int, seen: Seen) -> None:
        if self._extra.segment is None and self._asked:
            self._extra.start(self._begin("ask", self._asked.popleft()), time)
        for trigger in self._fired(seen):
            if self._extra.segment is not None or time < self._quiet_until:
                self.suppressed[str(trigger)] += 1
                continue
            self._extra.start(self._begin(str(trigger)), time)
            self._quiet_until = time + round(self._selection.cooldown * SECOND)

    def _fired(self, seen: Seen) -> list[Trigger]:
        triggers = self._selection.triggers
        if not triggers:
            return []
        happened = {"object": self._appearances.update(seen.objects), "line": set(seen.lines)}
        return [
            trigger
            for trigger in triggers
            if trigger.name in happened[trigger.kind] or (trigger.name == "*" and happened[trigger.kind])
        ]


class _Gathering(Generic[P]):
    """A segment for which pictures are gathered, and when the next one is due."""

    def __init__(self) -> None:
        self.segment: Segment[P] | None = None
        self.next: int | None = None
        self._began: int | None = None

    def start(self, segment: Segment[P], time: int) -> None:
        """Begin a segment whose first picture is due now."""
        self.segment, self.next = segment, time

    def is_due(self, time: int) -> bool:
        """Whether a frame of this time is wanted."""
        return self.next is not None and time >= self.next

    def add(self, picture: P, time: int, selection: Selection) -> Segment[P] | None:
        """Add a picture that was due; return the segment if it is complete."""
        assert self.segment is not None
        assert self.next is not None
        step = selection.interval
        # The place on the grid that this frame stands for: a gap in the stream is not made up for by a burst.
        due = self.next + (time - self.next) // step * step
        if self._began is None:
            self._began = due
        self.segment.pictures.append(picture)
        self.next = due + step
        if len(self.segment.pictures) < selection.frames:
            return None
        complete, self.segment = self.segment, None
        if selection.spacing:
            self.next = max(self.next, self._began + round(selection.every * SECOND))
        self._began = None
        return complete
