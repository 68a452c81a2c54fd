"""One surface and its planes; `sluice.contract.surface` is where the names of this module are imported from."""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sluice.contract import gstref
from sluice.contract._pixels import functions
from sluice.contract.dlpack import Hold, PlaneTensor
from sluice.contract.formats import (
    ColorFormat,
    Layout,
    Matrix,
    MemType,
    PlaneShape,
    meaning,
    plane_shapes,
    read_colour_tag,
    readable_format,
)
from sluice.errors import ContractError, StaleBufferError


class SurfaceError(ContractError):
    """The pixels of a surface cannot be reached in the way asked for, because of its memory type, layout or format."""


class Plane(NamedTuple):
    """One plane of a surface.

    Attributes:
        width: in samples of ``bytes_per_pix`` bytes (YUY2: pairs of luma and chroma, an even number of them).
        height: in rows.
        pitch: bytes from one row to the next.
        offset: bytes from the surface's data pointer.
        bytes_per_pix: 1 for planar and luma, 2 for interleaved chroma and YUY2, 3 or 4 for packed RGB.
        address: of the first sample, on the host or on the device according to the surface's memory type.
    """

    width: int
    height: int
    pitch: int
    offset: int
    bytes_per_pix: int
    address: int

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the plane as an array: (h, w), or (h, w, bytes_per_pix) where a sample has several bytes."""
        return (self.height, self.width) if self.bytes_per_pix == 1 else (self.height, self.width, self.bytes_per_pix)

    @property
    def strides(self) -> tuple[int, ...]:
        """Strides of the plane as an array, in bytes."""
        return (self.pitch, 1) if self.bytes_per_pix == 1 else (self.pitch, self.bytes_per_pix, 1)

    @property
    def extent(self) -> int:
        """Bytes from the first sample to the end of the last; the last row has no padding."""
        return self.pitch * (self.height - 1) + self.width * self.bytes_per_pix


class _ArraySource:
    """What numpy makes a view of a plane from; the view keeps it, and with it the memory."""

    __slots__ = ("__array_interface__", "_hold")

    def __init__(self, plane: Plane, hold: Hold, writable: bool) -> None:
        self._hold = hold
        self.__array_interface__ = {
            "version": 3,
            "typestr": "|u1",
            "shape": plane.shape,
            "strides": plane.strides,
            "data": (plane.address, not writable),
        }


class Lease:
    """What the surfaces of a batch share. Surfaces refer to this and not to the batch, which refers to them: a cycle
    would keep the memory until Python's garbage collector runs."""

    __slots__ = ("_hold", "_lent", "gpu_id", "mem_type", "trusted")

    def __init__(self, mem_type: MemType, gpu_id: int, trusted: bool, hold: Hold | None, lent: int = 0) -> None:
        """Hold the memory, or make a hold when one is needed, of a buffer that is alive until `close`."""
        self.mem_type = mem_type
        self.gpu_id = gpu_id
        self.trusted = trusted
        self._hold = hold
        self._lent = lent

    @property
    def hold(self) -> Hold:
        """What keeps the memory, made now where the buffer was lent; raises StaleBufferError after `close`."""
        if self._hold is None and self._lent:
            self._hold = Hold(gstref.copy_memory(self._lent))
        if self._hold is None:
            raise StaleBufferError(
                "the surfaces of this batch were used after the call they were lent for; take a view, a tensor or a "
                "copy of the pixels while the call lasts"
            )
        return self._hold

    def close(self) -> None:
        """End the lease; what was made from it keeps the memory as long as it needs it."""
        self._hold, self._lent = None, 0


