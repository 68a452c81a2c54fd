"""Dense heads of two outputs, class scores and finished boxes: YOLO-NAS and DAMO-YOLO."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from sluice.models.decoders.base import (
    Arrays,
    Family,
    Raw,
    Recognition,
    best_classes,
    cells,
    metadata_names,
    no,
    shapes_text,
)
from sluice.models.preprocess import Preprocessing
from sluice.runtimes.base import NetworkInfo

STRIDES = (8, 16, 32)


class PairFamily(Family):
    """Corners in input pixels [batch, cells, 4] and class scores [batch, cells, classes]."""

    BOXES: ClassVar[int]  # which output holds them

    @classmethod
    def recognise(cls, info: NetworkInfo, width: int, height: int, /) -> Recognition:
        """Two outputs over the cells of strides 8, 16, 32, in this family's order."""
        anchors = cells(width, height, STRIDES)
        order = ("boxes", "scores") if cls.BOXES == 0 else ("scores", "boxes")
        shapes = [output.shape for output in info.outputs]
        dense = len(shapes) == 2 and all(len(s) == 3 and s[1] == anchors for s in shapes)
        if not dense or shapes[cls.BOXES][2] != 4 or not shapes[1 - cls.BOXES][2]:
            return no(
                f"needs {order[0]} and {order[1]} over {anchors} cells: [batch, {anchors}, 4] and [batch, {anchors}, "
                f"classes]; the network has {shapes_text(info)}"
            )
        classes = shapes[1 - cls.BOXES][2] or 0
        names = metadata_names(info)
        if names and len(names) != classes:
            return no(f"{classes} columns of scores are not the {len(names)} classes of the metadata")
        why = (
            f"outputs {shapes_text(info)}: first {order[0]}, then {order[1]} of {classes} classes, over {anchors} = "
            f"cells of strides 8, 16, 32 at {width}x{height}"
        )
        return Recognition(True, why, classes)

    def decode(self, outputs: Arrays, index: int, confidence: float) -> Raw:
        """See `Decoder.decode`."""
        rows, scores, class_ids = best_classes(outputs[1 - self.BOXES][index], confidence)
        return Raw(outputs[self.BOXES][index][rows].astype(np.float32), scores, class_ids)


class YoloNasDecoder(PairFamily):
    """YOLO-NAS without suppression: first corners in input pixels, then class scores.

    Input: RGB / 255, aspect kept, centred, padded with 114 (super-gradients, default_yolo_nas_coco_processing_params;
    that it first shrinks to 636 of 640 pixels is left out).
    """

    name: ClassVar[str] = "yolo-nas"
    BOXES: ClassVar[int] = 0


class DamoYoloDecoder(PairFamily):
    """DAMO-YOLO: first class scores, then corners in input pixels (DAMO-YOLO, tools/onnx_inference.py).

    Input: RGB 0..255, aspect kept, at the top left, padded with black (damo/config/augmentations.py).
    """

    name: ClassVar[str] = "damo-yolo"
    BOXES: ClassVar[int] = 1

    @classmethod
    def preprocessing(cls, _info: NetworkInfo, width: int, height: int, /) -> Preprocessing:
        """RGB, unscaled, at the top left, padded with black."""
        return Preprocessing(width, height, fit="top-left", scale=1.0, pad=0)
