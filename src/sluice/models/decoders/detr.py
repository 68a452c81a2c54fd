"""DETR and its kin: a fixed number of queries, each with class scores and a box; no suppression."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import numpy.typing as npt

from sluice.models.conversions import xyxy_from_cxcywh
from sluice.models.decoders.base import (
    IMAGENET_MEAN,
    IMAGENET_STD,
    MOST_QUERIES,
    Arrays,
    Family,
    Float,
    Raw,
    Recognition,
    best_classes,
    check_scores,
    integral,
    metadata_names,
    named,
    no,
    perhaps,
    shapes_text,
    sigmoid,
    sure,
    within,
)
from sluice.models.decoders.masks import Masks
from sluice.models.decoders.suppressed import is_integer
from sluice.models.preprocess import Preprocessing
from sluice.runtimes.base import NetworkInfo

OTHERS = ("labels", "dets")  # RF-DETR's names
LEAST_QUERIES = 100  # published networks have 100 to 900; fewer rows within 0..1 may be anything


class QueryFamily(Family):
    """Boxes as centre and size in fractions of the input; no suppression; RGB / 255, stretched."""

    needs_nms: ClassVar[bool] = False

    @classmethod
    def preprocessing(cls, _info: NetworkInfo, width: int, height: int, /) -> Preprocessing:
        """RGB / 255, stretched."""
        return Preprocessing(width, height, fit="stretch")


class RtdetrDecoder(QueryFamily):
    """RT-DETR as Ultralytics 8.4.0 and earlier export it: rows of centre and size in fractions, and class scores.

    [batch, queries, 4 + classes]; sigmoid is in the graph; a query is its best class (Ultralytics,
    models/rtdetr/predict.py). Later exports are `RtdetrEndToEndDecoder`'s. Input: RGB / 255, stretched.
    """

    name: ClassVar[str] = "rtdetr"

    @classmethod
    def recognise(cls, info: NetworkInfo, _width: int, _height: int, /) -> Recognition:
        """[batch, at most 1000 queries, 4 + classes]."""
        shape = info.outputs[0].shape if info.outputs else ()
        task = info.metadata.get("task", "detect")
        if len(info.outputs) != 1 or len(shape) != 3 or not shape[2] or not 0 < (shape[1] or 0) <= MOST_QUERIES:
            return no(f"needs [batch, at most {MOST_QUERIES} queries, 4 + classes]; has {shapes_text(info)}")
        classes, names = shape[2] - 4, metadata_names(info)
        if task != "detect" or classes < 1 or (names and len(names) != classes):
            return no(
                f"{shape[2]} columns are not 4 box + {len(names) or 'at least 1'} classes, or the task is {task!r}"
            )
        why = f"output {shapes_text(info)}: {shape[1]} queries of 4 box + {classes} classes"
        if names and classes not in (2, 3):  # 6 and 7 columns are end-to-end rows too
            return Recognition(True, why, classes)
        return perhaps(f"{why}; but finished rows have such shapes too", classes)

    @classmethod
    def confirm(
        cls, info: NetworkInfo, _width: int, _height: int, verdict: Recognition, outputs: Arrays, /
    ) -> Recognition:
        """Everything lies within 0..1, and what may be a class number is none."""
        rows = outputs[0].reshape(-1, outputs[0].shape[-1])
        if not within(rows, 0, 1) or (rows.shape[1] >= 6 and integral(rows[:, 5])):
            return no(f"{shapes_text(info)} holds other values than fractions and scores within 0..1")
        if not verdict.fits and outputs[0].shape[1] < LEAST_QUERIES:
            return verdict
        return Recognition(True, verdict.why.partition("; but")[0], verdict.classes)

    def decode(self, outputs: Arrays, index: int, confidence: float) -> Raw:
        """See `Decoder.decode`."""
        output = outputs[0][index]
        rows, scores, class_ids = best_classes(output[:, 4:], confidence)
        return Raw(xyxy_from_cxcywh(output[rows, :4].astype(np.float32) * self.size), scores, class_ids)


class LogitsFamily(QueryFamily):
    """Class logits [batch, queries, classes] and boxes [batch, queries, 4] as two outputs, told apart by name."""

    SCORES: ClassVar[str]
    BOXES: ClassVar[str]

    def __init__(self, info: NetworkInfo, width: int, height: int, /) -> None:
        super().__init__(info, width, height)
        self._at = self.outputs_of(info) or (0, 1)

    @classmethod
    def outputs_of(cls, info: NetworkInfo) -> tuple[int, int] | None:
        """Indices of scores and boxes by name, else by shape; None if they are not there."""
        at = named(info, cls.SCORES, cls.BOXES)
        pairs = [(at[0], at[1])] if at else [(0, 1), (1, 0)] if len(info.outputs) == 2 else []
        for scores, boxes in pairs:
            one, other = info.outputs[scores].shape, info.outputs[boxes].shape
            same = len(one) == len(other) == 3 and one[1] == other[1] and 0 < (one[1] or 0) <= MOST_QUERIES
            if same and other[2] == 4 and (one[2] or 0) >= 1:
                return scores, boxes
        return None

    @classmethod
    def recognise(cls, info: NetworkInfo, _width: int, _height: int, /) -> Recognition:
        """Two such outputs; other outputs, such as hidden states, are not read."""
        at = cls.outputs_of(info)
        if at is not None and named(info, *OTHERS) and cls.SCORES not in OTHERS:
            return no("the outputs are named labels and dets, as RF-DETR's are")
        if at is None:
            return no(
                f"needs {cls.SCORES} [batch, at most {MOST_QUERIES} queries, classes] and {cls.BOXES} [batch, queries, "
                f"4]; has {', '.join(map(str, info.outputs))}"
            )
        return cls.by_name(info, info.outputs[at[0]].shape[2] or 0, info.outputs[at[0]].shape[1] or 0)

    @classmethod
    def by_name(cls, info: NetworkInfo, logits: int, queries: int) -> Recognition:
        """The verdict on outputs of the right shapes."""
        why = f"outputs {', '.join(map(str, info.outputs))}: {queries} queries, {logits} class logits, boxes"
        if named(info, cls.SCORES, cls.BOXES) is None:
            return perhaps(f"{why}; but they are not named {cls.SCORES} and {cls.BOXES}", logits)
        return Recognition(True, why, logits)

    @classmethod
    def boxes_are_fractions(cls, info: NetworkInfo, outputs: Arrays) -> bool:
        """Whether all boxes lie within 0..1."""
        at = cls.outputs_of(info)
        return at is not None and within(outputs[at[1]], 0, 1)

    def boxes(self, outputs: Arrays, index: int, queries: npt.NDArray[np.intp]) -> Float:
        """Corners in pixels of the input of these queries."""
        return xyxy_from_cxcywh(outputs[self._at[1]][index][queries].astype(np.float32) * self.size)

    def decode(self, outputs: Arrays, index: int, confidence: float) -> Raw:
        """See `Decoder.decode`. A query may be several classes; of all, as many are kept as there are queries."""
        scores = sigmoid(outputs[self._at[0]][index])
        check_scores(scores)
        queries, classes = np.nonzero(scores >= confidence)
        values = scores[queries, classes]
        if len(values) > len(scores):
            best = np.argsort(-values, kind="stable")[: len(scores)]
            queries, classes, values = queries[best], classes[best], values[best]
        return Raw(
            self.boxes(outputs, index, queries),
            values,
            classes.astype(np.int32),
            masks=self.masks(outputs, index, queries),
        )

    def masks(self, _outputs: Arrays, _index: int, _queries: npt.NDArray[np.intp]) -> Masks | None:
        """None: these heads have no masks."""
        return None


class RtdetrLogitsDecoder(LogitsFamily):
    """RT-DETR, D-FINE, Deformable and Conditional DETR as transformers exports them: logits and pred_boxes.

    Scores are sigmoids; a query may be several classes (transformers, RTDetrImageProcessor,
    post_process_object_detection). Input: RGB / 255, stretched.
    """

    name: ClassVar[str] = "rtdetr-logits"
    SCORES: ClassVar[str] = "logits"
    BOXES: ClassVar[str] = "pred_boxes"

    @classmethod
    def confirm(
        cls, info: NetworkInfo, _width: int, _height: int, verdict: Recognition, outputs: Arrays, /
    ) -> Recognition:
        """Boxes are fractions, scores logits, and the last class does not win most queries, as "no object" would."""
        at = cls.outputs_of(info)
        if at is None or not cls.boxes_are_fractions(info, outputs):
            return no("the boxes do not lie within 0..1")
        if within(outputs[at[0]], 0, 1):
            return no(f"{info.outputs[at[0]]} holds probabilities, not logits")
        if _no_object_wins(outputs[at[0]]):
            return no("the last class has the highest logit of most queries, above 0: it is DETR's 'no object'")
        return Recognition(True, verdict.why.partition("; but")[0], verdict.classes)


class DetrDecoder(LogitsFamily):
    """DETR: logits and pred_boxes as RT-DETR, with a last class "no object" under a softmax.

    (transformers, DetrImageProcessor, post_process_object_detection.) Input: RGB / 255 with ImageNet's mean and
    deviation, stretched.
    """

    name: ClassVar[str] = "detr"
    SCORES: ClassVar[str] = "logits"
    BOXES: ClassVar[str] = "pred_boxes"

    @classmethod
    def by_name(cls, info: NetworkInfo, logits: int, queries: int) -> Recognition:
        """Nothing but values tells a "no object" class."""
        if logits < 2:
            return no("needs at least one class and 'no object'; the network has 1 logit a query")
        why = f"outputs {', '.join(map(str, info.outputs))}: {queries} queries, {logits - 1} classes and 'no object'"
        return perhaps(f"{why}; but nothing says that the last is 'no object'", logits - 1)

    @classmethod
    def confirm(
        cls, info: NetworkInfo, _width: int, _height: int, verdict: Recognition, outputs: Arrays, /
    ) -> Recognition:
        """Boxes are fractions, and "no object" wins most queries."""
        at = cls.outputs_of(info)
        if at is None or not cls.boxes_are_fractions(info, outputs) or not _no_object_wins(outputs[at[0]]):
            return no("the last class does not win most queries, as 'no object' does, or boxes are not within 0..1")
        return Recognition(True, verdict.why.partition("; but")[0], verdict.classes)

    @classmethod
    def preprocessing(cls, _info: NetworkInfo, width: int, height: int, /) -> Preprocessing:
        """RGB / 255 with ImageNet's mean and deviation, stretched."""
        return Preprocessing(width, height, fit="stretch", mean=IMAGENET_MEAN, std=IMAGENET_STD)

    def decode(self, outputs: Arrays, index: int, confidence: float) -> Raw:
        """See `Decoder.decode`."""
        logits = outputs[self._at[0]][index]
        weights = np.exp(logits - logits.max(axis=1, keepdims=True))
        shares = (weights / weights.sum(axis=1, keepdims=True))[:, :-1]
        queries, scores, class_ids = best_classes(shares, confidence)
        return Raw(self.boxes(outputs, index, queries), scores, class_ids)


