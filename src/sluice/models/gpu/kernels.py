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
    alive = 1 - (score < 0.0).to(tl.int32)  # NaN stays, so that it can be refused
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


@triton.jit
def _nearest(value):  # type: ignore[no-untyped-def]
    """The whole number next to a float64, an even one where two are: as processors round."""
    number = tl.floor(value + 0.5)
    odd = number - 2 * tl.floor(number * 0.5)
    return (number - tl.where(number - value == 0.5, odd, 0.0)).to(tl.int32)


@triton.jit  # type: ignore[untyped-decorator]
def _sum(values, weights, place, per_channel, wanted, CHANNELS: tl.constexpr):  # type: ignore[no-untyped-def]
    """The sum of all channels times their weights at a place, 0 where it is not wanted."""
    total = tl.zeros(place.shape, tl.float32)
    for channel in range(CHANNELS):
        value = tl.load(values + channel * per_channel + place, mask=wanted, other=0).to(tl.float32)
        total += value * tl.load(weights + channel)
    return total


@triton.jit  # type: ignore[untyped-decorator]
def _sampled(  # type: ignore[no-untyped-def]
    values, weights, samples, column, line, per_channel, per_line, per_column, columns, lines, wanted,
    CHANNELS: tl.constexpr,
):  # fmt: skip
    """A mask's value at cells, as OpenCV's warpAffine interpolates: at places of 1/32 of a sample, edges repeated."""
    low_x, first_x, step_x = tl.load(samples), tl.load(samples + 1), tl.load(samples + 2)
    low_y, first_y, step_y = tl.load(samples + 3), tl.load(samples + 4), tl.load(samples + 5)
    x = (_nearest(step_x * column.to(tl.float64) * 1024) + _nearest(first_x * 1024) + 16) >> 5
    y = (_nearest((step_y * line.to(tl.float64) + first_y) * 1024) + 16) >> 5
    at_x, at_y = (x >> 5) + low_x.to(tl.int32), (y >> 5) + low_y.to(tl.int32)
    across, down = (x & 31).to(tl.float32) / 32, (y & 31).to(tl.float32) / 32
    left = tl.minimum(tl.maximum(at_x, 0), columns - 1) * per_column
    right = tl.minimum(tl.maximum(at_x + 1, 0), columns - 1) * per_column
    above = tl.minimum(tl.maximum(at_y, 0), lines - 1) * per_line
    below = tl.minimum(tl.maximum(at_y + 1, 0), lines - 1) * per_line
    a = _sum(values, weights, above + left, per_channel, wanted, CHANNELS)
    b = _sum(values, weights, above + right, per_channel, wanted, CHANNELS)
    c = _sum(values, weights, below + left, per_channel, wanted, CHANNELS)
    d = _sum(values, weights, below + right, per_channel, wanted, CHANNELS)
    return a * ((1 - down) * (1 - across)) + b * ((1 - down) * across) + c * (down * (1 - across)) + d * (down * across)


@triton.jit  # type: ignore[untyped-decorator]
def mask_kernel(  # type: ignore[no-untyped-def]
    values, places, weights, samples, cells, packed, targets, per_channel, per_line, per_column, columns, lines,
    CHANNELS: tl.constexpr, BLOCK: tl.constexpr, PROGRAMS: tl.constexpr,
):  # fmt: skip
    """Masks over boxes, a bit for each cell, the first the lowest of the first byte; a program is a part of one mask.

    Args:
        values: maps of any floating type.
        places: int64 [masks], of each mask's first value.
        weights: float32 [masks, CHANNELS], of the maps that a mask is the sum of.
        samples: float64 [masks, 6]: a first sample, the first cell's place behind it, and the step from cell to cell,
            across, then down.
        cells: int64 [masks, 2]: columns and lines of each mask; 0 for none.
        packed: uint8, what is written.
        targets: int64 [masks], of each mask's first byte.
        per_channel, per_line, per_column: strides of the values.
        columns, lines: size of a map.
    """
    number = tl.program_id(0).to(tl.int64)
    width = tl.load(cells + 2 * number).to(tl.int32)
    total = width * tl.load(cells + 2 * number + 1).to(tl.int32)
    origin = values + tl.load(places + number)
    target = packed + tl.load(targets + number)
    bit = tl.arange(0, 8)[None, :]
    byte = tl.arange(0, BLOCK // 8)
    first = tl.program_id(1) * BLOCK
    while first < total:
        cell = first + byte[:, None] * 8 + bit
        wanted = cell < total
        line = cell // width
        value = _sampled(
            origin, weights + number * CHANNELS, samples + 6 * number, cell - line * width, line, per_channel, per_line,
            per_column, columns, lines, wanted, CHANNELS,
        )  # fmt: skip
        bits = tl.sum((wanted & (value > 0)).to(tl.int32) << bit, axis=1)
        tl.store(target + first // 8 + byte, bits.to(tl.uint8), mask=first + byte * 8 < total)
        first += BLOCK * PROGRAMS


@triton.jit  # type: ignore[untyped-decorator]
def visible_kernel(  # type: ignore[no-untyped-def]
    values, places, weights, samples, pixels, packed, targets, cells, seen, per_channel, per_line, per_column, columns,
    lines, CHANNELS: tl.constexpr, BLOCK: tl.constexpr, PROGRAMS: tl.constexpr, FEW: tl.constexpr,
):  # fmt: skip
    """Which masks have a pixel of the network's input; a program looks at a part of one.

    See `sluice.models.decoders.masks.Masks.visible`.

    Args:
        values, places, weights, packed, targets, cells: as of `mask_kernel`, which has run.
        samples, pixels: as its samples and cells, of the input's pixels in the place of cells.
        seen: int32 [masks] of 0; becomes 1 for those that have one.
        FEW: cells above the edge from which on a mask need not be looked at.
    """
    number = tl.program_id(0).to(tl.int64)
    total = (tl.load(cells + 2 * number) * tl.load(cells + 2 * number + 1)).to(tl.int32)
    if total == 0:
        return
    origin, own = values + tl.load(places + number), weights + number * CHANNELS
    target = packed + tl.load(targets + number)
    above = 0
    start = 0
    while (start * 8 < total) & (above < FEW):
        place = start + tl.arange(0, BLOCK)
        byte = tl.load(target + place, mask=place * 8 < total, other=0).to(tl.int32)
        for bit in range(8):
            above += tl.sum((byte >> bit) & 1, axis=0)
        start += BLOCK
    found = (above >= FEW).to(tl.int32)
    width = tl.load(pixels + 2 * number).to(tl.int32)
    total = width * tl.load(pixels + 2 * number + 1).to(tl.int32)
    first = tl.program_id(1) * BLOCK
    while (first < total) & (found == 0):
        pixel = first + tl.arange(0, BLOCK)
        wanted = pixel < total
        line = pixel // width
        value = _sampled(
            origin, own, samples + 6 * number, pixel - line * width, line, per_channel, per_line, per_column, columns,
            lines, wanted, CHANNELS,
        )  # fmt: skip
        found = tl.max((wanted & (value > 0)).to(tl.int32), axis=0)
        first += BLOCK * PROGRAMS
    tl.store(seen + number, 1, mask=found > 0)
