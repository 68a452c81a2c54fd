"""Detections from and to the forms that other libraries use. Nothing is imported to read them: the shape decides.

Each ``from_*`` returns the keyword arguments of `Detections`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import cv2
import numpy as np
import numpy.typing as npt

from sluice.errors import ModelError
from sluice.models.arrays import as_float32, to_numpy

if TYPE_CHECKING:
    from sluice.models.detections import Detections

# Keys of supervision.Detections.data (supervision.config).
SUPERVISION_CORNERS = "xyxyxyxy"
SUPERVISION_NAMES = "class_name"


def is_supervision(value: Any) -> bool:
    """Whether `value` looks like a `supervision.Detections`."""
    return all(hasattr(value, name) for name in ("xyxy", "confidence", "class_id"))


def is_ultralytics(value: Any) -> bool:
    """Whether `value` looks like an Ultralytics `Results`."""
    return all(hasattr(value, name) for name in ("boxes", "orig_shape", "names"))


def is_torchvision(value: Any) -> bool:
    """Whether `value` is a dict with the keys that torchvision's detectors return."""
    return isinstance(value, Mapping) and {"boxes", "scores", "labels"} <= value.keys()


def from_supervision(detections: Any) -> dict[str, Any]:
    """See `Detections.from_supervision`. Absent scores are 1, absent class ids 0."""
    n = len(detections.xyxy)
    result: dict[str, Any] = {
        "xyxy": detections.xyxy,
        "scores": np.ones(n, np.float32) if detections.confidence is None else detections.confidence,
        "class_ids": np.zeros(n, np.int32) if detections.class_id is None else detections.class_id,
    }
    if detections.mask is not None:
        result["masks"] = np.asarray(detections.mask).astype(bool)
    extra = getattr(detections, "data", None) or {}
    if extra.get(SUPERVISION_NAMES) is not None:
        result["labels"] = [str(name) for name in extra[SUPERVISION_NAMES]]
    if extra.get(SUPERVISION_CORNERS) is not None and n:
        result["xyxy"], result["angles"] = boxes_from_corners(extra[SUPERVISION_CORNERS])
    return result


def to_supervision(detections: Detections) -> Any:
    """See `Detections.to_supervision`. Rotated boxes: corners in ``data``, their upright hull in ``xyxy``."""
    import supervision

    data: dict[str, Any] = {}
    xyxy = detections.xyxy
    if detections.labels is not None:
        data[SUPERVISION_NAMES] = np.array([label or "" for label in detections.labels])
    if detections.angles is not None:
        corners = corners_of_boxes(xyxy, detections.angles)
        data[SUPERVISION_CORNERS] = corners
        xyxy = np.concatenate([corners.min(axis=1), corners.max(axis=1)], axis=1)
    return supervision.Detections(
        xyxy=xyxy, confidence=detections.scores, class_id=detections.class_ids, mask=detections.masks, data=data
    )


def from_ultralytics(results: Any) -> dict[str, Any]:
    """See `Detections.from_ultralytics`."""
    rotated = getattr(results, "obb", None)
    source = rotated if rotated is not None else results.boxes
    if source is None:
        raise ModelError(
            "the Ultralytics Results holds neither boxes nor obb (a classification result?); "
            "right is the result of a detect, segment, pose or obb model"
        )
    class_ids = to_numpy(source.cls).astype(np.int32).reshape(-1)
    result: dict[str, Any] = {"scores": to_numpy(source.conf), "class_ids": class_ids}
    if rotated is not None:
        xywhr = to_numpy(rotated.xywhr).astype(np.float32).reshape(-1, 5)
        result["xyxy"] = xyxy_from_cxcywh(xywhr[:, :4])
        # With y pointing down, a growing angle turns clockwise on the picture.
        result["angles"] = np.degrees(xywhr[:, 4])
    else:
        result["xyxy"] = to_numpy(source.xyxy)
    names = results.names
    if names:
        result["labels"] = [_name(names, int(c)) for c in class_ids]
    if getattr(results, "masks", None) is not None:
        result["masks"] = _masks_to_frame(to_numpy(results.masks.data), results.orig_shape)
    if getattr(results, "keypoints", None) is not None:
        result["keypoints"] = to_numpy(results.keypoints.data)
    return result


