"""A picture to draw on: its planes, filled and blended in place, whatever the pixel format."""

from functools import lru_cache
from typing import Any, NamedTuple

import cv2
import numpy as np
import numpy.typing as npt

from sluice.contract.formats import Matrix
from sluice.contract.surface import Surface
from sluice.drawing.color import Bytes4, components
from sluice.drawing.masks import nearest
from sluice.errors import ConfigurationError

Bytes = npt.NDArray[np.uint8]


class PlaneLayout(NamedTuple):
    """Which components a plane interleaves, and by how many powers of two it is smaller than the picture."""

    components: str
    shift_x: int = 0
    shift_y: int = 0


# GStreamer's names. A padding byte (x) is treated as alpha: writing 255 there does no harm.
FORMATS: dict[str, tuple[PlaneLayout, ...]] = {
    "I420": (PlaneLayout("y"), PlaneLayout("u", 1, 1), PlaneLayout("v", 1, 1)),
    "NV12": (PlaneLayout("y"), PlaneLayout("uv", 1, 1)),
    "YUY2": (PlaneLayout("y"), PlaneLayout("u", 1, 0), PlaneLayout("v", 1, 0)),
    "GRAY8": (PlaneLayout("y"),),
    "RGB": (PlaneLayout("rgb"),),
    "BGR": (PlaneLayout("bgr"),),
    "RGBA": (PlaneLayout("rgba"),),
    "BGRA": (PlaneLayout("bgra"),),
    "RGBx": (PlaneLayout("rgba"),),
    "BGRx": (PlaneLayout("bgra"),),
}


# Blocks along a side of a hidden box, and how many of them are averaged: those of nvdsosd.
_BLOCKS = 32
_BLOCK_KERNEL = 7

# Fractional bits of the coordinates given to OpenCV.
_FRACTION = 4


class Stamp(NamedTuple):
    """A coverage and a colour made ready for one format: what each plane keeps (of 255) and what is added to it.

    `left` and `top` are where the arrays begin in the picture, always even so that chroma samples fall into place.
    """

    left: int
    top: int
    planes: tuple[tuple[Bytes, Bytes], ...]


class _Plane(NamedTuple):
    pixels: Bytes  # (h, w, c), no copy
    layout: PlaneLayout


