"""YOLOv8-pose and its kin: boxes with key points."""

from __future__ import annotations

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
    metadata_value,
    no,
    not_one_output_of,
    within,
)
from sluice.models.decoders.yolov8 import Dense, DenseFamily, dense_output
from sluice.runtimes.base import NetworkInfo


def keypoint_shape(info: NetworkInfo, values: int) -> tuple[int, int]:
    """Number of key points and of values for each: from the metadata's ``kpt_shape``, else x, y, confidence."""
    given = metadata_value(info, "kpt_shape")
    if isinstance(given, (list, tuple)) and len(given) == 2 and given[1] in (2, 3) and isinstance(given[0], int):
        return given[0], given[1]
    return values // 3, 3


def keypoints_in_pixels(values: npt.NDArray[Any], shape: tuple[int, int], scale: Float | None) -> Float:
    """float32 [N,K,2 or 3] of rows [N,K x (2 or 3)]; x and y times `scale` (width, height) where they are fractions."""
    points = np.array(values, np.float32).reshape(-1, *shape)
    if scale is not None:
        points[..., :2] *= scale
    return points


class YoloPoseDecoder(DenseFamily):
    """YOLOv8-pose, YOLO11-pose, YOLO26-pose without its end: box, class scores and key points for every cell.

    [batch, 4 + classes + K x (2 or 3), cells] or its transpose; in pixels, or all in fractions of the input. Input: RGB
    / 255, aspect kept, centred, padded with 114.
    """

    name: ClassVar[str] = "yolo-pose"

    def __init__(self, info: NetworkInfo, width: int, height: int, /) -> None:
        super().__init__(info, width, height)
        dense = dense_output(info, width, height)
        values = dense.channels - 4 - self._classes if isinstance(dense, Dense) else 0
        self._shape = keypoint_shape(info, values)

    @classmethod
    def recognise(cls, info: NetworkInfo, width: int, height: int, /) -> Recognition:
        """One dense output whose channels hold whole key points."""
        dense = dense_output(info, width, height)
        if isinstance(dense, Recognition):
            return dense
        channels = dense.channels
        if (other := not_one_output_of("pose", info)) is not None:
            return other
        classes = len(metadata_names(info)) or 1
        count, values = keypoint_shape(info, channels - 4 - classes)
        if count < 1 or 4 + classes + count * values != channels:
            return no(f"{channels} channels are not 4 box + {classes} classes + {count} key points x {values} values")
        why = f"{dense.why}, {channels} = 4 box + {classes} classes + {count} key points x {values} values"
        return if_told_the_task(info, why, "these are key points", classes)

    @classmethod
    def confirm(
        cls, info: NetworkInfo, width: int, height: int, verdict: Recognition, outputs: Arrays, /
    ) -> Recognition:
        """Without metadata: scores and confidences within 0..1, coordinates far above."""
        rows, _ = cls(info, width, height).rows_of(outputs[0][0])
        points = rows[4 + verdict.classes :]
        if verdict.fits or (
            within(rows[4 : 4 + verdict.classes], 0, 1) and within(points[2::3], 0, 1) and points[0::3].max() > 2
        ):
            return Recognition(True, verdict.why.partition("; but")[0], verdict.classes)
        return verdict

    def decode(self, outputs: Arrays, index: int, confidence: float) -> Raw:
        """See `Decoder.decode`."""
        found = self.chosen(outputs[0][index], confidence)
        points = keypoints_in_pixels(found.more, self._shape, found.scale)
        return Raw(xyxy_from_cxcywh(found.boxes), found.scores, found.class_ids, keypoints=points)
