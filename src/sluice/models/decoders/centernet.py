"""Centres as peaks of heat maps: CenterNet, and CenterFace with its landmarks."""

from __future__ import annotations

from typing import ClassVar

import cv2
import numpy as np

from sluice.models.decoders.base import (
    Arrays,
    Family,
    Float,
    Raw,
    Recognition,
    named,
    no,
    perhaps,
    probabilities,
    shapes_text,
    sure,
)
from sluice.models.preprocess import Preprocessing
from sluice.runtimes.base import NetworkInfo

STRIDE = 4


class CenternetDecoder(Family):
    """CenterNet: heat map [batch, classes, h/4, w/4], sizes [batch, 2, ..] and offsets [batch, 2, ..], in cells.

    A centre is a cell that is the highest of its 3 x 3 neighbours (CenterNet, src/lib/models/decode.py, ctdet_decode),
    so that no suppression is needed. Heat maps of logits are seen by their values. Input: BGR / 255, mean (0.408,
    0.447, 0.470) and deviation (0.289, 0.274, 0.278), aspect kept, centred, padded with black.
    """

    name: ClassVar[str] = "centernet"
    needs_nms: ClassVar[bool] = False

    def __init__(self, info: NetworkInfo, width: int, height: int, /) -> None:
        super().__init__(info, width, height)
        self._at = named(info, "hm", "wh", "reg") or (0, 1, 2)

    @classmethod
    def recognise(cls, info: NetworkInfo, width: int, height: int, /) -> Recognition:
        """Three maps at a quarter of the input's size, by the names hm, wh, reg."""
        at = named(info, "hm", "wh", "reg")
        maps = [info.outputs[i].shape for i in at] if at else [output.shape for output in info.outputs]
        size = height // STRIDE, width // STRIDE
        if len(maps) != 3 or any(len(s) != 4 or s[2:] != size for s in maps) or [s[1] for s in maps[1:]] != [2, 2]:
            return no(
                f"needs heat map, sizes, offsets [batch, classes or 2, {size[0]}, {size[1]}]; has {shapes_text(info)}"
            )
        classes = maps[0][1] or 0
        why = f"outputs {shapes_text(info)}: {classes} heat maps, sizes and offsets at a quarter of {width}x{height}"
        if at is None:
            return perhaps(f"{why}; but no names hm, wh, reg say which are sizes and which offsets", classes)
        return Recognition(True, why, classes)

    @classmethod
    def preprocessing(cls, _info: NetworkInfo, width: int, height: int, /) -> Preprocessing:
        """BGR / 255 with CenterNet's mean and deviation, centred, padded with black."""
        mean, std = (0.408, 0.447, 0.470), (0.289, 0.274, 0.278)
        return Preprocessing(width, height, pad=0, order="BGR", mean=mean, std=std)

    def decode(self, outputs: Arrays, index: int, confidence: float) -> Raw:
        """See `Decoder.decode`."""
        heat, sizes, offsets = (outputs[at][index] for at in self._at)
        heat = probabilities(heat)
        class_ids, rows, columns = _peaks(heat, confidence)
        centre = np.stack([columns, rows], axis=1) + offsets[:, rows, columns].T
        half = sizes[:, rows, columns].T / 2
        boxes = np.concatenate([centre - half, centre + half], axis=1).astype(np.float32) * np.float32(STRIDE)
        return Raw(boxes, heat[class_ids, rows, columns], class_ids.astype(np.int32))


class CenterfaceDecoder(Family):
    """CenterFace: heat map [batch, 1, h/4, w/4], sizes and offsets [.., 2, ..], landmarks [.., 10, ..]; y before x.

    Size = 4 e^value, centre = 4 (cell + offset + 0.5), landmark = left top + value * size (CenterFace,
    prj-python/centerface.py). Input: RGB 0..255, stretched.
    """

    name: ClassVar[str] = "centerface"
    labels: ClassVar[tuple[str, ...]] = ("face",)

    @classmethod
    def recognise(cls, info: NetworkInfo, width: int, height: int, /) -> Recognition:
        """Four maps of 1, 2, 2 and 10 channels at a quarter of the input's size."""
        size = height // STRIDE, width // STRIDE
        shapes = [output.shape for output in info.outputs]
        if any(len(s) != 4 or s[2:] != size for s in shapes) or [s[1] for s in shapes] != [1, 2, 2, 10]:
            return no(f"needs maps of 1, 2, 2 and 10 channels of {size[0]}x{size[1]} cells; has {shapes_text(info)}")
        return Recognition(True, f"outputs {shapes_text(info)}: heat map, sizes, offsets, 5 landmarks", 1)

    @classmethod
    def preprocessing(cls, _info: NetworkInfo, width: int, height: int, /) -> Preprocessing:
        """RGB, unscaled, stretched."""
        return Preprocessing(width, height, fit="stretch", scale=1.0)

    def decode(self, outputs: Arrays, index: int, confidence: float) -> Raw:
        """See `Decoder.decode`."""
        heat, scale, offset, landmark = (output[index] for output in outputs)
        rows, columns = np.unravel_index(sure(heat[0].ravel(), confidence), heat[0].shape)
        size = np.exp(scale[::-1, rows, columns].T) * STRIDE  # width, height
        centre = (np.stack([columns, rows], axis=1) + offset[::-1, rows, columns].T + 0.5) * STRIDE
        corner = np.clip(centre - size / 2, 0, (self.width, self.height))
        points = landmark[:, rows, columns].T.reshape(-1, 5, 2)[..., ::-1] * size[:, None] + corner[:, None]
        boxes = np.concatenate([corner, np.minimum(corner + size, (self.width, self.height))], axis=1)
        scores = heat[0, rows, columns].astype(np.float32)
        return Raw(boxes.astype(np.float32), scores, np.zeros(len(rows), np.int32), keypoints=points.astype(np.float32))


def _peaks(heat: Float, confidence: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Class, row and column of the cells of [classes,h,w] that are sure enough and highest of their neighbours."""
    found = []
    for class_id in sure(heat.max(axis=(1, 2)), confidence):
        plane = np.ascontiguousarray(heat[class_id])
        rows, columns = np.nonzero((plane >= confidence) & (plane == cv2.dilate(plane, np.ones((3, 3), np.uint8))))
        found.append((np.full(len(rows), class_id), rows, columns))
    if not found:
        return (np.empty(0, np.intp),) * 3
    class_ids, rows, columns = (np.concatenate(parts) for parts in zip(*found, strict=True))
    return class_ids, rows, columns
