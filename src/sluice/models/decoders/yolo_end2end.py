"""End-to-end rows: YOLOv10, YOLO26, RT-DETR, and exports with suppression inside: a finished box a row."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from sluice.models.conversions import xyxy_from_cxcywh
from sluice.models.decoders.base import (
    MOST_QUERIES,
    Arrays,
    Family,
    Float,
    Raw,
    Recognition,
    if_told_the_task,
    integral,
    metadata_names,
    no,
    not_of_boxes,
    not_one_output_of,
    perhaps,
    shapes_text,
    sure,
    within,
)
from sluice.models.decoders.masks import Masks
from sluice.models.decoders.yolo_obb import regular
from sluice.models.decoders.yolo_pose import keypoint_shape, keypoints_in_pixels
from sluice.models.preprocess import Preprocessing
from sluice.runtimes.base import NetworkInfo

RTDETR_HEAD = "RTDETRDecoder"  # in the metadata's "head" of Ultralytics 8.4.100 and later; 8.4.60 writes no such key
ENOUGH_ROWS = 100  # of so many queries some have boxes narrower than their centre is far from the left


def _rows(info: NetworkInfo) -> int | Recognition:
    """Columns of a first output [batch, at most 1000, columns], or why it is not so."""
    shape = info.outputs[0].shape if info.outputs else ()
    if len(shape) != 3 or shape[2] is None:
        return no(f"needs an output [batch, boxes, columns], the network has {shapes_text(info)}")
    if shape[1] is not None and shape[1] > MOST_QUERIES:
        return no(f"{shape[1]} rows are too many for boxes that are left after suppression (300 is usual)")
    return shape[2]


def _of_centres(info: NetworkInfo, rows: npt.NDArray[Any]) -> bool | None:
    """Whether boxes are centre and size in fractions of the input, as RT-DETR's; False for corners, None if open.

    Args:
        info: the network, whose metadata may name its head.
        rows: [rows, 4 or more], of one run.
    """
    if (head := info.metadata.get("head")) is not None:
        return head == RTDETR_HEAD
    # RT-DETR's coordinates are sigmoids, and each of its rows is a query; suppression fills up with zeros.
    if not within(rows[:, :4], 0, 1) or (rows == 0).all(axis=1).any():
        return False
    no_corners = (rows[:, 2:4] < rows[:, :2] - 1e-3).any(axis=1).mean()
    if no_corners > 0.5:
        return True
    return False if no_corners == 0 and len(rows) >= ENOUGH_ROWS else None


class RowsFamily(Family):
    """What all tasks' rows have in common: box, score, class, best first, then what the task adds."""

    needs_nms: ClassVar[bool] = False

    @classmethod
    def confirm(
        cls, info: NetworkInfo, _width: int, _height: int, verdict: Recognition, outputs: Arrays, /
    ) -> Recognition:
        """Scores within 0..1 and whole class numbers, where the run gave rows."""
        rows = outputs[0].reshape(-1, outputs[0].shape[-1])
        if len(rows) and not (within(rows[:, 4], 0, 1) and integral(rows[:, 5])):
            return no(
                f"of {shapes_text(info)}, column 4 is no score within 0..1 or column 5 no whole class number "
                f"(first row {np.round(rows[0, :7].astype(float), 3).tolist()})"
            )
        return verdict

    def _chosen(self, output: npt.NDArray[Any], confidence: float) -> tuple[Raw, npt.NDArray[Any], Float | None]:
        """Rows of enough score: box as it stands but in pixels, score and class.

        Returns:
            They, the whole rows, and width and height of the input where coordinates are fractions of it, else None.
        """
        rows = np.asarray(output[sure(output[:, 4], confidence)], np.float32)
        fractions = len(rows) and np.abs(rows[:, :4]).max() <= 2
        boxes = rows[:, :4] * self.size if fractions else rows[:, :4]
        return Raw(boxes, rows[:, 4], rows[:, 5].astype(np.int32)), rows, self.size[:2] if fractions else None


