"""Decoders: one file per family of heads; each recognises its own from shapes, names, metadata and values."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

from sluice.errors import ConfigurationError
from sluice.models.decoders.anchors import Yolov3RawDecoder, Yolov5RawDecoder, Yolov7RawDecoder
from sluice.models.decoders.base import Decoder, Recognition
from sluice.models.decoders.centernet import CenterfaceDecoder, CenternetDecoder
from sluice.models.decoders.classification import ClassificationDecoder, EmbeddingDecoder
from sluice.models.decoders.detectnet import DetectnetDecoder
from sluice.models.decoders.detr import (
    DetrDecoder,
    DetrFinishedDecoder,
    RfdetrDecoder,
    RtdetrDecoder,
    RtdetrLogitsDecoder,
)
from sluice.models.decoders.efficientdet import EfficientdetDecoder
from sluice.models.decoders.fastestdet import FastestdetDecoder
from sluice.models.decoders.mmdet import MmdeployDecoder, RtmdetRawDecoder
from sluice.models.decoders.nanodet import NanodetDecoder, NanodetPlusDecoder, PicodetBoxesDecoder, PicodetDecoder
from sluice.models.decoders.pairs import DamoYoloDecoder, YoloNasDecoder
from sluice.models.decoders.segmentation import SegmentationDecoder
from sluice.models.decoders.ssd import (
    DetectionOutputDecoder,
    RfbDecoder,
    SsdDecoder,
    TensorflowDecoder,
    TorchvisionDecoder,
)
from sluice.models.decoders.suppressed import (
    DeepstreamYoloDecoder,
    EfficientNmsDecoder,
    FlatRowsDecoder,
    OnnxNmsDecoder,
    OnnxNmsYxDecoder,
    PaddleRowsDecoder,
    Yolov7EndToEndDecoder,
)
from sluice.models.decoders.yolo_end2end import (
    EndToEndDecoder,
    EndToEndObbDecoder,
    EndToEndPoseDecoder,
    RtdetrEndToEndDecoder,
)
from sluice.models.decoders.yolo_obb import YoloObbDecoder
from sluice.models.decoders.yolo_pose import YoloPoseDecoder
from sluice.models.decoders.yolov8 import Yolov8Decoder, Yolov8RawDecoder
from sluice.models.decoders.yolox import Yolov5Decoder, Yolov6Decoder, YoloxDecoder
from sluice.models.decoders.yunet import Yunet2021Decoder, YunetDecoder

if TYPE_CHECKING:
    from sluice.runtimes.base import NetworkInfo

__all__ = ["DECODERS", "FAMILIES", "Decoder", "Recognition", "candidates_of", "named_decoder", "recognise_all"]

_ALL: tuple[type[Decoder], ...] = (
    YoloxDecoder,
    Yolov5Decoder,
    Yolov6Decoder,
    Yolov8Decoder,
    Yolov8RawDecoder,
    Yolov3RawDecoder,
    Yolov5RawDecoder,
    Yolov7RawDecoder,
    YoloPoseDecoder,
    YoloObbDecoder,
    EndToEndDecoder,
    EndToEndPoseDecoder,
    EndToEndObbDecoder,
    Yolov7EndToEndDecoder,
    FlatRowsDecoder,
    DeepstreamYoloDecoder,
    YoloNasDecoder,
    DamoYoloDecoder,
    MmdeployDecoder,
    RtmdetRawDecoder,
    NanodetDecoder,
    NanodetPlusDecoder,
    PicodetDecoder,
    PicodetBoxesDecoder,
    PaddleRowsDecoder,
    FastestdetDecoder,
    SsdDecoder,
    RfbDecoder,
    TensorflowDecoder,
    TorchvisionDecoder,
    DetectionOutputDecoder,
    EfficientNmsDecoder,
    OnnxNmsDecoder,
    OnnxNmsYxDecoder,
    EfficientdetDecoder,
    CenternetDecoder,
    CenterfaceDecoder,
    Yunet2021Decoder,
    YunetDecoder,
    RtdetrDecoder,
    RtdetrEndToEndDecoder,
    RtdetrLogitsDecoder,
    DetrDecoder,
    DetrFinishedDecoder,
    RfdetrDecoder,
    DetectnetDecoder,
    SegmentationDecoder,
    ClassificationDecoder,
    EmbeddingDecoder,
)

#: All decoders by name.
DECODERS: dict[str, type[Decoder]] = {decoder.name: decoder for decoder in _ALL}

_ULTRALYTICS = (
    "yolov8",
    "yolo-pose",
    "yolo-obb",
    "yolov8-raw",
    "yolo-end2end",
    "yolo-end2end-pose",
    "yolo-end2end-obb",
)
_RTDETR = ("rtdetr", "rtdetr-end2end", "rtdetr-logits", "detr-finished")

#: Names of families, which a model may be known by, to the decoders of the forms that their exporters write.
FAMILIES: dict[str, tuple[str, ...]] = {
    "yolov3": ("yolov5", "yolov3-raw", "yolov8"),
    "yolov5": ("yolov5", "yolov5-raw", "yolov8"),
    "yolov6": ("yolov6", "efficientnms"),
    "yolov7": ("yolov5", "yolov7-raw", "yolov7-end2end", "efficientnms"),
    **dict.fromkeys(("yolov8", "yolov9", "yolov10", "yolo11", "yolo12", "yolo26", "yolo-world"), _ULTRALYTICS),
    "yolox": ("yolox", "yolov6"),
    "yolo-nas": ("yolo-nas", "efficientnms", "flat-rows"),
    "rtmdet": ("mmdeploy", "rtmdet-raw"),
    "mask-rcnn": ("torchvision", "mmdeploy"),
    "nanodet": ("nanodet", "nanodet-plus"),
    "picodet": ("picodet", "picodet-boxes", "paddle-rows"),
    "ssd": ("ssd", "rfb", "tf-od", "torchvision", "ssd-rows"),
    "efficientdet": ("efficientdet", "tf-od", "efficientnms"),
    "rtdetr": _RTDETR,
    "d-fine": ("rtdetr-logits", "detr-finished"),
    "yunet": ("yunet", "yunet-2021"),
}


def recognise_all(info: NetworkInfo, width: int, height: int) -> dict[str, Recognition]:
    """What every decoder says of a network with an input of this size."""
    return {name: decoder.recognise(info, width, height) for name, decoder in DECODERS.items()}


def candidates_of(name: str) -> tuple[str, ...]:
    """The decoders that a name stands for: the one of that name first, then those of the family of that name.

    Raises:
        ConfigurationError: there is none; with the names there are.
    """
    own = (name,) if name in DECODERS else ()
    found = own + tuple(other for other in FAMILIES.get(name, ()) if other != name)
    if not found:
        known = [*DECODERS, *(family for family in FAMILIES if family not in DECODERS)]
        near = difflib.get_close_matches(name, known, 1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise ConfigurationError(f"there is no decoder {name!r}{hint} (there are: {', '.join(known)})")
    return found


def named_decoder(name: str) -> type[Decoder]:
    """The decoder of a name, or the first of a family's.

    Raises:
        ConfigurationError: there is none; with the names there are.
    """
    return DECODERS[candidates_of(name)[0]]