class Canvas:
    """The planes of one picture, written in place.

    Colours are blended over the picture as if it were opaque; where it has an alpha channel, drawing makes it opaque.
    A chroma sample that a filled box touches takes the box's colour whole.
    """

    def __init__(
        self,
        pixel_format: str,
        planes: list[Bytes],
        width: int,
        height: int,
        *,
        matrix: Matrix = Matrix.BT601,
        full_range: bool = False,
    ) -> None:
        """Wrap uint8 planes of shape (h, w) or (h, w, c), rows at any pitch; YUY2's is (h, w rounded up to even, 2).

        Matrix and range say how colours become Y'CbCr; RGB formats do without. Raises ConfigurationError for another
        format, or planes that it does not have.
        """
        if pixel_format not in FORMATS:
            raise ConfigurationError(
                f"cannot draw on {pixel_format}; formats that can be drawn on: {', '.join(FORMATS)}"
            )
        layouts = FORMATS[pixel_format]
        views = _packed_planes(planes[0]) if pixel_format == "YUY2" else planes
        if len(views) != len(layouts):
            raise ConfigurationError(f"{pixel_format} has {len(layouts)} planes, not {len(views)}")
        self.format = pixel_format
        self.width = width
        self.height = height
        self._matrix = matrix
        self._full_range = full_range
        self._values: dict[Bytes4, tuple[Bytes, ...]] = {}
        self._planes = [_Plane(_three_dimensional(p, n.components), n) for p, n in zip(views, layouts, strict=True)]

    @classmethod
    def of(cls, surface: Surface) -> "Canvas":
        """A canvas on a surface that is lent for writing, with its own format, matrix and range.

        Raises:
            SurfaceError: its pixels are not in host memory.
        """
        planes = surface.host_planes()
        size = surface.width, surface.height
        return cls(surface.format, planes, *size, matrix=surface.matrix, full_range=surface.full_range)

    @property
    def color_space(self) -> tuple[str, Matrix, bool]:
        """Format, matrix and range: stamps made on one canvas fit every other canvas with the same three."""
        return self.format, self._matrix, self._full_range

    def fill(self, left: int, top: int, right: int, bottom: int, color: Bytes4) -> None:
        """Fill the part of [left, right) x [top, bottom) that lies in the picture, blending by the colour's alpha."""
        # Thousands of boxes a frame come here: no calls where a comparison does.
        left, top = left if left > 0 else 0, top if top > 0 else 0
        right, bottom = right if right < self.width else self.width, bottom if bottom < self.height else self.height
        if left >= right or top >= bottom or color[3] == 0:
            return
        values = self._values.get(color)
        if values is None:
            values = self._values[color] = _plane_values(color, *self.color_space)
        for (pixels, (_, shift_x, shift_y)), value in zip(self._planes, values, strict=True):
            y0, y1 = top >> shift_y, (bottom + shift_y) >> shift_y
            x0, x1 = left >> shift_x, (right + shift_x) >> shift_x
            if color[3] == 255:
                pixels[y0:y1, x0:x1] = value
            else:
                _tint(pixels[y0:y1, x0:x1], value, color[3])

    def stamp(self, coverage: Bytes, left: int, top: int, color: Bytes4) -> Stamp:
        """Prepare a coverage map, uint8 [h, w] with 255 for fully covered, whose first pixel is (left, top)."""
        odd_x, odd_y = left & 1, top & 1
        height, width = coverage.shape
        even = np.zeros((height + odd_y + 1 & ~1, width + odd_x + 1 & ~1), np.uint8)
        even[odd_y : odd_y + height, odd_x : odd_x + width] = coverage
        weight = even if color[3] == 255 else cv2.convertScaleAbs(even, alpha=color[3] / 255.0)
        weights = {(0, 0): weight}
        values = components(color, self._matrix, self._full_range)
        planes = tuple(_stamp_plane(_shrunk(weights, layout), layout, values) for _, layout in self._planes)
        return Stamp(left - odd_x, top - odd_y, planes)

    def mosaic(self, left: int, top: int, right: int, bottom: int, mask: Bytes | None = None) -> None:
        """Make the part of [left, right) x [top, bottom) in the picture unrecognisable, as nvdsosd's blur does.

        It is averaged into at most 32 x 32 blocks, which are averaged with their neighbours, seven by seven. With a
        mask, [h, w] of any size stretched over all of the box, only pixels where it is not 0 change. A chroma sample
        that the box touches is hidden whole.
        """
        box = left, top, right, bottom
        left, top, right, bottom = max(left, 0), max(top, 0), min(right, self.width), min(bottom, self.height)
        if left >= right or top >= bottom:
            return
        hidden = None if mask is None else nearest(mask, box, (left, top, right, bottom))
        for pixels, layout in self._planes:
            region = _part(pixels, layout, left, top, right, bottom)
            blocks = _blocks(region, layout)
            if hidden is None:
                region[...] = blocks
            else:
                # A sample is hidden if any of the pixels it covers is, so shrinking takes the largest.
                where = _largest(hidden, left & layout.shift_x, top & layout.shift_y, layout)[: len(region)]
                np.copyto(region, blocks, where=where[:, : region.shape[1], np.newaxis] != 0)

    def tint(self, classes: Bytes, left: int, top: int, right: int, bottom: int, colors: dict[int, Bytes4]) -> None:
        """Blend the colour of each class over its pixels by the colour's alpha; classes without a colour stay.

        `classes` is uint8 [h, w] of any size, stretched over [left, right) x [top, bottom).
        """
        keep = np.full(256, 255, np.uint8)
        for number, color in colors.items():
            keep[number] = 255 - color[3]
        x0, y0, x1, y1 = max(left, 0), max(top, 0), min(right, self.width), min(bottom, self.height)
        if x0 >= x1 or y0 >= y1:
            return
        for pixels, layout in self._planes:
            region = _part(pixels, layout, x0, y0, x1, y1)
            x, y = x0 >> layout.shift_x, y0 >> layout.shift_y
            box = (
                left >> layout.shift_x,
                top >> layout.shift_y,
                right + 1 >> layout.shift_x,
                bottom + 1 >> layout.shift_y,
            )
            here = nearest(classes, box, (x, y, x + region.shape[1], y + region.shape[0]))
            weight = cv2.LUT(here, keep)
            for channel, name in enumerate(layout.components):
                add = np.zeros(256, np.uint8)
                for number, color in colors.items():
                    add[number] = (components(color, self._matrix, self._full_range)[name] * color[3] + 127) // 255
                kept = cv2.multiply(np.ascontiguousarray(region[:, :, channel]), weight, scale=1 / 255.0)
                region[:, :, channel] = cv2.add(kept, cv2.LUT(here, add))

    def polyline(self, points: npt.NDArray[np.float64], width: int, color: Bytes4) -> None:
        """Draw opaque lines from point to point ([N, 2] x and y), none farther out than 32767 pixels."""
        left, top = (int(value) - width for value in points.min(axis=0))
        right, bottom = (int(value) + width + 1 for value in points.max(axis=0))
        left, top, right, bottom = max(left, 0), max(top, 0), min(right, self.width), min(bottom, self.height)
        if left >= right or top >= bottom:
            return
        values = _plane_values(color, *self.color_space)
        for (pixels, layout), value in zip(self._planes, values, strict=True):
            region = _part(pixels, layout, left, top, right, bottom)
            scale = np.array((1 << layout.shift_x, 1 << layout.shift_y))
            origin = np.array((left >> layout.shift_x, top >> layout.shift_y))
            places = np.rint(((points / scale - origin) - 0.5) * (1 << _FRACTION)).astype(np.int32)
            # Wide enough that no luma keeps the chroma of the picture below.
            thickness = (width >> min(layout.shift_x, layout.shift_y)) + (1 if layout.shift_x else 0)
            drawn = region.copy()  # ascontiguousarray leaves a single sample's strides as they are; OpenCV refuses them
            cv2.polylines(drawn, [places], False, value.tolist(), thickness, cv2.LINE_AA, _FRACTION)
            region[...] = drawn.reshape(region.shape)

    def paste(self, stamp: Stamp, dx: int = 0, dy: int = 0) -> None:
        """Blend a stamp, moved by (dx, dy) pixels, both even; what falls outside the picture is left out."""
        left, top = stamp.left + dx, stamp.top + dy
        for (pixels, (_, shift_x, shift_y)), (keep, add) in zip(self._planes, stamp.planes, strict=True):
            x, y = left >> shift_x, top >> shift_y
            height, width, channels = keep.shape
            x0, y0 = max(x, 0), max(y, 0)
            x1, y1 = min(x + width, pixels.shape[1]), min(y + height, pixels.shape[0])
            if x0 >= x1 or y0 >= y1:
                continue
            region = pixels[y0:y1, x0:x1]
            if (x1 - x0, y1 - y0) != (width, height):
                part = slice(y0 - y, y1 - y), slice(x0 - x, x1 - x)
                keep, add = keep[part], add[part]
            # Rows of bytes: OpenCV then works on any number of channels alike.
            rows = y1 - y0, (x1 - x0) * channels
            kept = cv2.multiply(region.reshape(rows), keep.reshape(rows), scale=1 / 255.0)
            region[...] = cv2.add(kept, add.reshape(rows)).reshape(region.shape)


