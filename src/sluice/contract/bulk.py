"""Many objects or frames written and read in one call, under one hold of the batch's meta lock.

Everything is checked before the first element is acquired: a call either writes all rows or changes nothing, and no
acquired element is left unattached. A call never waits for the meta lock with the GIL: a short one tries the lock and
does its work at once, which spares the wait for the GIL beside busy Python threads; when the lock is taken, and for
long calls, the GIL is released.

Boxes are left, top, width, height in pixels of the surface; angles are degrees, clockwise, about the box's centre.
"""

import ctypes
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from sluice.contract._objects import OBJECT_ROW, Addresses, LabelRows, Objects
from sluice.contract._rows import (
    FRAME_ROW,
    SHORT,
    Labels,
    LabelTable,
    Masks,
    ObjectRows,
    checked_call,
    color_rows,
    frame_rows,
    mask_rows,
    numbers,
    object_rows,
    pointer,
    set_array,
    text_table,
)
from sluice.contract.bulk_objects import read_objects, remove_objects, update_tracked
from sluice.contract.metadata import BatchMeta, Color, FrameMeta
from sluice.errors import ContractError

__all__ = [
    "FRAME_ROW",
    "OBJECT_ROW",
    "LabelRows",
    "LabelTable",
    "Objects",
    "add_tracked",
    "fill_frames",
    "read_objects",
    "remove_objects",
    "update_tracked",
    "write_batch",
    "write_objects",
]

RED: Color = (1.0, 0.0, 0.0, 1.0)
DETECTOR_BORDER_WIDTH = 3  # this and the text's size and place: what nvinfer writes
DETECTOR_FONT_SIZE = 11
DETECTOR_TEXT_RISE = 10.0
TRACKER_FONT_SIZE = 10  # what nvtracker writes
TRACKER_TEXT_RISE = 20.0
NO_DETECTION = -0.1  # the confidence of an object that only the tracker has


def write_objects(
    frame: FrameMeta,
    boxes: npt.ArrayLike,
    scores: npt.ArrayLike,
    class_ids: npt.ArrayLike,
    labels: Labels = None,
    *,
    unique_id: int,
    rotation: npt.ArrayLike | None = None,
    masks: Masks | None = None,
    mask_threshold: float = 0.5,
    parents: npt.ArrayLike | None = None,
    border_color: Color | npt.ArrayLike = RED,
    bg_color: Color | npt.ArrayLike | None = None,
    texts: Sequence[str | None] | None = None,
    infer_done: bool | None = True,
) -> Addresses:
    """Add N detections to a frame, with every field that nvinfer sets, in one call.

    Each object gets: unique_component_id, confidence, class_id, an untracked object_id, rect_params and
    detector_bbox_info from the box, rotation, a border 3 wide, label, and the label as text (Serif 11, white on black)
    at ``(max(0, left), max(0, top - 10))``. Objects are added at the front of the frame's list, so readers see the last
    row first.

    Args:
        frame: the frame to write to.
        boxes: float32 ``[N, 4]``; left, top, width, height in pixels of the frame's surface, written as they are.
        scores: float32 ``[N]``.
        class_ids: int32 ``[N]``.
        labels: a `LabelTable` by class, N labels of which some may be None, or None. The label field holds 127 bytes,
            cut between two characters; the text has it whole.
        unique_id: the unique-id of the component that made the detections.
        rotation: float32 ``[N]``, degrees, clockwise, about the box's centre.
        masks: N arrays float32 ``(height, width)`` over each box, or None; they are copied. Or N `PackedMasks`, whose
            floats are made in the metadata itself, without the GIL.
        mask_threshold: from which value on a mask pixel belongs to the object.
        parents: uint64 ``[N]``, addresses of objects of this frame; 0 for none.
        border_color: red, green, blue, alpha from 0 to 1, one or ``[N, 4]``.
        bg_color: the same for a fill; None for none.
        texts: N texts to show instead of the labels.
        infer_done: what the frame's ``bInferDone`` becomes; None leaves it.

    Returns:
        uint64 ``[N]``: the addresses of the new objects, in row order.

    Raises:
        ContractError: an array has a wrong length, type or value; nothing was written.
        StaleBufferError: the frame's lease has ended.
    """
    boxes = np.asarray(boxes)
    count = len(boxes) if boxes.ndim else 0
    rows = _detector_rows(count, boxes, scores, class_ids, labels, unique_id, infer_done)
    set_array(rows, "border_colors", *color_rows("border_color", border_color, count))
    if bg_color is not None:
        set_array(rows, "bg_colors", *color_rows("bg_color", bg_color, count))
    if texts is not None:
        set_array(rows, "texts", text_table("texts", texts, count))
    if rotation is not None:
        set_array(rows, "rotation", numbers("rotation", rotation, np.float32, (count,)))
    if parents is not None:
        set_array(rows, "parents", numbers("parents", parents, np.uint64, (count,)))
    if masks is not None:
        _set_masks(rows, masks, mask_threshold)
    return _write(frame, rows, short=masks is None)


