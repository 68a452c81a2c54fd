"""SSD and its kin: TensorFlow's and torchvision's detectors, DetectionOutput rows, and scores with finished boxes."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from sluice.models.decoders.base import (
    Arrays,
    Family,
    Raw,
    Recognition,
    cells,
    check_scores,
    metadata_names,
    named,
    no,
    perhaps,
    shapes_text,
    sure,
    within,
)
from sluice.models.decoders.masks import Masks
from sluice.models.decoders.suppressed import is_integer
from sluice.models.preprocess import Preprocessing
from sluice.runtimes.base import NetworkInfo


class TensorflowDecoder(Family):
    """TensorFlow's Object Detection API: detection_boxes, detection_scores, detection_classes, suppressed.

    Boxes [batch, N, 4] are fractions of the input in the order top, left, bottom, right; classes count from 1, and keep
    their numbers. Masks ``detection_masks`` [batch, N, h, w] are of the boxes. Input: RGB 0..255, stretched.
    """

    name: ClassVar[str] = "tf-od"
    needs_nms: ClassVar[bool] = False
    NAMES: ClassVar[tuple[str, ...]] = ("detection_boxes", "detection_scores", "detection_classes")

    @classmethod
    def recognise(cls, info: NetworkInfo, _width: int, _height: int, /) -> Recognition:
        """The names that TensorFlow gives."""
        if named(info, *cls.NAMES) is None:
            return no(f"needs outputs of the names {', '.join(cls.NAMES)}; has {', '.join(map(str, info.outputs))}")
        why = f"outputs {', '.join(map(str, info.outputs))}: the names of TensorFlow's detectors"
        count = named(info, "num_detections")
        if count is not None and len(info.outputs[count[0]].shape) == 2:
            return perhaps(f"{why}; but num_detections [batch, 1] is TensorRT's EfficientNMS")
        return Recognition(True, why)

    @classmethod
    def preprocessing(cls, _info: NetworkInfo, width: int, height: int, /) -> Preprocessing:
        """RGB, unscaled, stretched."""
        return Preprocessing(width, height, fit="stretch", scale=1.0)

    def decode(self, outputs: Arrays, index: int, confidence: float) -> Raw:
        """See `Decoder.decode`."""
        boxes_at, scores_at, classes_at = named(self.info, *self.NAMES) or (0, 1, 2)
        scores = outputs[scores_at][index]
        rows = sure(scores, confidence)
        boxes = outputs[boxes_at][index][rows][:, [1, 0, 3, 2]].astype(np.float32) * self.size
        masks_at = named(self.info, "detection_masks")
        masks = Masks(outputs[masks_at[0]][index][rows], logits=False, of_box=True) if masks_at else None
        return Raw(
            boxes, scores[rows].astype(np.float32), outputs[classes_at][index][rows].astype(np.int32), masks=masks
        )


class TorchvisionDecoder(Family):
    """torchvision's detectors (SSD, RetinaNet, FCOS, Faster, Mask and Keypoint R-CNN): one picture, suppressed.

    Boxes [N,4] corners in input pixels, labels [N] integers, scores [N]; Mask R-CNN adds masks [N,1,h,w], probabilities
    over the input, Keypoint R-CNN key points [N,K,3] and their scores [N,K]. Told apart by shape and type. Input: RGB /
    255, aspect kept, at the top left, padded with black (the graph normalises).
    """

    name: ClassVar[str] = "torchvision"
    needs_nms: ClassVar[bool] = False
    one_picture: ClassVar[bool] = True

    def __init__(self, info: NetworkInfo, width: int, height: int, /) -> None:
        super().__init__(info, width, height)
        self._at = _torchvision_roles(info)

    @classmethod
    def recognise(cls, info: NetworkInfo, _width: int, _height: int, /) -> Recognition:
        """[N,4], integers [N] and floats [N], and perhaps masks or key points."""
        at = _torchvision_roles(info)
        if not {"boxes", "labels", "scores"} <= at.keys() or len(at) != len(info.outputs):
            return no(
                "needs boxes [any, 4], labels [any] of integers, scores [any], and perhaps masks [any, 1, h, w] or key "
                f"points [any, K, 3]; has {', '.join(map(str, info.outputs))}"
            )
        return Recognition(True, f"outputs {', '.join(map(str, info.outputs))}: {', '.join(at)}, of one picture")

    @classmethod
    def preprocessing(cls, _info: NetworkInfo, width: int, height: int, /) -> Preprocessing:
        """RGB / 255, at the top left, padded with black."""
        return Preprocessing(width, height, fit="top-left", pad=0)

    def decode(self, outputs: Arrays, _index: int, confidence: float) -> Raw:
        """See `Decoder.decode`."""
        parts = {role: outputs[at] for role, at in self._at.items()}
        rows = sure(parts["scores"], confidence)
        few = {role: values[rows] for role, values in parts.items()}
        masks = Masks(few["masks"][:, 0], logits=False) if "masks" in few else None
        points = None
        if "keypoints" in few:
            points = np.array(few["keypoints"], np.float32)
            if "keypoint scores" in few:
                points[..., 2] = few["keypoint scores"]
        scores, labels = few["scores"].astype(np.float32), few["labels"].astype(np.int32)
        return Raw(few["boxes"].astype(np.float32), scores, labels, keypoints=points, masks=masks)


class DetectionOutputDecoder(Family):
    """Rows of SSD's DetectionOutput (OpenVINO, Caffe, TAO's NMS): [1, 1, N, 7] or [batch, 1, N, 7], suppressed.

    Frame, class, score, and corners as fractions of the input; a negative frame ends the rows. Input: BGR 0..255,
    stretched (Open Model Zoo).
    """

    name: ClassVar[str] = "ssd-rows"
    needs_nms: ClassVar[bool] = False

    @classmethod
    def recognise(cls, info: NetworkInfo, _width: int, _height: int, /) -> Recognition:
        """[batch, 1, N, 7]."""
        shape = info.outputs[0].shape if info.outputs else ()
        if len(shape) != 4 or shape[3] != 7 or shape[1] != 1:
            return no(f"needs an output [batch, 1, N, 7], the network has {shapes_text(info)}")
        return Recognition(True, f"output {info.outputs[0]}: frame, class, score and corners a row")

    @classmethod
    def preprocessing(cls, _info: NetworkInfo, width: int, height: int, /) -> Preprocessing:
        """BGR, unscaled, stretched."""
        return Preprocessing(width, height, fit="stretch", order="BGR", scale=1.0)

    def decode(self, outputs: Arrays, index: int, confidence: float) -> Raw:
        """See `Decoder.decode`."""
        rows = outputs[0]
        check_scores(rows[:, 0, :1, 0])  # not of all: behind the last row stands anything
        rows = rows[index, 0] if rows.shape[0] > 1 else rows[0, 0][rows[0, 0, :, 0] == index]
        rows = rows[rows[:, 0] >= 0]
        rows = np.asarray(rows[sure(rows[:, 2], confidence)], np.float32)
        return Raw(rows[:, 3:7] * self.size, rows[:, 2], rows[:, 1].astype(np.int32))


class SsdDecoder(Family):
    """SSD with boxes decoded in the graph: scores [batch, N, 1 + classes], boxes [batch, N, 4].

    Column 0 is the background, whose number class ids leave out; boxes are corners as fractions of the input. Input:
    RGB, (x - 127) / 128, stretched (pytorch-ssd, vision/ssd/config).
    """

    name: ClassVar[str] = "ssd"

    @classmethod
    def recognise(cls, info: NetworkInfo, width: int, height: int, /) -> Recognition:
        """Two outputs over the same rows, of the names boxes and scores (or confidences)."""
        if _is_rfb(info, width, height):
            return no(f"{shapes_text(info)} are the priors and the one class of the RFB face detector (rfb)")
        return cls._shaped(info)

    @classmethod
    def _shaped(cls, info: NetworkInfo) -> Recognition:
        at = _scores_and_boxes(info)
        if at is None:
            return no(f"needs scores [batch, N, 1 + classes] and boxes [batch, N, 4]; has {shapes_text(info)}")
        classes = (info.outputs[at[0]].shape[2] or 1) - 1
        why = f"outputs {', '.join(map(str, info.outputs))}: background + {classes} classes, and corners"
        names = metadata_names(info)
        if classes < 1 or (names and len(names) != classes):
            return no(f"{classes + 1} columns of scores are not background + {len(names) or 'at least 1'} classes")
        if "box" not in info.outputs[at[1]].name.lower():
            return perhaps(f"{why}; but no name says that these are boxes", classes)
        return Recognition(True, why, classes)

    @classmethod
    def confirm(
        cls, info: NetworkInfo, _width: int, _height: int, verdict: Recognition, outputs: Arrays, /
    ) -> Recognition:
        """Scores of each row add up to 1, and corners are fractions in order."""
        scores_at, boxes_at = _scores_and_boxes(info) or (0, 1)
        boxes = outputs[boxes_at]
        if not np.allclose(outputs[scores_at].sum(axis=-1), 1, atol=0.02):
            return no(f"the rows of {info.outputs[scores_at]} do not add up to 1, so column 0 is no background")
        if not within(boxes, -4, 5) or (boxes[..., 2:] < boxes[..., :2] - 1e-3).any():
            return no(f"the rows of {info.outputs[boxes_at]} are no corners as fractions of the input")
        return Recognition(True, verdict.why.partition("; but")[0], verdict.classes)

    @classmethod
    def preprocessing(cls, _info: NetworkInfo, width: int, height: int, /) -> Preprocessing:
        """RGB, (x - 127) / 128, stretched."""
        return Preprocessing(width, height, fit="stretch", scale=1.0, mean=(127.0,) * 3, std=(128.0,) * 3)

    def decode(self, outputs: Arrays, index: int, confidence: float) -> Raw:
        """See `Decoder.decode`. As SSD does, a row may be several classes."""
        scores_at, boxes_at = _scores_and_boxes(self.info) or (0, 1)
        scores = outputs[scores_at][index][:, 1:]
        check_scores(scores)
        rows, classes = np.nonzero(scores >= confidence)
        boxes = outputs[boxes_at][index][rows].astype(np.float32) * self.size
        return Raw(boxes, scores[rows, classes].astype(np.float32), classes.astype(np.int32))


class RfbDecoder(SsdDecoder):
    """The RFB face detector (Ultra-Light-Fast-Generic-Face-Detector-1MB): SSD of one class, on priors of its own.

    Over the cells of strides 8, 16, 32, 64, those at the edges included, 3, 2, 2 and 3 priors (vision/ssd/config/
    fd_config.py). All else as SSD's.
    """

    name: ClassVar[str] = "rfb"
    labels: ClassVar[tuple[str, ...]] = ("face",)

    @classmethod
    def recognise(cls, info: NetworkInfo, width: int, height: int, /) -> Recognition:
        """SSD's outputs, as many rows as there are priors, and one class."""
        if not _is_rfb(info, width, height):
            return no(f"needs scores [batch, {_rfb_priors(width, height)}, 2] and boxes; has {shapes_text(info)}")
        return cls._shaped(info)


