"""Ultralytics' anchor-free layouts: YOLOv8/YOLO11 (dense) and YOLO26 end to end."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from sluice.models.conversions import xyxy_from_cxcywh
from sluice.models.decoders.base import Arrays, Raw, Recognition, cells, metadata_names, no, shapes_text
from sluice.models.preprocess import Preprocessing
from sluice.runtimes.base import NetworkInfo

STRIDES = (8, 16, 32)
MASK_COEFFICIENTS = 32  # Ultralytics' segmentation head has always 32 prototypes


class Yolov8Decoder:
    """YOLOv8, YOLO11 and alike: centre, size and one score per class for every cell; no objectness.

    Boxes are in input pixels, or in fractions of the input (some quantised exports); which one is seen from the
    centres of all cells, since they cover the whole input. Segmentation exports are read for their boxes.
    Input: RGB / 255, aspect kept, centred, padded with 114.
    """

    name: ClassVar[str] = "yolov8"
    needs_nms: ClassVar[bool] = True

    def __init__(self, info: NetworkInfo, width: int, height: int) -> None:
        self._size = np.array([width, height, width, height], np.float32)
        self._classes = self.recognise(info, width, height).classes
        self._anchors = cells(width, height, STRIDES)

    @staticmethod
    def recognise(info: NetworkInfo, width: int, height: int) -> Recognition:
        """[batch, 4 + classes, cells] or its transpose, alone or with [batch, 32, h, w] mask prototypes."""
        anchors = cells(width, height, STRIDES)
        shape = info.outputs[0].shape
        if len(shape) != 3:
            return no(f"needs an output [batch, 4 + classes, {anchors}], the network has {shapes_text(info)}")
        task = info.metadata.get("task", "detect")
        if task not in ("detect", "segment"):
            return no(f"the metadata's task is {task!r}; this decoder reads detect and segment")
        extra, prototypes = 0, ""
        if len(info.outputs) == 2 and len(info.outputs[1].shape) == 4:
            extra, prototypes = MASK_COEFFICIENTS, f" + {MASK_COEFFICIENTS} mask coefficients (not read)"
        elif len(info.outputs) != 1:
            return no(f"needs one output, or one and mask prototypes, the network has {shapes_text(info)}")
        channels = shape[1] if shape[2] == anchors else shape[2] if shape[1] == anchors else None
        if channels is None:
            return no(
                f"no axis of {shapes_text(info)} has the {anchors} cells of strides 8, 16, 32 at {width}x{height}"
            )
        classes = channels - 4 - extra
        names = metadata_names(info)
        if classes < 1 or (names and len(names) != classes):
            return no(f"{channels} channels are not 4 box{prototypes} + {len(names) or 'at least 1'} classes")
        return Recognition(
            True,
            f"output {shapes_text(info)}: {anchors} = cells of strides 8, 16, 32 at {width}x{height}, "
            f"{channels} = 4 box + {classes} classes{prototypes}",
            classes,
        )

    @staticmethod
    def preprocessing(width: int, height: int) -> Preprocessing:
        """RGB / 255, centred."""
        return Preprocessing(width, height)

    def decode(self, outputs: Arrays, index: int, confidence: float) -> Raw:
        """See `Decoder.decode`."""
        output: npt.NDArray[Any] = outputs[0][index]
        if output.shape[0] == self._anchors:
            output = output.T
        scores = output[4 : 4 + self._classes]
        chosen = np.flatnonzero(scores.max(axis=0) >= confidence)
        few = scores[:, chosen]
        class_ids = few.argmax(axis=0).astype(np.int32)
        boxes = output[:4, chosen].T
        if output[:2].max() <= 2:  # the last cell's centre: about 1 in fractions, the input's size in pixels
            boxes = boxes * self._size
        return Raw(xyxy_from_cxcywh(boxes), few[class_ids, np.arange(len(chosen))], class_ids)


class EndToEndDecoder:
    """YOLO26 (and YOLOv10) end to end: rows of left, top, right, bottom, score, class, best first; no NMS needed.

    Boxes are in input pixels. Input: RGB / 255, aspect kept, centred, padded with 114.
    """

    name: ClassVar[str] = "yolo-end2end"
    needs_nms: ClassVar[bool] = False

    def __init__(self, _info: NetworkInfo, _width: int, _height: int, /) -> None:
        """Nothing of the network has to be known beforehand."""

    @staticmethod
    def recognise(info: NetworkInfo, _width: int, _height: int, /) -> Recognition:
        """[batch, at most 1000 boxes, 6]."""
        task = info.metadata.get("task", "detect")
        if task != "detect":
            return no(f"the metadata's task is {task!r}; this decoder reads detect")
        shape = info.outputs[0].shape
        if len(info.outputs) != 1 or len(shape) != 3 or shape[2] != 6:
            return no(f"needs an output [batch, boxes, 6], the network has {shapes_text(info)}")
        if shape[1] is not None and shape[1] > 1000:
            return no(f"{shape[1]} rows are too many for boxes that are left after suppression (300 is usual)")
        names = metadata_names(info)
        why = f"output {shapes_text(info)}: 6 = box corners + score + class, boxes suppressed in the graph"
        return Recognition(True, why, len(names))

    @staticmethod
    def preprocessing(width: int, height: int) -> Preprocessing:
        """RGB / 255, centred."""
        return Preprocessing(width, height)

    def decode(self, outputs: Arrays, index: int, confidence: float) -> Raw:
        """See `Decoder.decode`."""
        rows = outputs[0][index]
        rows = rows[rows[:, 4] >= confidence]
        return Raw(rows[:, :4].astype(np.float32), rows[:, 4].astype(np.float32), rows[:, 5].astype(np.int32))
