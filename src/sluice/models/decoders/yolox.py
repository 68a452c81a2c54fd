"""Rows with objectness: YOLOX's offsets from cells, YOLOv6's finished boxes, YOLOv5's and YOLOv7's three anchors."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from sluice.models.conversions import xyxy_from_cxcywh
from sluice.models.decoders.base import (
    Arrays,
    Family,
    Raw,
    Recognition,
    cells,
    grid,
    integral,
    metadata_names,
    no,
    not_of_boxes,
    perhaps,
    shapes_text,
    strides_of,
    sure,
)
from sluice.models.decoders.masks import Masks
from sluice.models.preprocess import Preprocessing
from sluice.runtimes.base import NetworkInfo

STRIDES = (8, 16, 32)


def _rows(info: NetworkInfo, anchors: int, extra: int = 0) -> Recognition | int:
    """Number of columns of the first output [batch, anchors, columns], or why it is not so."""
    shape = info.outputs[0].shape if info.outputs else ()
    if len(shape) != 3 or shape[2] is None or shape[2] < 6 + extra or shape[1] not in (anchors, None):
        return no(f"needs an output [batch, {anchors}, 5 + classes], the network has {shapes_text(info)}")
    if (other := not_of_boxes(info)) is not None:
        return other
    names = metadata_names(info)
    right = 5 + len(names) + extra
    if names and shape[2] != right:
        return no(f"{len(names)} class names in the metadata need {right} columns, the output has {shape[2]}")
    return shape[2]


def _only_rows(info: NetworkInfo, anchors: int) -> Recognition | int:
    """As `_rows`, of the only output."""
    if len(info.outputs) != 1:
        return no(f"needs one output, the network has {len(info.outputs)}")
    return _rows(info, anchors)


def _chosen(rows: npt.NDArray[Any], classes: int, confidence: float) -> tuple[npt.NDArray[np.intp], Raw]:
    """Which rows have objectness x best class score >= confidence; and they, with their boxes as they stand."""
    # A class score is at most 1, so weak objectness alone rules most rows out.
    at = sure(rows[:, 4], confidence)
    few = rows[at]
    class_ids = few[:, 5 : 5 + classes].argmax(axis=1)
    scores = few[:, 4] * few[np.arange(len(few)), 5 + class_ids]
    keep = sure(scores, confidence)
    return at[keep], Raw(few[keep, :4], scores[keep], class_ids[keep].astype(np.int32))


def _spans_input(rows: npt.NDArray[Any], width: int, height: int) -> bool:
    """Whether the first two columns are centres in pixels: those of all cells cover the whole input."""
    return bool(rows[..., 0].max() > width / 2 and rows[..., 1].max() > height / 2)


class YoloxDecoder(Family):
    """YOLOX as Megvii exports it: offsets from a cell of strides 8, 16, 32; sigmoid is in the graph.

    Centre = (offset + cell) * stride, size = exp(value) * stride, score = objectness * class score (YOLOX,
    yolox/models/yolo_head.py, decode_outputs). Input: BGR 0..255, aspect kept, at the top left, padded with 114.
    """

    name: ClassVar[str] = "yolox"

    def __init__(self, info: NetworkInfo, width: int, height: int, /) -> None:
        super().__init__(info, width, height)
        self._cells, self._strides = grid(width, height, STRIDES)

    @classmethod
    def recognise(cls, info: NetworkInfo, width: int, height: int, /) -> Recognition:
        """[batch, cells of strides 8, 16 and 32, 5 + classes]."""
        anchors = cells(width, height, STRIDES)
        columns = _only_rows(info, anchors)
        if isinstance(columns, Recognition):
            return columns
        return Recognition(
            True,
            f"output {shapes_text(info)}: {anchors} = cells of strides 8, 16, 32 at {width}x{height}, "
            f"{columns} = 4 box + objectness + {columns - 5} classes",
            columns - 5,
        )

    @classmethod
    def confirm(
        cls, info: NetworkInfo, width: int, height: int, verdict: Recognition, outputs: Arrays, /
    ) -> Recognition:
        """Centres are offsets from cells, small beside the input."""
        if _spans_input(outputs[0], width, height):
            return no(f"the first columns of {shapes_text(info)} are finished centres, not offsets from cells")
        return verdict

    @classmethod
    def preprocessing(cls, _info: NetworkInfo, width: int, height: int, /) -> Preprocessing:
        """BGR, unscaled, at the top left."""
        return Preprocessing(width, height, fit="top-left", order="BGR", scale=1.0)

    def decode(self, outputs: Arrays, index: int, confidence: float) -> Raw:
        """See `Decoder.decode`."""
        rows = outputs[0][index]
        at, found = _chosen(rows, rows.shape[1] - 5, confidence)
        boxes = np.empty((len(at), 4), np.float32)
        boxes[:, :2] = (found.xyxy[:, :2] + self._cells[at]) * self._strides[at]
        boxes[:, 2:] = np.exp(found.xyxy[:, 2:]) * self._strides[at]
        return found._replace(xyxy=xyxy_from_cxcywh(boxes))


class FinishedRowsFamily(Family):
    """Rows of centre, size in input pixels, objectness and class scores."""

    @classmethod
    def confirm(
        cls, info: NetworkInfo, width: int, height: int, verdict: Recognition, outputs: Arrays, /
    ) -> Recognition:
        """Centres cover the input, and with one class the last column is a score and no class number."""
        rows = outputs[0]
        if not _spans_input(rows, width, height):
            return no(f"the first columns of {shapes_text(info)} are no centres: they do not cover {width}x{height}")
        if verdict.classes == 1 and integral(rows[..., 5]):
            return no(f"the last column of {shapes_text(info)} holds whole numbers: classes, not scores")
        return Recognition(True, verdict.why.partition("; but")[0], verdict.classes)

    def decode(self, outputs: Arrays, index: int, confidence: float) -> Raw:
        """See `Decoder.decode`."""
        rows = outputs[0][index]
        prototypes = outputs[1][index] if len(outputs) == 2 and outputs[1].ndim == 4 else None
        classes = rows.shape[1] - 5 - (0 if prototypes is None else len(prototypes))
        at, found = _chosen(rows, classes, confidence)
        masks = None if prototypes is None else Masks(rows[at, 5 + classes :], prototypes)
        return found._replace(xyxy=xyxy_from_cxcywh(found.xyxy), masks=masks)


class Yolov6Decoder(FinishedRowsFamily):
    """YOLOv6, and YOLOX exported with its decoding: one finished row a cell, in input pixels, with objectness.

    YOLOv6 writes 1 for the objectness (YOLOv6, yolov6/models/heads/effidehead_distill_ns.py). Input: RGB / 255, aspect
    kept, centred, padded with 114 (for YOLOX: order=BGR, scale=1, fit=top-left).
    """

    name: ClassVar[str] = "yolov6"

    @classmethod
    def recognise(cls, info: NetworkInfo, width: int, height: int, /) -> Recognition:
        """[batch, cells of strides 8, 16 and 32, 5 + classes], as YOLOX has."""
        anchors = cells(width, height, STRIDES)
        columns = _only_rows(info, anchors)
        if isinstance(columns, Recognition):
            return columns
        why = (
            f"output {shapes_text(info)}: {anchors} = cells of strides 8, 16, 32 at {width}x{height}, "
            f"{columns} = 4 box + objectness + {columns - 5} classes"
        )
        return perhaps(f"{why}; but only values tell finished centres from YOLOX's offsets", columns - 5)


class Yolov5Decoder(FinishedRowsFamily):
    """YOLOv5, v7 and Ultralytics' v3 with the detect layer in the graph: three anchors a cell, in input pixels.

    Segmentation adds coefficients to each row, and a second output [batch, prototypes, h, w]. The raw maps that some
    exports have besides are not needed. Input: RGB / 255, aspect kept, centred, padded with 114.
    """

    name: ClassVar[str] = "yolov5"

    @classmethod
    def recognise(cls, info: NetworkInfo, width: int, height: int, /) -> Recognition:
        """[batch, 3 x cells of all strides, 5 + classes], alone, with prototypes, or with raw maps."""
        rows = info.outputs[0].shape[1] if info.outputs and len(info.outputs[0].shape) == 3 else None
        strides = strides_of(width, height, rows, 3) or STRIDES
        anchors = 3 * cells(width, height, strides)
        others = [output.shape for output in info.outputs[1:]]
        prototypes = len(others) == 1 and len(others[0]) == 4
        if others and not prototypes and any(len(shape) != 5 for shape in others):
            return no(f"needs one output, or prototypes or raw maps besides; the network has {shapes_text(info)}")
        extra = (others[0][1] or 0) if prototypes else 0
        columns = _rows(info, anchors, extra)
        if isinstance(columns, Recognition):
            return columns
        classes = columns - 5 - extra
        also = f" + {extra} mask coefficients" if extra else ""
        return Recognition(
            True,
            f"output {shapes_text(info)}: {anchors} = 3 anchors x cells of strides {', '.join(map(str, strides))} at "
            f"{width}x{height}, "
            f"{columns} = 4 box + objectness + {classes} classes{also}",
            classes,
        )
