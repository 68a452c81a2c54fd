"""Messages of Sluice's own schema for whole batches in one call, without Python per object.

What they say is what `sluice.messages.schema.messages` with `Per.FRAME` makes; frames with more than boxes (classifier
results, user metadata) are left to it.
"""

from __future__ import annotations

import ctypes
import enum
import json
from collections.abc import Mapping
from typing import Any

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


class StreamMembers:
    """Members that the messages of each stream have besides those of their frames, as the C library reads them."""

    def __init__(self, members: Mapping[int, Mapping[str, Any]]) -> None:
        """Take JSON values by the stream's number and the member's name."""
        texts = {
            stream: "," + json.dumps(told, ensure_ascii=False, separators=(",", ":"))[1:-1]
            for stream, told in members.items()
            if told
        }
        self.count = len(texts)
        self.streams = (ctypes.c_uint32 * self.count)(*texts)
        self.texts = (ctypes.c_char_p * self.count)(
            *(text.encode("utf-8", "backslashreplace") for text in texts.values())
        )


NO_MEMBERS = StreamMembers({})


def attach_plain(
    batch: BatchMeta,
    sizes: npt.NDArray[np.uint32],
    *,
    frame_interval: int,
    empty_frames: bool,
    component_id: int,
    members: StreamMembers = NO_MEMBERS,
) -> npt.NDArray[np.uint8]:
    """Attach a message to every frame of a batch that is due and carries no more than objects with boxes.

    Args:
        batch: the batch, under a valid lease.
        sizes: uint32 ``[surfaces, 2]``, width and height of each surface; 0 where it is not known.
        frame_interval: frames whose number is a multiple of it are due.
        empty_frames: whether frames without objects have a message.
        component_id: what a broker's ``comp-id`` selects by.
        members: what else is told of each stream.

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
        ctypes.addressof(members.streams),
        ctypes.addressof(members.texts),
        members.count,
        component_id,
        pointer(results),
        len(results),
    )
    return results[:count]
