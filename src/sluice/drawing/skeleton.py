"""Key points as dots, and the skeletons of known sets of key points as lines between them."""

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from sluice.drawing.shapes import Circle, Line, Rgba

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

_LINE_WIDTH = 2


def skeleton(points: npt.NDArray[np.float32], color: Rgba) -> tuple[list[Circle], list[Line]]:
    """The dots and lines of one set of key points.

    Args:
        points: float32 [K,2] (x, y) or [K,3] (x, y, confidence) in pixels of the picture. Those of a confidence below
            `VISIBLE` are left out, with the lines to them.
        color: of both.
    """
    seen = points[:, 2] >= VISIBLE if points.shape[1] == 3 else np.ones(len(points), bool)
    radius = _radius(points[seen])
    dots = [Circle(x, y, radius, 1, color, color) for x, y in points[seen, :2].tolist()]
    places = points[:, :2].tolist()
    lines = [Line(places[a][0], places[a][1], places[b][0], places[b][1], _LINE_WIDTH, color) for a, b in _joined(seen)]
    return dots, lines


def _joined(seen: npt.NDArray[np.bool_]) -> Iterator[tuple[int, int]]:
    pairs: Sequence[tuple[int, int]] = SKELETONS.get(len(seen), ())
    return ((first, second) for first, second in pairs if seen[first] and seen[second])


def _radius(points: npt.NDArray[np.float32]) -> float:
    """A hundredth of what the key points span, from 2 to 6 pixels."""
    if len(points) == 0:
        return 0.0
    return float(np.clip((points[:, :2].max(axis=0) - points[:, :2].min(axis=0)).max() / 100, 2, 6))
