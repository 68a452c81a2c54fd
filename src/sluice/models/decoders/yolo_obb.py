"""YOLOv8-OBB and its kin: rotated boxes."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from sluice.models.conversions import xyxy_from_cxcywh
from sluice.models.decoders.base import (
    Arrays,
    Float,
    Raw,
    Recognition,
    if_told_the_task,
    metadata_names,
    no,
    not_one_output_of,
    within,
)
from sluice.models.decoders.yolov8 import DenseFamily, dense_output
from sluice.runtimes.base import NetworkInfo


def regular(cxcywh: npt.NDArray[Any], radians: npt.NDArray[Any]) -> tuple[Float, Float]:
    """The same rectangles with an angle of 0 to 90 degrees, width and height changing places where they have to.

    This is the form that Ultralytics reports (utils/ops.py, regularize_rboxes). With y pointing down, a growing angle
    turns clockwise on the picture.

    Args:
        cxcywh: [N,4]: centre, width, height.
        radians: [N].

    Returns:
        float32 [N,4]: left, top, right, bottom before turning; float32 [N]: degrees clockwise.
    """
    boxes = np.array(cxcywh, np.float32)
    turn = np.asarray(radians, np.float32)
    swap = turn % math.pi >= math.pi / 2
    boxes[swap, 2:4] = boxes[swap, 3:1:-1]
    degrees: Float = np.degrees(turn % (math.pi / 2)).astype(np.float32)
    return xyxy_from_cxcywh(boxes), degrees


class YoloObbDecoder(DenseFamily):
    """YOLOv8-OBB, YOLO11-OBB, YOLO26-OBB without its end: centre, size, class scores and an angle for every cell.

    [batch, 4 + classes + 1, cells] or its transpose; the last channel is the angle in radians. Input: RGB / 255, aspect
    kept, centred, padded with 114.
    """

    name: ClassVar[str] = "yolo-obb"

    @classmethod
    def recognise(cls, info: NetworkInfo, width: int, height: int, /) -> Recognition:
        """One dense output with a channel more than box and classes."""
        dense = dense_output(info, width, height)
        if isinstance(dense, Recognition):
            return dense
        channels = dense.channels
        if (other := not_one_output_of("obb", info)) is not None:
            return other
        names = metadata_names(info)
        classes = channels - 5
        if classes < 1 or (names and len(names) != classes):
            return no(f"{channels} channels are not 4 box + {len(names) or 'at least 1'} classes + angle")
        why = f"{dense.why}, {channels} = 4 box + {classes} classes + angle"
        return if_told_the_task(info, why, "the last channel is an angle", classes)

    @classmethod
    def confirm(
        cls, info: NetworkInfo, width: int, height: int, verdict: Recognition, outputs: Arrays, /
    ) -> Recognition:
        """Without metadata: a last channel that reaches below 0 or above 1, and is no larger than an angle."""
        rows, _ = cls(info, width, height).rows_of(outputs[0][0])
        turned = not within(rows[-1], 0, 1) and within(rows[-1], -2 * math.pi, 2 * math.pi)
        if verdict.fits or (turned and within(rows[4:-1], 0, 1)):
            return Recognition(True, verdict.why.partition("; but")[0], verdict.classes)
        return verdict

    def decode(self, outputs: Arrays, index: int, confidence: float) -> Raw:
        """See `Decoder.decode`."""
        found = self.chosen(outputs[0][index], confidence)
        xyxy, degrees = regular(found.boxes, found.more[:, 0])
        return Raw(xyxy, found.scores, found.class_ids, angles=degrees)