def _rfb_priors(width: int, height: int) -> int:
    return sum(
        count * cells(width, height, (stride,), ceil=True) for stride, count in ((8, 3), (16, 2), (32, 2), (64, 3))
    )


def _is_rfb(info: NetworkInfo, width: int, height: int) -> bool:
    at = _scores_and_boxes(info)
    return at is not None and info.outputs[at[0]].shape[1:] == (_rfb_priors(width, height), 2)


def _scores_and_boxes(info: NetworkInfo) -> tuple[int, int] | None:
    """Indices of [batch, N, at least 2] and [batch, N, 4] over the same N."""
    shapes = [output.shape for output in info.outputs]
    if len(shapes) != 2 or any(len(shape) != 3 for shape in shapes) or shapes[0][1] != shapes[1][1]:
        return None
    names = [output.name.lower() for output in info.outputs]
    order = ((1, 0), (0, 1)) if "box" in names[0] else ((0, 1), (1, 0))
    return next((at for at in order if shapes[at[1]][2] == 4 and (shapes[at[0]][2] or 0) >= 2), None)


def _torchvision_roles(info: NetworkInfo) -> dict[str, int]:
    """Role of each output by shape and type; outputs of no role are left out."""
    roles: dict[str, int] = {}
    for at, output in enumerate(info.outputs):
        shape = output.shape
        if len(shape) == 2 and shape[1] == 4 and not is_integer(output):
            role = "boxes"
        elif len(shape) == 1:
            role = "labels" if is_integer(output) else "scores"
        elif len(shape) == 4 and shape[1] == 1:
            role = "masks"
        elif len(shape) == 3 and shape[2] == 3:
            role = "keypoints"
        elif len(shape) == 2 and not is_integer(output):
            role = "keypoint scores"
        else:
            continue
        roles.setdefault(role, at)
    return roles
