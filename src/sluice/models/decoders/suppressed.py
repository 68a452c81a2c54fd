"""Heads with non-maximum suppression in the graph: TensorRT's and ONNX's operators, and rows with a batch number."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from sluice.models.decoders.base import (
    MOST_QUERIES,
    Arrays,
    Family,
    Raw,
    Recognition,
    check_scores,
    integral,
    metadata_names,
    named,
    no,
    perhaps,
    shapes_text,
    sure,
    within,
)
from sluice.models.preprocess import Preprocessing
from sluice.runtimes.base import NetworkInfo, TensorInfo


def is_integer(output: TensorInfo) -> bool:
    """Whether an output holds integers by its type."""
    return output.dtype.startswith(("int", "uint"))


class EfficientNmsDecoder(Family):
    """Number of boxes, boxes, scores, classes: TensorRT's EfficientNMS, TAO's BatchedNMS, YOLO-NAS' batch format.

    [batch, 1], corners [batch, boxes, 4], [batch, boxes], [batch, boxes]. Corners are in input pixels, or in fractions
    of the input as BatchedNMS gives them unless told otherwise; which one is seen from a frame's boxes. The outputs are
    told apart by shape, and scores from classes by type or name. Input: RGB / 255, aspect kept, centred, padded with
    114.
    """

    name: ClassVar[str] = "efficientnms"
    needs_nms: ClassVar[bool] = False

    def __init__(self, info: NetworkInfo, width: int, height: int, /) -> None:
        super().__init__(info, width, height)
        self._roles = _roles(info) or (0, 1, 2, 3)

    @classmethod
    def recognise(cls, info: NetworkInfo, _width: int, _height: int, /) -> Recognition:
        """Four outputs of those shapes."""
        if _roles(info) is None:
            return no(
                f"needs a number [batch, 1], boxes [batch, boxes, 4], scores and classes [batch, boxes]; the network "
                f"has {shapes_text(info)}"
            )
        why = f"outputs {', '.join(map(str, info.outputs))}: number, corners, scores and classes, suppressed"
        if named(info, "detection_boxes", "detection_scores", "detection_classes"):
            return perhaps(f"{why}; but names as of TensorFlow, whose boxes are fractions in the order y, x")
        return Recognition(True, why, len(metadata_names(info)))

    def decode(self, outputs: Arrays, index: int, confidence: float) -> Raw:
        """See `Decoder.decode`."""
        count, boxes, scores, classes = (outputs[role][index] for role in self._roles)
        rows = sure(scores[: max(0, int(count.ravel()[0]))], confidence)
        corners = np.asarray(boxes[rows], np.float32)
        if len(rows) and np.abs(corners).max() <= 2:  # in pixels, all would lie in the first two of the picture
            corners = corners * self.size
        return Raw(corners, scores[rows].astype(np.float32), classes[rows].astype(np.int32))


class OnnxNmsDecoder(Family):
    """The ONNX operator NonMaxSuppression's picks beside the boxes and scores it picked from; boxes are corners x, y.

    Picks [count, 3]: frame, class, box. Boxes [batch, N, 4] in input pixels, scores [batch, classes, N] or
    [batch, N, classes]. Input: RGB / 255, aspect kept, centred, padded with 114.
    """

    name: ClassVar[str] = "onnx-nms"
    needs_nms: ClassVar[bool] = False
    ORDER: ClassVar[tuple[int, ...]] = (0, 1, 2, 3)  # which columns are left, top, right, bottom
    TEXT: ClassVar[str] = "x, y, x, y"

    @classmethod
    def recognise(cls, info: NetworkInfo, _width: int, _height: int, /) -> Recognition:
        """Integers [any, 3], floats [batch, N, 4], and scores over the same N."""
        roles = _picks(info)
        if roles is None:
            return no(
                "needs the picks of NonMaxSuppression [any, 3] as integers, boxes [batch, N, 4] and scores [batch, "
                f"classes, N]; the network has {shapes_text(info)}"
            )
        boxes, scores = info.outputs[roles[1]].shape[1], info.outputs[roles[2]].shape
        classes = (scores[1] if scores[2] == boxes else scores[2]) or 0
        return perhaps(
            f"outputs {', '.join(map(str, info.outputs))}: picks, boxes and scores of {classes} classes; but nothing "
            f"says that the boxes are {cls.TEXT}",
            classes,
        )

    def decode(self, outputs: Arrays, index: int, confidence: float) -> Raw:
        """See `Decoder.decode`."""
        at_picks, at_boxes, at_scores = _picks(self.info) or (0, 1, 2)
        boxes, scores = outputs[at_boxes][index], outputs[at_scores][index]
        if scores.shape[-1] != len(boxes):
            scores = scores.T
        picks = outputs[at_picks]
        picks = picks[picks[:, 0] == index]
        picked = scores[picks[:, 1], picks[:, 2]]
        keep = sure(picked, confidence)
        corners = boxes[picks[keep, 2]][:, self.ORDER].astype(np.float32)
        # The operator takes either corner first (ONNX, NonMaxSuppression).
        corners = np.concatenate(
            [np.minimum(corners[:, :2], corners[:, 2:]), np.maximum(corners[:, :2], corners[:, 2:])], 1
        )
        return Raw(corners, picked[keep].astype(np.float32), picks[keep, 1].astype(np.int32))


class OnnxNmsYxDecoder(OnnxNmsDecoder):
    """As onnx-nms, with boxes in the operator's own order y, x, y, x."""

    name: ClassVar[str] = "onnx-nms-yx"
    ORDER: ClassVar[tuple[int, ...]] = (1, 0, 3, 2)
    TEXT: ClassVar[str] = "y, x, y, x"


