"""What one step of a batched tracker is about: the detections of all frames, and what the frames say of the streams."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sluice.tracking.motion import Floats
from sluice.tracking.records import IntArray

Mask = npt.NDArray[np.bool_]
Indices = npt.NDArray[np.intp]


@dataclass(frozen=True)
class Detections:
    """The usable detections of all frames of a step, ordered by frame.

    Attributes:
        boxes: x1, y1, x2, y2, float64 [D, 4].
        confidences: float32 [D].
        slots: int32 [D].
        class_ids: int32 [D].
        features: float32 [D, K] of length 1 or 0, or None.
        rows: which of all rows of the step each one is, [D].
    """

    boxes: Floats
    confidences: npt.NDArray[np.float32]
    slots: npt.NDArray[np.int32]
    class_ids: npt.NDArray[np.int32]
    features: npt.NDArray[np.float32] | None
    rows: Indices


@dataclass(frozen=True)
class Step:
    """What the frames of a step say about the slots, [S].

    Attributes:
        now: bool, whether the slot's stream has a frame.
        steps: float64, how many frames the stream has moved on.
        seconds: float64, how many seconds; NaN where frames are counted.
        rank: int64, the slots' order.
        fresh: bool, whether it is the first frame of the slot.
    """

    now: Mask
    steps: Floats
    seconds: Floats
    rank: IntArray
    fresh: Mask

    def here(self, slots: npt.NDArray[np.int32]) -> Mask:
        """Whether the streams of some slots have a frame, [N]."""
        # numpy gives the GIL away to pick, and mostly every stream has one.
        return np.ones(len(slots), bool) if self.now.all() else self.now[slots]

    def timed(self, slots: npt.NDArray[np.int32]) -> Mask:
        """Whether the time of their streams is counted in seconds, [N]."""
        timed = ~np.isnan(self.seconds)
        return timed[slots] if timed.any() else np.zeros(len(slots), bool)
