"""YOLO heads cut before their detect layer: maps of anchors at three strides. Shapes do not tell whose they are."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from sluice.models.conversions import xyxy_from_cxcywh
from sluice.models.decoders.base import (
    Arrays,
    Family,
    Float,
    Raw,
    Recognition,
    check_scores,
    metadata_names,
    no,
    perhaps,
    shapes_text,
    sigmoid,
)
from sluice.models.preprocess import Preprocessing
from sluice.runtimes.base import NetworkInfo

Anchors = dict[int, tuple[tuple[int, int], ...]]

#: Width and height of each stride's anchors in pixels, as the published weights have them.
COCO_9: Anchors = {  # YOLOv3 and YOLOv5 (yolov5/models/yolov5s.yaml), YOLOv7-tiny
    8: ((10, 13), (16, 30), (33, 23)),
    16: ((30, 61), (62, 45), (59, 119)),
    32: ((116, 90), (156, 198), (373, 326)),
}
YOLOV7_9: Anchors = {  # yolov7/cfg/deploy/yolov7.yaml
    8: ((12, 16), (19, 36), (40, 28)),
    16: ((36, 75), (76, 55), (72, 146)),
    32: ((142, 110), (192, 243), (459, 401)),
}


class AnchorFamily(Family):
    """Three maps [batch, 3, h, w, 5 + classes] or [batch, 3 x (5 + classes), h, w], of strides 8, 16, 32."""

    ANCHORS: ClassVar[Anchors]

    @classmethod
    def recognise(cls, info: NetworkInfo, width: int, height: int, /) -> Recognition:
        """Three such maps; which family's they are has to be said by name."""
        right = {(height // stride, width // stride) for stride in cls.ANCHORS}
        found = [_columns(output.shape) for output in info.outputs]
        sizes, columns = {item[0] for item in found}, {item[1] for item in found}
        if len(found) != 3 or sizes != right or len(columns) != 1 or min(columns) < 6:
            return no(
                "needs three maps [batch, 3, h, w, 5 + classes] or [batch, 3 x (5 + classes), h, w] of strides 8, 16, "
                f"32; the network has {shapes_text(info)}"
            )
        count = columns.pop()
        names = metadata_names(info)
        if names and count != 5 + len(names):
            return no(f"{len(names)} class names need {5 + len(names)} values an anchor, the maps have {count}")
        return perhaps(
            f"outputs {shapes_text(info)}: 3 anchors x ({count} = 4 box + objectness + {count - 5} classes); but "
            "nothing says whose anchors and arithmetic they are for",
            count - 5,
        )

    def decode(self, outputs: Arrays, index: int, confidence: float) -> Raw:
        """See `Decoder.decode`."""
        found = [self._of_map(output[index], confidence) for output in outputs]
        boxes, scores, class_ids = (np.concatenate(parts) for parts in zip(*found, strict=True))
        return Raw(xyxy_from_cxcywh(boxes), scores, class_ids.astype(np.int32))

    def _of_map(self, output: npt.NDArray[Any], confidence: float) -> tuple[Float, Float, npt.NDArray[np.intp]]:
        """Centre and size, score and class of the anchors of one map that are sure enough."""
        if output.ndim == 3:
            output = output.reshape(3, -1, *output.shape[1:]).transpose(0, 2, 3, 1)
        finished = bool(output.min() >= 0 and output.max() <= 1)  # the graph has made probabilities already
        stride = self.height // output.shape[1]
        squash = np.asarray if finished else sigmoid
        objectness = squash(output[..., 4])
        check_scores(objectness)
        which = np.nonzero(objectness >= confidence)
        rows = np.asarray(output[which], np.float32)
        classes = squash(rows[:, 5:])
        best = classes.argmax(axis=1)
        scores = objectness[which] * classes[np.arange(len(rows)), best]
        keep = scores >= confidence
        anchor, row, column = (axis[keep] for axis in which)
        cell = np.stack([column, row], axis=1).astype(np.float32)
        size = np.array(self.ANCHORS[stride], np.float32)[anchor]
        return self.boxes(rows[keep, :4], finished, cell, size, stride), scores[keep], best[keep]

    def boxes(self, values: Float, finished: bool, cell: Float, anchor: Float, stride: int) -> Float:
        """Centre and size in pixels [N,4] of the raw values [N,4]."""
        part = values if finished else sigmoid(values)
        # yolov5/models/yolo.py, Detect.forward; yolov7/models/yolo.py alike
        centre = (part[:, :2] * 2 - 0.5 + cell) * stride
        return np.concatenate([centre, (part[:, 2:] * 2) ** 2 * anchor], axis=1).astype(np.float32)


class Yolov5RawDecoder(AnchorFamily):
    """YOLOv5 without its detect layer (also YOLOv7-tiny): three raw maps, YOLOv5's anchors.

    Input: RGB / 255, aspect kept, centred, padded with 114.
    """

    name: ClassVar[str] = "yolov5-raw"
    ANCHORS: ClassVar[Anchors] = COCO_9


class Yolov7RawDecoder(AnchorFamily):
    """YOLOv7 without its detect layer: three raw maps, YOLOv7's anchors.

    Input: RGB / 255, aspect kept, centred, padded with 114.
    """

    name: ClassVar[str] = "yolov7-raw"
    ANCHORS: ClassVar[Anchors] = YOLOV7_9


class Yolov3RawDecoder(AnchorFamily):
    """YOLOv3 of Darknet: three raw maps; centre = sigmoid + cell, size = anchor x e^value (YOLOv3, section 2.1).

    Input: RGB / 255, aspect kept, centred, padded with 128 (Darknet, src/image.c, letterbox_image).
    """

    name: ClassVar[str] = "yolov3-raw"
    ANCHORS: ClassVar[Anchors] = COCO_9

    @classmethod
    def preprocessing(cls, _info: NetworkInfo, width: int, height: int, /) -> Preprocessing:
        """RGB / 255, centred, padded with 128."""
        return Preprocessing(width, height, pad=128)

    def boxes(self, values: Float, finished: bool, cell: Float, anchor: Float, stride: int) -> Float:
        """Centre and size in pixels [N,4] of the raw values [N,4]."""
        centre = values[:, :2] if finished else sigmoid(values[:, :2])
        return np.concatenate([(centre + cell) * stride, np.exp(values[:, 2:]) * anchor], axis=1).astype(np.float32)


def _columns(shape: tuple[int | None, ...]) -> tuple[tuple[int | None, int | None], int]:
    """Height, width and values per anchor of a map; 0 values if it is none."""
    if len(shape) == 5 and shape[1] == 3:
        return (shape[2], shape[3]), shape[4] or 0
    if len(shape) == 4 and (shape[1] or 0) % 3 == 0:
        return (shape[2], shape[3]), (shape[1] or 0) // 3
    return (None, None), 0
