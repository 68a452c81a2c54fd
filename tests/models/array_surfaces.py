"""Surfaces in host memory for tests of the model side, made of plain arrays with padded rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from sluice.contract.formats import Matrix, MemType, color_format, plane_shapes


class ArraySurface:
    """What models read of a surface: size, colour format with exact matrix and range, and host planes."""

    mem_type = MemType.SYSTEM

    def __init__(
        self,
        planes: list[np.ndarray[Any, Any]],
        name: str,
        width: int,
        height: int,
        matrix: Matrix = Matrix.BT601,
        full_range: bool = False,
    ) -> None:
        self.planes = tuple(planes)
        self.width, self.height = width, height
        self.color_format = color_format(name, matrix, full_range)
        self.matrix, self.full_range = matrix, full_range

    def host_plane(self, index: int) -> np.ndarray[Any, Any]:
        return self.planes[index]

    def dlpack(self, index: int) -> np.ndarray[Any, Any]:
        return self.planes[index]


def blank(name: str, width: int, height: int, **colour: Any) -> ArraySurface:
    """A surface of zeros whose rows are padded by 24 bytes, so that no plane is contiguous."""
    planes = []
    for shape in plane_shapes(name, width, height):
        memory = np.zeros((shape.height, shape.row_bytes + 24), np.uint8)[:, : shape.row_bytes]
        if shape.bytes_per_pixel > 1:
            memory = memory.reshape(shape.height, shape.width, shape.bytes_per_pixel)
        assert memory.base is not None
        planes.append(memory)
    return ArraySurface(planes, name, width, height, **colour)


def noise(name: str, width: int, height: int, seed: int = 0, **colour: Any) -> ArraySurface:
    """A surface of every byte value."""
    surface = blank(name, width, height, **colour)
    rng = np.random.default_rng(seed)
    for plane in surface.planes:
        plane[...] = rng.integers(0, 256, plane.shape, dtype=np.uint8)
    return surface


def from_rgb(rgb: np.ndarray[Any, Any], name: str, **colour: Any) -> ArraySurface:
    """A surface of an RGB picture [h,w,3]; YUV by the standard's own formula in float64, chroma averaged."""
    height, width = rgb.shape[:2]
    surface = blank(name, width, height, **colour)
    if name in ("RGB", "RGBA", "RGBx", "BGR", "BGRA", "BGRx"):
        surface.planes[0][...] = 255
        surface.planes[0][..., :3] = rgb if name.startswith("RGB") else rgb[..., ::-1]
        return surface
    y, u, v = yuv_of(rgb.astype(np.float64), surface.matrix, surface.full_range)
    if name == "GRAY8":
        surface.planes[0][...] = y
        return surface
    rows = 1 if name == "YUY2" else 2
    u, v = (shrink(plane, rows) for plane in (u, v))
    if name == "YUY2":
        surface.planes[0][:, :width, 0] = y
        surface.planes[0][:, ::2, 1] = u
        surface.planes[0][:, 1::2, 1] = v
        return surface
    surface.planes[0][...] = y
    if name == "I420":
        surface.planes[1][...] = u
        surface.planes[2][...] = v
    else:
        surface.planes[1][..., 0] = u
        surface.planes[1][..., 1] = v
    return surface


def yuv_of(rgb: np.ndarray[Any, Any], matrix: Matrix, full_range: bool) -> list[np.ndarray[Any, Any]]:
    """8-bit Y, U, V of RGB in float64, straight from the definition of the standards."""
    kr, kb = matrix.luma
    red, green, blue = np.moveaxis(rgb / 255, -1, 0)
    y = kr * red + (1 - kr - kb) * green + kb * blue
    u = (blue - y) / (2 * (1 - kb))
    v = (red - y) / (2 * (1 - kr))
    scaled = (255 * y, 255 * u + 128, 255 * v + 128) if full_range else (219 * y + 16, 224 * u + 128, 224 * v + 128)
    return [np.clip(np.rint(plane), 0, 255).astype(np.uint8) for plane in scaled]


def rgb_of(y: Any, u: Any, v: Any, matrix: Matrix, full_range: bool) -> np.ndarray[Any, Any]:
    """float64 RGB 0..255 of 8-bit Y, U, V of one size: the inverse of the definition, solved as three equations."""
    kr, kb = matrix.luma
    y, u, v = (np.asarray(plane, np.float64) for plane in (y, u, v))
    luma, cb, cr = (
        (y / 255, (u - 128) / 255, (v - 128) / 255)
        if full_range
        else ((y - 16) / 219, (u - 128) / 224, (v - 128) / 224)
    )
    red = luma + 2 * (1 - kr) * cr
    blue = luma + 2 * (1 - kb) * cb
    green = (luma - kr * red - kb * blue) / (1 - kr - kb)
    return np.clip(np.stack([red, green, blue], axis=-1) * 255, 0, 255)


def shrink(plane: np.ndarray[Any, Any], rows: int) -> np.ndarray[Any, Any]:
    """Mean over 2 columns and `rows` rows, the last column and row repeated for odd sizes."""
    height, width = plane.shape
    padded = np.pad(plane.astype(np.float64), ((0, height % rows if rows == 2 else 0), (0, width % 2)), mode="edge")
    blocks = padded.reshape(padded.shape[0] // rows, rows, padded.shape[1] // 2, 2)
    return np.rint(blocks.mean(axis=(1, 3))).astype(np.uint8)