class BatchRowsFamily(Family):
    """Rows [any, 7] of all frames: frame, left, top, right, bottom in input pixels, then class and score."""

    needs_nms: ClassVar[bool] = False
    CLASS: ClassVar[int]
    SCORE: ClassVar[int]

    @classmethod
    def recognise(cls, info: NetworkInfo, _width: int, _height: int, /) -> Recognition:
        """One output [any, 7]."""
        if len(info.outputs) != 1 or len(info.outputs[0].shape) != 2 or info.outputs[0].shape[1] != 7:
            return no(f"needs one output [any, 7], the network has {shapes_text(info)}")
        why = f"output {info.outputs[0]}: frame, corners, class in column {cls.CLASS}, score in {cls.SCORE}"
        flat = "flat_predictions" in info.outputs[0].name  # the name that super-gradients gives
        if flat:
            right = cls.SCORE == 5
            return Recognition(right, f"{why}; its name is super-gradients', with the score first", 0)
        return perhaps(f"{why}; but YOLOv7 and super-gradients order the two otherwise, and no name tells")

    @classmethod
    def confirm(
        cls, _info: NetworkInfo, _width: int, _height: int, verdict: Recognition, outputs: Arrays, /
    ) -> Recognition:
        """Whole numbers in the class's column and fractions in the score's, where the run gave rows."""
        rows = outputs[0]
        if not len(rows):
            return verdict
        if integral(rows[:, cls.CLASS]) and within(rows[:, cls.SCORE], 0, 1) and not integral(rows[:, cls.SCORE]):
            return Recognition(True, verdict.why.partition("; but")[0], verdict.classes)
        return no(f"column {cls.CLASS} holds no whole class numbers, or column {cls.SCORE} no scores within 0..1")

    def decode(self, outputs: Arrays, index: int, confidence: float) -> Raw:
        """See `Decoder.decode`."""
        check_scores(outputs[0])  # with a frame that is NaN a row is nobody's
        rows = outputs[0][outputs[0][:, 0] == index]
        rows = rows[sure(rows[:, self.SCORE], confidence)]
        corners, scores = rows[:, 1:5].astype(np.float32), rows[:, self.SCORE].astype(np.float32)
        return Raw(corners, scores, rows[:, self.CLASS].astype(np.int32))


class Yolov7EndToEndDecoder(BatchRowsFamily):
    """YOLOv7 exported with --end2end --max-wh: rows [any, 7] of frame, corners in input pixels, class, score.

    Input: RGB / 255, aspect kept, centred, padded with 114.
    """

    name: ClassVar[str] = "yolov7-end2end"
    CLASS: ClassVar[int] = 5
    SCORE: ClassVar[int] = 6


class FlatRowsDecoder(BatchRowsFamily):
    """super-gradients' flat format (YOLO-NAS): rows [any, 7] of frame, corners in input pixels, score, class.

    Input: RGB / 255, aspect kept, centred, padded with 114.
    """

    name: ClassVar[str] = "flat-rows"
    SCORE: ClassVar[int] = 5
    CLASS: ClassVar[int] = 6


class PaddleRowsDecoder(Family):
    """PaddleDetection with suppression: rows [any, 6] of class, score, corners in input pixels; and a count a frame.

    (ppdet/modeling/layers.py, MultiClassNMS.) Input: RGB / 255 with ImageNet's mean and deviation, stretched.
    """

    name: ClassVar[str] = "paddle-rows"
    needs_nms: ClassVar[bool] = False

    @classmethod
    def recognise(cls, info: NetworkInfo, _width: int, _height: int, /) -> Recognition:
        """[any, 6] and, for batches, integers [batch]."""
        shapes = [output.shape for output in info.outputs]
        rows = bool(shapes) and len(shapes[0]) == 2 and shapes[0][1] == 6
        counts = len(shapes) == 1 or (len(shapes) == 2 and len(shapes[1]) == 1 and is_integer(info.outputs[1]))
        if not rows or not counts:
            return no(f"needs rows [any, 6] and a count a frame, the network has {shapes_text(info)}")
        return Recognition(True, f"output {info.outputs[0]}: class, score and corners a row", len(metadata_names(info)))

    @classmethod
    def confirm(
        cls, _info: NetworkInfo, _width: int, _height: int, verdict: Recognition, outputs: Arrays, /
    ) -> Recognition:
        """Whole class numbers (-1 where nothing was found) and scores within 0..1, where the run gave rows."""
        rows = outputs[0][outputs[0][:, 0] >= 0]
        if len(rows) and not (integral(rows[:, 0]) and within(rows[:, 1], 0, 1)):
            return no("column 0 holds no whole class numbers, or column 1 no scores within 0..1")
        return verdict

    @classmethod
    def preprocessing(cls, _info: NetworkInfo, width: int, height: int, /) -> Preprocessing:
        """RGB / 255 with ImageNet's mean and deviation, stretched."""
        return Preprocessing(width, height, fit="stretch", mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225))

    def decode(self, outputs: Arrays, index: int, confidence: float) -> Raw:
        """See `Decoder.decode`."""
        rows = outputs[0]
        if len(outputs) == 2:
            ends = np.cumsum(outputs[1])
            rows = rows[ends[index] - outputs[1][index] : ends[index]]
        check_scores(rows)
        rows = rows[rows[:, 0] >= 0]
        rows = np.asarray(rows[sure(rows[:, 1], confidence)], np.float32)
        return Raw(rows[:, 2:6], rows[:, 1], rows[:, 0].astype(np.int32))