class RfdetrDecoder(LogitsFamily):
    """RF-DETR: dets [batch, queries, 4], labels [batch, queries, classes] of logits, and perhaps masks.

    As RT-DETR's; COCO's weights have 91 logits, numbered as COCO numbers its categories. Masks [batch, queries, h, w]
    are logits over the input (RF-DETR, models/lwdetr.py, PostProcess). Input: RGB / 255 with ImageNet's mean and
    deviation, stretched.
    """

    name: ClassVar[str] = "rf-detr"
    SCORES: ClassVar[str] = "labels"
    BOXES: ClassVar[str] = "dets"

    @classmethod
    def by_name(cls, info: NetworkInfo, logits: int, queries: int) -> Recognition:
        """The names dets and labels are needed: by shapes alone the outputs are RT-DETR's."""
        verdict = super().by_name(info, logits, queries)
        return verdict if verdict.fits else no("the outputs are not named dets and labels")

    @classmethod
    def preprocessing(cls, _info: NetworkInfo, width: int, height: int, /) -> Preprocessing:
        """RGB / 255 with ImageNet's mean and deviation, stretched."""
        return Preprocessing(width, height, fit="stretch", mean=IMAGENET_MEAN, std=IMAGENET_STD)

    def masks(self, outputs: Arrays, index: int, queries: npt.NDArray[np.intp]) -> Masks | None:
        """Masks of these queries; None where the network has none."""
        at = named(self.info, "masks")
        return Masks(outputs[at[0]][index][queries]) if at else None


