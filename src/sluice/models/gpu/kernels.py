"""The Triton kernels: letterboxing of a whole batch by pointer table, and non-maximum suppression.

Numbers of places are those of `sluice.models.gpu.table`, written out because a kernel sees no module's variables.
"""

from __future__ import annotations

import triton
import triton.language as tl

BLOCK = 1024
"""Pixels that one program of the letterbox kernel writes."""


@triton.jit  # type: ignore[untyped-decorator]
def _corners(row, which: tl.constexpr, x0, x1, y0, y1, inside):  # type: ignore[no-untyped-def]
    """One component of four pixels; a sample stands for all pixels that share it."""
    start = tl.load(row + which).to(tl.pointer_type(tl.uint8))
    pitch = tl.load(row + 3 + which).to(tl.int32)
    step = tl.load(row + 6 + which).to(tl.int32)
    shift_x = tl.load(row + 9 + which).to(tl.int32)
    shift_y = tl.load(row + 12 + which).to(tl.int32)
    last_x = tl.load(row + 15 + which).to(tl.int32)
    last_y = tl.load(row + 18 + which).to(tl.int32)
    left = tl.minimum(x0 >> shift_x, last_x) * step
    right = tl.minimum(x1 >> shift_x, last_x) * step
    above = tl.minimum(y0 >> shift_y, last_y) * pitch
    below = tl.minimum(y1 >> shift_y, last_y) * pitch
    a = tl.load(start + above + left, mask=inside, other=0).to(tl.float32)
    b = tl.load(start + above + right, mask=inside, other=0).to(tl.float32)
    c = tl.load(start + below + left, mask=inside, other=0).to(tl.float32)
    d = tl.load(start + below + right, mask=inside, other=0).to(tl.float32)
    return a, b, c, d


@triton.jit
def _level(value):  # type: ignore[no-untyped-def]
    """A brightness as the byte that a picture would hold."""
    return tl.floor(tl.minimum(tl.maximum(value, 0.0), 255.0) + 0.5)