def from_torchvision(output: Mapping[str, Any]) -> dict[str, Any]:
    """See `Detections.from_torchvision`. Masks are probabilities [N,1,H,W], cut at 0.5 as torchvision's guide does."""
    result = {
        "xyxy": to_numpy(output["boxes"]),
        "scores": to_numpy(output["scores"]),
        "class_ids": to_numpy(output["labels"]),
    }
    if output.get("masks") is not None:
        masks = to_numpy(output["masks"])
        masks = masks[:, 0] if masks.ndim == 4 else masks
        result["masks"] = masks if masks.dtype == np.bool_ else masks > 0.5
    if output.get("keypoints") is not None:
        result["keypoints"] = to_numpy(output["keypoints"])
    return result


def to_torchvision(detections: Detections) -> dict[str, Any]:
    """See `Detections.to_torchvision`."""
    import torch

    result = {
        "boxes": torch.from_numpy(np.ascontiguousarray(detections.xyxy)),
        "scores": torch.from_numpy(np.ascontiguousarray(detections.scores)),
        "labels": torch.from_numpy(detections.class_ids.astype(np.int64)),
    }
    if detections.masks is not None:
        result["masks"] = torch.from_numpy(np.ascontiguousarray(detections.masks[:, None]))
    if detections.keypoints is not None:
        result["keypoints"] = torch.from_numpy(np.ascontiguousarray(detections.keypoints))
    return result


def xyxy_from_cxcywh(boxes: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Corners [N,4] from centre x, centre y, width, height [N,4]."""
    half = boxes[:, 2:4] * np.float32(0.5)
    return np.concatenate([boxes[:, :2] - half, boxes[:, :2] + half], axis=1)


def corners_of_boxes(xyxy: npt.NDArray[np.float32], angles: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Corner points [N,4,2] of boxes turned clockwise by `angles` degrees about their centres."""
    centre = (xyxy[:, :2] + xyxy[:, 2:]) / 2
    half = (xyxy[:, 2:] - xyxy[:, :2]) / 2
    radians = np.radians(angles.astype(np.float64))
    along = np.stack([np.cos(radians), np.sin(radians)], axis=1) * half[:, :1]
    across = np.stack([-np.sin(radians), np.cos(radians)], axis=1) * half[:, 1:]
    offsets = np.stack([-along - across, along - across, along + across, across - along], axis=1)
    return as_float32(centre[:, None] + offsets)


def boxes_from_corners(corners: Any) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
    """Upright boxes [N,4] and clockwise angles in degrees [N] from corner points [N,4,2] in order round the box."""
    points = to_numpy(corners).astype(np.float64).reshape(-1, 4, 2)
    first = points[:, 1] - points[:, 0]
    second = points[:, 2] - points[:, 1]
    size = np.stack([np.hypot(*first.T), np.hypot(*second.T)], axis=1)
    boxes = np.concatenate([points.mean(axis=1), size], axis=1)
    return as_float32(xyxy_from_cxcywh(boxes)), as_float32(np.degrees(np.arctan2(first[:, 1], first[:, 0])))


def _name(names: Any, class_id: int) -> str | None:
    if isinstance(names, Mapping):
        return names.get(class_id)
    return names[class_id] if 0 <= class_id < len(names) else None


def _masks_to_frame(masks: npt.NDArray[Any], frame_shape: tuple[int, int]) -> npt.NDArray[np.bool_]:
    """Masks [N,h,w] of a centred letterbox as bool [N,H,W] of the frame (height, width = `frame_shape`).

    An odd rest of padding has a row or column more below or right (Ultralytics, utils/ops.py, scale_masks).
    """
    height, width = frame_shape
    gain = min(masks.shape[1] / height, masks.shape[2] / width)
    above, beside = (masks.shape[1] - height * gain) / 2, (masks.shape[2] - width * gain) / 2
    top, left = round(above - 0.1), round(beside - 0.1)
    bottom, right = masks.shape[1] - round(above + 0.1), masks.shape[2] - round(beside + 0.1)
    inner = masks[:, top:bottom, left:right].astype(np.float32)
    result = np.empty((len(masks), height, width), np.bool_)
    for row, mask in enumerate(inner):
        result[row] = cv2.resize(mask, (width, height), interpolation=cv2.INTER_LINEAR) > 0.5
    return result