class EndToEndDecoder(RowsFamily):
    """YOLOv10, YOLO26 and exports with suppression inside: rows of left, top, right, bottom, score, class.

    Boxes are in input pixels (or fractions of it). Segmentation adds coefficients to each row, and a second output
    [batch, prototypes, h, w]. Input: RGB / 255, aspect kept, centred, padded with 114.
    """

    name: ClassVar[str] = "yolo-end2end"

    @classmethod
    def recognise(cls, info: NetworkInfo, _width: int, _height: int, /) -> Recognition:
        """[batch, at most 1000 boxes, 6], or 6 + prototypes with [batch, prototypes, h, w]."""
        columns = _rows(info)
        if isinstance(columns, Recognition):
            return columns
        if (other := not_of_boxes(info)) is not None:
            return other
        prototypes = len(info.outputs) == 2 and len(info.outputs[1].shape) == 4
        extra = (info.outputs[1].shape[1] or 0) if prototypes else 0
        if info.metadata.get("head") == RTDETR_HEAD:
            return no(f"the metadata's head is {RTDETR_HEAD}, whose rows are centre and size, no corners")
        if columns != 6 + extra or len(info.outputs) != 1 + prototypes:
            return no(f"needs an output [batch, boxes, 6 + mask coefficients], the network has {shapes_text(info)}")
        also = f" + {extra} mask coefficients" if extra else ""
        why = f"output {shapes_text(info)}: {columns} = box corners + score + class{also}, suppressed in the graph"
        return Recognition(True, why, len(metadata_names(info)))

    @classmethod
    def confirm(
        cls, info: NetworkInfo, width: int, height: int, verdict: Recognition, outputs: Arrays, /
    ) -> Recognition:
        """As all rows, and no centres; without metadata: right not left of left."""
        rows = outputs[0].reshape(-1, outputs[0].shape[-1])
        centres = _of_centres(info, rows) if len(info.outputs) == 1 else False
        if centres:
            return no(f"of {shapes_text(info)}, columns 0 to 3 are no corners but centre and size, in fractions")
        if centres is None:
            verdict = perhaps(f"{verdict.why}; but they may be RT-DETR's centre and size as well", verdict.classes)
        if "task" not in info.metadata and len(rows) and (rows[:, 2:4] < rows[:, :2] - 1e-3).any():
            return no(f"of {shapes_text(info)}, columns 2 and 3 are less than 0 and 1, so they are no corners")
        return super().confirm(info, width, height, verdict, outputs)

    def decode(self, outputs: Arrays, index: int, confidence: float) -> Raw:
        """See `Decoder.decode`."""
        found, rows, _ = self._chosen(outputs[0][index], confidence)
        return found._replace(masks=Masks(rows[:, 6:], outputs[1][index]) if len(outputs) == 2 else None)


