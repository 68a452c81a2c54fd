"""The pixels of a tiled picture: surfaces of any format are scaled and converted into their tiles in one go.

Planes are scaled first and converted afterwards, at the size of the tile and only as far as needed: between two YUV
pictures with the same matrix and range nothing is converted at all.
"""

from functools import cache

import cv2
import numpy as np
import numpy.typing as npt

from sluice.contract.formats import Matrix, plane_shapes
from sluice.contract.surface import Surface
from sluice.drawing.canvas import FORMATS, Canvas
from sluice.elements.tiler_grid import Area
from sluice.models.pixels import (
    PixelLayout,
    layout_of,
    packed_to_packed,
    yuv_planes,
    yuv_to_rgb_matrix,
)

Image = npt.NDArray[np.uint8]
BLACK = (0, 0, 0, 255)

# How OpenCV makes each order of components of RGB; a fourth becomes 255.
_FROM_RGB = {"rgb": None, "bgr": cv2.COLOR_RGB2BGR, "rgba": cv2.COLOR_RGB2RGBA, "bgra": cv2.COLOR_RGB2BGRA}


class TiledPicture:
    """A picture that keeps what was last placed in each tile. YUV is limited-range BT.709."""

    def __init__(self, pixel_format: str, width: int, height: int) -> None:
        """Make a black picture in I420, NV12 or an RGB format."""
        self._planes: list[Image] = [
            np.empty((shape.height, shape.width, shape.bytes_per_pixel), np.uint8)
            for shape in plane_shapes(pixel_format, width, height)
        ]
        self._yuv = pixel_format in ("I420", "NV12")
        self._order = "" if self._yuv else FORMATS[pixel_format][0].components
        matrix = Matrix.BT709 if self._yuv else Matrix.RGB
        self._canvas = Canvas(pixel_format, self._planes, width, height, matrix=matrix, full_range=not self._yuv)
        self.clear(Area(0, 0, width, height))

    def clear(self, area: Area) -> None:
        """Make an area black."""
        self._canvas.fill(area.left, area.top, area.left + area.width, area.top + area.height, BLACK)

    def place(self, surface: Surface, area: Area) -> None:
        """Scale a surface to an area.

        Raises:
            SurfaceError: the surface is not in host memory.
        """
        layout = layout_of(surface)
        size = area.width, area.height
        if layout.name.startswith(("RGB", "BGR")):
            rgb = packed_to_packed(_resize(surface.host_plane(0), size), layout, "RGB")
            if self._yuv:
                self._put_yuv(area, *_rgb_to_yuv(rgb))
            else:
                self._put_rgb(area, rgb)
            return
        if layout.name == "GRAY8":
            # Grey is the same in every matrix; only its range matters.
            layout = layout._replace(matrix=Matrix.BT709)
        luma, chroma = _scaled_yuv(surface, layout, size)
        if self._yuv:
            self._put_yuv(area, *_to_bt709(luma, chroma, layout))
        else:
            merged = cv2.merge((luma, *cv2.split(_resize(chroma, size))))
            self._put_rgb(area, cv2.transform(merged, yuv_to_rgb_matrix(layout.matrix, layout.full_range)))

    def copy_to(self, surface: Surface) -> None:
        """Copy the whole picture to a surface of the same format and size, lent for writing."""
        for target, plane in zip(surface.host_planes(), self._planes, strict=True):
            target[...] = plane.reshape(target.shape)

    def _put_rgb(self, area: Area, rgb: Image) -> None:
        region = self._planes[0][area.top : area.top + area.height, area.left : area.left + area.width]
        code = _FROM_RGB[self._order]
        region[...] = rgb if code is None else cv2.cvtColor(rgb, code)

    def _put_yuv(self, area: Area, luma: Image, chroma: Image) -> None:
        left, top, width, height = area
        self._planes[0][top : top + height, left : left + width, 0] = luma
        place = slice(top // 2, (top + height) // 2), slice(left // 2, (left + width) // 2)
        if len(self._planes) == 2:
            self._planes[1][place] = chroma
        else:
            self._planes[1][(*place, 0)], self._planes[2][(*place, 0)] = chroma[:, :, 0], chroma[:, :, 1]


def _resize(pixels: Image, size: tuple[int, int]) -> Image:
    """Scale; averages when it shrinks by half or more, where interpolation would leave pixels out."""
    if pixels.shape[1::-1] == size:
        return pixels
    shrinks = pixels.shape[1] >= 2 * size[0] or pixels.shape[0] >= 2 * size[1]
    resized: Image = cv2.resize(pixels, size, interpolation=cv2.INTER_AREA if shrinks else cv2.INTER_LINEAR)
    return resized


def _scaled_yuv(surface: Surface, layout: PixelLayout, size: tuple[int, int]) -> tuple[Image, Image]:
    """Luma [h, w] and chroma [h/2, w/2, 2] of a YUV or grey surface at a size, in the surface's matrix and range."""
    half = size[0] // 2, size[1] // 2
    if layout.name == "GRAY8":
        gray = _resize(surface.host_plane(0), size)
        return gray, np.full((half[1], half[0], 2), 128, np.uint8)
    luma, chroma = yuv_planes(surface, layout)
    scaled = [_resize(plane, half) for plane in chroma]
    return _resize(luma, size), scaled[0] if len(scaled) == 1 else cv2.merge(scaled)


@cache
def _to_bt709_matrix(matrix: Matrix, full_range: bool) -> npt.NDArray[np.float64]:
    """float64 [3, 4] from 8-bit (y, u, v, 1) of a matrix and range to that of limited-range BT.709."""
    bottom = [[0.0, 0.0, 0.0, 1.0]]
    to_rgb, from_rgb = (
        np.concatenate([yuv_to_rgb_matrix(*pair), bottom]) for pair in ((matrix, full_range), (Matrix.BT709, False))
    )
    conversion: npt.NDArray[np.float64] = (np.linalg.inv(from_rgb) @ to_rgb)[:3]
    return conversion


def _to_bt709(luma: Image, chroma: Image, layout: PixelLayout) -> tuple[Image, Image]:
    """The same picture in limited-range BT.709. Chroma never depends on luma, so it is converted at its own size."""
    if (layout.matrix, layout.full_range) == (Matrix.BT709, False):
        return luma, chroma
    matrix = _to_bt709_matrix(layout.matrix, layout.full_range)
    wide = cv2.split(_resize(chroma, luma.shape[::-1]))
    return cv2.transform(cv2.merge((luma, *wide)), matrix[:1]), cv2.transform(chroma, matrix[1:, 1:])


def _rgb_to_yuv(rgb: Image) -> tuple[Image, Image]:
    """Limited-range BT.709 luma [h, w] and chroma [h/2, w/2, 2]."""
    matrix = np.linalg.inv(np.concatenate([yuv_to_rgb_matrix(Matrix.BT709, False), [[0.0, 0.0, 0.0, 1.0]]]))
    height, width = rgb.shape[:2]
    half = _resize(rgb, (width // 2, height // 2))
    return cv2.transform(rgb, matrix[:1]), cv2.transform(half, matrix[1:3])
