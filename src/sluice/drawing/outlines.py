"""Polygons for rotated boxes, strokes and circles, and the pixels they cover, antialiased and clipped."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import cv2
import numpy as np
import numpy.typing as npt

from sluice.drawing.shapes import MAX_BORDER_WIDTH, Skeleton

Points = npt.NDArray[np.float64]
"""[N, 2] corners as x, y in pixel-edge coordinates."""

# Fractional bits of the coordinates given to OpenCV.
_SHIFT = 4

# A coverage map is cut into bands of this many rows, each as wide as what it holds: a long diagonal line covers little.
_BAND = 64

# OpenCV fades a line out where the map cuts it off, so the map is larger than what is used of it.
_MARGIN = 2

_MAX_CIRCLE_POINTS = 512

# OpenCV takes no points farther out.
_FARTHEST = 32767


class Coverage(NamedTuple):
    """A coverage map, uint8 [h, w], whose first pixel is (left, top) of the picture."""

    left: int
    top: int
    map: npt.NDArray[np.uint8]


def box(center: tuple[float, float], width: float, height: float, degrees: float) -> Points:
    """A box turned clockwise on screen about its centre; [0, 2] when it has no extent."""
    if width <= 0 or height <= 0:
        return np.empty((0, 2))
    cos, sin = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
    corners = np.array([(-0.5, -0.5), (0.5, -0.5), (0.5, 0.5), (-0.5, 0.5)]) * (width, height)
    turned: Points = corners @ np.array([(cos, sin), (-sin, cos)]) + center
    return turned


def stroke(start: tuple[float, float], end: tuple[float, float], width: float) -> Points:
    """The outline of a line, longer at both ends by half its width. A line without length is a square."""
    degrees = math.degrees(math.atan2(end[1] - start[1], end[0] - start[0]))
    center = (start[0] + end[0]) / 2.0, (start[1] + end[1]) / 2.0
    return box(center, math.dist(start, end) + width, width, degrees)


def circle(center: tuple[float, float], radius: float) -> Points:
    """A circle as a polygon that is never farther from it than a sixteenth of a pixel, while it is not huge."""
    if radius <= 0:
        return np.empty((0, 2))
    # A chord over the angle a is radius * (1 - cos(a / 2)) away from its arc.
    step = 2.0 * math.acos(max(1.0 - 1.0 / (16.0 * radius), 0.0))
    count = min(max(math.ceil(2.0 * math.pi / step), 8), _MAX_CIRCLE_POINTS)
    angles = np.arange(count) * (2.0 * math.pi / count)
    return np.stack([np.cos(angles), np.sin(angles)], axis=1) * radius + center


def filled(outline: Points, width: int, height: int, hole: Points | None = None) -> list[Coverage]:
    """Where a convex outline covers a picture of this size, without the hole; empty bands are left out."""
    if not len(outline):
        return []
    left, top = (max(math.floor(v), 0) for v in outline.min(axis=0))
    right, bottom = (min(math.ceil(v), limit) for v, limit in zip(outline.max(axis=0), (width, height), strict=True))
    if left >= right or top >= bottom:
        return []
    coverage = np.zeros((bottom - top + 2 * _MARGIN, right - left + 2 * _MARGIN), np.uint8)
    # OpenCV counts from pixel centres and draws the edge as a line, half a pixel of it outside the polygon.
    polygons = [_offset(outline, -0.5)]
    if hole is not None and len(hole):
        polygons.append(_offset(hole, 0.5))
    origin = left - _MARGIN + 0.5, top - _MARGIN + 0.5
    fixed = [np.rint((p - origin) * (1 << _SHIFT)).astype(np.int32) for p in polygons]
    cv2.fillPoly(coverage, fixed, 255, cv2.LINE_AA, _SHIFT)
    return _bands(coverage[_MARGIN:-_MARGIN, _MARGIN:-_MARGIN], left, top)


def skeletons(shown: Sequence[Skeleton], width: int, height: int) -> list[Coverage]:
    """Where dots and lines of any number cover a picture of this size; empty bands are left out."""
    limit = np.array((width, height))
    lines = np.concatenate([one.lines for one in shown]).clip(-_FARTHEST, _FARTHEST)
    dots = np.concatenate([one.dots for one in shown]).clip(-_FARTHEST, _FARTHEST)
    radii = np.repeat([one.radius for one in shown], [len(one.dots) for one in shown])
    thickness = max(1, min(shown[0].width, MAX_BORDER_WIDTH))
    reach = max(thickness, float(radii.max(initial=0.0))) + 1
    places = np.concatenate([dots, lines.reshape(-1, 2)])
    if not len(places):
        return []
    left, top = (int(value) for value in np.clip(np.floor(places.min(axis=0) - reach), 0, limit))
    right, bottom = (int(value) for value in np.clip(np.ceil(places.max(axis=0) + reach), 0, limit))
    if left >= right or top >= bottom:
        return []
    coverage = np.zeros((bottom - top + 2 * _MARGIN, right - left + 2 * _MARGIN), np.uint8)
    origin = np.array((left - _MARGIN + 0.5, top - _MARGIN + 0.5))
    strokes = np.rint((lines - origin) * (1 << _SHIFT)).astype(np.int32)
    cv2.polylines(coverage, list(strokes), False, 255, thickness, cv2.LINE_AA, _SHIFT)
    near = ((dots > -reach) & (dots < limit + reach)).all(axis=1)
    centres = np.rint((dots[near] - origin) * (1 << _SHIFT)).astype(np.int32)
    sizes = np.rint(radii[near] * (1 << _SHIFT)).astype(np.int32)
    for centre, radius in zip(centres.tolist(), sizes.tolist(), strict=True):
        cv2.circle(coverage, centre, radius, 255, cv2.FILLED, cv2.LINE_AA, _SHIFT)
    return _bands(coverage[_MARGIN:-_MARGIN, _MARGIN:-_MARGIN], left, top)


def _offset(points: Points, distance: float) -> Points:
    """Move the sides of a convex polygon by a distance, outwards when it is positive."""
    edges = np.roll(points, -1, axis=0) - points
    lengths = np.maximum(np.hypot(edges[:, 0], edges[:, 1]), 1e-9)
    # With y down and corners clockwise on screen, (dy, -dx) points out of the polygon.
    normals = np.stack([edges[:, 1], -edges[:, 0]], axis=1) / lengths[:, np.newaxis]
    before = np.roll(normals, 1, axis=0)
    # Where two sides meet, both distances are kept by moving along n1 + n2 by 1 / (1 + n1.n2).
    scale = 1.0 + np.sum(normals * before, axis=1, keepdims=True)
    moved: Points = points + distance * (normals + before) / scale
    return moved


def _bands(coverage: npt.NDArray[np.uint8], left: int, top: int) -> list[Coverage]:
    bands = []
    for start in range(0, coverage.shape[0], _BAND):
        rows = coverage[start : start + _BAND]
        x, y, width, height = cv2.boundingRect(rows)
        if width:
            bands.append(Coverage(left + x, top + start + y, rows[y : y + height, x : x + width]))
    return bands
