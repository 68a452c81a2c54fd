"""Detections into a frame's metadata, the way nvinfer writes them: clipped to the surface, one bulk write per frame."""

import functools
from collections.abc import Sequence
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from sluice.contract._rows import all_or
from sluice.contract.bulk import RED, LabelTable, write_batch, write_objects
from sluice.contract.infer_meta import (
    ClassifierRow,
    LabelRow,
    attach_embeddings,
    attach_keypoints,
    write_classifications,
)
from sluice.contract.metadata import FrameMeta, ObjectMeta
from sluice.contract.packed_masks import PackedMasks
from sluice.models.attach_whole import attach_whole, label_row
from sluice.models.detections import Detections, pick_rows
from sluice.models.whole import Classification

Floats = npt.NDArray[np.float32]

#: Longest side of a mask that is attached. Drawing resamples a mask to its box anyway, and a full-resolution mask of
#: floats, which the metadata asks for, would take 8 MB for one object that fills a 1080p frame.
MASK_SIDE = 160
MASK_EDGE = 0.5


def attach_detections(
    frame: FrameMeta,
    detections: Detections,
    labels: Sequence[str],
    unique_id: int,
    size: tuple[int, int],
    *,
    parent: ObjectMeta | None = None,
) -> int:
    """Write one frame's detections as objects and mark the frame as seen by a detector.

    Written are boxes, scores, class ids, labels, angles and masks, embeddings and key points; ``texts`` are shown in
    place of the labels; each of the ``attributes`` becomes a classifier result, its name being the classifier's type.
    For ``whole`` see `attach_whole`.

    Args:
        frame: metadata of the frame.
        detections: validated detections, boxes and key points in pixels of the surface.
        labels: the model's labels by class id; a detection's own label goes before.
        unique_id: written to each object's ``unique_component_id``.
        size: width and height of that surface in pixels.
        parent: the object in which a secondary model found them; it becomes their parent, ``whole`` is said of it, and
            the frame's mark stays as it is.

    Returns:
        The number of objects written. A box that reaches over the edge is clipped and kept; one that lies outside, or
        has no area, is not written.
    """
    if parent is None:
        frame.infer_done = True
    written = 0
    if len(detections):  # on most cameras there is mostly nothing
        detections, boxes = on_surface(detections, size)
        written = _write(frame, detections, boxes, labels, unique_id, parent)
    if detections.whole is not None:
        place = (0.0, 0.0, float(size[0]), float(size[1])) if parent is None else parent
        written += attach_whole(frame, detections.whole, tuple(labels), unique_id, place)
    return written


def attach_batch(
    frames: Sequence[FrameMeta],
    found: Sequence[Detections],
    labels: Sequence[str],
    unique_id: int,
    sizes: Sequence[tuple[int, int]],
) -> int:
    """Write the detections of many frames of one batch, as `attach_detections` does, in one call where they are plain.

    Args:
        frames: metadata of the frames.
        found: validated detections of each.
        labels: the model's labels by class id.
        unique_id: written to each object's ``unique_component_id``.
        sizes: width and height of each frame's surface in pixels.

    Returns:
        The number of objects written.
    """
    if len(frames) < 2 or not any(map(len, found)) or not _alike(found):
        return sum(
            attach_detections(frame, detections, labels, unique_id, size)
            for frame, detections, size in zip(frames, found, sizes, strict=True)
        )
    lengths = np.array([len(detections) for detections in found])
    owner = np.repeat(np.arange(len(found)), lengths)
    limits = np.array([(*size, *size) for size in sizes], np.float32)[owner]
    given = np.concatenate([detections.xyxy for detections in found])
    boxes = given.clip(0, limits)
    keep = (boxes[:, 2] > boxes[:, 0]) & (boxes[:, 3] > boxes[:, 1])
    boxes[:, 2:] -= boxes[:, :2]
    some = all_or(keep)
    masks, threshold = _joined_masks(found)
    if masks is not None:
        masks = _clipped_masks(pick_rows(masks, some, len(keep)), given[some], boxes[some])
    return write_batch(
        frames,
        np.bincount(owner[some], minlength=len(found)).astype(np.uint32),
        boxes[some],
        np.concatenate([detections.scores for detections in found])[some],
        np.concatenate([detections.class_ids for detections in found])[some],
        _label_table(tuple(labels)),
        unique_id=unique_id,
        masks=masks,
        mask_threshold=threshold,
    )