class DeepstreamYoloDecoder(Family):
    """DeepStream-Yolo's exporters: one row a cell or query of left, top, right, bottom, score, class; not suppressed.

    [batch, rows, 6], boxes in input pixels (marcoslucianops/DeepStream-Yolo, utils/export_*.py, DeepStreamOutput).
    Input: RGB / 255, aspect kept, centred, padded with 114.
    """

    name: ClassVar[str] = "deepstream-yolo"

    @classmethod
    def recognise(cls, info: NetworkInfo, _width: int, _height: int, /) -> Recognition:
        """[batch, more than 1000 rows, 6]; only values tell it from a head of one class."""
        shape = info.outputs[0].shape if info.outputs else ()
        if len(info.outputs) != 1 or len(shape) != 3 or shape[2] != 6 or (shape[1] or 0) <= MOST_QUERIES:
            return no(f"needs an output [batch, more than {MOST_QUERIES}, 6], the network has {shapes_text(info)}")
        return perhaps(
            f"output {info.outputs[0]}: corners + score + class; but it may be box + objectness + one class as well",
            len(metadata_names(info)),
        )

    @classmethod
    def confirm(
        cls, _info: NetworkInfo, _width: int, _height: int, verdict: Recognition, outputs: Arrays, /
    ) -> Recognition:
        """Whole class numbers, scores within 0..1, and corners in order."""
        rows = outputs[0].reshape(-1, 6)
        corners = (rows[:, 2:4] >= rows[:, :2] - 1e-3).all()
        if corners and within(rows[:, 4], 0, 1) and integral(rows[:, 5]):
            return Recognition(True, verdict.why.partition("; but")[0], verdict.classes)
        return no("columns 0 to 3 are no corners in order, or column 5 holds no whole class numbers")

    def decode(self, outputs: Arrays, index: int, confidence: float) -> Raw:
        """See `Decoder.decode`."""
        rows = outputs[0][index]
        rows = np.asarray(rows[sure(rows[:, 4], confidence)], np.float32)
        return Raw(rows[:, :4], rows[:, 4], rows[:, 5].astype(np.int32))


def _roles(info: NetworkInfo) -> tuple[int, int, int, int] | None:
    """Indices of number, boxes, scores, classes; None if the outputs are others."""
    shapes = [output.shape for output in info.outputs]
    count = [i for i, shape in enumerate(shapes) if len(shape) == 2 and shape[1] == 1]
    boxes = [i for i, shape in enumerate(shapes) if len(shape) == 3 and shape[2] == 4]
    if len(shapes) != 4 or len(count) != 1 or len(boxes) != 1:
        return None
    rest = [i for i in range(4) if i not in (count[0], boxes[0])]
    if any(len(shapes[i]) != 2 for i in rest):
        return None
    names = [info.outputs[i].name.lower() for i in rest]
    classes = [i for i in rest if is_integer(info.outputs[i])]
    if len(classes) != 1:
        classes = [i for i, name in zip(rest, names, strict=True) if "class" in name or "label" in name]
    if len(classes) != 1:  # both are floats without telling names: the operators give scores first
        classes = rest[1:]
    scores = next(i for i in rest if i != classes[0])
    return count[0], boxes[0], scores, classes[0]


def _picks(info: NetworkInfo) -> tuple[int, int, int] | None:
    """Indices of NonMaxSuppression's picks, boxes and scores; None if the outputs are others."""
    outputs = list(enumerate(info.outputs))
    picks = [i for i, o in outputs if len(o.shape) == 2 and o.shape[1] == 3 and is_integer(o)]
    boxes = [i for i, o in outputs if len(o.shape) == 3 and o.shape[2] == 4]
    if len(outputs) != 3 or len(picks) != 1 or not boxes:
        return None
    scores = next((i for i, o in outputs if i not in (picks[0], boxes[0])), None)
    if scores is None or len(info.outputs[scores].shape) != 3:
        return None
    return picks[0], boxes[0], scores
