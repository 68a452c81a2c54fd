"""YOLOv8 and its kin (v9, 11, 12, YOLO-World): one row of box and class scores per cell, no objectness; and masks."""

from __future__ import annotations

from typing import ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from sluice.models.conversions import xyxy_from_cxcywh
from sluice.models.decoders.base import (
    Arrays,
    Family,
    Float,
    Raw,
    Recognition,
    best_classes,
    cells,
    grid,
    metadata_names,
    no,
    not_of_boxes,
    perhaps,
    shapes_text,
    sigmoid,
    strides_of,
    sure,
    within,
)
from sluice.models.decoders.masks import Masks
from sluice.models.decoders.nanodet import expected_bins
from sluice.runtimes.base import NetworkInfo

STRIDES = (8, 16, 32)
BINS = 16  # of the distribution of each side's distance, `reg_max` in Ultralytics' Detect


class Dense(NamedTuple):
    """The first output of a dense head.

    Attributes:
        channels: values of a cell.
        cells: number of cells.
        channels_last: it is [batch, cells, channels], else [batch, channels, cells].
        why: the evidence.
    """

    channels: int
    cells: int
    channels_last: bool
    why: str


def dense_output(info: NetworkInfo, width: int, height: int) -> Dense | Recognition:
    """A first output [batch, channels, cells] or its transpose, or why it is not so."""
    shape = info.outputs[0].shape if info.outputs else ()
    if len(shape) != 3:
        usual = cells(width, height, STRIDES)
        return no(f"needs an output [batch, channels, {usual}], the network has {shapes_text(info)}")
    for channels, count, last in ((shape[1], shape[2], False), (shape[2], shape[1], True)):
        strides = strides_of(width, height, count)
        if strides and channels and count:
            text = ", ".join(map(str, strides))
            why = f"output {shapes_text(info)}: {count} = cells of strides {text} at {width}x{height}"
            return Dense(channels, count, last, why)
    return no(f"no axis of {shapes_text(info)} has the cells of strides such as 8, 16, 32 at {width}x{height}")


class Cells(NamedTuple):
    """The cells of one frame that are sure enough of a class.

    Attributes:
        boxes: float32 [N,4]; centre, width, height in pixels of the input.
        scores: float32 [N].
        class_ids: int32 [N].
        more: float32 [N,M]; what the task adds to a cell, as the network gives it.
        scale: width and height of the input where the output's coordinates are fractions of it, else None.
    """

    boxes: Float
    scores: Float
    class_ids: npt.NDArray[np.int32]
    more: Float
    scale: Float | None


class DenseFamily(Family):
    """What YOLOv8's heads of all tasks have in common: [batch, channels, cells] or its transpose.

    Boxes are centre and size in input pixels, or in fractions of the input (some quantised exports); which one is seen
    from the centres of all cells, since they cover the whole input.
    """

    def __init__(self, info: NetworkInfo, width: int, height: int, /) -> None:
        super().__init__(info, width, height)
        dense = dense_output(info, width, height)
        self._channels_last = isinstance(dense, Dense) and dense.channels_last
        self._classes = self.recognise(info, width, height).classes

    @classmethod
    def recognise(cls, info: NetworkInfo, width: int, height: int, /) -> Recognition:
        """To be said by each task."""
        raise NotImplementedError

    def chosen(self, output: Float, confidence: float) -> Cells:
        """The cells of one frame's output whose best class has at least `confidence`."""
        rows, fractions = self.rows_of(output)
        classes = rows[4 : 4 + self._classes]
        at = sure(classes.max(axis=0), confidence)
        class_ids = classes[:, at].argmax(axis=0).astype(np.int32)
        values = rows[:, at].T
        boxes = values[:, :4] * self.size if fractions else values[:, :4]
        scores = values[np.arange(len(at)), 4 + class_ids]
        return Cells(boxes, scores, class_ids, values[:, 4 + self._classes :], self.size[:2] if fractions else None)

    def rows_of(self, output: Float) -> tuple[Float, bool]:
        """The output as [channels, cells], and whether its boxes are fractions of the input."""
        rows = output.T if self._channels_last else output
        return rows, bool(rows[:2].max() <= 2)  # the last cell's centre: about 1 in fractions, the size in pixels


