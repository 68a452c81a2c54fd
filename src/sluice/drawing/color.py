"""Colours as the bytes of a pixel format: RGB as it is, Y'CbCr by the picture's own matrix and range."""

import math
from functools import lru_cache

from sluice.contract.formats import Matrix
from sluice.drawing.shapes import Rgba

Bytes4 = tuple[int, int, int, int]
"""Red, green, blue and alpha from 0 to 255."""


@lru_cache(maxsize=4096)
def to_bytes(color: Rgba) -> Bytes4:
    """Truncate components to 8 bits as nvdsosd does; values outside 0 to 1 are clamped and NaN is 0."""
    red, green, blue, alpha = (int(min(max(c, 0.0), 1.0) * 255.0) if not math.isnan(c) else 0 for c in color)
    return red, green, blue, alpha


@lru_cache(maxsize=4096)
def components(color: Bytes4, matrix: Matrix, full_range: bool) -> dict[str, int]:
    """The colour as what a plane can hold: r, g, b and a (always opaque), and y, u and v where there is a matrix.

    Scales and offsets of 8-bit limited and full range are those of ITU-R BT.601 and of JFIF.
    """
    values = {"r": color[0], "g": color[1], "b": color[2], "a": 255}
    if matrix is Matrix.RGB:
        return values
    kr, kb = matrix.luma
    red, green, blue = (c / 255.0 for c in color[:3])
    luma = kr * red + (1.0 - kr - kb) * green + kb * blue
    cb = (blue - luma) / (2.0 * (1.0 - kb))
    cr = (red - luma) / (2.0 * (1.0 - kr))
    luma_scale, luma_offset, chroma_scale = (255.0, 0.0, 255.0) if full_range else (219.0, 16.0, 224.0)
    luma, cb, cr = luma_offset + luma_scale * luma, 128.0 + chroma_scale * cb, 128.0 + chroma_scale * cr
    return values | {"y": _byte(luma), "u": _byte(cb), "v": _byte(cr)}


def _byte(value: float) -> int:
    return min(max(round(value), 0), 255)
