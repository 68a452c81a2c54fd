"""Reading and writing the pixels of a batch: `SurfaceBatch`, its `Surface` objects and their planes, without copies.

A `SurfaceBatch` and everything made from it (numpy views, DLPack tensors) hold the batch's *memory*, never the
``Gst.Buffer``: the buffer stays writable downstream, the frames stay alive, and whoever wants to write pixels that such
a view still shows makes a copy first. Nothing of a struct is used before it has been checked, so that a wrong buffer is
a `ContractError` and never a crash.
"""

import ctypes
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import gi

gi.require_version("Gst", "1.0")
import numpy as np
import numpy.typing as npt
from gi.repository import Gst

from sluice.contract import gstref
from sluice.contract._pixels import call, functions, short_functions
from sluice.contract._surface import Lease, Plane, Surface, SurfaceError
from sluice.contract.batching import NVMM_FEATURE, SURFACE_FEATURE, memory_feature, raw_struct, raw_struct_at
from sluice.contract.dlpack import Hold
from sluice.contract.formats import FrameFormat, MemType
from sluice.contract.structures import required_structure
from sluice.errors import ContractError

__all__ = ["Plane", "Surface", "SurfaceBatch", "SurfaceError", "writable_batch", "writable_raw"]

SURFACE_STRUCT = struct.Struct("=2Q6I20I")
"""``SurfaceInfo`` of native/surface.h."""
_SIZE, _SIZE_OFFSET = struct.Struct("=2I"), 16  # width and height in it
_BATCH = struct.Struct("=5I")  # BatchInfo of native/surface_read.c
_RAW = struct.Struct("=Q120s5I4x")  # RawRead of native/surface_read.c
_USUAL_SURFACES = 8
_MEM_TYPES = tuple(MemType)  # by value; the C library lets no others through


