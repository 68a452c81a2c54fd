"""Where the tracks of a stream have been: what nvtracker's past-frame, shadow and terminated lists are made from."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from sluice.tracking.batched import BatchedStream
from sluice.tracking.records import UNTRACKED, Detected, IntArray

Box = tuple[float, float, float, float]

LONGEST = 2000
"""Frames that are kept of a track at most: the default of NVIDIA's low-level interface (maxTrajectoryBufferLength)."""


@dataclass(frozen=True, slots=True)
class Moment:
    """A track on one frame; the box is left, top, width, height in pixels of the surface."""

    frame: int
    box: Box
    confidence: float
    age: int
    matched: bool
    confirmed: bool


@dataclass(frozen=True, slots=True)
class Path:
    """A track and some of its frames, oldest first."""

    id: int
    class_id: int
    label: str
    moments: Sequence[Moment]


@dataclass
class _Kept:
    moments: deque[Moment]
    id: int = UNTRACKED
    class_id: int = 0
    label: str = ""
    untold: int = 0  # of the newest moments, those on which the object was not among the frame's objects


@dataclass
class Told:
    """What is to be told of a stream with a frame.

    Attributes:
        past: tracks that have become objects on this frame, with the frames before on which they were not.
        shadow: confirmed tracks that no detection was found for on this frame.
        terminated: confirmed tracks that have ended, with all that is known of them.
    """

    past: list[Path] = field(default_factory=list)
    shadow: list[Path] = field(default_factory=list)
    terminated: list[Path] = field(default_factory=list)


class History:
    """The tracks of one stream, from their first detection to their end.

    Memory is bounded by the tracks there are and `longest` frames of each.
    """

    def __init__(self, longest: int = LONGEST) -> None:
        """Start with no tracks."""
        self._longest = longest
        self._kept: dict[int, _Kept] = {}
        self._ended: list[Path] = []

    def __len__(self) -> int:
        """Return how many tracks are kept."""
        return len(self._kept)

    def observe(self, stream: BatchedStream, frame: int, rows: Detected, ids: IntArray) -> Told:
        """Take a frame that has just been tracked into account, and return what is to be told with it."""
        label_of = {number: row for row, number in enumerate(ids.tolist()) if number != UNTRACKED}
        tracks = stream.tracker.tracks_of(stream)
        boxes = stream.tracker.boxes_after(tracks, 0.0).copy()
        boxes[:, 2:] -= boxes[:, :2]
        told = Told()
        serials = tracks["serial"].tolist()
        self._end_all_but(set(serials))
        for track, serial, box in zip(tracks, serials, boxes.tolist(), strict=True):
            kept = self._kept.setdefault(serial, _Kept(deque(maxlen=self._longest)))
            kept.id, kept.class_id = int(track["id"]), int(track["class_id"])
            matched = not track["missed"]
            moment = Moment(
                frame, tuple(box), float(track["confidence"]), int(track["age"]), matched, kept.id != UNTRACKED
            )
            if kept.id in label_of:
                kept.label = rows.labels[label_of[kept.id]]
                if kept.untold:
                    told.past.append(self._path(kept, kept.untold))
                kept.untold = 0
            else:
                kept.untold = min(kept.untold + 1, self._longest)
            kept.moments.append(moment)
            if not matched and kept.id != UNTRACKED:
                told.shadow.append(self._path(kept, 1))
        told.terminated, self._ended = self._ended, []
        return told

    def end(self) -> list[Path]:
        """End all tracks (of an ended stream), and return the confirmed ones."""
        self._end_all_but(set())
        ended, self._ended = self._ended, []
        return ended

    def _end_all_but(self, serials: set[int]) -> None:
        for serial in self._kept.keys() - serials:
            kept = self._kept.pop(serial)
            if kept.id != UNTRACKED:
                self._ended.append(self._path(kept, len(kept.moments)))

    def _path(self, kept: _Kept, newest: int) -> Path:
        moments = list(kept.moments)
        return Path(kept.id, kept.class_id, kept.label, moments[len(moments) - newest :])