def write_batch(
    frames: Sequence[FrameMeta],
    counts: npt.ArrayLike,
    boxes: npt.ArrayLike,
    scores: npt.ArrayLike,
    class_ids: npt.ArrayLike,
    labels: Labels = None,
    *,
    unique_id: int,
    masks: Masks | None = None,
    mask_threshold: float = 0.5,
    infer_done: bool | None = True,
) -> int:
    """Add detections to many frames of one batch in one call, each as `write_objects` does.

    Args:
        frames: the frames, all of one batch.
        counts: uint32 ``[F]``, how many rows, one after the other, belong to each frame.
        boxes: float32 ``[N, 4]``; left, top, width, height in pixels of the row's own frame.
        scores: float32 ``[N]``.
        class_ids: int32 ``[N]``.
        labels: as in `write_objects`.
        unique_id: the unique-id of the component that made the detections.
        masks: N masks, as in `write_objects`.
        mask_threshold: from which value on a mask pixel belongs to the object.
        infer_done: what every frame's ``bInferDone`` becomes; None leaves it.

    Returns:
        The number of objects written.

    Raises:
        ContractError: an array has a wrong length, type or value; nothing was written.
        StaleBufferError: the frames' lease has ended.
    """
    boxes = np.asarray(boxes)
    count = len(boxes) if boxes.ndim else 0
    rows = _detector_rows(count, boxes, scores, class_ids, labels, unique_id, infer_done)
    each = numbers("counts", counts, np.uint32, (len(frames),))
    if int(each.sum()) != count:
        raise ContractError(f"counts add up to {int(each.sum())}, and there are {count} boxes")
    if not frames:
        return 0
    set_array(rows, "border_colors", *color_rows("border_color", RED, count))
    if masks is not None:
        _set_masks(rows, masks, mask_threshold)
    addresses = np.array([frame.address for frame in frames], np.uint64)
    return checked_call(
        "sluice_write_batch",
        masks is None and count <= SHORT,
        frames[0].provider.block,
        pointer(addresses),
        pointer(each),
        len(frames),
        ctypes.byref(rows),
    )


def _detector_rows(
    count: int,
    boxes: npt.ArrayLike,
    scores: npt.ArrayLike,
    class_ids: npt.ArrayLike,
    labels: Labels,
    unique_id: int,
    infer_done: bool | None,
) -> ObjectRows:
    """Return the C rows of a detector's objects, without colours."""
    rows = object_rows(count, boxes, scores, class_ids, labels)
    rows.unique_component_id = unique_id
    rows.border_width, rows.font_size, rows.text_rise = DETECTOR_BORDER_WIDTH, DETECTOR_FONT_SIZE, DETECTOR_TEXT_RISE
    rows.detector_boxes = True
    rows.infer_done = -1 if infer_done is None else int(infer_done)
    return rows


def _set_masks(rows: ObjectRows, masks: Masks, threshold: float) -> None:
    """Give the rows masks."""
    table, rows.mask_cells = mask_rows(masks, rows.count)
    set_array(rows, "masks", table)
    rows.mask_threshold = threshold