class Yolov8Decoder(DenseFamily):
    """YOLOv8, v9, 11, 12, YOLO-World: centre, size and one score per class for every cell; with prototypes: masks.

    Segmentation adds coefficients to each row, and a second output [batch, prototypes, h, w]. Input: RGB / 255, aspect
    kept, centred, padded with 114.
    """

    name: ClassVar[str] = "yolov8"

    @classmethod
    def recognise(cls, info: NetworkInfo, width: int, height: int, /) -> Recognition:
        """[batch, 4 + classes, cells] or its transpose, alone or with [batch, prototypes, h, w]."""
        dense = dense_output(info, width, height)
        if isinstance(dense, Recognition):
            return dense
        channels = dense.channels
        if (other := not_of_boxes(info)) is not None:
            return other
        extra, prototypes = 0, ""
        if len(info.outputs) == 2 and len(info.outputs[1].shape) == 4 and info.outputs[1].shape[1]:
            extra = info.outputs[1].shape[1]
            prototypes = f" + {extra} mask coefficients"
        elif len(info.outputs) != 1:
            return no(f"needs one output, or one and mask prototypes, the network has {shapes_text(info)}")
        classes = channels - 4 - extra
        names = metadata_names(info)
        if classes < 1 or (names and len(names) != classes):
            return no(f"{channels} channels are not 4 box{prototypes} + {len(names) or 'at least 1'} classes")
        return Recognition(True, f"{dense.why}, {channels} = 4 box + {classes} classes{prototypes}", classes)

    @classmethod
    def confirm(
        cls, info: NetworkInfo, width: int, height: int, verdict: Recognition, outputs: Arrays, /
    ) -> Recognition:
        """Class scores are probabilities, and centres cover the input."""
        if "task" in info.metadata:
            return verdict
        rows, fractions = cls(info, width, height).rows_of(outputs[0][0])
        if not within(rows[4 : 4 + verdict.classes], 0, 1):
            return no(f"of {shapes_text(info)}, the {verdict.classes} channels behind the box are not all within 0..1")
        if verdict.classes > 1 and (rows[4] == 1).all():
            return no(f"the channel behind the box of {shapes_text(info)} is 1 everywhere: an objectness, as YOLOv6's")
        reach = (1, 1) if fractions else (width, height)
        if rows[0].max() < reach[0] / 2 or rows[1].max() < reach[1] / 2:
            return no(f"the first channels of {shapes_text(info)} are no centres: they do not cover the input")
        return verdict

    def decode(self, outputs: Arrays, index: int, confidence: float) -> Raw:
        """See `Decoder.decode`."""
        found = self.chosen(outputs[0][index], confidence)
        masks = Masks(found.more, outputs[1][index]) if len(outputs) == 2 else None
        return Raw(xyxy_from_cxcywh(found.boxes), found.scores, found.class_ids, masks=masks)


class Yolov8RawDecoder(Family):
    """YOLOv8, 11, 12 cut before their detect layer: per stride a map of 4 x 16 bins and class logits.

    Maps [batch, 64 + classes, h, w] of strides 8, 16, 32 in any order. A side's distance is the expected bin under a
    softmax, times the stride, from the cell's centre (Ultralytics, nn/modules/head.py, Detect, and block.py, DFL).
    Input: RGB / 255, aspect kept, centred, padded with 114.
    """

    name: ClassVar[str] = "yolov8-raw"

    def __init__(self, info: NetworkInfo, width: int, height: int, /) -> None:
        super().__init__(info, width, height)
        self._strides = [height // (output.shape[2] or 1) for output in info.outputs]
        self._points = [grid(width, height, (stride,))[0] + np.float32(0.5) for stride in self._strides]

    @classmethod
    def recognise(cls, info: NetworkInfo, width: int, height: int, /) -> Recognition:
        """Three maps with one number of channels above 64."""
        shapes = [output.shape for output in info.outputs]
        right = {(height // stride, width // stride) for stride in STRIDES}
        if len(shapes) != 3 or any(len(s) != 4 for s in shapes) or {s[2:] for s in shapes} != right:
            return no(f"needs three maps [batch, 64 + classes, h, w] of strides 8, 16, 32; has {shapes_text(info)}")
        channels = {s[1] for s in shapes}
        count = (channels.pop() or 0) if len(channels) == 1 else 0
        if count <= 4 * BINS:
            return no(f"needs one number of channels above 64 in all maps; has {shapes_text(info)}")
        classes = count - 4 * BINS
        why = f"outputs {shapes_text(info)}: {count} = 4 x {BINS} bins + {classes} class logits"
        if count % 3 == 0:
            return perhaps(f"{why}; but {count} is 3 anchors x (5 + {count // 3 - 5}) too", classes)
        return Recognition(True, why, classes)

    def decode(self, outputs: Arrays, index: int, confidence: float) -> Raw:
        """See `Decoder.decode`."""
        found = []
        for output, stride, points in zip(outputs, self._strides, self._points, strict=True):
            rows = output[index].reshape(output.shape[1], -1).T
            # The sigmoid is monotonous: classes are chosen by logit.
            chosen, logits, class_ids = best_classes(rows[:, 4 * BINS :], _logit(confidence))
            sides = expected_bins(rows[chosen, : 4 * BINS].reshape(-1, 4, BINS))
            corners = np.concatenate([points[chosen] - sides[:, :2], points[chosen] + sides[:, 2:]], axis=1)
            found.append(Raw(corners * np.float32(stride), sigmoid(logits), class_ids))
        xyxy, scores, ids = (np.concatenate([getattr(raw, key) for raw in found]) for key in Raw._fields[:3])
        return Raw(xyxy, scores, ids)


def _logit(probability: float) -> float:
    if probability <= 0:
        return -np.inf
    return float(np.log(probability / (1 - probability))) if probability < 1 else np.inf
