"""Parts of a picture that a model is given in its place: which pixels they are, and the way back for the results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sluice.contract.packed_masks import PackedMasks
from sluice.errors import ModelError
from sluice.models.attach import MASK_EDGE, box_masks, masks_of, on_surface
from sluice.models.detections import NOT_ROWS, Detections
from sluice.models.nvinfer.input import source_rectangle
from sluice.models.whole import WholeFrame


class Region(NamedTuple):
    """A part of a surface: its first pixel and its size, all even numbers."""

    left: int
    top: int
    width: int
    height: int


def region_of(box: Sequence[float], size: tuple[int, int]) -> Region | None:
    """The pixels of a surface that a model is given for a box, chosen as nvinfer does; None where there are none.

    Args:
        box: left, top, width, height; clipped to the surface first.
        size: width and height of the surface.
    """
    left, top = max(box[0], 0.0), max(box[1], 0.0)
    right, bottom = min(box[0] + box[2], size[0]), min(box[1] + box[3], size[1])
    if not (right > left and bottom > top):  # so written, a NaN of whoever made the box has no pixels either
        return None
    x, y, width, height = source_rectangle(left, top, right - left, bottom - top)
    # A corner that was rounded up must not push the part over the edge.
    width, height = min(width, (size[0] - x) // 2 * 2), min(height, (size[1] - y) // 2 * 2)
    return Region(x, y, width, height) if width > 0 and height > 0 else None


def to_picture(found: Detections, region: Region) -> Detections:
    """What was found in a part, in pixels of the picture it was cut from; masks are cut to their boxes.

    Args:
        found: validated detections in pixels of the part.
        region: where the part lies.
    """
    origin = np.array([region.left, region.top], np.float32)
    box_cells, threshold = found.box_masks, found.mask_threshold
    if found.masks is not None:
        box_cells, threshold = box_masks(found.masks, _ltwh(found.xyxy)), MASK_EDGE
    return replace(
        found,
        xyxy=found.xyxy + np.tile(origin, 2),
        keypoints=None if found.keypoints is None else _moved(found.keypoints, origin),
        masks=None,
        box_masks=box_cells,
        mask_threshold=threshold,
        whole=None if found.whole is None else _whole_to_picture(found.whole, origin),
    )


def clipped(found: Detections, size: tuple[int, int]) -> Detections:
    """Detections cut at the edge of a picture of this size, with their masks; see `on_surface`.

    Args:
        found: validated detections in pixels of the picture.
        size: its width and height.
    """
    kept, boxes = on_surface(found, size)
    threshold = kept.mask_threshold if kept.masks is None else MASK_EDGE
    masks, boxes = masks_of(kept, boxes), boxes.copy()
    boxes[:, 2:] += boxes[:, :2]
    return replace(kept, xyxy=boxes, masks=None, box_masks=masks, mask_threshold=threshold)


def merge(parts: Sequence[Detections], iou: float) -> Detections:
    """The detections of several parts of one picture as one result: of a class's boxes that overlap, the best is kept.

    Args:
        parts: detections in pixels of the picture, all of one model; what they say of the parts as a whole is left out.
        iou: overlap above which the weaker box is dropped.

    Raises:
        ModelError: the parts differ in what the detections have.
    """
    filled = [part for part in parts if len(part)]
    if not filled:
        return Detections.empty()
    if len(filled) == 1:
        return replace(filled[0], whole=None)
    values = {f.name: [getattr(part, f.name) for part in filled] for f in fields(Detections) if f.name not in NOT_ROWS}
    joined = {name: _joined(name, rows) for name, rows in values.items()}
    return Detections(**joined, mask_threshold=filled[0].mask_threshold).nms(iou)


def _joined(name: str, rows: list[Any]) -> Any:
    if all(row is None for row in rows):
        return None
    if any(row is None for row in rows):
        raise ModelError(f"the model gave {name} for some regions of a frame and none for others; right is all or none")
    if isinstance(rows[0], np.ndarray):
        return np.concatenate(rows)
    if all(isinstance(row, PackedMasks) for row in rows):
        return PackedMasks.joined(rows)
    return [item for row in rows for item in row]


def _ltwh(xyxy: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    return np.concatenate([xyxy[:, :2], xyxy[:, 2:] - xyxy[:, :2]], axis=1)


def _moved(points: npt.NDArray[np.float32], origin: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Key points [..., 2 or 3] moved by (x, y)."""
    moved = points.copy()
    moved[..., :2] += origin
    return moved


def _whole_to_picture(whole: WholeFrame, origin: npt.NDArray[np.float32]) -> WholeFrame:
    return whole if whole.keypoints is None else replace(whole, keypoints=_moved(whole.keypoints, origin))
