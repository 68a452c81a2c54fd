"""Linear interpolation over as many pixels as fall on one of the smaller picture: what Pillow calls bilinear."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from sluice.models.pixels import Image

Float = npt.NDArray[np.float32]


def antialiased(plane: Image, size: tuple[int, int]) -> Image:
    """A uint8 plane [h,w] or [h,w,channels] in another size (width, height).

    The weight of a pixel falls linearly with its distance, to 0 at one pixel of the smaller picture (Pillow,
    src/libImaging/Resample.c, precompute_coeffs). OpenCV's linear interpolation reads two pixels, however many lie
    between them.
    """
    height, width = plane.shape[:2]
    lines = _weighted(plane, *_taps(height, size[1]))
    columns = _weighted(lines.swapaxes(0, 1), *_taps(width, size[0])).swapaxes(0, 1)
    result: Image = np.ascontiguousarray(np.rint(columns), np.uint8)
    return result


def _weighted(rows: npt.NDArray[Any], places: npt.NDArray[np.intp], weights: Float) -> Float:
    """The sum of the rows at each of `places` [targets,taps] times `weights`; float32 [targets,...]."""
    result = np.zeros((len(places), *rows.shape[1:]), np.float32)
    shape = -1, *(1,) * (rows.ndim - 1)
    for place, weight in zip(places.T, weights.T, strict=True):
        result += rows[place] * weight.reshape(shape)
    return result


@lru_cache(maxsize=64)
def _taps(source: int, target: int) -> tuple[npt.NDArray[np.intp], Float]:
    """Which of `source` pixels each of `target` pixels reads, and their weights, which add up to 1: [target,taps]."""
    scale = source / target
    reach = max(1.0, scale)
    centre = (np.arange(target) + 0.5) * scale
    first = np.maximum(0, np.floor(centre - reach + 0.5)).astype(np.intp)
    places = first[:, None] + np.arange(int(np.ceil(2 * reach)) + 1)
    weights = np.clip(1 - np.abs(places + 0.5 - centre[:, None]) / reach, 0, None)
    weights[places >= source] = 0
    shares = (weights / weights.sum(axis=1, keepdims=True)).astype(np.float32)
    return np.minimum(places, source - 1), shares
