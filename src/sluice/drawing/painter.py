"""Draws an overlay onto a canvas, in nvdsosd's order: mosaics, rectangles, masks, texts, lines, arrows, circles.

Class maps lie below the rectangles, trails below the texts, skeletons below the lines, and panels above all.
"""

import math
from collections.abc import Hashable
from typing import NamedTuple

import numpy as np

from sluice.drawing import outlines
from sluice.drawing.cache import BoundedCache
from sluice.drawing.canvas import Bytes, Canvas, Stamp
from sluice.drawing.color import Bytes4, to_bytes
from sluice.drawing.masks import MASK_ALPHA, mask_coverage
from sluice.drawing.palette import class_color
from sluice.drawing.shapes import (
    MAX_BORDER_WIDTH,
    MAX_FONT_SIZE,
    MIN_FONT_SIZE,
    Arrow,
    ArrowHead,
    Circle,
    ClassMap,
    Line,
    Mask,
    Mosaic,
    Overlay,
    Panel,
    Rectangle,
    Rgba,
    Skeleton,
    Text,
    Trail,
)
from sluice.drawing.text import render

# Everything nearer than this to the origin is placed exactly; what lies farther out is outside any picture.
_FAR = 1 << 16

# Half the opening and the length of an arrow's head (nvll_osd: 15 degrees, 10 % of the arrow).
_HEAD_ANGLE = math.radians(15.0)
_HEAD_LENGTH = 0.1

# Below this many degrees a box counts as not rotated (nvll_osd).
_MIN_ROTATION = 0.001


# A panel's font: so many lines in the height of the picture, at 96 pixels and 72 points an inch.
_PANEL_LINES = 30
_POINTS_PER_PIXEL = 0.75

# OpenCV takes no points farther out.
_FARTHEST_POINT = 32767

# Stands for no class among the 256 values of a byte.
_NO_CLASS = 255


# Few enough that their glyphs stay in the processor's cache.
_TEXTS_AT_ONCE = 256


_Key = tuple[str, str, int, tuple[int, int] | None]
"""The arguments of `render`: text, font, size in points, and the room there is."""


class _Placed(NamedTuple):
    """A rendered text and where its background begins, in the picture."""

    text: Text
    key: _Key
    left: int
    top: int
    glyphs: Bytes


