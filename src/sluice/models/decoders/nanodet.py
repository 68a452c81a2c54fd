"""NanoDet: class scores and distance distributions, a pair of outputs per stride."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from sluice.models.decoders.base import Arrays, Float, Raw, Recognition, grid, no, shapes_text
from sluice.models.preprocess import Preprocessing
from sluice.runtimes.base import NetworkInfo

STRIDES = (8, 16, 32)


class NanodetDecoder:
    """NanoDet (first generation): per stride [batch, cells, classes] and [batch, cells, 4 x bins].

    The four sides' distances are the expected value of a softmax over the bins, times the stride, from the point
    cell * stride + (stride - 1) / 2 (NanoDet, nanodet/model/head/gfl_head.py). Class scores have their sigmoid in the
    graph. Input: BGR, mean (103.53, 116.28, 123.675) and std (57.375, 57.12, 58.395), aspect kept, centred, padded
    with 0.
    """

    name: ClassVar[str] = "nanodet"
    needs_nms: ClassVar[bool] = True

    def __init__(self, info: NetworkInfo, width: int, height: int) -> None:
        self._pairs = _pairs(info, width, height)
        self._points: list[Float] = []
        for stride in STRIDES:
            cell, _ = grid(width, height, (stride,))
            self._points.append(cell * stride + np.float32(0.5 * (stride - 1)))

    @staticmethod
    def recognise(info: NetworkInfo, width: int, height: int) -> Recognition:
        """Six outputs that pair up over the cells of strides 8, 16 and 32."""
        if len(info.outputs) != 2 * len(STRIDES):
            return no(f"needs {2 * len(STRIDES)} outputs, scores and distances per stride; has {len(info.outputs)}")
        pairs = _pairs(info, width, height)
        if len(pairs) != len(STRIDES):
            return no(f"no pairs of scores and 4 x bins over the cells of strides 8, 16, 32 in {shapes_text(info)}")
        classes, sides = (info.outputs[i].shape[2] or 0 for i in pairs[0])
        why = (
            f"outputs {shapes_text(info)}: per stride {classes} class scores and {sides} = 4 sides x {sides // 4} bins"
        )
        return Recognition(True, why, classes)

    @staticmethod
    def preprocessing(width: int, height: int) -> Preprocessing:
        """BGR with ImageNet's mean and deviation in 0..255, centred, padded with black."""
        return Preprocessing(
            width,
            height,
            pad=0,
            order="BGR",
            scale=1.0,
            mean=(103.53, 116.28, 123.675),
            std=(57.375, 57.12, 58.395),
        )

    def decode(self, outputs: Arrays, index: int, confidence: float) -> Raw:
        """See `Decoder.decode`."""
        found = []
        for stride, points, (scores_at, sides_at) in zip(STRIDES, self._points, self._pairs, strict=True):
            scores = outputs[scores_at][index]
            chosen = np.flatnonzero(scores.max(axis=1) >= confidence)
            few = scores[chosen]
            class_ids = few.argmax(axis=1).astype(np.int32)
            logits = outputs[sides_at][index][chosen]
            sides = _expected(logits.reshape(len(chosen), 4, logits.shape[1] // 4)) * np.float32(stride)
            centre = points[chosen]
            boxes = np.concatenate([centre - sides[:, :2], centre + sides[:, 2:]], axis=1)
            found.append(Raw(boxes, few[np.arange(len(chosen)), class_ids], class_ids))
        return Raw(*(np.concatenate(parts) for parts in zip(*found, strict=True)))


def _expected(logits: Float) -> Float:
    """Expected bin number under the softmax over the last axis."""
    weights = np.exp(logits - logits.max(axis=-1, keepdims=True))
    bins = np.arange(logits.shape[-1], dtype=np.float32)
    result: Float = (weights @ bins) / weights.sum(axis=-1)
    return result


def _pairs(info: NetworkInfo, width: int, height: int) -> list[tuple[int, int]]:
    """Per stride the indices of (scores, distances), told apart by a last axis of 4 x bins; fewer if there are none.

    Where both could be distances, the output named earlier holds the scores, as NanoDet exports them.
    """
    result = []
    for stride in STRIDES:
        count = (width // stride) * (height // stride)
        same = [i for i, item in enumerate(info.outputs) if len(item.shape) == 3 and item.shape[1] == count]
        if len(same) == 2 and (info.outputs[same[1]].shape[2] or 0) % 4 == 0 and info.outputs[same[0]].shape[2]:
            result.append((same[0], same[1]))
    return result
