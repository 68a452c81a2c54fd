"""The objects of frames, of one frame or all of a batch, read in one call, and what a tracker says of them written.

See `sluice.contract.bulk`, which offers the forms for one frame too.
"""

import ctypes

import numpy as np
import numpy.typing as npt

from sluice.contract._objects import OBJECT_ROW, Addresses, Objects
from sluice.contract._rows import (
    FRAME_INFO,
    SHORT,
    TrackedRows,
    checked_call,
    numbers,
    pointer,
    set_array,
)
from sluice.contract.metadata import BatchMeta, FrameMeta
from sluice.contract.provider import Provider
from sluice.errors import ContractError


def read_objects(frame: FrameMeta) -> Objects:
    """Copy the objects of a frame into arrays.

    Raises:
        StaleBufferError: the frame's lease has ended.
    """
    capacity = frame.num_objects
    while True:
        rows = np.empty(capacity, OBJECT_ROW)
        count = checked_call(
            "sluice_read_objects", capacity <= SHORT, frame.provider.block, frame.address, pointer(rows), capacity
        )
        if count <= capacity:
            return Objects(rows[:count])
        capacity = count


def read_batch(batch: BatchMeta) -> tuple[npt.NDArray[np.void], Objects]:
    """Copy the frames of a batch and the objects of all of them into arrays, in one call.

    Returns:
        `FRAME_INFO` records ``[F]`` in the order of ``batch.frames``, of which ``objects`` says how many objects each
        has; and the objects of all frames, one frame after the other.

    Raises:
        StaleBufferError: the batch's lease has ended.
    """
    frames = np.empty(batch.num_frames, FRAME_INFO)
    capacity = 32 * len(frames)
    while True:
        rows = np.empty(capacity, OBJECT_ROW)
        count = checked_call(
            "sluice_read_batch",
            capacity <= SHORT,
            batch.provider.block,
            batch.address,
            pointer(frames),
            len(frames),
            pointer(rows),
            capacity,
        )
        if count <= capacity:
            return frames, Objects(rows[:count])
        capacity = count


def update_tracked(
    frame: FrameMeta,
    addresses: npt.ArrayLike,
    object_ids: npt.ArrayLike,
    boxes: npt.ArrayLike,
    tracker_boxes: npt.ArrayLike,
    confidences: npt.ArrayLike,
    *,
    show_ids: bool = True,
) -> None:
    """Write a tracker's results into N objects of a frame, as nvtracker does.

    The text moves to ``(max(0, left), max(0, top - 20))`` in Serif 10 and, with `show_ids`, becomes
    ``"<text> <id>"``, cut at 127 bytes; without a text it becomes the id.

    Args:
        frame: the frame.
        addresses: uint64 ``[N]``, addresses of its objects.
        object_ids: uint64 ``[N]``.
        boxes: float32 ``[N, 4]``, clipped to the surface: what downstream uses.
        tracker_boxes: float32 ``[N, 4]``, not clipped.
        confidences: float32 ``[N]``, the tracker's.
        show_ids: whether the ids become part of the texts.

    Raises:
        ContractError: an array has a wrong length, type or value, or an address is not of this frame; nothing was
            written.
        StaleBufferError: the frame's lease has ended.
    """
    places = np.array([frame.address], np.uint64)
    counts = np.array([np.size(addresses)], np.uint32)
    update_frames(
        frame.provider, places, counts, addresses, object_ids, boxes, tracker_boxes, confidences, show_ids=show_ids
    )


def update_frames(
    owner: Provider,
    frames: Addresses,
    counts: npt.ArrayLike,
    addresses: npt.ArrayLike,
    object_ids: npt.ArrayLike,
    boxes: npt.ArrayLike,
    tracker_boxes: npt.ArrayLike,
    confidences: npt.ArrayLike,
    *,
    show_ids: bool = True,
) -> None:
    """Write a tracker's results into objects of many frames of one batch, as `update_tracked` does for one.

    Args:
        owner: the batch's provider.
        frames: uint64 ``[F]``, addresses of the frames, under a valid lease.
        counts: uint32 ``[F]``, how many rows, one after the other, belong to each frame.
        addresses, object_ids, boxes, tracker_boxes, confidences: as for `update_tracked`, ``[N]`` of all frames.
        show_ids: whether the ids become part of the texts.

    Raises:
        ContractError: as `update_tracked`; nothing was written.
    """
    count = np.size(addresses)
    rows = TrackedRows(count=count, show_ids=show_ids)
    set_array(rows, "addresses", numbers("addresses", addresses, np.uint64, (count,)))
    set_array(rows, "object_ids", numbers("object_ids", object_ids, np.uint64, (count,)))
    set_array(rows, "boxes", numbers("boxes", boxes, np.float32, (count, 4)))
    set_array(rows, "tracker_boxes", numbers("tracker_boxes", tracker_boxes, np.float32, (count, 4)))
    set_array(rows, "confidences", numbers("confidences", confidences, np.float32, (count,)))
    frames, each = _per_frame(frames, counts, count)
    checked_call(
        "sluice_update_tracked",
        count <= SHORT,
        owner.block,
        pointer(frames),
        pointer(each),
        len(frames),
        ctypes.byref(rows),
    )


def _per_frame(frames: Addresses, counts: npt.ArrayLike, count: int) -> tuple[Addresses, npt.NDArray[np.uint32]]:
    """Return the frames and how many rows each has, checked."""
    each = numbers("counts", counts, np.uint32, (len(frames),))
    if int(each.sum()) != count:
        raise ContractError(f"counts add up to {int(each.sum())}, and there are {count} rows")
    return np.ascontiguousarray(frames, np.uint64), each


def remove_objects(frame: FrameMeta, addresses: npt.ArrayLike) -> None:
    """Remove N objects from a frame; objects that had one of them as parent get none.

    Args:
        frame: the frame.
        addresses: uint64 ``[N]``, addresses of its objects.

    Raises:
        ContractError: an address is not of this frame; nothing was removed.
        StaleBufferError: the frame's lease has ended.
    """
    places = np.array([frame.address], np.uint64)
    remove_from_frames(frame.provider, places, np.array([np.size(addresses)], np.uint32), addresses)


def remove_from_frames(owner: Provider, frames: Addresses, counts: npt.ArrayLike, addresses: npt.ArrayLike) -> None:
    """Remove objects from many frames of one batch, as `remove_objects` does for one.

    Args:
        owner: the batch's provider.
        frames: uint64 ``[F]``, addresses of the frames, under a valid lease.
        counts: uint32 ``[F]``, how many of the addresses, one after the other, are of each frame's objects.
        addresses: uint64 ``[N]``.

    Raises:
        ContractError: as `remove_objects`; nothing was removed.
    """
    array = numbers("addresses", addresses, np.uint64, (np.size(addresses),))
    frames, each = _per_frame(frames, counts, len(array))
    checked_call(
        "sluice_remove_objects",
        len(array) <= SHORT,
        owner.block,
        pointer(frames),
        pointer(each),
        len(frames),
        pointer(array),
    )
