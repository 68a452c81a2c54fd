"""What "the same result" means: every box has its partner, none is left over."""

from __future__ import annotations

import cv2
import numpy as np

from sluice.models.conversions import corners_of_boxes
from sluice.models.detections import Detections


def gap_threshold(scores: np.ndarray, least: int = 8, most: int = 40) -> float:
    """A score in the middle of the widest gap that leaves `least` to `most` results.

    Scores of random weights lie close together; a threshold between two that nearly touch would compare roundings.
    """
    ordered = np.sort(np.asarray(scores, np.float64))[::-1]
    assert len(ordered) > least, f"only {len(ordered)} results to choose a threshold from"
    gaps = ordered[least - 1 : most] - np.append(ordered, 0.0)[least : least + len(ordered[least - 1 : most])]
    cut = least - 1 + int(gaps.argmax())
    below = ordered[cut + 1] if cut + 1 < len(ordered) else 0.0
    return float((ordered[cut] + below) / 2)


def overlap(first: Detections, second: Detections) -> np.ndarray:
    """Intersection over union of every box of one with every box of the other [N,M]; rotated boxes as they lie."""
    if first.angles is not None and second.angles is not None:
        return _rotated_overlap(first, second)
    a, b = first.xyxy.astype(np.float64), second.xyxy.astype(np.float64)
    size = np.minimum(a[:, None, 2:], b[None, :, 2:]) - np.maximum(a[:, None, :2], b[None, :, :2])
    inter = np.clip(size, 0, None).prod(axis=2)
    areas = [(boxes[:, 2:] - boxes[:, :2]).prod(axis=1) for boxes in (a, b)]
    return inter / np.maximum(areas[0][:, None] + areas[1][None] - inter, 1e-9)


def _rotated_overlap(first: Detections, second: Detections) -> np.ndarray:
    a, b = (corners_of_boxes(d.xyxy, d.angles) for d in (first, second))
    result = np.zeros((len(a), len(b)))
    for i, one in enumerate(a):
        for j, other in enumerate(b):
            area, _ = cv2.intersectConvexConvex(one, other)
            result[i, j] = area / max(cv2.contourArea(one) + cv2.contourArea(other) - area, 1e-9)
    return result


def pair_up(expected: Detections, found: Detections, iou: float) -> np.ndarray:
    """For each expected box the row of its partner: same class, at least this overlap; each is taken once.

    Raises:
        AssertionError: saying which box has no partner, or that there are more than expected.
    """
    assert len(found) == len(expected), f"{len(found)} found, {len(expected)} expected"
    table = overlap(expected, found)
    table[expected.class_ids[:, None] != found.class_ids[None]] = -1
    partners = np.full(len(expected), -1)
    # Strongest claims first; two of one place and class would else take each other's partner.
    closeness = table - np.abs(expected.scores[:, None] - found.scores[None])
    for flat in np.argsort(-closeness, axis=None):
        row, column = np.unravel_index(flat, table.shape)
        if partners[row] < 0 and column not in partners and table[row, column] >= iou:
            partners[row] = column
    lonely = np.flatnonzero(partners < 0)
    assert not len(lonely), (
        f"no partner for {[(int(expected.class_ids[i]), expected.xyxy[i].round(1).tolist()) for i in lonely[:3]]}: "
        f"best overlaps {[round(float(table[i].max()), 4) for i in lonely[:3]]}"
    )
    return partners


def frame_masks(detections: Detections, width: int, height: int) -> np.ndarray:
    """Masks bool [N,height,width] of a frame, from masks of either kind.

    A pixel belongs to a box by Ultralytics' rule (utils/ops.py, crop_mask): from the first whose number is not below
    the box's edge to the last whose number is below it.
    """
    if detections.masks is not None:
        return detections.masks
    result = np.zeros((len(detections), height, width), bool)
    for row, (box, mask) in enumerate(zip(detections.xyxy, detections.box_masks, strict=True)):
        (x0, y0), (x1, y1) = box[:2], box[2:]
        left, top = np.ceil(box[:2]).astype(int).clip(0)
        right, bottom = np.ceil(box[2:]).astype(int).clip(0, (width, height))
        if left >= right or top >= bottom:
            continue
        # Where each pixel's centre lies in the mask's cells.
        x = (np.arange(left, right) + 0.5 - x0) / (x1 - x0) * mask.shape[1] - 0.5
        y = (np.arange(top, bottom) + 0.5 - y0) / (y1 - y0) * mask.shape[0] - 0.5
        grid_x, grid_y = np.meshgrid(x.astype(np.float32), y.astype(np.float32))
        values = cv2.remap(mask, grid_x, grid_y, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)
        result[row, top:bottom, left:right] = values > detections.mask_threshold
    return result


def mask_overlap(expected: np.ndarray, found: np.ndarray) -> np.ndarray:
    """Intersection over union of masks [N,h,w], pair by pair."""
    both, either = (expected & found).sum(axis=(1, 2)), (expected | found).sum(axis=(1, 2))
    return np.asarray(both / np.maximum(either, 1))
