"""MMDetection's exports: mmdeploy's dets and labels (RTMDet, Mask R-CNN, ...), and RTMDet's raw maps."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from sluice.models.decoders.base import (
    Arrays,
    Family,
    Raw,
    Recognition,
    best_classes,
    grid,
    metadata_names,
    no,
    probabilities,
    shapes_text,
    sure,
)
from sluice.models.decoders.masks import Masks
from sluice.models.decoders.nanodet import BGR_MEAN, BGR_STD, boxes_of
from sluice.models.preprocess import Preprocessing
from sluice.runtimes.base import NetworkInfo

STRIDES = (8, 16, 32)


class MmdetFamily(Family):
    """What MMDetection's models are trained with: BGR, ImageNet's mean and deviation, at the top left."""

    @classmethod
    def preprocessing(cls, _info: NetworkInfo, width: int, height: int, /) -> Preprocessing:
        """BGR with ImageNet's mean and deviation in 0..255, at the top left, padded with 114."""
        return Preprocessing(width, height, fit="top-left", order="BGR", scale=1.0, mean=BGR_MEAN, std=BGR_STD)


class MmdeployDecoder(MmdetFamily):
    """mmdeploy's end-to-end detectors (RTMDet and others): corners with a score, and labels; suppressed.

    dets [batch, N, 5] in input pixels, labels [batch, N] of integers (-1 where there is none), and for instance
    segmentation masks [batch, N, h, w], probabilities: those of the input's size are of the input, others of the box.
    Input: BGR with ImageNet's mean and deviation in 0..255, aspect kept, at the top left, padded with 114 (RTMDet).
    """

    name: ClassVar[str] = "mmdeploy"
    needs_nms: ClassVar[bool] = False

    @classmethod
    def recognise(cls, info: NetworkInfo, _width: int, _height: int, /) -> Recognition:
        """[batch, N, 5], [batch, N] and perhaps [batch, N, h, w]."""
        shapes = [output.shape for output in info.outputs]
        right = len(shapes) in (2, 3) and len(shapes[0]) == 3 and shapes[0][2] == 5 and len(shapes[1]) == 2
        if not right or (len(shapes) == 3 and len(shapes[2]) != 4):
            return no(f"needs dets [batch, N, 5], labels [batch, N] and perhaps masks; has {shapes_text(info)}")
        why = f"outputs {', '.join(map(str, info.outputs))}: corners + score, and labels"
        return Recognition(True, why, len(metadata_names(info)))

    def decode(self, outputs: Arrays, index: int, confidence: float) -> Raw:
        """See `Decoder.decode`."""
        dets, labels = outputs[0][index], outputs[1][index]
        rows = sure(dets[:, 4], confidence)
        rows = rows[labels[rows] >= 0]
        found = np.asarray(dets[rows], np.float32)
        masks = None
        if len(outputs) == 3:
            of_box = outputs[2].shape[2:] != (self.height, self.width)
            masks = Masks(outputs[2][index][rows], logits=False, of_box=of_box)
        return Raw(found[:, :4], found[:, 4], labels[rows].astype(np.int32), masks=masks)


class RtmdetRawDecoder(MmdetFamily):
    """RTMDet without its post-processing: three maps of class logits, three of distances in input pixels.

    [batch, classes, h, w] and [batch, 4, h, w] of strides 8, 16, 32; distances are already times the stride, from the
    point cell * stride (MMDetection, rtmdet_head.py; MlvlPointGenerator with offset 0). Input as mmdeploy.
    """

    name: ClassVar[str] = "rtmdet-raw"

    def __init__(self, info: NetworkInfo, width: int, height: int, /) -> None:
        super().__init__(info, width, height)
        self._pairs = _pairs(info, width, height)
        self._points = [grid(width, height, (stride,))[0] * np.float32(stride) for stride in STRIDES]

    @classmethod
    def recognise(cls, info: NetworkInfo, width: int, height: int, /) -> Recognition:
        """Six maps that pair up over the cells of strides 8, 16, 32."""
        pairs = _pairs(info, width, height)
        if len(info.outputs) != 6 or len(pairs) != 3:
            return no(
                f"needs maps [batch, classes, h, w] and [batch, 4, h, w] of strides 8, 16, 32; has {shapes_text(info)}"
            )
        classes = info.outputs[pairs[0][0]].shape[1] or 0
        why = f"outputs {shapes_text(info)}: per stride of 8, 16, 32 {classes} class logits and 4 distances"
        return Recognition(True, why, classes)

    def decode(self, outputs: Arrays, index: int, confidence: float) -> Raw:
        """See `Decoder.decode`."""
        found = []
        for points, (scores_at, sides_at) in zip(self._points, self._pairs, strict=True):
            logits, sides = (outputs[at][index].reshape(outputs[at].shape[1], -1).T for at in (scores_at, sides_at))
            rows, scores, class_ids = best_classes(probabilities(logits), confidence)
            found.append((boxes_of(points[rows], sides[rows]), scores, class_ids))
        boxes, scores, class_ids = (np.concatenate(parts) for parts in zip(*found, strict=True))
        return Raw(boxes, scores, class_ids)


def _pairs(info: NetworkInfo, width: int, height: int) -> list[tuple[int, int]]:
    """Per stride the indices of (scores, distances); the one named earlier holds the scores."""
    result = []
    for stride in STRIDES:
        size = height // stride, width // stride
        same = [i for i, item in enumerate(info.outputs) if len(item.shape) == 4 and item.shape[2:] == size]
        if len(same) == 2 and info.outputs[same[1]].shape[1] == 4:
            result.append((same[0], same[1]))
    return result