class Surface:
    """One frame of a batch: its geometry, its pixel format and its planes.

    Sizes and positions are in pixels of this surface, whose top left pixel is (0, 0).
    """

    __slots__ = ("_fields", "_lease", "_part", "_planes", "_writable", "height", "index", "layout", "width")

    def __init__(self, lease: Lease, index: int, fields: tuple[int, ...], writable: bool) -> None:
        self._lease = lease
        self._fields = fields
        self._planes: tuple[Plane, ...] | None = None
        self._part = False
        self._writable = writable
        self.index = index
        self.width = fields[2]
        self.height = fields[3]
        self.layout = Layout(fields[5])

    def crop(self, left: int, top: int, width: int, height: int) -> "Surface":
        """Return a part of this surface, without a copy: the same memory, and boxes counted from the part's corner.

        Args:
            left, top: its first pixel; even numbers, so that no sample of chroma is cut.
            width, height: its size in pixels, at least 1.

        Raises:
            ContractError: the part does not lie on the surface, or begins at an odd pixel.
        """
        inside = left >= 0 and top >= 0 and left + width <= self.width and top + height <= self.height
        if not inside or width < 1 or height < 1 or left % 2 or top % 2:
            raise ContractError(
                f"{width}x{height} pixels from {left}, {top} cannot be cut out of {self.width}x{self.height} pixels; "
                "right is a part of it that begins at even numbers"
            )
        part = Surface(self._lease, self.index, (*self._fields[:2], width, height, *self._fields[4:]), self._writable)
        part._part = True
        part._planes = tuple(
            _part_of(plane, before, size)
            for plane, before, size in zip(
                self.planes,
                plane_shapes(self.format, left, top),
                plane_shapes(self.format, width, height),
                strict=True,
            )
        )
        return part

    @property
    def address(self) -> int:
        """Where the pixels begin, on the host or on the device; a plane begins `Plane.offset` bytes behind it."""
        return self._fields[0]

    @property
    def layout_key(self) -> tuple[int, ...]:
        """The same for surfaces whose pixels lie alike and mean the same: everything but `address`."""
        if self._part:
            return (*self._fields[1:], *(plane.offset for plane in self.planes))
        return self._fields[1:]

    @property
    def mem_type(self) -> MemType:
        """Which memory the pixels are in."""
        return self._lease.mem_type

    @property
    def gpu_id(self) -> int:
        """The GPU of device memory; 0 for host memory."""
        return self._lease.gpu_id

    @property
    def color_format(self) -> ColorFormat:
        """NvBufSurface's colour format.

        Raises:
            ContractError: it is one whose pixels cannot be read.
        """
        return readable_format(self._fields[4])

    @property
    def format(self) -> str:
        """GStreamer's name of the pixel format, which says nothing of matrix and range.

        Raises:
            ContractError: NvBufSurface's colour format is not known.
        """
        return meaning(self._fields[4])[0]

    @property
    def matrix(self) -> Matrix:
        """The YCbCr matrix (RGB for RGB formats), exact even where the colour format has no value for it."""
        return self._colorimetry()[0]

    @property
    def full_range(self) -> bool:
        """Whether luma spans 0 to 255 (True) or 16 to 235 (False); True for RGB formats."""
        return self._colorimetry()[1]

    @property
    def writable(self) -> bool:
        """Whether the planes may be written, which they may be only inside `writable_batch` or `writable_raw`."""
        return self._writable

    def descriptor(self) -> tuple[Hold, int]:
        """Return what keeps this surface's ``NvBufSurfaceParams`` and the number of it in its batch, for C.

        Raises:
            SurfaceError: it is a part of a surface, which has none of its own.
        """
        if self._part:
            raise SurfaceError(
                f"a part of surface {self.index} cannot be converted by NVIDIA; put `nvvideoconvert ! "
                "video/x-raw(memory:NVMM),format=NV12` before the mux"
            )
        return self._lease.hold, self.index

    @property
    def planes(self) -> tuple[Plane, ...]:
        """The planes, in GStreamer's order.

        Raises:
            ContractError: there are not as many as the colour format has, or its pixels cannot be read.
        """
        if self._planes is None:
            self._planes = self._make_planes()
        return self._planes

    def host_plane(self, index: int = 0) -> npt.NDArray[np.uint8]:
        """Return plane `index` as a strided uint8 view, (h, w) or (h, w, channels), without a copy.

        The view keeps the pixels alive. It is read-only, except inside `writable_batch` and `writable_raw`.

        Raises:
            SurfaceError: the pixels are not in host memory, or not in rows.
            StaleBufferError: the batch was closed.
        """
        plane = self._reachable_plane(index)
        if not self.mem_type.on_host:
            raise SurfaceError(
                f"surface {self.index} is in memory type {self.mem_type.name}, which the processor cannot read; "
                "read it on the GPU through dlpack(), or put `sluicehost`, or `nvvideoconvert ! video/x-raw`, before "
                "this element"
            )
        if not self._lease.trusted and not functions().is_readable(plane.address, plane.extent):
            raise SurfaceError(f"plane {index} of surface {self.index} at {plane.address:#x} is not readable memory")
        return np.asarray(_ArraySource(plane, self._lease.hold, self._writable))

    def host_planes(self) -> list[npt.NDArray[np.uint8]]:
        """Return all planes as `host_plane` does."""
        return [self.host_plane(index) for index in range(len(self.planes))]

    def dlpack(self, plane: int = 0) -> PlaneTensor:
        """Return plane `plane` for ``numpy.from_dlpack``, ``torch.from_dlpack`` and the like, on its own device.

        The tensor made from it has dtype uint8 and the shape of `host_plane`, shares the pixels, and keeps them alive.

        Raises:
            SurfaceError: the pixels are neither in host nor in CUDA memory, or not in rows.
            StaleBufferError: the batch was closed.
        """
        found = self._reachable_plane(plane)
        kind = self.mem_type
        if not (kind.on_host or kind.on_cuda):
            raise SurfaceError(f"surface {self.index} is in memory type {kind.name}, which no tensor can be made of")
        return PlaneTensor(
            hold=self._lease.hold,
            address=found.address,
            shape=found.shape,
            strides=found.strides,
            on_cuda=kind.on_cuda and kind is not MemType.CUDA_PINNED,
            device_id=self.gpu_id,
            writable=self._writable,
        )

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """Export the only plane of a packed format; planar formats are exported plane by plane with `dlpack`."""
        return self._only_plane().__dlpack__(stream=stream, max_version=max_version, dl_device=dl_device, copy=copy)

    def __dlpack_device__(self) -> tuple[int, int]:
        """Return DLPack's (device type, device id)."""
        return self._only_plane().__dlpack_device__()

    def _only_plane(self) -> PlaneTensor:
        if len(self.planes) != 1:
            raise SurfaceError(
                f"a {self.format} surface has {len(self.planes)} planes and is not one tensor; use dlpack(plane)"
            )
        return self.dlpack(0)

    def _reachable_plane(self, index: int) -> Plane:
        _ = self._lease.hold
        if self.layout is not Layout.PITCH:
            raise SurfaceError(f"surface {self.index} has layout {self.layout.name}; only rows (PITCH) can be read")
        if not 0 <= index < len(self.planes):
            raise SurfaceError(f"surface {self.index} ({self.format}) has {len(self.planes)} planes, no plane {index}")
        return self.planes[index]

    def _make_planes(self) -> tuple[Plane, ...]:
        data, _, width, height, _, _, _, count, *numbers = self._fields
        _ = self.color_format
        expected = plane_shapes(self.format, width, height)
        if count != len(expected):
            raise ContractError(
                f"surface {self.index} is {self.format} and has {count} planes instead of {len(expected)}"
            )
        return tuple(self._make_plane(data, numbers[5 * i : 5 * i + 5], i, shape) for i, shape in enumerate(expected))

    def _make_plane(self, data: int, numbers: list[int], index: int, shape: PlaneShape) -> Plane:
        """Return one plane, of the picture's size: it may be larger where its maker aligns sizes, and NVIDIA rounds
        the chroma of odd sizes down, where GStreamer rounds up."""
        width, height, pitch, offset, size = numbers
        short = 1 if index > 0 or self.format == "YUY2" else 0
        if width < shape.width - short or height < shape.height - short or size != shape.bytes_per_pixel:
            raise ContractError(
                f"plane {index} of surface {self.index}, {self.format} of {self.width}x{self.height}, is {width}x"
                f"{height} of {size} bytes; {shape.width}x{shape.height} of {shape.bytes_per_pixel} would be right"
            )
        return Plane(min(width, shape.width), min(height, shape.height), pitch, offset, size, data + offset)

    def _colorimetry(self) -> tuple[Matrix, bool]:
        return read_colour_tag(self._fields[1]) or meaning(self._fields[4])[1:]


def _part_of(plane: Plane, before: PlaneShape, size: PlaneShape) -> Plane:
    """Return the part of a plane that has `before` samples and rows left of and above it, and at most this size."""
    skipped = before.height * plane.pitch + before.width * plane.bytes_per_pix
    return Plane(
        min(size.width, plane.width - before.width),
        min(size.height, plane.height - before.height),
        plane.pitch,
        plane.offset + skipped,
        plane.bytes_per_pix,
        plane.address + skipped,
    )