def _alike(found: Sequence[Detections]) -> bool:
    """Whether the detections can be written in one call: nothing but boxes, and masks on all of them or on none."""
    if not all(detections.plain for detections in found):
        return False
    kinds = {(detections.box_masks is None, detections.mask_threshold) for detections in found if len(detections)}
    return len(kinds) == 1 or all(without for without, _ in kinds)


def _joined_masks(found: Sequence[Detections]) -> tuple[Sequence[Floats] | None, float]:
    """The masks of all detections, which are `_alike`, one after the other; and their edge."""
    filled = [detections for detections in found if len(detections)]
    parts = [detections.box_masks for detections in filled if detections.box_masks is not None]
    if not parts:
        return None, MASK_EDGE
    packed = [part for part in parts if isinstance(part, PackedMasks)]
    joined = PackedMasks.joined(packed) if len(packed) == len(parts) else [mask for part in parts for mask in part]
    return joined, filled[0].mask_threshold


def _write(
    frame: FrameMeta,
    detections: Detections,
    boxes: npt.NDArray[np.float32],
    labels: Sequence[str],
    unique_id: int,
    parent: ObjectMeta | None,
) -> int:
    addresses = write_objects(
        frame,
        boxes,
        detections.scores,
        detections.class_ids,
        _label_table(tuple(labels)) if detections.labels is None else label_texts(detections, labels),
        unique_id=unique_id,
        rotation=detections.angles,
        masks=masks_of(detections, boxes),
        mask_threshold=detections.mask_threshold if detections.masks is None else MASK_EDGE,
        parents=None if parent is None else np.full(len(boxes), parent.address, np.uint64),
        border_color=RED if detections.border_colors is None else detections.border_colors,
        bg_color=detections.fill_colors,
        texts=None if detections.texts is None else shown_texts(detections, labels),
        infer_done=None,
    )
    if detections.fill_colors is not None:
        for address in addresses[detections.fill_colors[:, 3] == 0].tolist():
            ObjectMeta(address, frame.lease, frame.provider).rect.has_bg_color = False
    if detections.attributes is not None:
        shown = detections.texts is None
        rows = [
            ClassifierRow(address, name, [_attribute_row(value, labels)], shown)
            for address, attributes in zip(addresses.tolist(), detections.attributes, strict=True)
            for name, value in attributes.items()
        ]
        write_classifications(frame, rows, unique_id=unique_id)
    if detections.embeddings is not None:
        attach_embeddings(frame, detections.embeddings, unique_id=unique_id, addresses=addresses)
    if detections.keypoints is not None:
        attach_keypoints(frame, detections.keypoints, unique_id=unique_id, addresses=addresses)
    return len(boxes)


@functools.lru_cache(maxsize=64)
def _label_table(labels: tuple[str, ...]) -> LabelTable:
    return LabelTable(labels)


def _attribute_row(value: Any, labels: Sequence[str]) -> LabelRow:
    """An attribute as a classifier's label: a `Classification`, or any value as its text."""
    if isinstance(value, Classification):
        return label_row(value, tuple(labels))
    return LabelRow(0, 0, 1.0, str(value))


def on_surface(detections: Detections, size: tuple[int, int]) -> tuple[Detections, npt.NDArray[np.float32]]:
    """Clip the boxes to the surface and leave out those of which nothing remains.

    A rotated box is left as it is when any of it may lie on the surface: clipping the box before rotation would turn
    it into another shape.

    Args:
        detections: validated detections.
        size: width and height of the surface in pixels.

    Returns:
        The detections that remain, and their boxes as float32 [N,4]: left, top, width, height.
    """
    limits = np.array([*size, *size], np.float32)
    corners = np.clip(detections.xyxy, 0, limits)
    keep = (corners[:, 2] > corners[:, 0]) & (corners[:, 3] > corners[:, 1])
    if detections.angles is not None:
        rotated = np.abs(detections.angles) > 0.001  # nvdsosd's limit for a box that is drawn rotated
        corners[rotated] = detections.xyxy[rotated]
        keep[rotated] = _touches_surface(detections.xyxy[rotated], detections.angles[rotated], limits[:2])
    if not keep.all():
        detections, corners = detections[keep], corners[keep]
    boxes = corners
    boxes[:, 2:] -= boxes[:, :2]
    return detections, boxes


