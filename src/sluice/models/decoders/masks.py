"""Masks of objects as heads give them, cut to the boxes that stay."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

Float = npt.NDArray[np.float32]

#: A mask of fewer cells above its edge may be one that the reference finds empty; only then it is looked at closely.
FEW_CELLS = 16
#: Most cells of a mask along one side. Heads give masks at a quarter of the input's size, so that at the usual 640
#: pixels more cells would hold no more.
MOST_CELLS = 160


@dataclass(frozen=True)
class Masks:
    """Masks of N objects.

    Attributes:
        values: [N,h,w]; or [N,C], the coefficients of `prototypes`.
        prototypes: [C,h,w]; a mask is the sum of prototypes times the object's coefficients (YOLACT).
        logits: the edge of an object is at 0; else values are probabilities and the edge is at 0.5.
        of_box: the cells cover the object's box; else they cover the network's input.
    """

    values: npt.NDArray[Any]
    prototypes: npt.NDArray[Any] | None = None
    logits: bool = True
    of_box: bool = False

    def cut(self, rows: npt.NDArray[np.intp], boxes: Float, size: tuple[int, int]) -> list[Float]:
        """Probabilities over each box, at most `MOST_CELLS` a side.

        Args:
            rows: which objects.
            boxes: float32 [len(rows),4]: left, top, right, bottom in pixels of the network's input.
            size: width and height of that input.

        Returns:
            Arrays float32 [rows,columns] of 0..1, the edge at 0.5, whose cells cover the box.
        """
        values = np.asarray(self.values[rows], np.float32)
        if self.prototypes is not None:
            prototypes = np.asarray(self.prototypes, np.float32)
            values = (values @ prototypes.reshape(len(prototypes), -1)).reshape(-1, *prototypes.shape[1:])
        if not self.of_box:
            # Logits are sampled before they are made probabilities, as the references enlarge before they cut at 0.
            cells: list[Float] = [_sample(mask, box, size) for mask, box in zip(values, boxes, strict=True)]
        else:
            cells = list(values)
        return [_probability(mask) for mask in cells] if self.logits else cells

    def visible(
        self, rows: npt.NDArray[np.intp], cut: list[Float], boxes: Float, size: tuple[int, int]
    ) -> npt.NDArray[np.bool_]:
        """Which masks of prototypes have a pixel of the network's input, by Ultralytics' way of finding that out.

        It enlarges a mask to the input's size and cuts it to the pixels that are not left of or above the box's edges
        (ultralytics/utils/ops.py, process_mask and crop_mask). An object without a pixel is none, so that for masks of
        a pixel or two the way of sampling decides.

        Args:
            rows: which objects.
            cut: what `cut` gave for them.
            boxes: float32 [len(rows),4]: their boxes in pixels of the network's input, not clipped.
            size: width and height of that input.
        """
        result = np.ones(len(rows), np.bool_)
        if self.prototypes is None:
            return result
        for number, (row, mask, box) in enumerate(zip(rows, cut, boxes, strict=True)):
            if np.count_nonzero(mask > 0.5) >= FEW_CELLS:
                continue
            first, last = np.ceil(box[:2]), np.ceil(box[2:])
            left, top = np.clip(first, 0, size).astype(int)
            right, bottom = np.clip(last, 0, size).astype(int)
            logits = np.tensordot(np.float32(self.values[row]), np.asarray(self.prototypes, np.float32), 1)
            enlarged = cv2.resize(logits, size, interpolation=cv2.INTER_LINEAR)
            result[number] = (enlarged[top:bottom, left:right] > 0).any()
        return result


def _probability(logits: Float) -> Float:
    result: Float = (0.5 * (1 + np.tanh(0.5 * logits))).astype(np.float32)
    return result


def _sample(mask: Float, box: Float, size: tuple[int, int]) -> Float:
    """Linear samples of a mask over the whole input, at the centres of cells over a box."""
    height, width = mask.shape
    factor = width / size[0], height / size[1]
    left, top, right, bottom = (float(edge) for edge in box)
    columns, lines = (max(1, min(MOST_CELLS, math.ceil(length))) for length in (right - left, bottom - top))
    step = (right - left) / columns * factor[0], (bottom - top) / lines * factor[1]
    # Sample j lies at (j + 0.5) cells; sample i of the mask at (i + 0.5) of its own.
    start = left * factor[0] + step[0] / 2 - 0.5, top * factor[1] + step[1] / 2 - 0.5
    matrix = np.array([[step[0], 0, start[0]], [0, step[1], start[1]]], np.float64)
    flags = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
    return np.asarray(
        cv2.warpAffine(mask, matrix, (columns, lines), flags=flags, borderMode=cv2.BORDER_REPLICATE), np.float32
    )