class DetrFinishedDecoder(QueryFamily):
    """RT-DETR and D-FINE as their authors export them: labels, boxes, scores, after their own post-processing.

    labels [batch, N] of integers, corners [batch, N, 4], scores [batch, N], best first (RT-DETR, tools/export_onnx.py).
    Corners are in pixels of the size given as a second input, ``orig_target_sizes`` (width, height), which is set to
    the size of the network's input. Input: RGB / 255, stretched.
    """

    name: ClassVar[str] = "detr-finished"

    def __init__(self, info: NetworkInfo, width: int, height: int, /) -> None:
        super().__init__(info, width, height)
        self._at = _finished(info) or (0, 1, 2)

    @classmethod
    def recognise(cls, info: NetworkInfo, _width: int, _height: int, /) -> Recognition:
        """[batch, N] of integers, [batch, N, 4], [batch, N]."""
        if _finished(info) is None:
            return no(
                f"needs labels [batch, N] of integers, boxes [batch, N, 4], scores [batch, N]; has "
                f"{', '.join(map(str, info.outputs))}"
            )
        why = f"outputs {', '.join(map(str, info.outputs))}: labels, corners and scores of finished boxes"
        return Recognition(True, why, len(metadata_names(info)))

    def decode(self, outputs: Arrays, index: int, confidence: float) -> Raw:
        """See `Decoder.decode`."""
        labels, boxes, scores = (outputs[at][index] for at in self._at)
        rows = sure(scores, confidence)
        return Raw(boxes[rows].astype(np.float32), scores[rows].astype(np.float32), labels[rows].astype(np.int32))


def _finished(info: NetworkInfo) -> tuple[int, int, int] | None:
    """Indices of labels, boxes and scores; None if the outputs are others."""
    outputs = list(enumerate(info.outputs))
    labels = [i for i, o in outputs if len(o.shape) == 2 and is_integer(o)]
    boxes = [i for i, o in outputs if len(o.shape) == 3 and o.shape[2] == 4]
    scores = [i for i, o in outputs if len(o.shape) == 2 and not is_integer(o)]
    if len(outputs) != 3 or not len(labels) == len(boxes) == len(scores) == 1:
        return None
    return labels[0], boxes[0], scores[0]


def _no_object_wins(logits: npt.NDArray[np.float32]) -> bool:
    rows = logits.reshape(-1, logits.shape[-1])
    return bool(rows.shape[1] > 1 and ((rows.argmax(axis=1) == rows.shape[1] - 1) & (rows[:, -1] > 0)).mean() > 0.5)