def add_tracked(
    frame: FrameMeta,
    boxes: npt.ArrayLike,
    tracker_boxes: npt.ArrayLike,
    confidences: npt.ArrayLike,
    class_ids: npt.ArrayLike,
    object_ids: npt.ArrayLike,
    labels: Labels = None,
    *,
    unique_id: int = 0,
    texts: Sequence[str | None] | None = None,
    border_width: int = DETECTOR_BORDER_WIDTH,
    border_color: Color | npt.ArrayLike = RED,
) -> Addresses:
    """Add N objects that only the tracker has (a track without a detection), as nvtracker does.

    Their confidence is -0.1, their detector box zero; the text stands at ``(max(0, left), max(0, top - 20))``.

    Args:
        frame: the frame to write to.
        boxes: float32 ``[N, 4]``, clipped to the surface.
        tracker_boxes: float32 ``[N, 4]``, not clipped.
        confidences: float32 ``[N]``, the tracker's.
        class_ids: int32 ``[N]``.
        object_ids: uint64 ``[N]``.
        labels: as in `write_objects`.
        unique_id: the component of the detections the tracks come from.
        texts: N texts to show instead of the labels.
        border_width: width of the border in pixels.
        border_color: as in `write_objects`.

    Returns:
        uint64 ``[N]``: the addresses of the new objects, in row order.

    Raises:
        ContractError: an array has a wrong length, type or value; nothing was written.
        StaleBufferError: the frame's lease has ended.
    """
    boxes = np.asarray(boxes)
    count = len(boxes) if boxes.ndim else 0
    rows = object_rows(count, boxes, np.full(count, NO_DETECTION, np.float32), class_ids, labels)
    rows.unique_component_id = unique_id
    rows.border_width, rows.font_size, rows.text_rise = border_width, TRACKER_FONT_SIZE, TRACKER_TEXT_RISE
    rows.infer_done = -1
    set_array(rows, "border_colors", *color_rows("border_color", border_color, count))
    set_array(rows, "object_ids", numbers("object_ids", object_ids, np.uint64, (count,)))
    set_array(rows, "tracker_boxes", numbers("tracker_boxes", tracker_boxes, np.float32, (count, 4)))
    set_array(rows, "tracker_confidences", numbers("confidences", confidences, np.float32, (count,)))
    if texts is not None:
        set_array(rows, "texts", text_table("texts", texts, count))
    return _write(frame, rows, short=True)


def _write(frame: FrameMeta, rows: ObjectRows, short: bool) -> Addresses:
    addresses = np.empty(rows.count, np.uint64)
    checked_call(
        "sluice_write_objects",
        short and rows.count <= SHORT,
        frame.provider.block,
        frame.address,
        ctypes.byref(rows),
        pointer(addresses),
    )
    return addresses


def fill_frames(batch: BatchMeta, rows: npt.NDArray[np.void] | Sequence[tuple[int, ...]]) -> Addresses:
    """Add N frames at the end of a batch; ``batch_id`` becomes each frame's place, which must be its surface's.

    Args:
        batch: the batch.
        rows: `FRAME_ROW` records ``[N]``, or tuples in the order of its fields; pipeline sizes are 0 where the mux does
            not scale.

    Returns:
        uint64 ``[N]``: the addresses of the new frames.

    Raises:
        ContractError: `rows` are not such records, or more than the batch has room for; nothing was written.
        StaleBufferError: the batch's lease has ended.
    """
    rows = frame_rows(rows)
    if batch.num_frames + len(rows) > batch.max_frames:
        raise ContractError(
            f"{len(rows)} more frames do not fit into a batch of {batch.max_frames} that has {batch.num_frames}"
        )
    addresses = np.empty(len(rows), np.uint64)
    checked_call(
        "sluice_fill_frames", True, batch.provider.block, batch.address, pointer(rows), len(rows), pointer(addresses)
    )
    return addresses