def _three_dimensional(plane: Bytes, names: str) -> Bytes:
    channels = plane.shape[2] if plane.ndim == 3 else 1
    if channels != len(names) or plane.dtype != np.uint8:
        raise ConfigurationError(
            f"a plane of {'/'.join(names)} is uint8 with {len(names)} values a pixel, not {plane.dtype} {plane.shape}"
        )
    return plane if plane.ndim == 3 else plane[:, :, np.newaxis]


def _packed_planes(packed: Bytes) -> list[Bytes]:
    """Y, U and V of YUY2 as strided views: two pixels share the four bytes Y0 U Y1 V."""
    return [packed[:, :, 0], packed[:, 0::2, 1], packed[:, 1::2, 1]]


def _part(pixels: Bytes, layout: PlaneLayout, left: int, top: int, right: int, bottom: int) -> Bytes:
    """The samples of a plane that a box inside the picture touches."""
    _, shift_x, shift_y = layout
    return pixels[top >> shift_y : (bottom + shift_y) >> shift_y, left >> shift_x : (right + shift_x) >> shift_x]


def _blocks(region: Bytes, layout: PlaneLayout) -> Bytes:
    """A region with no more detail than blocks have; opaque where it has an alpha channel."""
    height, width, channels = region.shape
    size = min(width, _BLOCKS), min(height, _BLOCKS)
    small = cv2.resize(np.ascontiguousarray(region), size, interpolation=cv2.INTER_AREA)
    small = cv2.blur(small, (_BLOCK_KERNEL, _BLOCK_KERNEL), borderType=cv2.BORDER_REPLICATE)
    blocks: Bytes = cv2.resize(small, (width, height), interpolation=cv2.INTER_NEAREST).reshape(height, width, channels)
    if "a" in layout.components:
        blocks[:, :, layout.components.index("a")] = 255
    return blocks


