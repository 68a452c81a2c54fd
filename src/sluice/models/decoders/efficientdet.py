"""EfficientDet with raw outputs: class scores and offsets from nine anchors a cell."""

from __future__ import annotations

import itertools
from typing import ClassVar

import numpy as np

from sluice.models.decoders.base import (
    IMAGENET_MEAN,
    IMAGENET_STD,
    Arrays,
    Family,
    Float,
    Raw,
    Recognition,
    best_classes,
    grid,
    no,
    probabilities,
    shapes_text,
)
from sluice.models.preprocess import Preprocessing
from sluice.runtimes.base import NetworkInfo

STRIDES = (8, 16, 32, 64, 128)
MEAN_GREY = 116  # ImageNet's mean is (124, 116, 104)
#: Width and height of a cell's anchors in strides: 4 x three sizes x three shapes, sizes in the outer loop
#: (EfficientDet, efficientdet/utils.py, Anchors).
ANCHORS = np.array(
    [
        (4 * 2 ** (octave / 3) * ratio[0], 4 * 2 ** (octave / 3) * ratio[1])
        for octave, ratio in itertools.product(range(3), ((1.0, 1.0), (1.4, 0.7), (0.7, 1.4)))
    ],
    np.float32,
)


def anchors(width: int, height: int) -> Float:
    """Centre x, centre y, width, height [N,4] of all anchors in pixels: by stride, row, column, anchor."""
    column_row, strides = grid(width, height, STRIDES)
    count = len(ANCHORS)
    centres = np.repeat((column_row + np.float32(0.5)) * strides, count, axis=0)
    sizes = (strides[:, None] * ANCHORS).reshape(-1, 2)
    return np.concatenate([centres, sizes], axis=1).astype(np.float32)


class EfficientdetDecoder(Family):
    """EfficientDet without suppression: scores [batch, N, classes] and offsets [batch, N, 4] in the order y, x, h, w.

    N = 9 anchors x cells of strides 8 to 128. Centre = anchor + offset * size, size = anchor * e^offset (EfficientDet,
    efficientdet/utils.py, BBoxTransform). Outputs besides, such as features and anchors, are not read. Input: RGB / 255
    with ImageNet's mean and deviation, aspect kept, at the top left, padded with the mean (utils/utils.py,
    aspectaware_resize_padding), for which the grey next to it stands.
    """

    name: ClassVar[str] = "efficientdet"

    def __init__(self, info: NetworkInfo, width: int, height: int, /) -> None:
        super().__init__(info, width, height)
        self._anchors = anchors(width, height)
        self._at = _roles(info, len(self._anchors)) or (0, 1)

    @classmethod
    def recognise(cls, info: NetworkInfo, width: int, height: int, /) -> Recognition:
        """Scores and offsets over the anchors."""
        count = len(anchors(width, height))
        at = _roles(info, count)
        if at is None:
            return no(
                f"needs scores [batch, {count}, classes] and offsets [batch, {count}, 4]; has {shapes_text(info)}"
            )
        classes = info.outputs[at[0]].shape[2] or 0
        why = (
            f"outputs {shapes_text(info)}: {count} = 9 anchors x cells of strides 8 to 128 at {width}x{height}, "
            f"{classes} classes"
        )
        return Recognition(True, why, classes)

    @classmethod
    def preprocessing(cls, _info: NetworkInfo, width: int, height: int, /) -> Preprocessing:
        """RGB / 255 with ImageNet's mean and deviation, at the top left, padded with grey."""
        return Preprocessing(width, height, fit="top-left", pad=MEAN_GREY, mean=IMAGENET_MEAN, std=IMAGENET_STD)

    def decode(self, outputs: Arrays, index: int, confidence: float) -> Raw:
        """See `Decoder.decode`."""
        rows, scores, class_ids = best_classes(probabilities(outputs[self._at[0]][index]), confidence)
        offsets, anchor = outputs[self._at[1]][index][rows], self._anchors[rows]
        centre = anchor[:, :2] + offsets[:, [1, 0]] * anchor[:, 2:]
        half = anchor[:, 2:] * np.exp(offsets[:, [3, 2]]) / 2
        return Raw(np.concatenate([centre - half, centre + half], axis=1).astype(np.float32), scores, class_ids)


def _roles(info: NetworkInfo, count: int) -> tuple[int, int] | None:
    """Indices of scores and offsets; ``anchors``, where it is an output too, is left out by its name."""
    same = [
        i
        for i, o in enumerate(info.outputs)
        if len(o.shape) == 3 and o.shape[1] == count and "anchor" not in o.name.lower()
    ]
    if len(same) != 2:
        return None
    for scores, offsets in (same, same[::-1]):
        name = info.outputs[offsets].name.lower()
        if info.outputs[offsets].shape[2] == 4 and (
            info.outputs[scores].shape[2] != 4 or "reg" in name or "box" in name
        ):
            return scores, offsets
    return None
