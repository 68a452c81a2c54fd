"""Messages on frames: user metadata of NVIDIA's payload type, which nvmsgconv makes and nvmsgbroker sends.

Ours and NVIDIA's mix: ``sluicemsgconv`` works before nvmsgbroker, and nvmsgconv before ``sluicemsgbroker``.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

from sluice.contract._locked import call
from sluice.contract.metadata import BatchMeta, FrameMeta

PAYLOAD_META = 8
"""NVDS_PAYLOAD_META: the user meta's data is an NvDsPayload."""


class _Payload(ctypes.Structure):
    """NvDsPayload of nvdsmeta_schema.h."""

    _fields_ = (
        ("payload", ctypes.c_void_p),
        ("payloadSize", ctypes.c_uint32),
        ("componentId", ctypes.c_uint32),
    )


def attach_payloads(frame: FrameMeta, messages: Sequence[bytes], component_id: int = 0) -> None:
    """Attach messages to a frame, so that a reader finds them in their order.

    Args:
        frame: the frame, under a valid lease.
        messages: the bytes of each message; empty ones are not attached, as nvmsgconv does.
        component_id: what a broker's ``comp-id`` selects by.
    """
    block, address = frame.provider.block, frame.address
    # User metas go to the front of a frame's list.
    for message in reversed(messages):
        if message:
            call("sluice_attach_message", True, block, address, message, len(message), component_id)


def read_payloads(batch: BatchMeta, component_id: int = 0) -> list[bytes]:
    """Return copies of the messages on a batch: those of its frames in frame order, then those of the batch itself.

    Args:
        batch: the batch, under a valid lease.
        component_id: only messages with this component id; 0 for all.
    """
    users = [user for frame in batch.frames for user in frame.user_metas] + batch.user_metas
    payloads = [_Payload.from_address(user.data) for user in users if user.meta_type == PAYLOAD_META and user.data]
    return [
        ctypes.string_at(payload.payload, payload.payloadSize)
        for payload in payloads
        if payload.payload and component_id in (0, payload.componentId)
    ]