class Painter:
    """Draws overlays and keeps the texts it rendered last, within fixed bounds. Not for use by two threads at once."""

    MAX_CACHED_BYTES = 32 << 20

    def __init__(self) -> None:
        self._glyphs: BoundedCache[Bytes] = BoundedCache(self.MAX_CACHED_BYTES // 4)
        self._stamps: BoundedCache[Stamp] = BoundedCache(self.MAX_CACHED_BYTES // 4 * 3)

    @property
    def cached_bytes(self) -> int:
        """Bytes of rendered texts held now; at most `MAX_CACHED_BYTES`."""
        return self._glyphs.held_bytes + self._stamps.held_bytes

    def draw(self, canvas: Canvas, overlay: Overlay) -> None:
        """Draw all of the overlay, clipped to the picture.

        Shapes with a NaN in their geometry or no extent are skipped. Never raises for what the values are.
        """
        for mosaic in overlay.mosaics:
            _mosaic(canvas, mosaic)
        for class_map in overlay.class_maps:
            _class_map(canvas, class_map)
        for rectangle in overlay.rectangles:
            _rectangle(canvas, rectangle)
        for mask in overlay.masks:
            _mask(canvas, mask)
        for trail in overlay.trails:
            _trail(canvas, trail)
        for first in range(0, len(overlay.texts), _TEXTS_AT_ONCE):
            # Rendered first, blended then: taking turns costs half as much again, for what the processor's cache holds.
            texts = [self._placed(canvas, text) for text in overlay.texts[first : first + _TEXTS_AT_ONCE]]
            for text in texts:
                if text is not None:
                    self._text(canvas, text)
        _skeletons(canvas, overlay.skeletons)
        for line in overlay.lines:
            _line(canvas, line)
        for arrow in overlay.arrows:
            _arrow(canvas, arrow)
        for circle in overlay.circles:
            _circle(canvas, circle)
        for panel in overlay.panels:
            self._panel(canvas, panel)

    def _placed(self, canvas: Canvas, text: Text) -> _Placed | None:
        """Render a text; None where there is nothing of it in the picture."""
        if text.size <= 0 or math.isnan(text.x) or math.isnan(text.y):
            return None
        left, top = max(_whole(text.x), 0), max(_whole(text.y), 0)
        if left >= canvas.width or top >= canvas.height:
            return None
        key = (text.text, text.font, _points(text.size), None)
        return _Placed(text, key, left, top, self._rendered(key))

    def _text(self, canvas: Canvas, placed: _Placed) -> None:
        """The background is wider than the text by the font size and higher by half of it, the glyphs in its middle."""
        text, key, left, top, glyphs = placed
        size = key[2]
        if text.background is not None:
            right, bottom = left + glyphs.shape[1] + size, top + glyphs.shape[0] + size // 2
            canvas.fill(left, top, right, bottom, to_bytes(text.background))
        if glyphs.size:
            self._glyphs_at(canvas, key, glyphs, (left + size // 2, top + size // 4), text.color)

    def _panel(self, canvas: Canvas, panel: Panel) -> None:
        if not panel.text.strip():
            return
        size = _points(panel.size or canvas.height * _POINTS_PER_PIXEL / _PANEL_LINES)
        margin = size // 2
        key = (panel.text, panel.font, size, (canvas.width - 2 * margin, canvas.height // 2 - 2 * margin))
        glyphs = self._rendered(key)
        top = max(canvas.height - glyphs.shape[0] - 2 * margin, 0)
        canvas.fill(0, top, canvas.width, canvas.height, to_bytes(panel.background))
        if glyphs.size:
            self._glyphs_at(canvas, key, glyphs, (margin, top + margin), panel.color)

    def _rendered(self, key: _Key) -> Bytes:
        """The glyphs of a text, from the cache where it was drawn before."""
        return self._glyphs.get(key, lambda: _sized(render(*key)))

    def _glyphs_at(self, canvas: Canvas, key: Hashable, glyphs: Bytes, place: tuple[int, int], rgba: Rgba) -> None:
        """Blend rendered glyphs, whose stamp is kept under a key, with their first pixel at a place."""
        left, top = place
        odd_x, odd_y = left & 1, top & 1
        color = to_bytes(rgba)
        stamp_key = (key, color, odd_x, odd_y, canvas.color_space)
        stamp = self._stamps.get(stamp_key, lambda: _stamp(canvas, glyphs, odd_x, odd_y, color))
        canvas.paste(stamp, left - odd_x, top - odd_y)


def _points(size: float) -> int:
    """The size that a font is drawn in, as nvdsosd limits it."""
    return min(max(int(size), MIN_FONT_SIZE), MAX_FONT_SIZE)


def _sized(glyphs: Bytes) -> tuple[Bytes, int]:
    return glyphs, glyphs.nbytes


def _stamp(canvas: Canvas, glyphs: Bytes, left: int, top: int, color: Bytes4) -> tuple[Stamp, int]:
    stamp = canvas.stamp(glyphs, left, top, color)
    return stamp, sum(keep.nbytes + add.nbytes for keep, add in stamp.planes)


def _whole(value: float) -> int:
    """Towards zero, as nvdsosd does, and no farther out than any picture reaches. The value must not be NaN."""
    return int(value) if -_FAR < value < _FAR else (_FAR if value > 0 else -_FAR)


def _no_place(*values: float) -> bool:
    return any(math.isnan(v) for v in values)


def _rectangle(canvas: Canvas, box: Rectangle) -> None:
    if _no_place(box.left, box.top, box.width, box.height) or box.width <= 0 or box.height <= 0:
        return
    left, top = _whole(box.left), _whole(box.top)
    right, bottom = _whole(box.width + left), _whole(box.height + top)
    border = min(max(int(box.border_width), 0), MAX_BORDER_WIDTH)
    if math.isfinite(box.rotation_angle) and abs(box.rotation_angle) > _MIN_ROTATION:
        _rotated(canvas, box, (left, top, right, bottom), border)
        return
    if box.background is not None:
        canvas.fill(left, top, right, bottom, to_bytes(box.background))
    if border == 0:
        return
    color = to_bytes(box.border_color)
    outside = border // 2
    x0, y0, x1, y1 = left - outside, top - outside, right + outside, bottom + outside
    if x1 - x0 <= 2 * border or y1 - y0 <= 2 * border:
        canvas.fill(x0, y0, x1, y1, color)
        return
    canvas.fill(x0, y0, x1, y0 + border, color)
    canvas.fill(x0, y1 - border, x1, y1, color)
    canvas.fill(x0, y0 + border, x0 + border, y1 - border, color)
    canvas.fill(x1 - border, y0 + border, x1, y1 - border, color)


def _mosaic(canvas: Canvas, mosaic: Mosaic) -> None:
    if _no_place(mosaic.left, mosaic.top, mosaic.width, mosaic.height) or mosaic.width <= 0 or mosaic.height <= 0:
        return
    x, y = (min(max(value, -_FAR), _FAR) for value in (mosaic.left, mosaic.top))
    left, top = math.floor(x), math.floor(y)
    right, bottom = math.ceil(min(x + mosaic.width, _FAR)), math.ceil(min(y + mosaic.height, _FAR))
    if left >= right or top >= bottom:  # thinner than a float can tell, or beyond what is far
        return
    mask = mosaic.mask
    if math.isfinite(mosaic.rotation_angle) and abs(mosaic.rotation_angle) > _MIN_ROTATION:
        center = (left + right) / 2.0, (top + bottom) / 2.0
        corners = outlines.box(center, right - left, bottom - top, mosaic.rotation_angle)
        left, top = (math.floor(value) for value in corners.min(axis=0))
        right, bottom = (math.ceil(value) for value in corners.max(axis=0))
        mask = None
    covered = None if mask is None or not mask.size else (mask > mosaic.threshold).astype(np.uint8)
    canvas.mosaic(left, top, right, bottom, covered)


def _class_map(canvas: Canvas, shown: ClassMap) -> None:
    place = (0.0, 0.0, float(canvas.width), float(canvas.height)) if shown.box is None else shown.box
    if _no_place(*place) or not shown.data.size:
        return
    left, top = _whole(place[0]), _whole(place[1])
    classes = np.where(shown.data < 0, _NO_CLASS, shown.data % _NO_CLASS).astype(np.uint8)
    if shown.background >= 0:
        classes[shown.data == shown.background] = _NO_CLASS
    colors = {number: (*class_color(number)[:3], MASK_ALPHA) for number in np.unique(classes).tolist()}
    colors.pop(_NO_CLASS, None)
    canvas.tint(classes, left, top, _whole(place[2] + left), _whole(place[3] + top), colors)


def _trail(canvas: Canvas, trail: Trail) -> None:
    points = np.array([point for point in trail.points if all(map(math.isfinite, point))]).reshape(-1, 2)
    width = min(int(trail.width), MAX_BORDER_WIDTH)
    points = points.clip(-_FARTHEST_POINT, _FARTHEST_POINT)
    # A line for each frame in which something stood still would take as long as a way.
    moved = np.rint(points[1:]) != np.rint(points[:-1])
    points = points[np.append(True, moved.any(axis=1))] if len(points) else points
    if width > 0 and len(points) > 1:
        canvas.polyline(points, width, (*to_bytes(trail.color)[:3], 255))


def _skeletons(canvas: Canvas, shown: list[Skeleton]) -> None:
    """Those of one colour at once where they would otherwise be more pixels than the picture has."""
    colors: dict[Rgba, list[Skeleton]] = {}
    for skeleton in shown:
        if len(skeleton.dots):
            colors.setdefault(skeleton.color, []).append(skeleton)
    for color, group in colors.items():
        area = sum(float(np.ptp(skeleton.dots, axis=0).prod()) for skeleton in group)
        together = area > canvas.width * canvas.height
        for part in [group] if together else [[skeleton] for skeleton in group]:
            _blend(canvas, outlines.skeletons(part, canvas.width, canvas.height), color)


def _rotated(canvas: Canvas, box: Rectangle, corners: tuple[int, int, int, int], border: int) -> None:
    left, top, right, bottom = corners
    center = (left + right) // 2, (top + bottom) // 2
    width, height = right - left, bottom - top
    if box.background is not None:
        inside = outlines.box(center, width, height, box.rotation_angle)
        _blend(canvas, outlines.filled(inside, canvas.width, canvas.height), box.background)
    if border:
        outer = outlines.box(center, width + border, height + border, box.rotation_angle)
        inner = outlines.box(center, width - border, height - border, box.rotation_angle)
        _blend(canvas, outlines.filled(outer, canvas.width, canvas.height, hole=inner), box.border_color)


def _mask(canvas: Canvas, mask: Mask) -> None:
    if _no_place(mask.left, mask.top, mask.width, mask.height) or not mask.data.size:
        return
    left, top = _whole(mask.left), _whole(mask.top)
    box = left, top, _whole(mask.width + left), _whole(mask.height + top)
    coverage = mask_coverage(mask.data, mask.threshold, box, canvas.width, canvas.height)
    opaque = (*mask.color[:3], 1.0)
    if coverage.size:
        _blend(canvas, [outlines.Coverage(max(left, 0), max(top, 0), coverage)], opaque)


def _line(canvas: Canvas, line: Line) -> None:
    width = min(int(line.width), MAX_BORDER_WIDTH)
    if width <= 0 or _no_place(line.x1, line.y1, line.x2, line.y2):
        return
    start = _whole(line.x1), _whole(line.y1)
    _stroke(canvas, start, (_whole(line.x2), _whole(line.y2)), width, line.color)


def _stroke(canvas: Canvas, start: tuple[float, float], end: tuple[float, float], width: int, color: Rgba) -> None:
    outline = outlines.stroke(start, end, width)
    _blend(canvas, outlines.filled(outline, canvas.width, canvas.height), color)


def _arrow(canvas: Canvas, arrow: Arrow) -> None:
    """The shaft, and for each head two short strokes back from its tip."""
    width = min(int(arrow.width), MAX_BORDER_WIDTH)
    if width <= 0 or _no_place(arrow.x1, arrow.y1, arrow.x2, arrow.y2):
        return
    start = _whole(arrow.x1), _whole(arrow.y1)
    end = _whole(arrow.x2), _whole(arrow.y2)
    _stroke(canvas, start, end, width, arrow.color)
    tips = []
    if arrow.head in (ArrowHead.START, ArrowHead.BOTH):
        tips.append((start, end))
    if arrow.head in (ArrowHead.END, ArrowHead.BOTH):
        tips.append((end, start))
    for tip, tail in tips:
        direction = math.atan2(tail[1] - tip[1], tail[0] - tip[0])
        length = _HEAD_LENGTH * math.dist(tip, tail)
        for angle in (direction - _HEAD_ANGLE, direction + _HEAD_ANGLE):
            side = tip[0] + length * math.cos(angle), tip[1] + length * math.sin(angle)
            _stroke(canvas, tip, side, width, arrow.color)


def _circle(canvas: Canvas, circle: Circle) -> None:
    if _no_place(circle.x, circle.y, circle.radius) or circle.radius <= 0:
        return
    center, radius = (_whole(circle.x), _whole(circle.y)), _whole(circle.radius)
    width = min(int(circle.width) or 2, MAX_BORDER_WIDTH)
    if circle.background is not None:
        disc = outlines.circle(center, radius)
        _blend(canvas, outlines.filled(disc, canvas.width, canvas.height), circle.background)
    if width > 0:
        outer, inner = (outlines.circle(center, radius + width * half) for half in (0.5, -0.5))
        _blend(canvas, outlines.filled(outer, canvas.width, canvas.height, hole=inner), circle.color)


def _blend(canvas: Canvas, parts: list[outlines.Coverage], color: Rgba) -> None:
    value = to_bytes(color)
    if value[3]:
        for left, top, coverage in parts:
            canvas.paste(canvas.stamp(np.ascontiguousarray(coverage), left, top, value))
