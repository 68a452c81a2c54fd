"""From a detection network's outputs to boxes in its input: what parse functions read that no family's decoder does.

Each class here stands for one form of outputs. `Parser.why_not` says why a network's outputs are not of it.
"""

from __future__ import annotations

from typing import Any, ClassVar, Protocol

import numpy as np
import numpy.typing as npt

from sluice.models.conversions import xyxy_from_cxcywh
from sluice.models.decoders import DECODERS
from sluice.models.decoders.base import Arrays, Float, Raw, best_classes, named, shapes_text, sigmoid, sure
from sluice.models.decoders.masks import Masks
from sluice.runtimes import NetworkInfo

MOST_BOXES = 200  # keep_top_k in NVIDIA's parse functions for TAO's networks


class BoxParser(Protocol):
    """Turns outputs into boxes, before clustering.

    Attributes:
        needs_nms: the network has not suppressed boxes itself.
    """

    needs_nms: bool

    def parse(self, outputs: Arrays, index: int) -> Raw:
        """Boxes of picture `index` of a batch, in pixels of the input, in nvinfer's order."""
        ...


class Parser:
    """A form of outputs.

    Args:
        info: the network.
        width, height: size of its input.
        confidence: least score of a box; what is left out here saves work later.
    """

    needs_nms = False  # the network has suppressed them, or the parse function leaves it to clustering
    #: Names of the outputs, or parts of them; `needs` says in words what they hold.
    NAMES: ClassVar[tuple[str, ...]]
    NEEDS: ClassVar[str]

    def __init__(self, info: NetworkInfo, width: int, height: int, confidence: float) -> None:
        self.at = self.outputs_of(info) or tuple(range(len(self.NAMES)))
        self.size = np.array([width, height, width, height], np.float32)
        self.confidence = np.float32(confidence)

    @classmethod
    def outputs_of(cls, info: NetworkInfo) -> tuple[int, ...] | None:
        """Which outputs have the names; None if one is missing."""
        return named(info, *cls.NAMES)

    @classmethod
    def why_not(cls, info: NetworkInfo) -> str | None:
        """Why a network's outputs are not of this form; None if they are."""
        if cls.outputs_of(info) is not None:
            return None
        return f"needs {cls.NEEDS}; the network has {', '.join(map(str, info.outputs)) or shapes_text(info)}"


class DeepStreamYoloLayers(Parser):
    """Older exporters of DeepStream-Yolo: boxes [N,4] in pixels, scores [N,1] and classes [N,1] of each one's best."""

    NAMES = ("boxes", "scores", "classes")
    NEEDS = "outputs named boxes, scores and classes"

    def parse(self, outputs: Arrays, index: int) -> Raw:
        """See `BoxParser.parse`."""
        boxes, scores, classes = (np.asarray(outputs[at][index], np.float32) for at in self.at)
        rows = sure(scores.ravel(), float(self.confidence))
        return Raw(boxes[rows], scores.ravel()[rows], classes.ravel()[rows].astype(np.int32))


class Suppressed(Parser):
    """Number of boxes, corners [N,4], scores [N], classes [N], suppressed in the network, as TensorRT's plugins do.

    The names say which is which, or else the order does. `FRACTIONS`: corners are fractions of the input, else pixels.
    `ORDER`: columns that hold left, top, right, bottom.
    """

    NAMES = ("num", "box", "score", "class")
    NEEDS = "a number of boxes, boxes [batch, N, 4], scores and classes [batch, N]"
    FRACTIONS: ClassVar[bool] = True
    ORDER: ClassVar[tuple[int, ...]] = (0, 1, 2, 3)

    @classmethod
    def outputs_of(cls, info: NetworkInfo) -> tuple[int, ...] | None:
        """By parts of names, each in one output, else by the order; boxes must have four columns."""
        if len(info.outputs) != len(cls.NAMES):
            return None
        found = [[i for i, output in enumerate(info.outputs) if part in output.name.lower()] for part in cls.NAMES]
        at = tuple(places[0] for places in found) if all(len(p) == 1 for p in found) else (0, 1, 2, 3)
        shape = info.outputs[at[1]].shape
        return at if len(shape) == 3 and shape[2] == 4 else None

    def parse(self, outputs: Arrays, index: int) -> Raw:
        """See `BoxParser.parse`."""
        count, boxes, scores, classes = (np.asarray(outputs[at][index]) for at in self.at)
        rows = sure(scores.ravel()[: int(count.ravel()[0])], float(self.confidence))
        corners = boxes[rows][:, self.ORDER].astype(np.float32)
        return Raw(
            corners * self.size if self.FRACTIONS else corners,
            scores.ravel()[rows].astype(np.float32),
            classes.ravel()[rows].astype(np.int32),
        )


