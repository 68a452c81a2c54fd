"""Masks of objects as heads give them, cut to the boxes that stay."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

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
        if self.of_box:
            cells: list[Float] = list(np.asarray(self.values[rows], np.float32))
        else:
            # Logits are sampled before they are made probabilities, as the references enlarge before they cut at 0.
            masks, places = self._for(rows, boxes, size)
            cells = [masks._over_box(row, box, size) for row, box in zip(places, boxes, strict=True)]
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
            if right <= left or bottom <= top:
                result[number] = False
                continue
            result[number] = (
                self._sampled(row, (left, top, right, bottom), size, (right - left, bottom - top)) > 0
            ).any()
        return result

    def _for(self, rows: npt.NDArray[np.intp], boxes: Float, size: tuple[int, int]) -> tuple[Masks, Sequence[int]]:
        """Masks with these rows in them, summed up in one product where that is less work, and the rows' places."""
        if self.prototypes is None or _area(boxes) < size[0] * size[1]:
            return self, rows.tolist()
        prototypes = np.asarray(self.prototypes, np.float32)
        whole = np.asarray(self.values[rows], np.float32) @ prototypes.reshape(len(prototypes), -1)
        return replace(self, values=whole.reshape(-1, *prototypes.shape[1:]), prototypes=None), range(len(rows))

    def _over_box(self, row: int, box: Float, size: tuple[int, int]) -> Float:
        """A mask over the input at the centres of cells over a box, at most `MOST_CELLS` a side."""
        left, top, right, bottom = (float(edge) for edge in box)
        columns, lines = (max(1, min(MOST_CELLS, math.ceil(length))) for length in (right - left, bottom - top))
        return self._sampled(row, (left, top, right, bottom), size, (columns, lines))

    def _sampled(
        self, row: int, box: tuple[float, float, float, float], size: tuple[int, int], cells: tuple[int, int]
    ) -> Float:
        """Linear samples of a mask over the input, at the centres of `cells` (columns, lines) over a box.

        Only the part of the prototypes that the box needs is summed up.
        """
        height, width = (self.values if self.prototypes is None else self.prototypes).shape[-2:]
        across = _Samples.over(box[0], box[2], cells[0], size[0], width)
        down = _Samples.over(box[1], box[3], cells[1], size[1], height)
        if self.prototypes is None:
            mask = np.asarray(self.values[row, down.part, across.part], np.float32)
        else:
            part = np.asarray(self.prototypes[:, down.part, across.part], np.float32)
            mask = np.tensordot(np.asarray(self.values[row], np.float32), part, 1)
        matrix = np.array([[across.step, 0, across.first], [0, down.step, down.first]], np.float64)
        flags = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
        return np.asarray(cv2.warpAffine(mask, matrix, cells, flags=flags, borderMode=cv2.BORDER_REPLICATE), np.float32)


class _Samples(NamedTuple):
    """Where samples lie along one side of a mask.

    Attributes:
        part: the mask's samples that they are made of.
        first, step: place of the first and distance of the next, counted in samples from the part's first.
    """

    part: slice
    first: float
    step: float

    @staticmethod
    def over(start: float, end: float, cells: int, size: int, samples: int) -> _Samples:
        """Centres of `cells` cells from `start` to `end` on an input of `size` pixels with a mask of `samples`.

        The centre of cell j lies (j + 0.5) cells behind the start; that of sample i at (i + 0.5) of its own.
        """
        factor = samples / size
        step = (end - start) / cells * factor
        first = start * factor + step / 2 - 0.5
        low = min(max(math.floor(first), 0), samples - 1)
        high = min(max(math.floor(first + (cells - 1) * step) + 2, low + 1), samples)
        return _Samples(slice(low, high), first - low, step)


def _area(boxes: Float) -> float:
    """The area of all boxes [N,4] together."""
    return float(np.prod(boxes[:, 2:] - boxes[:, :2], axis=1).sum())


def _probability(logits: Float) -> Float:
    result: Float = (0.5 * (1 + np.tanh(0.5 * logits))).astype(np.float32)
    return result
