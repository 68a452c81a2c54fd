"""What goes into a tracker and comes out of it, and the clock of one stream."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

UNTRACKED = -1
"""The id of a row that belongs to no confirmed track."""

CLOCK_TIME_NONE = 0xFFFFFFFFFFFFFFFF
"""A timestamp that is not known (GST_CLOCK_TIME_NONE)."""

Implementation = Literal["auto", "batched", "library"]

# Equal timestamps make the library warn and skip the motion step; this much later, nothing moves measurably.
_SMALLEST_STEP = 1e-6

FloatArray = npt.NDArray[np.float32]
IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Settings:
    """What defines a tracker: the same for every stream of an element.

    Attributes:
        algorithm: a name of ``tracking.ALGORITHMS``.
        options: arguments of the algorithm's constructor. ``frame_rate`` (frames/s, 30 unless given) only scales
            ``lost_track_buffer``, which counts frames at 30 frames/s.
        class_aware: a track never takes over a detection of another class: one tracker per class.
        timestamps: motion and ageing follow the frames' timestamps instead of counting frames.
        minimum_confidence: detections below it are not tracked.
        implementation: "batched" tracks all streams of a batch in one pass over arrays, "library" each one with the
            ``trackers`` library, "auto" batched where there is such a form of the algorithm.
    """

    algorithm: str
    options: Mapping[str, Any]
    class_aware: bool = False
    timestamps: bool = False
    minimum_confidence: float = -math.inf
    implementation: Implementation = "auto"


@dataclass(frozen=True)
class Detected:
    """The rows of one frame, in the order of the frame's objects.

    Attributes:
        boxes: float32 [N, 4], left, top, width, height in pixels of the surface.
        confidences: float32 [N].
        class_ids: [N].
        unique_ids: [N], the component that detected each row.
        labels: N texts.
        features: float32 [N, D], an embedding of each row's looks, all 0 for a row without; None for none at all.
    """

    boxes: FloatArray
    confidences: FloatArray
    class_ids: npt.NDArray[np.integer[Any]]
    unique_ids: npt.NDArray[np.integer[Any]]
    labels: Sequence[str]
    features: FloatArray | None = None

    def usable(self, minimum_confidence: float) -> npt.NDArray[np.bool_]:
        """Return which rows can be tracked, bool [N]: finite boxes of enough confidence."""
        usable: npt.NDArray[np.bool_] = np.isfinite(self.boxes).all(axis=1) & (self.confidences >= minimum_confidence)
        return usable


@dataclass(frozen=True)
class Predicted:
    """Where a track is on a frame that the model did not see, with what was known of it when last seen.

    ``box`` is left, top, width, height in pixels of the surface, not clipped.
    """

    id: int
    box: tuple[float, float, float, float]
    confidence: float
    class_id: int
    unique_id: int
    label: str


class StreamTracker(ABC):
    """Tracks the objects of one stream; not for use by two threads at once.

    Ids are 64-bit whole numbers that start at ``first_id`` and are never given twice.
    """

    def __init__(self, settings: Settings, *, first_id: int = 0) -> None:
        self._settings = settings
        self._frame_rate = float(settings.options.get("frame_rate", 30.0))
        self._first_id = first_id
        self._next_id = first_id
        self._newest_pts = 0
        self._start_clock()

    @property
    def tracks_started(self) -> int:
        """How many tracks have been given an id since the stream began."""
        return self._next_id - self._first_id

    def begin_frame(self, pts: int) -> bool:
        """Tell the frame's timestamp (ns, CLOCK_TIME_NONE when unknown); call it once per frame, before its rows.

        A timestamp that jumps back means another piece of video: all tracks end. Returns True when that happened.
        """
        jumped = pts < self._newest_pts
        if jumped:
            self.end_tracks()
        if pts != CLOCK_TIME_NONE:
            self._newest_pts = pts
        self._pts = pts
        return jumped

    @abstractmethod
    def update(self, rows: Detected, image: npt.NDArray[np.uint8] | None = None) -> IntArray:
        """Track the detections of a frame that the model saw (perhaps none).

        Args:
            rows: the frame's detections.
            image: the frame's picture, HWC uint8 in the order that ``reads_pixels`` told; None for all others.

        Returns:
            int64 [N]: the id of each row, UNTRACKED for rows of no confirmed track.
        """

    def predict(self) -> list[Predicted]:
        """Return where the tracks of the last seen frame are now, on a frame that the model did not see.

        Nothing of the trackers changes: such frames neither age a track nor count as a miss, so that with an interval
        the identities equal those of the seen frames alone. The motion per frame is the tracker's own, scaled by
        the timestamps, or by the last interval between seen frames (a track stays in place until one is known).
        """
        self._skipped += 1
        if self._seen is None:
            return []
        rows, ids = self._seen
        row_of = {int(ids[row]): row for row in np.flatnonzero(ids != UNTRACKED).tolist()}
        return [
            Predicted(
                id=number,
                box=box,
                confidence=float(rows.confidences[row]),
                class_id=int(rows.class_ids[row]),
                unique_id=int(rows.unique_ids[row]),
                label=rows.labels[row],
            )
            for number, box in self._positions(row_of, self._elapsed_frames())
            if (row := row_of.get(number)) is not None
        ]

    @abstractmethod
    def _positions(self, ids: Mapping[int, int], step: float) -> list[tuple[int, tuple[float, float, float, float]]]:
        """Return id and box (left, top, width, height) of the tracks with these ids, ``step`` frames on."""

    def end_tracks(self) -> None:
        """End all tracks; ids go on."""
        self._start_clock()

    def _start_clock(self) -> None:
        self._seen: tuple[Detected, IntArray] | None = None
        self._pts = CLOCK_TIME_NONE
        self._newest_pts = 0
        self._last_timestamp: float | None = None
        self._skipped = 0
        self._interval = 0

    def _timestamp(self) -> float | None:
        """Return the frame's time in seconds as the library takes it: strictly increasing, or None to count frames."""
        if not self._settings.timestamps or self._pts == CLOCK_TIME_NONE:
            return None
        seconds = self._pts / 1e9
        if self._last_timestamp is not None:
            seconds = max(seconds, self._last_timestamp + _SMALLEST_STEP)
        self._last_timestamp = seconds
        return seconds

    def _elapsed_frames(self) -> float:
        """Return the time since the last seen frame in the tracker's steps."""
        if self._settings.timestamps and self._last_timestamp is not None and self._pts != CLOCK_TIME_NONE:
            return max(0.0, self._pts / 1e9 - self._last_timestamp) * self._frame_rate
        return self._skipped / self._interval if self._interval else 0.0

    def remember(self, rows: Detected, ids: IntArray) -> None:
        """Keep what the last seen frame showed, for the frames that the model does not see."""
        self._interval = self._skipped + 1 if self._seen is not None else 0
        self._skipped = 0
        # The features are of no use for predictions and may be large.
        self._seen = rows if rows.features is None else replace(rows, features=None), ids
