"""Class scores and distance distributions per cell: NanoDet, NanoDet-Plus, PicoDet."""

from __future__ import annotations

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
    cells,
    grid,
    no,
    shapes_text,
)
from sluice.models.preprocess import Preprocessing
from sluice.runtimes.base import NetworkInfo

BGR_MEAN, BGR_STD = (103.53, 116.28, 123.675), (57.375, 57.12, 58.395)  # ImageNet's, in 0..255


def expected_bins(logits: Float) -> Float:
    """Expected bin number under the softmax over the last axis."""
    weights = np.exp(logits - logits.max(axis=-1, keepdims=True))
    bins = np.arange(logits.shape[-1], dtype=np.float32)
    result: Float = (weights @ bins) / weights.sum(axis=-1)
    return result


def boxes_of(points: Float, sides: Float) -> Float:
    """Corners [N,4] from points [N,2] and the distances [N,4] of left, top, right, bottom from them."""
    corners: Float = np.concatenate([points - sides[:, :2], points + sides[:, 2:]], axis=1).astype(np.float32)
    return corners


class PairsPerStrideFamily(Family):
    """Per stride [batch, cells, classes] with the sigmoid done, and [batch, cells, 4 x bins]."""

    STRIDES: ClassVar[tuple[int, ...]]

    def __init__(self, info: NetworkInfo, width: int, height: int, /) -> None:
        super().__init__(info, width, height)
        self._pairs = _pairs(info, width, height, self.STRIDES)
        self._points = [self.points(width, height, stride) for stride in self.STRIDES]

    @classmethod
    def points(cls, width: int, height: int, stride: int) -> Float:
        """The point in pixels [cells,2] that a cell's distances are measured from."""
        raise NotImplementedError

    @classmethod
    def recognise(cls, info: NetworkInfo, width: int, height: int, /) -> Recognition:
        """Outputs that pair up over the cells of each stride."""
        count, text = 2 * len(cls.STRIDES), ", ".join(map(str, cls.STRIDES))
        if len(info.outputs) != count:
            return no(f"needs {count} outputs, scores and distances per stride; the network has {len(info.outputs)}")
        pairs = _pairs(info, width, height, cls.STRIDES)
        if len(pairs) != len(cls.STRIDES):
            return no(f"no pairs of scores and 4 x bins over the cells of strides {text} in {shapes_text(info)}")
        classes, sides = (info.outputs[i].shape[2] or 0 for i in pairs[0])
        why = (
            f"outputs {shapes_text(info)}: per stride of {text} {classes} class scores and {sides} = 4 sides x "
            f"{sides // 4} bins"
        )
        return Recognition(True, why, classes)

    def decode(self, outputs: Arrays, index: int, confidence: float) -> Raw:
        """See `Decoder.decode`."""
        found = []
        for stride, points, (scores_at, sides_at) in zip(self.STRIDES, self._points, self._pairs, strict=True):
            rows, scores, class_ids = best_classes(outputs[scores_at][index], confidence)
            logits = outputs[sides_at][index][rows]
            sides = expected_bins(logits.reshape(len(rows), 4, logits.shape[1] // 4)) * np.float32(stride)
            found.append((boxes_of(points[rows], sides), scores, class_ids))
        boxes, scores, class_ids = (np.concatenate(parts) for parts in zip(*found, strict=True))
        return Raw(boxes, scores, class_ids)


class NanodetDecoder(PairsPerStrideFamily):
    """NanoDet (first generation): per stride [batch, cells, classes] and [batch, cells, 4 x bins].

    The four sides' distances are the expected value of a softmax over the bins, times the stride, from the point
    cell * stride + (stride - 1) / 2 (NanoDet, nanodet/model/head/gfl_head.py). Class scores have their sigmoid in the
    graph. Input: BGR, mean (103.53, 116.28, 123.675) and std (57.375, 57.12, 58.395), aspect kept, centred, padded
    with 0.
    """

    name: ClassVar[str] = "nanodet"
    STRIDES: ClassVar[tuple[int, ...]] = (8, 16, 32)

    @classmethod
    def points(cls, width: int, height: int, stride: int) -> Float:
        """Cell * stride + (stride - 1) / 2."""
        return grid(width, height, (stride,))[0] * stride + np.float32(0.5 * (stride - 1))

    @classmethod
    def preprocessing(cls, _info: NetworkInfo, width: int, height: int, /) -> Preprocessing:
        """BGR with ImageNet's mean and deviation in 0..255, centred, padded with black."""
        return Preprocessing(width, height, pad=0, order="BGR", scale=1.0, mean=BGR_MEAN, std=BGR_STD)


class PicodetDecoder(PairsPerStrideFamily):
    """PicoDet without its post-processing: per stride of 8, 16, 32, 64 [batch, cells, classes] and [.., 4 x bins].

    As NanoDet, from the point (cell + 0.5) * stride (PaddleDetection, ppdet/modeling/heads/pico_head.py). Input: RGB /
    255 with ImageNet's mean and deviation, stretched.
    """

    name: ClassVar[str] = "picodet"
    STRIDES: ClassVar[tuple[int, ...]] = (8, 16, 32, 64)

    @classmethod
    def points(cls, width: int, height: int, stride: int) -> Float:
        """The cell's centre."""
        return (grid(width, height, (stride,), ceil=True)[0] + np.float32(0.5)) * np.float32(stride)

    @classmethod
    def preprocessing(cls, _info: NetworkInfo, width: int, height: int, /) -> Preprocessing:
        """RGB / 255 with ImageNet's mean and deviation, stretched."""
        return Preprocessing(width, height, fit="stretch", mean=IMAGENET_MEAN, std=IMAGENET_STD)


class PicodetBoxesDecoder(PicodetDecoder):
    """PicoDet and PP-YOLOE with boxes decoded and without suppression: [batch, cells, 4], [batch, classes, cells].

    Corners in input pixels, the cells of strides 8, 16, 32 or 8, 16, 32, 64 (PaddleDetection, export with nms=False).
    Input: RGB / 255 with ImageNet's mean and deviation, stretched.
    """

    name: ClassVar[str] = "picodet-boxes"

    @classmethod
    def recognise(cls, info: NetworkInfo, width: int, height: int, /) -> Recognition:
        """Two outputs, boxes by row and scores by column, over one number of cells."""
        counts = {cells(width, height, cls.STRIDES, ceil=True), cells(width, height, cls.STRIDES[:3])}
        at = _boxes_and_columns(info)
        if at is None or info.outputs[at[0]].shape[1] not in counts:
            return no(
                f"needs [batch, cells, 4] and [batch, classes, cells], of {' or '.join(map(str, counts))} cells; "
                f"the network has {shapes_text(info)}"
            )
        classes = info.outputs[at[1]].shape[1] or 0
        return Recognition(
            True, f"outputs {shapes_text(info)}: corners by row, and scores of {classes} classes by column", classes
        )

    def decode(self, outputs: Arrays, index: int, confidence: float) -> Raw:
        """See `Decoder.decode`."""
        at = _boxes_and_columns(self.info) or (0, 1)
        rows, scores, class_ids = best_classes(outputs[at[1]][index].T, confidence)
        return Raw(outputs[at[0]][index][rows].astype(np.float32), scores, class_ids)


class NanodetPlusDecoder(Family):
    """NanoDet-Plus: [batch, cells of strides 8, 16, 32, 64, classes + 4 x 8 bins].

    As NanoDet, from the point cell * stride (NanoDet, nanodet/model/head/nanodet_plus_head.py,
    get_single_level_center_priors). Input: BGR with ImageNet's mean and deviation in 0..255, stretched.
    """

    name: ClassVar[str] = "nanodet-plus"
    STRIDES: ClassVar[tuple[int, ...]] = (8, 16, 32, 64)
    SIDES: ClassVar[int] = 32  # 4 sides x (reg_max 7 + 1) bins

    def __init__(self, info: NetworkInfo, width: int, height: int, /) -> None:
        super().__init__(info, width, height)
        self._cells, self._strides = grid(width, height, self.STRIDES, ceil=True)

    @classmethod
    def recognise(cls, info: NetworkInfo, width: int, height: int, /) -> Recognition:
        """One output of that many rows and more than 32 columns."""
        count = cells(width, height, cls.STRIDES, ceil=True)
        shape = info.outputs[0].shape
        if len(info.outputs) != 1 or len(shape) != 3 or shape[1] != count or (shape[2] or 0) <= cls.SIDES:
            return no(f"needs [batch, {count}, classes + {cls.SIDES}], the network has {shapes_text(info)}")
        classes = (shape[2] or 0) - cls.SIDES
        why = (
            f"output {shapes_text(info)}: {count} = cells of strides 8, 16, 32, 64 at {width}x{height}, {shape[2]} = "
            f"{classes} classes + 4 sides x 8 bins"
        )
        return Recognition(True, why, classes)

    @classmethod
    def preprocessing(cls, _info: NetworkInfo, width: int, height: int, /) -> Preprocessing:
        """BGR with ImageNet's mean and deviation in 0..255, stretched."""
        return Preprocessing(width, height, fit="stretch", order="BGR", scale=1.0, mean=BGR_MEAN, std=BGR_STD)

    def decode(self, outputs: Arrays, index: int, confidence: float) -> Raw:
        """See `Decoder.decode`."""
        output = outputs[0][index]
        rows, scores, class_ids = best_classes(output[:, : -self.SIDES], confidence)
        sides = expected_bins(output[rows, -self.SIDES :].reshape(len(rows), 4, self.SIDES // 4)) * self._strides[rows]
        return Raw(boxes_of(self._cells[rows] * self._strides[rows], sides), scores, class_ids)


def _pairs(info: NetworkInfo, width: int, height: int, strides: tuple[int, ...]) -> list[tuple[int, int]]:
    """Per stride the indices of (scores, distances), told apart by a last axis of 4 x bins; fewer if there are none.

    Where both could be distances, the output named earlier holds the scores, as the exporters write them.
    """
    result = []
    for stride in strides:
        count = cells(width, height, (stride,), ceil=len(strides) > 3)
        same = [i for i, item in enumerate(info.outputs) if len(item.shape) == 3 and item.shape[1] == count]
        if len(same) == 2 and (info.outputs[same[1]].shape[2] or 0) % 4 == 0 and info.outputs[same[0]].shape[2]:
            result.append((same[0], same[1]))
    return result


def _boxes_and_columns(info: NetworkInfo) -> tuple[int, int] | None:
    """Indices of [batch, cells, 4] and [batch, classes, cells]."""
    shapes = [output.shape for output in info.outputs]
    if len(shapes) != 2 or any(len(shape) != 3 for shape in shapes):
        return None
    for boxes, scores in ((0, 1), (1, 0)):
        if shapes[boxes][2] == 4 and shapes[boxes][1] and shapes[scores][2] == shapes[boxes][1]:
            return boxes, scores
    return None