def _largest(values: npt.NDArray[Any], odd_x: int, odd_y: int, layout: PlaneLayout) -> npt.NDArray[Any]:
    """The largest of the values that share each sample of a plane, the first of which begins odd_x, odd_y earlier."""
    step_x, step_y = 1 << layout.shift_x, 1 << layout.shift_y
    padding = ((odd_y, -(len(values) + odd_y) % step_y), (odd_x, -(values.shape[1] + odd_x) % step_x))
    padded = np.pad(values, padding)
    groups = padded.reshape(len(padded) // step_y, step_y, padded.shape[1] // step_x, step_x)
    largest: npt.NDArray[Any] = groups.max(axis=(1, 3))
    return largest


@lru_cache(maxsize=4096)
def _plane_values(color: Bytes4, pixel_format: str, matrix: Matrix, full_range: bool) -> tuple[Bytes, ...]:
    """The colour as one pixel of each plane, uint8 [channels]."""
    values = components(color, matrix, full_range)
    return tuple(np.array([values[name] for name in names], np.uint8) for names, _, _ in FORMATS[pixel_format])


def _tint(region: Bytes, color: Bytes, alpha: int) -> None:
    """Blend one colour over a region: every byte has a new value that depends on nothing else, so look it up."""
    before = np.arange(256)
    for channel, value in enumerate(color.tolist()):
        table = ((before * (255 - alpha) + value * alpha + 127) // 255).astype(np.uint8)
        region[:, :, channel] = cv2.LUT(region[:, :, channel], table)


def _shrunk(weights: dict[tuple[int, int], Bytes], layout: PlaneLayout) -> Bytes:
    """The weight in the size of a plane; planes of the same size share it."""
    shifts = layout.shift_x, layout.shift_y
    if shifts not in weights:
        height, width = weights[0, 0].shape
        smaller = width >> layout.shift_x, height >> layout.shift_y
        weights[shifts] = cv2.resize(weights[0, 0], smaller, interpolation=cv2.INTER_AREA)
    return weights[shifts]


def _stamp_plane(weight: Bytes, layout: PlaneLayout, values: dict[str, int]) -> tuple[Bytes, Bytes]:
    """What to keep and what to add, (h, w, c), for a plane of this layout."""
    add = [cv2.LUT(weight, _products(values[name])) for name in layout.components]
    keep = cv2.bitwise_not(weight)
    if len(add) == 1:
        return keep[:, :, np.newaxis], add[0][:, :, np.newaxis]
    return cv2.merge([keep] * len(add)), cv2.merge(add)


@lru_cache(maxsize=256)
def _products(value: int) -> Bytes:
    """What each weight from 0 to 255 makes of a value from 0 to 255, uint8 [256]."""
    return ((np.arange(256) * value + 127) // 255).astype(np.uint8)