class RtdetrEndToEndDecoder(RowsFamily):
    """RT-DETR as Ultralytics exports it today: rows of centre, size (fractions of the input), score, class; best first.

    [batch, queries, 6]; a query may be several classes (Ultralytics 8.4.60 and later, nn/modules/head.py,
    RTDETRDecoder). Before, as in 8.4.0, it wrote class scores: see `RtdetrDecoder`. Input: RGB / 255, stretched.
    """

    name: ClassVar[str] = "rtdetr-end2end"

    @classmethod
    def preprocessing(cls, _info: NetworkInfo, width: int, height: int, /) -> Preprocessing:
        """RGB / 255, stretched."""
        return Preprocessing(width, height, fit="stretch")

    @classmethod
    def recognise(cls, info: NetworkInfo, _width: int, _height: int, /) -> Recognition:
        """[batch, at most 1000 boxes, 6], and metadata that name the head; without them only values tell."""
        columns = _rows(info)
        if isinstance(columns, Recognition):
            return columns
        if (other := not_one_output_of("detect", info)) is not None:
            return other
        head = info.metadata.get("head", RTDETR_HEAD)
        if columns != 6 or head != RTDETR_HEAD:
            return no(f"needs [batch, boxes, 6] of a head {RTDETR_HEAD}; has {shapes_text(info)} of {head}")
        why = f"output {shapes_text(info)}: 6 = centre + size + score + class, chosen in the graph"
        classes = len(metadata_names(info))
        if "head" in info.metadata:
            return Recognition(True, why, classes)
        return perhaps(f"{why}; but they may be corners + score + class as well", classes)

    @classmethod
    def confirm(
        cls, info: NetworkInfo, width: int, height: int, verdict: Recognition, outputs: Arrays, /
    ) -> Recognition:
        """As all rows, and boxes within 0..1 that can be no corners, unless the metadata name the head."""
        rows = outputs[0].reshape(-1, outputs[0].shape[-1])
        centres = _of_centres(info, rows)
        if centres is False:
            return no(f"columns 0 to 3 of {shapes_text(info)} are corners, or rows are empty, or not within 0..1")
        if centres:
            verdict = Recognition(True, verdict.why.partition("; but")[0], verdict.classes)
        return super().confirm(info, width, height, verdict, outputs)

    def decode(self, outputs: Arrays, index: int, confidence: float) -> Raw:
        """See `Decoder.decode`."""
        output = outputs[0][index]
        rows = np.asarray(output[sure(output[:, 4], confidence)], np.float32)
        return Raw(xyxy_from_cxcywh(rows[:, :4] * self.size), rows[:, 4], rows[:, 5].astype(np.int32))


class EndToEndPoseDecoder(RowsFamily):
    """YOLO26-pose and pose exports with suppression inside: corners, score, class, then K x (2 or 3) values.

    Input: RGB / 255, aspect kept, centred, padded with 114.
    """

    name: ClassVar[str] = "yolo-end2end-pose"

    @classmethod
    def recognise(cls, info: NetworkInfo, _width: int, _height: int, /) -> Recognition:
        """[batch, at most 1000 boxes, 6 + key points]."""
        columns = _rows(info)
        if isinstance(columns, Recognition):
            return columns
        if (other := not_one_output_of("pose", info)) is not None:
            return other
        count, values = keypoint_shape(info, columns - 6)
        if count < 1 or 6 + count * values != columns:
            return no(f"{columns} columns are not box, score, class + {count} key points x {values} values")
        why = f"output {shapes_text(info)}: {columns} = corners + score + class + {count} key points x {values} values"
        return if_told_the_task(info, why, "these are key points", len(metadata_names(info)))

    def decode(self, outputs: Arrays, index: int, confidence: float) -> Raw:
        """See `Decoder.decode`."""
        found, rows, scale = self._chosen(outputs[0][index], confidence)
        points = keypoints_in_pixels(rows[:, 6:], keypoint_shape(self.info, rows.shape[1] - 6), scale)
        return found._replace(keypoints=points)


class EndToEndObbDecoder(RowsFamily):
    """YOLO26-OBB and OBB exports with suppression inside: centre, size, score, class, angle in radians.

    Input: RGB / 255, aspect kept, centred, padded with 114.
    """

    name: ClassVar[str] = "yolo-end2end-obb"

    @classmethod
    def recognise(cls, info: NetworkInfo, _width: int, _height: int, /) -> Recognition:
        """[batch, at most 1000 boxes, 7]."""
        columns = _rows(info)
        if isinstance(columns, Recognition):
            return columns
        if (other := not_one_output_of("obb", info)) is not None:
            return other
        if columns != 7:
            return no(f"needs [batch, boxes, 7] of task obb; has {shapes_text(info)}")
        why = f"output {shapes_text(info)}: 7 = centre + size + score + class + angle"
        return if_told_the_task(info, why, "the last is an angle", len(metadata_names(info)))

    def decode(self, outputs: Arrays, index: int, confidence: float) -> Raw:
        """See `Decoder.decode`."""
        found, rows, _ = self._chosen(outputs[0][index], confidence)
        xyxy, degrees = regular(found.xyxy, rows[:, 6])
        return found._replace(xyxy=xyxy, angles=degrees)
