"""From what a decoder read to detections of the frame: suppression, and the way back to the frame's own pixels."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from sluice.models.arrays import nms_indices
from sluice.models.decoders.base import Float, Raw
from sluice.models.detections import Detections
from sluice.models.letterbox import Letterbox
from sluice.models.whole import Segmentation, WholeFrame

Index = npt.NDArray[np.intp]
BLOCK = 512  # boxes compared with all stronger ones at once; bounds the memory of the comparison
EPSILON = 1e-7


def to_detections(
    raw: Raw,
    box: Letterbox,
    size: tuple[int, int],
    *,
    iou: float | None,
    class_agnostic: bool,
    max_detections: int,
) -> Detections:
    """Detections in pixels of the frame, best first, boxes clipped at its edges (rotated ones are not).

    Args:
        raw: what the decoder read, in pixels of the network's input.
        box: how the frame lies in that input.
        size: width and height of that input.
        iou: overlap above which the weaker of two boxes goes; None where the network has suppressed them itself.
        class_agnostic: let boxes of different classes suppress each other too.
        max_detections: the most boxes.
    """
    if raw.whole is not None:
        return Detections.of_whole(_whole_of_frame(raw.whole, box, size))
    keep = _kept(raw, iou, class_agnostic)[:max_detections]
    if raw.angles is None:
        xyxy, angles = box.to_frame(raw.xyxy[keep]), None
    else:
        xyxy, angles = rotated_to_frame(raw.xyxy[keep], raw.angles[keep], box)
    found = Detections(xyxy, raw.scores[keep], raw.class_ids[keep], angles)
    if raw.keypoints is not None:
        found.keypoints = np.array(raw.keypoints[keep], np.float32)
        found.keypoints[..., :2] = box.to_frame(found.keypoints[..., :2])
    if raw.masks is not None:
        found.box_masks = raw.masks.cut(keep, box.to_network(xyxy), size)
        visible = raw.masks.visible(keep, found.box_masks, raw.xyxy[keep], size)
        if not visible.all():  # as Ultralytics, models/yolo/segment/predict.py: what has no pixel is no object
            found = found[visible]
    return found


def rotated_to_frame(xyxy: Float, degrees: Float, box: Letterbox) -> tuple[Float, Float]:
    """Rotated boxes from network pixels to frame pixels.

    Where the two axes are scaled differently a rectangle becomes a parallelogram; given is the rectangle with the same
    centre, the direction and length of its width, and the length of its height.

    Args:
        xyxy: float32 [N,4], the boxes before they are turned.
        degrees: float32 [N], clockwise.
        box: how the frame lies in the network's input.
    """
    across, down = (1 / factor for factor in box.scale)
    radians = np.radians(degrees.astype(np.float64))
    cos, sin = np.cos(radians), np.sin(radians)
    size = (xyxy[:, 2:] - xyxy[:, :2]).astype(np.float64)
    width = size[:, 0] * np.hypot(across * cos, down * sin)
    height = size[:, 1] * np.hypot(across * sin, down * cos)
    half = np.stack([width, height], axis=1) / 2
    centre = box.to_frame(0.5 * (xyxy[:, :2] + xyxy[:, 2:]), clip=False)
    # Equal scales leave the angle as it is, to the bit.
    turned = degrees if across == down else np.degrees(np.arctan2(down * sin, across * cos)).astype(np.float32)
    return np.concatenate([centre - half, centre + half], axis=1).astype(np.float32), turned


def _kept(raw: Raw, iou: float | None, class_agnostic: bool) -> Index:
    """Rows that stay, best first.

    A box whose right lies left of its left is nothing: heads without a distribution over distances (YOLO26) can give a
    negative one. It is left out before it suppresses others.
    """
    turned = (raw.xyxy[:, 2:] < raw.xyxy[:, :2]).any(axis=1)
    if turned.any():
        rows = np.flatnonzero(~turned)
        angles = None if raw.angles is None else raw.angles[rows]
        few = Raw(raw.xyxy[rows], raw.scores[rows], raw.class_ids[rows], angles)
        return np.asarray(rows[_unsuppressed(few, iou, class_agnostic)])
    return _unsuppressed(raw, iou, class_agnostic)


def _unsuppressed(raw: Raw, iou: float | None, class_agnostic: bool) -> Index:
    """Rows that no stronger one overlaps, best first; all of them where the network has seen to that."""
    if iou is None:
        return np.argsort(-raw.scores, kind="stable")
    class_ids = None if class_agnostic else raw.class_ids
    if raw.angles is None:
        return nms_indices(raw.xyxy, raw.scores, class_ids, iou)
    return rotated_nms_indices(raw.xyxy, raw.angles, raw.scores, class_ids, iou)


def rotated_nms_indices(
    xyxy: Float, degrees: Float, scores: Float, class_ids: npt.NDArray[np.int32] | None, iou: float
) -> Index:
    """Rotated boxes that no stronger one (of their class) overlaps, best first.

    As Ultralytics does it, a box that is itself suppressed suppresses others too ("fast" suppression), and the overlap
    is the probabilistic one of boxes as Gaussians (Ultralytics, utils/nms.py; utils/metrics.py, batch_probiou).

    Args:
        xyxy: float32 [N,4], the boxes before they are turned.
        degrees: float32 [N], clockwise.
        scores: float32 [N].
        class_ids: int32 [N]; None compares all boxes.
        iou: overlap from which the weaker box goes, 0..1.
    """
    order = np.argsort(-scores, kind="stable")
    shapes = _gaussians(xyxy[order], degrees[order])
    classes = None if class_ids is None else class_ids[order]
    keep = np.ones(len(order), np.bool_)
    for first in range(0, len(order), BLOCK):
        last = min(first + BLOCK, len(order))
        overlaps = _probiou(shapes[:last], shapes[first:last]) >= iou
        if classes is not None:
            overlaps &= classes[:last, None] == classes[None, first:last]
        stronger = np.arange(last)[:, None] < np.arange(first, last)[None]
        keep[first:last] = ~(overlaps & stronger).any(axis=0)
    return order[keep]


def _gaussians(xyxy: Float, degrees: Float) -> npt.NDArray[np.float64]:
    """Centre x, y and covariance a, b, c [N,5] of rotated boxes (Probabilistic IoU, arXiv 2106.06072)."""
    boxes = xyxy.astype(np.float64)
    centre, size = (boxes[:, :2] + boxes[:, 2:]) / 2, boxes[:, 2:] - boxes[:, :2]
    along, across = size[:, 0] ** 2 / 12, size[:, 1] ** 2 / 12
    radians = np.radians(degrees.astype(np.float64))
    cos, sin = np.cos(radians), np.sin(radians)
    covariance = along * cos**2 + across * sin**2, along * sin**2 + across * cos**2, (along - across) * cos * sin
    return np.stack([centre[:, 0], centre[:, 1], *covariance], axis=1)


def _probiou(one: npt.NDArray[np.float64], other: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """1 - Hellinger distance [N,M] of two sets of Gaussians [N,5], [M,5]."""
    x1, y1, a1, b1, c1 = one.T[:, :, None]
    x2, y2, a2, b2, c2 = other.T[:, None, :]
    a, b, c = a1 + a2, b1 + b2, c1 + c2
    determinant = a * b - c**2
    distance = (a * (y1 - y2) ** 2 + b * (x1 - x2) ** 2) / (determinant + EPSILON) / 4
    distance += c * (x2 - x1) * (y1 - y2) / (determinant + EPSILON) / 2
    product = np.clip(a1 * b1 - c1**2, 0, None) * np.clip(a2 * b2 - c2**2, 0, None)
    distance += np.log(determinant / (4 * np.sqrt(product) + EPSILON) + EPSILON) / 2
    result: npt.NDArray[np.float64] = 1 - np.sqrt(1 - np.exp(-np.clip(distance, EPSILON, 100)) + EPSILON)
    return result


def _whole_of_frame(whole: WholeFrame, box: Letterbox, size: tuple[int, int]) -> WholeFrame:
    """What holds for the network's input, for the frame in it: padding is cut off, points are brought back."""
    segmentation = whole.segmentation
    if segmentation is not None and (box.width, box.height) != size:
        lines, columns = segmentation.class_map.shape
        rows = _inside(box.top, box.height, size[1], lines)
        part = _inside(box.left, box.width, size[0], columns)
        probabilities = segmentation.probabilities
        segmentation = Segmentation(
            segmentation.class_map[rows, part],
            None if probabilities is None else probabilities[:, rows, part],
            segmentation.classes,
        )
    return replace(whole, segmentation=segmentation)


def _inside(start: int, length: int, total: int, cells: int) -> slice:
    """The cells of `cells` over `total` pixels that lie on `length` pixels from `start`; at least one."""
    first = min(round(start * cells / total), cells - 1)
    return slice(first, max(first + 1, round((start + length) * cells / total)))
