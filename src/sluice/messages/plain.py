"""Messages of Sluice's own schema for whole batches in one call, without Python per object.

What they say is what `sluice.messages.schema.messages` with `Per.FRAME` makes; frames with more than boxes (classifier
results, user metadata) are left to it.
"""

from __future__ import annotations

import enum

import numpy as np
import numpy.typing as npt

from sluice.contract._locked import call
from sluice.contract._rows import pointer
from sluice.contract.metadata import BatchMeta


class Outcome(enum.IntEnum):
    """What became of a frame; the numbers are those of native/message_json.c."""

    TOLD = 0
    """A message was attached."""
    NOT_DUE = 1
    """Its number is no multiple of the interval."""
    EMPTY = 2
    """It has no objects, and such frames have no message."""
    LEFT = 3
    """It carries more than these messages tell."""


def attach_plain(
    batch: BatchMeta, sizes: npt.NDArray[np.uint32], *, frame_interval: int, empty_frames: bool, component_id: int
) -> npt.NDArray[np.uint8]:
    """Attach a message to every frame of a batch that is due and carries no more than objects with boxes.

    Args:
        batch: the batch, under a valid lease.
        sizes: uint32 ``[surfaces, 2]``, width and height of each surface; 0 where it is not known.
        frame_interval: frames whose number is a multiple of it are due.
        empty_frames: whether frames without objects have a message.
        component_id: what a broker's ``comp-id`` selects by.

    Returns:
        uint8 ``[F]``: the `Outcome` of each frame, in the order of ``batch.frames``.
    """
    sizes = np.ascontiguousarray(sizes, np.uint32)
    results = np.empty(batch.num_frames, np.uint8)
    count = call(
        "sluice_attach_plain_messages",
        False,
        batch.provider.block,
        batch.address,
        pointer(sizes),
        len(sizes),
        frame_interval,
        int(empty_frames),
        component_id,
        pointer(results),
        len(results),
    )
    return results[:count]
