"""What goes into the analytics of a frame, and what comes out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Seen:
    """An object on a frame.

    Attributes:
        id: the tracker's id; None for an object that no tracker follows.
        class_id: its class.
        box: left, top, width, height in pixels of the surface.
    """

    id: int | None
    class_id: int
    box: Sequence[float]


@dataclass(frozen=True)
class Crossing:
    """One object crossing one line, in the line's direction."""

    line: str
    id: int
    class_id: int


@dataclass
class ObjectFindings:
    """What was found about an object.

    Attributes:
        regions: names of the regions it is in.
        dwell: for each of them, and each of `crowds`, nanoseconds since it came in; only of tracked objects.
        crowds: names of the regions watched for overcrowding that it is in.
        lines: names of the lines it crosses in this frame.
        direction: the name of the direction it moves in, or None.
    """

    regions: list[str] = field(default_factory=list)
    crowds: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    direction: str | None = None
    dwell: dict[str, int] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.regions or self.crowds or self.lines or self.direction)

    def direction_text(self) -> str:
        """Return the direction as nvdsanalytics writes it."""
        return f" DIR:{self.direction} " if self.direction else ""

    def status(self) -> str:
        """Return all of it as nvdsanalytics writes it."""
        regions = "".join(f" ROI:{name}" for name in self.regions)
        return regions + self.direction_text() + "".join(f" LC:{name} " for name in self.lines)


@dataclass
class FrameFindings:
    """What was found about a frame; `objects` has one entry per object given.

    Attributes:
        in_region: number of objects in each region and crowd.
        overcrowded: whether each crowd is.
        crossings: the crossings in this frame.
        totals: crossings of each line so far.
        classes: number of objects of each class seen so far, which may be 0.
    """

    objects: list[ObjectFindings]
    in_region: Mapping[str, int]
    overcrowded: Mapping[str, bool]
    crossings: Sequence[Crossing]
    totals: Mapping[str, int]
    classes: Mapping[int, int]

    def current(self, line: str) -> int:
        """Return how often a line is crossed in this frame."""
        return sum(crossing.line == line for crossing in self.crossings)
