"""From the boxes that the GPU chose to detections in pixels of each frame, for a whole batch at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from sluice.contract._rows import all_or
from sluice.errors import ModelError
from sluice.models.decoders.base import HIGHEST_CLASS
from sluice.models.detections import Detections
from sluice.models.letterbox import Letterbox

COLUMNS = 6
"""Of a chosen box: left, top, right, bottom in pixels of the network's input, score (below 0: no box), class."""


def detections_of(chosen: npt.NDArray[Any], boxes: Sequence[Letterbox]) -> list[Detections]:
    """Detections of each frame, clipped at its edges, best first.

    Args:
        chosen: float32 [frames, boxes, 6], see `COLUMNS`; copied.
        boxes: how each frame lies in the network's input.

    Raises:
        ModelError: a value of a box is not finite, or its class is beyond any vocabulary.
    """
    place = np.array([(*box.scale, box.left, box.top, box.frame_width, box.frame_height) for box in boxes], np.float32)
    scale, corner, size = place[:, None, None, 0:2], place[:, None, None, 2:4], place[:, None, None, 4:6]
    corners = chosen[..., :4].reshape(*chosen.shape[:2], 2, 2)
    xyxy = ((corners - corner) / scale).clip(0, size).reshape(*chosen.shape[:2], 4)
    scores, classes = chosen[..., 4].copy(), chosen[..., 5]
    rows = ~(scores < 0)  # NaN is no score below 0
    some = all_or(rows)
    if not (np.isfinite(xyxy[some]).all() and np.isfinite(chosen[some][..., 4:]).all()):
        raise ModelError("the network's boxes, scores or classes hold NaN or infinity; right are finite numbers")
    if (np.abs(classes[some]) > HIGHEST_CLASS).any():
        raise ModelError(f"the class of a box is above {HIGHEST_CLASS}, which no network has")
    class_ids = np.where(rows, classes, 0).astype(np.int32)
    counts = rows.sum(axis=1).tolist()
    return [Detections(xyxy[i, :count], scores[i, :count], class_ids[i, :count]) for i, count in enumerate(counts)]