class SuppressedPixels(Suppressed):
    """As `Suppressed`, in pixels: YOLOv5 with TAO's plugin."""

    FRACTIONS = False


class SuppressedYx(Suppressed):
    """As `Suppressed`, top before left: SSD of TensorFlow."""

    ORDER = (1, 0, 3, 2)


class EfficientDetTao(SuppressedYx):
    """As `SuppressedYx`, in pixels: TAO's EfficientDet."""

    FRACTIONS = False


class DeformableDetrTao(Parser):
    """TAO's Deformable DETR and DINO: pred_logits [N,C] and pred_boxes [N,4], centre and size as fractions.

    A query is its best class. Class 0 is the background of TAO's training, so that its queries are left out; the class
    ids keep their numbers. At most 200 boxes, best first.
    """

    NAMES = ("pred_logits", "pred_boxes")
    NEEDS = "outputs named pred_logits and pred_boxes"

    def parse(self, outputs: Arrays, index: int) -> Raw:
        """See `BoxParser.parse`."""
        logits, boxes = (np.asarray(outputs[at][index], np.float32) for at in self.at)
        rows, scores, class_ids = best_classes(sigmoid(logits), float(self.confidence))
        order = np.argsort(-scores, kind="stable")
        order = order[class_ids[order] != 0][:MOST_BOXES]
        return Raw(xyxy_from_cxcywh(boxes[rows[order]] * self.size), scores[order], class_ids[order])


class MaskRcnnTao(Parser):
    """TAO's Mask R-CNN: generate_detections [N,6] (top, left, bottom, right, class, score) and masks [N,C,h,w].

    Corners are in pixels. An object's mask is that of its class, as the network gives it.
    """

    NAMES = ("detections", "mask")
    NEEDS = "outputs generate_detections [batch, N, 6] and mask_fcn_logits [batch, N, classes, h, w]"

    @classmethod
    def outputs_of(cls, info: NetworkInfo) -> tuple[int, ...] | None:
        """By parts of names and the number of dimensions."""
        found = [[i for i, output in enumerate(info.outputs) if part in output.name.lower()] for part in cls.NAMES]
        if not all(found) or [len(info.outputs[places[0]].shape) for places in found] != [3, 5]:
            return None
        return found[0][0], found[1][0]

    def parse(self, outputs: Arrays, index: int) -> Raw:
        """See `BoxParser.parse`."""
        detections, masks = (np.asarray(outputs[at][index], np.float32) for at in self.at)
        rows = sure(detections[:, 5], float(self.confidence))
        few = detections[rows]
        class_ids = few[:, 4].astype(np.int32)
        values = masks[rows, np.clip(class_ids, 0, masks.shape[1] - 1)]
        return Raw(few[:, [1, 0, 3, 2]], few[:, 5], class_ids, masks=Masks(values, logits=False, of_box=True))


#: The forms by name; each can be named as a decoder of a configuration file.
PARSERS: dict[str, Any] = {
    "deepstream-layers": DeepStreamYoloLayers,
    "batched-nms": Suppressed,
    "batched-nms-pixels": SuppressedPixels,
    "tf-ssd": SuppressedYx,
    "efficientdet-tao": EfficientDetTao,
    "deformable-detr-tao": DeformableDetrTao,
    "mask-rcnn-tao": MaskRcnnTao,
}


class DecoderParser:
    """One of Sluice's own decoders."""

    def __init__(self, name: str, info: NetworkInfo, width: int, height: int, confidence: float) -> None:
        self._decoder = DECODERS[name](info, width, height)
        self.needs_nms = self._decoder.needs_nms
        self._confidence = confidence

    def parse(self, outputs: Arrays, index: int) -> Raw:
        """See `BoxParser.parse`."""
        return self._decoder.decode(outputs, index, self._confidence)


def cut(xyxy: Float, width: int, height: int) -> tuple[Float, npt.NDArray[np.intp]]:
    """Boxes cut at the input's edges, and the rows of those of which at least a pixel remains each way.

    Parse functions do this one by one, before clustering; it changes overlaps.
    """
    corners = np.clip(xyxy, 0, np.array([width, height, width, height], np.float32))
    rows = np.flatnonzero((corners[:, 2:] - corners[:, :2] >= 1).all(axis=1))
    return corners[rows], rows
