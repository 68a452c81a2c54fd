"""Key points as dots, and the skeletons of known sets of key points as lines between them."""

from functools import cache

import numpy as np
import numpy.typing as npt

from sluice.drawing.shapes import Rgba, Skeleton

#: Least confidence of a key point that is drawn.
VISIBLE = 0.5

#: Which key points are joined, by their number. 17 is COCO's person, whose key points are nose, eyes, ears, shoulders,
#: elbows, wrists, hips, knees and ankles, left before right (cocodataset.org, person_keypoints annotations).
SKELETONS: dict[int, tuple[tuple[int, int], ...]] = {
    17: (
        *((0, 1), (0, 2), (1, 3), (2, 4), (3, 5), (4, 6)),
        *((5, 6), (5, 7), (7, 9), (6, 8), (8, 10)),
        *((5, 11), (6, 12), (11, 12), (11, 13), (13, 15), (12, 14), (14, 16)),
    ),
}


def skeleton(points: npt.NDArray[np.float32], color: Rgba) -> Skeleton:
    """What is drawn of one set of key points.

    Args:
        points: float32 [K,2] (x, y) or [K,3] (x, y, confidence) in pixels of the picture. Those of a confidence below
            `VISIBLE` are left out, with the lines to them, and so are those without a place.
        color: of all of it.
    """
    places = points[:, :2]
    seen = np.isfinite(places[:, 0]) & np.isfinite(places[:, 1])
    if points.shape[1] == 3:
        seen &= points[:, 2] >= VISIBLE
    joined = _joined(len(points))
    dots = places[seen]
    return Skeleton(dots, places[joined[seen[joined].all(axis=1)]], _radius(dots), color=color)


@cache
def _joined(count: int) -> npt.NDArray[np.intp]:
    """The pairs of so many key points that are joined, [M,2]."""
    return np.array(SKELETONS.get(count, ()), np.intp).reshape(-1, 2)


def _radius(points: npt.NDArray[np.float32]) -> float:
    """A hundredth of what the key points span, from 2 to 6 pixels."""
    if len(points) == 0:
        return 0.0
    return float(np.clip((points.max(axis=0) - points.min(axis=0)).max() / 100, 2, 6))
