"""Colour conversion of host surfaces, with the matrix and the range that the stream really has.

BT.601 with limited range is converted by OpenCV's own cvtColor, to the bit what models are trained and evaluated with
where OpenCV reads the pictures. It knows no other, so one affine 3x4 matrix per (matrix, range) does the rest:
``rgb = M . (y, u, v) + offset``, from ITU-R BT.601-7, BT.709-6 and BT.2020-2: with luma weights kr, kb and
kg = 1 - kr - kb, r = y + 2(1-kr) v;  b = y + 2(1-kb) u;  g = y - 2(1-kb) kb/kg u - 2(1-kr) kr/kg v, where
limited-range luma is (Y-16)/219 and chroma (C-128)/224, full-range luma Y/255 and chroma (C-128)/255.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import cv2
import numpy as np
import numpy.typing as npt

from sluice.contract.formats import DEEP_FORMATS, FORMATS, Matrix, meaning
from sluice.errors import ContractError
from sluice.models.recycling import recycled

if TYPE_CHECKING:
    from sluice.contract.surface import Surface

Image = npt.NDArray[Any]
Rows = slice | npt.NDArray[np.intp]

ALL_ROWS = (slice(None),)
STRIP_BYTES = 500_000  # of RGB that is made at a time, with as much again on the way: half of a usual core's cache

YUV = ("I420", "NV12", "YUY2")
PACKED = ("RGB", "BGR", "RGBA", "BGRA", "RGBx", "BGRx")
assert {*YUV, *PACKED, "GRAY8"} == set(FORMATS), "a batch may carry a format that cannot be converted here"


class PixelLayout(NamedTuple):
    """What the bytes of a surface mean.

    Attributes:
        name: GStreamer's name of the format, of `YUV`, `PACKED` or GRAY8.
        matrix: the matrix between YCbCr and RGB.
        full_range: luma 0..255 if true, 16..235 if not; without meaning for RGB.
    """

    name: str
    matrix: Matrix
    full_range: bool


def layout_of(surface: Surface) -> PixelLayout:
    """The layout of a surface.

    Raises:
        ContractError: the pixel format is not one that Sluice reads on the host.
    """
    name = meaning(surface.color_format)[0]
    if name in DEEP_FORMATS:
        raise ContractError(
            f"surface {surface.index} is {name}, which is read on a GPU only; put `nvvideoconvert ! "
            "video/x-raw(memory:NVMM),format=NV12` before the mux"
        )
    return PixelLayout(name, surface.matrix, surface.full_range)


@cache
def yuv_to_rgb_matrix(matrix: Matrix, full_range: bool, order: str = "RGB") -> npt.NDArray[np.float64]:
    """float64 [3,4] that takes 8-bit (y, u, v, 1) to 8-bit red, green, blue (or the reverse order for "BGR")."""
    kr, kb = matrix.luma
    kg = 1 - kr - kb
    luma, offset, chroma = (1.0, 0, 1.0) if full_range else (255 / 219, 16, 255 / 224)
    rows = np.array(
        [
            [luma, 0, chroma * 2 * (1 - kr)],
            [luma, -chroma * 2 * (1 - kb) * kb / kg, -chroma * 2 * (1 - kr) * kr / kg],
            [luma, chroma * 2 * (1 - kb), 0],
        ]
    )
    result = np.concatenate([rows, -rows @ [[offset], [128], [128]]], axis=1)
    return result if order == "RGB" else result[::-1].copy()


@cache
def gray_table(full_range: bool) -> Image:
    """uint8 [256]: luma of GRAY8 to brightness 0..255."""
    luma = np.arange(256.0)
    table: Image = np.rint(np.clip(luma if full_range else (luma - 16) * 255 / 219, 0, 255)).astype(np.uint8)
    return table


def to_packed(surface: Surface, order: str) -> Image:
    """The surface as uint8 [height,width,3], `order` "RGB" or "BGR".

    A three-channel surface that has this order already is returned as a read-only view without a copy. Chroma is
    repeated over the pixels it stands for, as OpenCV does; BT.601 with limited range is what cvtColor gives.

    Raises:
        SurfaceError: the surface is not in host memory.
        ContractError: the pixel format is not one that Sluice reads.
    """
    layout = layout_of(surface)
    if layout.name == order:
        view = surface.host_plane(0).view()
        view.flags.writeable = False
        return view
    if layout.name in YUV:
        return yuv_to_packed(surface, layout, order, ALL_ROWS)
    return packed_to_packed(surface.host_plane(0), layout, order)


def packed_to_packed(pixels: Image, layout: PixelLayout, order: str) -> Image:
    """Pixels of an RGB format or GRAY8 as three channels in `order`; no copy if they have it already."""
    if layout.name == order:
        return pixels
    image: Image
    if layout.name == "GRAY8":
        gray = pixels if layout.full_range else cv2.LUT(pixels, gray_table(False))
        image = cv2.cvtColor(gray, cv2.COLOR_GRAY2RGB)
    elif len(layout.name) == 3:
        image = cv2.cvtColor(pixels, cv2.COLOR_BGR2RGB)
    else:
        image = cv2.cvtColor(pixels, cv2.COLOR_BGRA2BGR if layout.name[:3] == order else cv2.COLOR_BGRA2RGB)
    return image


def yuv_planes(surface: Surface, layout: PixelLayout) -> tuple[Image, tuple[Image, ...]]:
    """Luma, and chroma as (u, v) or as one interleaved [h,w,2], at their own sizes.

    Views without a copy, except that YUY2's luma and chroma are told apart.
    """
    first = surface.host_plane(0)
    if layout.name == "I420":
        return first, (surface.host_plane(1), surface.host_plane(2))
    if layout.name == "NV12":
        return first, (surface.host_plane(1),)
    luma = cv2.extractChannel(first, 0)[:, : surface.width]
    return luma, (cv2.extractChannel(first, 1).reshape(first.shape[0], -1, 2),)


class Scratch:
    """Pixels that are written anew for each frame, in memory that is kept from one to the next.

    Blocks of a megabyte and more come from the system each time (`sluice.app.allocation`), which clears them first: for
    the rows of a 1080p frame that takes longer than to convert them. Not for use by two threads at once.
    """

    def __init__(self) -> None:
        self._block = np.empty(0, np.uint8)

    def array(self, shape: tuple[int, ...]) -> Image:
        """uint8 of a shape that holds anything; what was given before is no longer to be read."""
        size = math.prod(shape)
        if self._block.size < size:
            self._block = np.empty(size, np.uint8)
        return self._block[:size].reshape(shape)


def yuv_to_packed(
    surface: Surface, layout: PixelLayout, order: str, parts: Sequence[Rows], scratch: Scratch | None = None
) -> Image:
    """A YUV surface as uint8 [height,width,3] of which only some rows are written; the others hold anything.

    Args:
        surface: in host memory, of a format in `YUV`.
        layout: its layout.
        order: "RGB" or "BGR".
        parts: the rows to write; a slice costs less than their numbers.
        scratch: where the result lies; None: in memory of its own, see `recycled`.
    """
    luma, chroma = yuv_planes(surface, layout)
    repeat = 1 if layout.name == "YUY2" else 2
    shape = surface.height, surface.width, 3
    result = recycled(shape) if scratch is None else scratch.array(shape)
    for rows in _strips(parts, surface.height, max(1, STRIP_BYTES // (3 * surface.width))):
        samples = [_chroma_of(plane, rows, repeat, surface.height) for plane in chroma]
        if isinstance(rows, slice):
            _convert(luma[rows], samples, layout, order, result[rows])
        else:
            converted = np.empty((len(rows), surface.width, 3), np.uint8)
            _convert(luma[rows], samples, layout, order, converted)
            result[rows] = converted
    return result


def _chroma_of(plane: Image, rows: Rows, repeat: int, height: int) -> Image:
    """A plane's row for each of a frame's rows, `repeat` of which share one; no copy of rows that are pairs apart."""
    if isinstance(rows, slice):
        numbers = range(*rows.indices(height))
        if numbers.step % repeat == 0 and numbers[-1] // repeat < len(plane):
            return plane[numbers[0] // repeat : numbers[-1] // repeat + 1 : numbers.step // repeat]
        rows = np.arange(numbers.start, numbers.stop, numbers.step)
    result: Image = plane[np.minimum(rows // repeat, len(plane) - 1)]
    return result


def _strips(parts: Sequence[Rows], height: int, lines: int) -> Iterator[Rows]:
    """The same rows, at most `lines` of them at a time: what is made of them on the way then stays in the cache."""
    for rows in parts:
        if isinstance(rows, slice):
            first, end, step = rows.indices(height)
            for start in range(first, end, step * lines):
                yield slice(start, min(end, start + step * lines), step)
        else:
            for start in range(0, len(rows), lines):
                yield rows[start : start + lines]


def _convert(luma: Image, chroma: Sequence[Image], layout: PixelLayout, order: str, target: Image) -> None:
    """Write rows of luma [n,w], each with a row of chroma of its own, into a target uint8 [n,w,3].

    OpenCV cuts luma below 16 off before it adds chroma, which the formula does not.
    """
    lines, width = luma.shape
    if layout.matrix is Matrix.BT601 and not layout.full_range:
        # With chroma for every row it is YUY2; of all of OpenCV's layouts the arithmetic is the same.
        pairs = _columns(cv2.merge(chroma) if len(chroma) == 2 else chroma[0], (width + 1) // 2)
        yuyv = cv2.merge((_columns(luma, width + width % 2), pairs.reshape(lines, -1)))
        code = cv2.COLOR_YUV2RGB_YUY2 if order == "RGB" else cv2.COLOR_YUV2BGR_YUY2
        if width % 2 == 0:
            cv2.cvtColor(yuyv, code, dst=target)
        else:
            target[...] = cv2.cvtColor(yuyv, code)[:, :width]
        return
    u, v = chroma if len(chroma) == 2 else cv2.split(chroma[0])
    # Merging a plane with itself repeats every column.
    u, v = (_columns(cv2.merge((plane, plane)).reshape(len(plane), -1), width) for plane in (u, v))
    matrix = yuv_to_rgb_matrix(layout.matrix, layout.full_range, order)
    cv2.transform(cv2.merge((luma, u, v)), matrix, dst=target)


def _columns(plane: Image, columns: int) -> Image:
    """Cut a plane, or repeat its last column: NVIDIA rounds the chroma of odd sizes down, GStreamer up."""
    right = max(0, columns - plane.shape[1])
    if right:
        plane = cv2.copyMakeBorder(plane, 0, 0, 0, right, cv2.BORDER_REPLICATE)
    return plane[:, :columns]
