"""Points, segments and polygons of a picture; x to the right, y down."""

from __future__ import annotations

import math
from collections.abc import Sequence

Point = tuple[float, float]


def cross(start: Point, end: Point, point: Point) -> float:
    """Return twice the area of the triangle: 0 on the line, else its sign says on which side the point is."""
    return (end[0] - start[0]) * (point[1] - start[1]) - (end[1] - start[1]) * (point[0] - start[0])


def distance(start: Point, end: Point, point: Point) -> float:
    """Return the distance of a point from the straight line through two points, with the sign of `cross`."""
    return cross(start, end, point) / math.dist(start, end)


def position(start: Point, end: Point, point: Point) -> float:
    """Return where along a line the point nearest to another is: 0 at its start, 1 at its end."""
    along = (end[0] - start[0], end[1] - start[1])
    return ((point[0] - start[0]) * along[0] + (point[1] - start[1]) * along[1]) / (along[0] ** 2 + along[1] ** 2)


def between(first: Point, second: Point, part: float) -> Point:
    """Return the point a part (0 to 1) of the way from one point to another."""
    return first[0] + (second[0] - first[0]) * part, first[1] + (second[1] - first[1]) * part


def inside(polygon: Sequence[Point], point: Point) -> bool:
    """Whether a point is in a polygon, by counting the edges that a ray to its right crosses (even-odd rule).

    Left and upper edges belong to the polygon, right and lower ones do not: of two polygons that share an edge, a point
    on it is in one.
    """
    x, y = point
    found = False
    for (x1, y1), (x2, y2) in zip(polygon, (*polygon[1:], polygon[0]), strict=True):
        if (y1 > y) != (y2 > y) and x < x1 + (y - y1) * (x2 - x1) / (y2 - y1):
            found = not found
    return found


def cosine(first: Point, second: Point) -> float:
    """Return the cosine of the angle between two vectors that are not zero."""
    return (first[0] * second[0] + first[1] * second[1]) / (math.hypot(*first) * math.hypot(*second))