class SurfaceBatch:
    """The surfaces of one buffer: a sequence of `Surface`, as long as the batch is filled.

    Attributes:
        capacity: ``batchSize``.
    """

    __slots__ = ("_infos", "_lease", "_length", "_surfaces", "_writable", "capacity")

    def __init__(
        self,
        header: tuple[int, ...],
        infos: bytes,
        hold: Hold | None,
        writable: frozenset[int] = frozenset(),
        lent: int = 0,
    ) -> None:
        mem_type, gpu_id, self.capacity, self._length, trusted = header
        self._lease = Lease(_MEM_TYPES[mem_type], gpu_id, bool(trusted), hold, lent)
        self._infos = infos
        self._surfaces: dict[int, Surface] = {}
        self._writable = writable

    @classmethod
    def of(
        cls, buffer: Gst.Buffer, caps: Gst.Caps | None = None, *, scaled: bool = False, lent: bool = False
    ) -> "SurfaceBatch":
        """Read the NvBufSurface in a buffer: a batch of `sluicemux` or `nvstreammux`, or a single NVMM frame.

        Args:
            buffer: the batch; it stays writable for whoever else holds it.
            caps: when given, the surfaces are compared with them: colour format and number of surfaces.
            scaled: whether the mux scales, so that every surface must have the caps' size too. The new nvstreammux
                puts the first stream's size in the caps and leaves each surface its own.
            lent: the caller keeps the buffer alive until `close`, so that its memory is held only once somebody wants
                pixels.

        Raises:
            ContractError: the buffer holds no NvBufSurface, or one with impossible or contradicting values, by name.
            TypeError: not a ``Gst.Buffer``.
        """
        return cls.at(gstref.buffer_address(buffer), caps, scaled=scaled, lent=lent)

    @classmethod
    def at(
        cls, buffer: int, caps: Gst.Caps | None = None, *, scaled: bool = False, lent: bool = False
    ) -> "SurfaceBatch":
        """`of` for the buffer at an address."""
        batch = cls._read(buffer, lent=lent)
        if caps is not None:
            batch._compare(caps, scaled)
        return batch

    @classmethod
    def of_raw(cls, buffer: Gst.Buffer, caps: Gst.Caps | FrameFormat, *, lent: bool = False) -> "SurfaceBatch":
        """Return a single raw frame, in system or CUDA memory, as a batch of one.

        A `FrameFormat` made once per CAPS event is cheaper than caps. The buffer itself stays writable. For `lent` see
        `of`; the memory is held in any case.

        Raises:
            ContractError: caps that are no raw video which can be batched, or a buffer that does not fit them.
        """
        return cls.at_raw(gstref.buffer_address(buffer), _raw_format(caps), lent=lent)

    @classmethod
    def at_raw(cls, buffer: int, format: FrameFormat, *, lent: bool = False) -> "SurfaceBatch":
        """`of_raw` for the buffer at an address; the format is kept until the call is over, since C reads its info."""
        short = lent and not format.on_cuda
        lib, unref = (short_functions(), gstref.unref_shared) if short else (functions(), gstref.unref)
        read = ctypes.create_string_buffer(_RAW.size)
        call(lib.raw_read, ctypes.byref(raw_struct_at(buffer, format)), read, failed=-1)
        keep, info, *header = _RAW.unpack_from(read)
        return cls(tuple(header), info, Hold(keep, unref))

    @classmethod
    def _read(
        cls,
        buffer: int,
        writable: frozenset[int] = frozenset(),
        *,
        lent: bool = False,
    ) -> "SurfaceBatch":
        """Read the surfaces in a buffer."""
        places = _USUAL_SURFACES
        lib = short_functions() if lent else functions()
        while True:
            header = ctypes.create_string_buffer(_BATCH.size)
            infos = ctypes.create_string_buffer(SURFACE_STRUCT.size * places)
            keep = ctypes.c_void_p()
            place = None if lent else ctypes.byref(keep)
            filled = call(lib.batch_read, buffer, header, infos, places, place, failed=-1)
            hold = None if lent else Hold(keep.value or 0)
            if filled <= places:
                read = memoryview(infos)[: SURFACE_STRUCT.size * filled].tobytes()
                return cls(_BATCH.unpack(header), read, hold, writable, buffer if hold is None else 0)
            places = filled

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, index: int) -> Surface:
        if not 0 <= index < self._length:
            raise IndexError(f"a batch of {self._length} surfaces has no surface {index}")
        surface = self._surfaces.get(index)
        if surface is None:
            fields = SURFACE_STRUCT.unpack_from(self._infos, index * SURFACE_STRUCT.size)
            surface = self._surfaces[index] = Surface(self._lease, index, fields, index in self._writable)
        return surface

    def __iter__(self) -> Iterator[Surface]:
        return (self[index] for index in range(self._length))

    def sizes(self) -> npt.NDArray[np.uint32]:
        """Return width and height of every surface, uint32 ``[N, 2]``."""
        words = np.frombuffer(self._infos, np.uint32).reshape(-1, SURFACE_STRUCT.size // 4)
        return words[: self._length, 4:6]  # behind two 64-bit fields, see SurfaceInfo of native/surface.h

    def size(self, index: int) -> tuple[int, int]:
        """Return width and height of a surface in pixels, without making it."""
        return _SIZE.unpack_from(self._infos, index * SURFACE_STRUCT.size + _SIZE_OFFSET)

    @property
    def mem_type(self) -> MemType:
        """Which memory all of the surfaces are in."""
        return self._lease.mem_type

    @property
    def gpu_id(self) -> int:
        """The GPU of device memory."""
        return self._lease.gpu_id

    def close(self) -> None:
        """End this batch's hold on the memory; views and tensors taken from it stay valid, new ones are refused."""
        self._lease.close()

    def _compare(self, caps: Gst.Caps, scaled: bool) -> None:
        fields = required_structure(caps, 0)
        named = fields.get_string("format")
        size = fields.get_int("width")[1], fields.get_int("height")[1]
        known, places = fields.get_int("batch-size")
        per_frame = fields.get_int("num-surfaces-per-frame")[1] or 1
        if known and len(self) > places * per_frame:
            raise ContractError(f"the batch has {len(self)} surfaces, its caps allow {places * per_frame}")
        for surface in self:
            if named is not None and surface.format != named:
                raise ContractError(f"surface {surface.index} is {surface.format}, the caps say {named}")
            if scaled and (surface.width, surface.height) != size:
                raise ContractError(
                    f"surface {surface.index} is {surface.width}x{surface.height}, the caps say {size[0]}x{size[1]}"
                )


@contextmanager
def writable_batch(buffer: Gst.Buffer, indices: Sequence[int] | None = None) -> Iterator[SurfaceBatch]:
    """Lend the surfaces of a batch for writing: ``with writable_batch(buffer, [2]) as batch: batch[2].host_plane(0)``.

    Pixels are writable only if the batch's buffer, the batch's memory and the frame's own memory are nobody else's. A
    shared memory is replaced in the buffer by a copy of its descriptor; a frame that others see (a tee, a decoder's
    reference picture, a tensor still held) by a copy of its pixels, which is counted. Others keep seeing the old ones.

    Args:
        buffer: a batch made by `sluice.contract.batching`, whose only holder is the caller (wrappers count).
        indices: the surfaces to write; None for all. The others are readable.

    Raises:
        ContractError: the buffer is shared, not such a batch, or not in system memory.
    """
    address = gstref.buffer_address(buffer)
    wanted = range(len(SurfaceBatch.of(buffer))) if indices is None else indices
    numbers = (ctypes.c_uint32 * max(len(wanted), 1))(*wanted)
    try:
        call(functions().batch_make_writable, address, numbers, len(wanted))
        batch = SurfaceBatch._read(address, frozenset(wanted))
        try:
            yield batch
        finally:
            batch.close()
    finally:
        call(functions().batch_end_writing, address)


@contextmanager
def writable_raw(buffer: Gst.Buffer, caps: Gst.Caps | FrameFormat) -> Iterator[Surface]:
    """Lend a single raw frame in system memory for writing, as `writable_batch` does for a batch.

    Memory of the buffer that others see is replaced in it by a copy, which is counted.

    Raises:
        ContractError: the buffer is shared, or does not fit the caps.
    """
    format = _raw_format(caps)  # kept while mapped: C reads its info
    raw = raw_struct(buffer, format)
    info = ctypes.create_string_buffer(SURFACE_STRUCT.size)
    keep = ctypes.c_void_p()
    mapped = call(functions().raw_write, ctypes.byref(raw), info, ctypes.byref(keep))
    try:
        batch = SurfaceBatch((MemType.SYSTEM, 0, 1, 1, 1), info.raw, Hold(keep.value or 0), frozenset((0,)))
        try:
            yield batch[0]
        finally:
            batch.close()
    finally:
        functions().raw_end_writing(mapped)


def _raw_format(caps: Gst.Caps | FrameFormat) -> FrameFormat:
    if isinstance(caps, FrameFormat):
        return caps
    if memory_feature(caps) in (NVMM_FEATURE, SURFACE_FEATURE):
        raise ContractError(f"a buffer with caps {caps.to_string()} is a batch of surfaces already; read it as one")
    return FrameFormat.from_caps(caps)
