"""Segmentation masks stretched over the boxes they belong to."""

from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

MASK_ALPHA = 127
"""How strongly a mask tints the picture, of 255 (nvll_osd)."""


def mask_coverage(
    data: npt.NDArray[np.float32], threshold: float, box: tuple[int, int, int, int], width: int, height: int
) -> npt.NDArray[np.uint8]:
    """Stretch a float [H, W] mask over a box (left, top, right, bottom) and cut out what lies in the picture.

    Values above the threshold become MASK_ALPHA, all others and NaN 0; between the four nearest values it is
    interpolated, with pixel centres aligned, as nvll_osd does. Only visible pixels are computed, however large the box.
    Returns uint8 [h, w], empty when nothing is visible, whose first pixel is (max(left, 0), max(top, 0)).
    """
    left, top, right, bottom = box
    columns = np.arange(max(left, 0), min(right, width))
    rows = np.arange(max(top, 0), min(bottom, height))
    if not columns.size or not rows.size:
        return np.zeros((0, 0), np.uint8)
    binary = (data > threshold).astype(np.float32) * MASK_ALPHA
    if (columns.size, rows.size) == (right - left, bottom - top):
        return _truncated(cv2.resize(binary, (right - left, bottom - top), interpolation=cv2.INTER_LINEAR))
    above, below, down = _neighbours(rows - top, bottom - top, data.shape[0])
    before, after, across = _neighbours(columns - left, right - left, data.shape[1])
    down = down[:, np.newaxis]
    stretched = binary[above] * (1.0 - down) + binary[below] * down
    stretched = stretched[:, before] * (1.0 - across) + stretched[:, after] * across
    return _truncated(stretched)


def _truncated(values: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
    """Drop fractions, but not of a whole number that rounding has left just below it."""
    whole: npt.NDArray[np.uint8] = (values + np.float32(1e-3)).astype(np.uint8)
    return whole


def nearest(
    data: npt.NDArray[Any], box: tuple[int, int, int, int], area: tuple[int, int, int, int]
) -> npt.NDArray[Any]:
    """Stretch [H, W] values over a box and return what lies in an area inside it, each pixel with its nearest value.

    Box and area are left, top, right, bottom in the same pixels.
    """
    columns = (np.arange(area[0], area[2]) - box[0] + 0.5) * data.shape[1] / (box[2] - box[0])
    rows = (np.arange(area[1], area[3]) - box[1] + 0.5) * data.shape[0] / (box[3] - box[1])
    across, down = columns.astype(np.intp).clip(0, data.shape[1] - 1), rows.astype(np.intp).clip(0, data.shape[0] - 1)
    stretched: npt.NDArray[Any] = data.take(across, axis=1).take(down, axis=0)
    return stretched


def _neighbours(
    pixels: npt.NDArray[np.int64], extent: int, samples: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.float32]]:
    """For each pixel of a box the two nearest samples of a mask along one axis, and the weight of the second."""
    position = np.clip((pixels + 0.5) * samples / extent - 0.5, 0, samples - 1)
    first = position.astype(np.int64)
    return first, np.minimum(first + 1, samples - 1), (position - first).astype(np.float32)
