"""YuNet, faces with five landmarks: the form of 2021 (priors) and the later one (cells)."""

from __future__ import annotations

import itertools
from typing import ClassVar

import numpy as np

from sluice.models.conversions import xyxy_from_cxcywh
from sluice.models.decoders.base import Arrays, Family, Raw, Recognition, grid, named, no, shapes_text, sure
from sluice.models.preprocess import Preprocessing
from sluice.runtimes.base import NetworkInfo

#: Side lengths in pixels of the priors of each stride (libfacedetection.train, tasks/task1/config/yufacedet.yaml).
PRIORS = {8: (10, 16, 24), 16: (32, 48), 32: (64, 96), 64: (128, 192, 256)}
STRIDES = (8, 16, 32)
PARTS = ("cls", "obj", "bbox", "kps")


class Yunet2021Decoder(Family):
    """YuNet of 2021: loc [N,14], conf [N,2], iou [N,1] over priors of strides 8 to 64.

    Centre and landmarks = prior + value * 0.1 * side, size = side * e^(0.2 value), score = sqrt(conf * iou)
    (libfacedetection.train, tasks/task1/src/utils.py, decode). Input: BGR 0..255, stretched.
    """

    name: ClassVar[str] = "yunet-2021"
    labels: ClassVar[tuple[str, ...]] = ("face",)

    def __init__(self, info: NetworkInfo, width: int, height: int, /) -> None:
        super().__init__(info, width, height)
        self._centres, self._sides = _priors(width, height)

    @classmethod
    def recognise(cls, info: NetworkInfo, width: int, height: int, /) -> Recognition:
        """Outputs loc, conf, iou over the priors, with or without a batch axis."""
        at = named(info, "loc", "conf", "iou")
        count = len(_priors(width, height)[0])
        shapes = [info.outputs[i].shape for i in at] if at else []
        if [shape[-2:] for shape in shapes] != [(count, 14), (count, 2), (count, 1)]:
            return no(f"needs loc [{count}, 14], conf [{count}, 2], iou [{count}, 1]; has {shapes_text(info)}")
        return Recognition(True, f"outputs loc, conf, iou over the {count} priors of {width}x{height}", 1)

    @classmethod
    def preprocessing(cls, _info: NetworkInfo, width: int, height: int, /) -> Preprocessing:
        """BGR, unscaled, stretched."""
        return Preprocessing(width, height, fit="stretch", order="BGR", scale=1.0)

    def decode(self, outputs: Arrays, index: int, confidence: float) -> Raw:
        """See `Decoder.decode`."""
        at = named(self.info, "loc", "conf", "iou") or (0, 1, 2)
        count = len(self._centres)
        loc, conf, iou = (outputs[i].reshape(-1, count, outputs[i].shape[-1])[index] for i in at)
        scores = np.sqrt(conf[:, 1] * np.clip(iou[:, 0], 0, 1))
        rows = sure(scores, confidence)
        centre, side = self._centres[rows], self._sides[rows]
        shifted = (
            centre[:, None] + loc[rows][:, [0, 1, *range(4, 14)]].reshape(-1, 6, 2) * np.float32(0.1) * side[:, None]
        )
        boxes = np.concatenate([shifted[:, 0], side * np.exp(loc[rows, 2:4] * np.float32(0.2))], axis=1)
        points = shifted[:, 1:].astype(np.float32)
        return Raw(
            xyxy_from_cxcywh(boxes.astype(np.float32)),
            scores[rows].astype(np.float32),
            np.zeros(len(rows), np.int32),
            keypoints=points,
        )


class YunetDecoder(Family):
    """YuNet of 2022 on: cls, obj, bbox, kps for each of the strides 8, 16, 32: twelve outputs.

    Centre and landmarks = (cell + value) * stride, size = stride * e^value, score = sqrt(cls * obj) (OpenCV,
    modules/objdetect/src/face_detect.cpp). Input: BGR 0..255, at the top left, padded with black.
    """

    name: ClassVar[str] = "yunet"
    labels: ClassVar[tuple[str, ...]] = ("face",)

    def __init__(self, info: NetworkInfo, width: int, height: int, /) -> None:
        super().__init__(info, width, height)
        self._at = {stride: named(info, *(f"{part}_{stride}" for part in PARTS)) or () for stride in STRIDES}
        self._cells = {stride: grid(width, height, (stride,))[0] for stride in STRIDES}

    @classmethod
    def recognise(cls, info: NetworkInfo, width: int, height: int, /) -> Recognition:
        """cls_8, cls_16, ... kps_32 over the cells of each stride."""
        for stride in STRIDES:
            at = named(info, *(f"{part}_{stride}" for part in PARTS))
            count = (width // stride) * (height // stride)
            if at is None or [info.outputs[i].shape[1:] for i in at] != [(count, n) for n in (1, 1, 4, 10)]:
                return no(
                    f"needs cls_{stride}, obj_{stride}, bbox_{stride}, kps_{stride} [batch, {count}, 1, 1, 4, 10]; the "
                    f"network has {shapes_text(info)}"
                )
        return Recognition(True, f"outputs cls, obj, bbox, kps of strides 8, 16, 32 at {width}x{height}", 1)

    @classmethod
    def preprocessing(cls, _info: NetworkInfo, width: int, height: int, /) -> Preprocessing:
        """BGR, unscaled, at the top left, padded with black."""
        return Preprocessing(width, height, fit="top-left", order="BGR", scale=1.0, pad=0)

    def decode(self, outputs: Arrays, index: int, confidence: float) -> Raw:
        """See `Decoder.decode`."""
        found = []
        for stride, at in self._at.items():
            score, objectness, box, points = (outputs[i][index] for i in at)
            scores = np.sqrt(np.clip(score[:, 0], 0, 1) * np.clip(objectness[:, 0], 0, 1))
            rows = sure(scores, confidence)
            cell = self._cells[stride][rows]
            boxes = np.concatenate([(cell + box[rows, :2]), np.exp(box[rows, 2:])], axis=1) * np.float32(stride)
            marks = (points[rows].reshape(-1, 5, 2) + cell[:, None]) * np.float32(stride)
            found.append((xyxy_from_cxcywh(boxes.astype(np.float32)), scores[rows], marks))
        xyxy, scores, marks = (np.concatenate(parts).astype(np.float32) for parts in zip(*found, strict=True))
        return Raw(xyxy, scores, np.zeros(len(xyxy), np.int32), keypoints=marks)


def _priors(width: int, height: int) -> tuple[np.ndarray, np.ndarray]:
    """Centres [N,2] and sides [N,1] of the priors in pixels: by stride, row, column, side; float32."""
    centres, sides = [], []
    for stride, lengths in PRIORS.items():
        cell = grid(width, height, (stride,))[0]
        centres.append(np.repeat((cell + 0.5) * stride, len(lengths), axis=0))
        sides.append(np.fromiter(itertools.chain.from_iterable([lengths] * len(cell)), np.float32))
    return np.concatenate(centres).astype(np.float32), np.concatenate(sides)[:, None]
