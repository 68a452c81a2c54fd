"""YOLOX (and the decoded YOLOv5 layout): one row per anchor point, box, objectness, classes."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from sluice.models.conversions import xyxy_from_cxcywh
from sluice.models.decoders.base import (
    Arrays,
    Raw,
    Recognition,
    cells,
    grid,
    metadata_names,
    no,
    shapes_text,
)
from sluice.models.preprocess import Preprocessing
from sluice.runtimes.base import NetworkInfo

STRIDES = (8, 16, 32)


def _rows(info: NetworkInfo, anchors: int) -> Recognition | int:
    """Number of columns of the only output [batch, anchors, columns], or why it is not so."""
    if len(info.outputs) != 1:
        return no(f"needs one output, the network has {len(info.outputs)}")
    shape = info.outputs[0].shape
    if len(shape) != 3 or shape[2] is None or shape[2] < 6 or shape[1] not in (anchors, None):
        return no(f"needs an output [batch, {anchors}, 5 + classes], the network has {shapes_text(info)}")
    names = metadata_names(info)
    if names and shape[2] != 5 + len(names):
        return no(f"{len(names)} class names in the metadata need {5 + len(names)} columns, the output has {shape[2]}")
    return shape[2]


def _best_rows(rows: np.ndarray[tuple[int, int], np.dtype[np.float32]], confidence: float) -> Raw:
    """Rows with objectness x best class score >= confidence; boxes as they stand in the row."""
    # A class score is at most 1, so weak objectness alone rules most rows out.
    rows = rows[rows[:, 4] >= confidence]
    class_ids = rows[:, 5:].argmax(axis=1)
    scores = rows[:, 4] * rows[np.arange(len(rows)), 5 + class_ids]
    keep = scores >= confidence
    return Raw(rows[keep, :4], scores[keep], class_ids[keep].astype(np.int32))


class YoloxDecoder:
    """YOLOX as Megvii exports it: offsets from a cell of strides 8, 16, 32; sigmoid is in the graph.

    Centre = (offset + cell) * stride, size = exp(value) * stride, score = objectness * class score (YOLOX,
    yolox/models/yolo_head.py, decode_outputs). Input: BGR 0..255, aspect kept, at the top left, padded with 114.
    """

    name: ClassVar[str] = "yolox"
    needs_nms: ClassVar[bool] = True

    def __init__(self, _info: NetworkInfo, width: int, height: int, /) -> None:
        self._cells, self._strides = grid(width, height, STRIDES)

    @staticmethod
    def recognise(info: NetworkInfo, width: int, height: int) -> Recognition:
        """[batch, cells of strides 8, 16 and 32, 5 + classes]."""
        anchors = cells(width, height, STRIDES)
        columns = _rows(info, anchors)
        if isinstance(columns, Recognition):
            return columns
        return Recognition(
            True,
            f"output {shapes_text(info)}: {anchors} = cells of strides 8, 16, 32 at {width}x{height}, "
            f"{columns} = 4 box + objectness + {columns - 5} classes",
            columns - 5,
        )

    @staticmethod
    def preprocessing(width: int, height: int) -> Preprocessing:
        """BGR, unscaled, at the top left."""
        return Preprocessing(width, height, fit="top-left", order="BGR", scale=1.0)

    def decode(self, outputs: Arrays, index: int, confidence: float) -> Raw:
        """See `Decoder.decode`."""
        rows = outputs[0][index]
        chosen = rows[:, 4] >= confidence
        raw_rows = rows[chosen]
        boxes = np.empty((len(raw_rows), 4), np.float32)
        boxes[:, :2] = (raw_rows[:, :2] + self._cells[chosen]) * self._strides[chosen]
        boxes[:, 2:] = np.exp(raw_rows[:, 2:4]) * self._strides[chosen]
        decoded = np.concatenate([xyxy_from_cxcywh(boxes), raw_rows[:, 4:]], axis=1)
        return _best_rows(decoded, confidence)


class Yolov5Decoder:
    """YOLOv5 with its detect layer in the graph: three anchors a cell, centre and size in input pixels.

    Input: RGB / 255, aspect kept, centred, padded with 114.
    """

    name: ClassVar[str] = "yolov5"
    needs_nms: ClassVar[bool] = True

    def __init__(self, _info: NetworkInfo, _width: int, _height: int, /) -> None:
        """Nothing of the network has to be known beforehand."""

    @staticmethod
    def recognise(info: NetworkInfo, width: int, height: int) -> Recognition:
        """[batch, 3 x cells of strides 8, 16 and 32, 5 + classes]."""
        anchors = 3 * cells(width, height, STRIDES)
        columns = _rows(info, anchors)
        if isinstance(columns, Recognition):
            return columns
        return Recognition(
            True,
            f"output {shapes_text(info)}: {anchors} = 3 anchors x cells of strides 8, 16, 32 at {width}x{height}, "
            f"{columns} = 4 box + objectness + {columns - 5} classes",
            columns - 5,
        )

    @staticmethod
    def preprocessing(width: int, height: int) -> Preprocessing:
        """RGB / 255, centred."""
        return Preprocessing(width, height)

    def decode(self, outputs: Arrays, index: int, confidence: float) -> Raw:
        """See `Decoder.decode`."""
        best = _best_rows(outputs[0][index], confidence)
        return best._replace(xyxy=xyxy_from_cxcywh(best.xyxy))
