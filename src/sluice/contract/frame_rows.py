"""What most elements want to know of a batch's frames, read in one call: a view's field costs a microsecond each."""

import ctypes
import functools
import struct
from collections.abc import Sequence
from typing import Any, NamedTuple

from sluice.contract._native import library
from sluice.contract._views import Lease
from sluice.contract.metadata import FrameMeta
from sluice.contract.provider import Provider, provider
from sluice.errors import ContractError

_ROW = struct.Struct("=3Q2IiI")  # FrameRead of native/frame_read.c
_SINGLE = struct.Struct("=2Q2Ii4I4x")  # SluiceFrameRow of native/frame_row.h
_OBJECTS, _USERS = 1, 2
_USUAL_FRAMES = 8
_NO_BATCH = -1


class FrameRow(NamedTuple):
    """Fields of a `FrameMeta`, and what it has besides.

    Attributes:
        address: of the struct.
        pts: ``buf_pts``.
        ntp: ``ntp_timestamp``.
        batch_id: index of its surface.
        source_id: number of its stream.
        number: ``frame_num``.
        extras: see `has_objects` and `has_user_metas`.
    """

    address: int
    pts: int
    ntp: int
    batch_id: int
    source_id: int
    number: int
    extras: int

    @property
    def has_objects(self) -> bool:
        """Whether there are objects on it."""
        return bool(self.extras & _OBJECTS)

    @property
    def has_user_metas(self) -> bool:
        """Whether there are user metas on it."""
        return bool(self.extras & _USERS)


@functools.cache
def _functions() -> tuple[Any, Any]:
    """The C functions, called with the GIL: they are over sooner than another thread could take it."""
    lib, pointer = ctypes.PyDLL(library()._name), ctypes.c_void_p
    read, opened = lib.sluice_read_frames, lib.sluice_open_frames
    read.restype, read.argtypes = None, [pointer, ctypes.c_char_p, ctypes.c_uint, pointer]
    opened.restype = ctypes.c_int
    opened.argtypes = [pointer, pointer, ctypes.c_char_p, ctypes.c_int, pointer, ctypes.c_uint]
    return read, opened


@functools.cache
def _opener() -> tuple[Provider, Any, int, int]:
    """The provider, the function that opens frames, and its first and fourth argument."""
    owner = provider()
    kind = owner.layout.enum("GstNvDsMetaType")["NVDS_BATCH_GST_META"]
    return owner, _functions()[1], ctypes.addressof(owner.block), kind


def read_frames(frames: Sequence[FrameMeta]) -> list[FrameRow]:
    """Read the frames' rows; raises StaleBufferError where their lease has ended."""
    if not frames:
        return []
    addresses = struct.pack(f"={len(frames)}Q", *[frame.address for frame in frames])
    rows = ctypes.create_string_buffer(_ROW.size * len(frames))
    _functions()[0](ctypes.addressof(frames[0].provider.block), addresses, len(frames), rows)
    return [FrameRow(*values) for values in _ROW.iter_unpack(rows.raw)]


def open_frames(
    buffer: int, lease: Lease, single: tuple[int, int, int] | None = None
) -> tuple[list[FrameMeta], list[FrameRow]] | None:
    """Return the frames of the batch on a buffer, in batch order, and their rows; None where there is no batch.

    Args:
        buffer: address of the buffer; it may be shared.
        lease: for how long the frames may be used; the caller keeps the buffer alive until its end.
        single: number, width and height of the frame that a buffer without a batch holds; it gets a batch of one.

    Raises:
        ContractError: GStreamer refused that batch.
    """
    owner, opened, block, kind = _opener()
    row = None if single is None else _SINGLE.pack(0, 0, 0, 0, *single, 0, 0)
    places = _USUAL_FRAMES
    while True:
        rows = ctypes.create_string_buffer(_ROW.size * places)
        count = opened(block, buffer, row, kind, rows, places)
        if count == _NO_BATCH:
            return None
        if count < 0:
            raise ContractError(f"GStreamer refused a batch meta on buffer {buffer:#x}")
        if count <= places:
            break
        places = count
    read = [FrameRow(*values) for values in _ROW.iter_unpack(memoryview(rows)[: count * _ROW.size])]
    return [FrameMeta(row.address, lease, owner) for row in read], read