def _touches_surface(
    xyxy: npt.NDArray[np.float32], degrees: npt.NDArray[np.float32], limits: npt.NDArray[np.float32]
) -> npt.NDArray[np.bool_]:
    """Whether the upright hull of each rotated box overlaps the surface and the box has an area."""
    cos, sin = np.abs(np.cos(np.deg2rad(degrees))), np.abs(np.sin(np.deg2rad(degrees)))
    half = (xyxy[:, 2:] - xyxy[:, :2]) / 2
    centre = xyxy[:, :2] + half
    reach = np.stack([half[:, 0] * cos + half[:, 1] * sin, half[:, 0] * sin + half[:, 1] * cos], axis=1)
    inside = (centre + reach > 0) & (centre - reach < limits)
    return np.asarray(inside.all(axis=1) & (half > 0).all(axis=1), np.bool_)


def label_texts(detections: Detections, labels: Sequence[str]) -> list[str | None]:
    """The label of each detection: its own, else the table's, else None."""
    count = len(labels)
    table = [labels[i] if 0 <= i < count else None for i in detections.class_ids.tolist()]
    return _first_given(detections.labels, table)


def shown_texts(detections: Detections, labels: Sequence[str]) -> list[str | None]:
    """The text that is drawn beside each detection: its own, else its label."""
    return _first_given(detections.texts, label_texts(detections, labels))


def _first_given(own: Sequence[str | None] | None, others: list[str | None]) -> list[str | None]:
    if own is None:
        return others
    return [other if text is None else text for text, other in zip(own, others, strict=True)]


def masks_of(detections: Detections, boxes: npt.NDArray[np.float32]) -> Sequence[Floats] | None:
    """The masks as the metadata wants them: each over its box, which may have been clipped.

    Args:
        detections: detections with `masks` or `box_masks`, or without any.
        boxes: float32 [N,4]: left, top, width, height as they are written.
    """
    if detections.masks is not None:
        return box_masks(detections.masks, boxes)
    if detections.box_masks is None:
        return None
    return _clipped_masks(detections.box_masks, detections.xyxy, boxes)


def _clipped_masks(
    masks: Sequence[Floats], xyxy: npt.NDArray[np.float32], boxes: npt.NDArray[np.float32]
) -> Sequence[Floats]:
    """Masks of boxes [N,4], left, top, right, bottom, cut to those that are written: left, top, width, height."""
    given = xyxy.copy()
    given[:, 2:] -= given[:, :2]
    whole = (given == boxes).all(axis=1)
    if whole.all():
        return masks
    return [
        mask if as_given else part_of_mask(mask, box, clipped)
        for mask, as_given, box, clipped in zip(masks, whole.tolist(), given, boxes, strict=True)
    ]


def part_of_mask(
    mask: npt.NDArray[np.float32], box: npt.NDArray[np.float32], part: npt.NDArray[np.float32]
) -> npt.NDArray[np.float32]:
    """What a mask says of a part of its box, in cells of about the mask's own size.

    Args:
        mask: float32 [rows,columns] over `box`.
        box: left, top, width, height.
        part: left, top, width, height of a rectangle inside `box`.
    """
    cells = np.array([mask.shape[1], mask.shape[0]], np.float64) / box[2:]
    count = np.maximum(1, np.rint(part[2:] * cells)).astype(int)
    step = part[2:] * cells / count
    first = (part[:2] - box[:2]) * cells + step / 2 - 0.5
    way = np.array([[step[0], 0, first[0]], [0, step[1], first[1]]])
    flags = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
    size = (int(count[0]), int(count[1]))
    return np.asarray(cv2.warpAffine(mask, way, size, flags=flags, borderMode=cv2.BORDER_REPLICATE), np.float32)


def box_masks(masks: npt.NDArray[np.bool_], boxes: npt.NDArray[np.float32]) -> list[npt.NDArray[np.float32]]:
    """Cut each mask to its box, as the metadata wants it.

    Args:
        masks: bool [N,height,width] of the surface.
        boxes: float32 [N,4]: left, top, width, height on that surface.

    Returns:
        N arrays float32 [rows,columns] of 0..1, `MASK_EDGE` being the edge, no side longer than `MASK_SIDE`.
    """
    height, width = masks.shape[1:]
    first = np.clip(np.floor(boxes[:, :2]), 0, (width - 1, height - 1)).astype(int)
    last = np.maximum(np.ceil(boxes[:, :2] + boxes[:, 2:]).astype(int), first + 1)
    cut = []
    for mask, (x0, y0), (x1, y1) in zip(masks, first, last, strict=True):
        part = mask[y0:y1, x0:x1].astype(np.float32)
        scale = MASK_SIDE / max(part.shape)
        if scale < 1:
            shape = max(1, round(part.shape[1] * scale)), max(1, round(part.shape[0] * scale))
            part = np.asarray(cv2.resize(part, shape, interpolation=cv2.INTER_AREA), np.float32)
        cut.append(part)
    return cut