@triton.jit  # type: ignore[untyped-decorator]
def letterbox_kernel(  # type: ignore[no-untyped-def]
    table, floats, target, width, height, per_picture, per_channel, per_line, per_column,
    ROW: tl.constexpr, FLOATS: tl.constexpr, ROUND: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Write [batch, 3, height, width], in any strides and type, of the frames that a table describes.

    What the usual program makes of a frame: all of it in RGB bytes, resized linearly to bytes, then normalised.

    Args:
        table, floats: the same memory as int64 [batch, ROW] and as float32.
        target: the network's input.
        width, height: its size.
        per_picture, per_channel, per_line, per_column: its strides, in elements.
        ROUND: whether values are rounded, for integers.

    A row that is not valid leaves its picture as it is.
    """
    picture = tl.program_id(0).to(tl.int64)
    row = table + picture * ROW
    if tl.load(row + 27) == 0:
        return
    number = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    line = number // width
    column = number - line * width
    written = line < height
    frame_width = tl.load(row + 21).to(tl.int32)
    frame_height = tl.load(row + 22).to(tl.int32)
    box_width = tl.load(row + 25).to(tl.int32)
    box_height = tl.load(row + 26).to(tl.int32)
    x = column - tl.load(row + 23).to(tl.int32)
    y = line - tl.load(row + 24).to(tl.int32)
    inside = written & (x >= 0) & (y >= 0) & (x < box_width) & (y < box_height)
    at_x = (x.to(tl.float32) + 0.5) * (frame_width.to(tl.float32) / box_width.to(tl.float32)) - 0.5
    at_y = (y.to(tl.float32) + 0.5) * (frame_height.to(tl.float32) / box_height.to(tl.float32)) - 0.5
    at_x = tl.minimum(tl.maximum(at_x, 0.0), (frame_width - 1).to(tl.float32))
    at_y = tl.minimum(tl.maximum(at_y, 0.0), (frame_height - 1).to(tl.float32))
    x0 = at_x.to(tl.int32)
    y0 = at_y.to(tl.int32)
    x1 = tl.minimum(x0 + 1, frame_width - 1)
    y1 = tl.minimum(y0 + 1, frame_height - 1)
    across = at_x - x0.to(tl.float32)
    down = at_y - y0.to(tl.float32)
    a0, b0, c0, d0 = _corners(row, 0, x0, x1, y0, y1, inside)
    a1, b1, c1, d1 = _corners(row, 1, x0, x1, y0, y1, inside)
    a2, b2, c2, d2 = _corners(row, 2, x0, x1, y0, y1, inside)
    numbers = floats + picture * (2 * ROW) + FLOATS
    place = target + picture * per_picture + line.to(tl.int64) * per_line + column * per_column
    padding = tl.load(numbers + 18)
    for channel in tl.static_range(3):
        by_0 = tl.load(numbers + 4 * channel)
        by_1 = tl.load(numbers + 4 * channel + 1)
        by_2 = tl.load(numbers + 4 * channel + 2)
        more = tl.load(numbers + 4 * channel + 3)
        a = _level(by_0 * a0 + by_1 * a1 + by_2 * a2 + more)
        b = _level(by_0 * b0 + by_1 * b1 + by_2 * b2 + more)
        c = _level(by_0 * c0 + by_1 * c1 + by_2 * c2 + more)
        d = _level(by_0 * d0 + by_1 * d1 + by_2 * d2 + more)
        top = a + (b - a) * across
        bottom = c + (d - c) * across
        value = tl.where(inside, _level(top + (bottom - top) * down), padding)
        value = value * tl.load(numbers + 12 + channel) + tl.load(numbers + 15 + channel)
        if ROUND:
            value = tl.floor(value + 0.5)
        tl.store(place + channel * per_channel, value.to(target.dtype.element_ty), mask=written)


@triton.jit  # type: ignore[untyped-decorator]
def suppression_kernel(  # type: ignore[no-untyped-def]
    boxes, scores, classes, kept, count, iou, AGNOSTIC: tl.constexpr, BLOCK: tl.constexpr
):
    """Greedy non-maximum suppression; one program is one picture.

    Args:
        boxes: float32 [batch, count, 4], left, top, right, bottom, best score first.
        scores: float32 [batch, count], below 0 where there is no box; such rows are the last.
        classes: float32 [batch, count].
        kept: float32 [batch, count]; becomes the score of boxes that stay, and -1 elsewhere.
        count: rows of a picture, at most BLOCK.
        iou: overlap above which the weaker box goes.
        AGNOSTIC: whether boxes of different classes suppress each other.
    """
    first = tl.program_id(0) * count
    index = tl.arange(0, BLOCK)
    present = index < count
    score = tl.load(scores + first + index, mask=present, other=-1.0)
    kind = tl.load(classes + first + index, mask=present, other=-1.0)
    row = boxes + (first + index) * 4
    left = tl.load(row, mask=present, other=0.0)
    top = tl.load(row + 1, mask=present, other=0.0)
    right = tl.load(row + 2, mask=present, other=0.0)
    bottom = tl.load(row + 3, mask=present, other=0.0)
    area = (right - left) * (bottom - top)
    alive = (score >= 0.0).to(tl.int32)
    many = tl.sum(alive, axis=0)
    i = 0
    while i < many:
        stays = tl.sum(tl.where(index == i, alive, 0), axis=0)
        one = boxes + (first + i) * 4
        l1 = tl.load(one)
        t1 = tl.load(one + 1)
        r1 = tl.load(one + 2)
        b1 = tl.load(one + 3)
        width = tl.maximum(tl.minimum(right, r1) - tl.maximum(left, l1), 0.0)
        height = tl.maximum(tl.minimum(bottom, b1) - tl.maximum(top, t1), 0.0)
        shared = width * height
        goes = (shared > iou * (area + (r1 - l1) * (b1 - t1) - shared)) & (index > i) & (stays > 0)
        if not AGNOSTIC:
            goes = goes & (kind == tl.load(classes + first + i))
        alive = tl.where(goes, 0, alive)
        i += 1
    tl.store(kept + first + index, tl.where(alive > 0, score, -1.0), mask=present)
