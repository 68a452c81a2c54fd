"""Messages on frames: user metadata of NVIDIA's payload type, which nvmsgconv makes and nvmsgbroker sends.

Ours and NVIDIA's mix: ``sluicemsgconv`` works before nvmsgbroker, and nvmsgconv before ``sluicemsgbroker``.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Sequence

from sluice.contract._native import library
from sluice.contract.metadata import BatchMeta, FrameMeta, UserMeta

PAYLOAD_META = 8
"""NVDS_PAYLOAD_META: the user meta's data is an NvDsPayload."""


class _Payload(ctypes.Structure):
    """NvDsPayload of nvdsmeta_schema.h."""

    _fields_ = (
        ("payload", ctypes.c_void_p),
        ("payloadSize", ctypes.c_uint32),
        ("componentId", ctypes.c_uint32),
    )


@functools.cache
def _functions() -> tuple[ctypes._NamedFuncPointer, int, int]:
    """Return the C function that makes a payload, and the addresses of those that copy and release one."""
    make = library().sluice_payload_new
    make.restype, make.argtypes = ctypes.c_void_p, [ctypes.c_char_p, ctypes.c_uint32, ctypes.c_uint32]
    addresses = [
        ctypes.cast(function, ctypes.c_void_p).value or 0
        for function in (library().sluice_payload_copy, library().sluice_payload_release)
    ]
    return make, addresses[0], addresses[1]


def attach_payloads(frame: FrameMeta, messages: Sequence[bytes], component_id: int = 0, context: int = 0) -> None:
    """Attach messages to a frame, so that a reader finds them in their order.

    Args:
        frame: the frame, under a valid lease.
        messages: the bytes of each message; empty ones are not attached, as nvmsgconv does.
        component_id: what a broker's ``comp-id`` selects by.
        context: address of the element that made them, for ``uContext``.
    """
    make, copy, release = _functions()
    batch = frame.batch.address
    # User metas go to the front of a frame's list.
    for message in reversed([message for message in messages if message]):
        user = UserMeta(frame.provider.acquire_user(batch), frame.lease, frame.provider)
        user.meta_type, user.context = PAYLOAD_META, context
        user.copy_func, user.release_func = copy, release
        user.data = make(message, len(message), component_id)
        frame.provider.add_user_to_frame(frame.address, user.address)


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
