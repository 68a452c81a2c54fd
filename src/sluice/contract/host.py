"""Bringing surfaces from GPU memory to the host: `on_host` for pixels, `frame_on_host` and `batch_on_host` for buffers.

A copy has the rows and planes that GStreamer gives frames of its format, so no GstVideoMeta need describe it. It goes
by CUDA's driver, without the interpreter's lock, into page-locked buffers that are used again. Each is counted in
`sluice.contract.counters`, as ``host_frames`` and ``host_bytes``.
"""

import ctypes
import functools
from dataclasses import replace

import gi

gi.require_version("Gst", "1.0")
from gi.repository import Gst

from sluice.contract import gstref
from sluice.contract._pixels import call, functions, short_functions
from sluice.contract._surface import Lease, Plane, Surface, SurfaceError
from sluice.contract.batching import frame_buffer, make_batch
from sluice.contract.dlpack import Hold
from sluice.contract.formats import FrameFormat, Layout, Matrix, MemType, colour_tag, plane_shapes
from sluice.contract.surface import SurfaceBatch
from sluice.errors import ContractError

_READABLE = (MemType.DEFAULT, MemType.CUDA_PINNED, MemType.CUDA_DEVICE, MemType.CUDA_UNIFIED, MemType.SYSTEM)


class _HostPlane(ctypes.Structure):
    """``HostPlane`` of native/host.c."""

    _fields_ = (
        ("from_address", ctypes.c_uint64),
        ("to_offset", ctypes.c_uint64),
        ("from_pitch", ctypes.c_uint32),
        ("from_row", ctypes.c_uint32),
        ("from_rows", ctypes.c_uint32),
        ("to_pitch", ctypes.c_uint32),
        ("to_row", ctypes.c_uint32),
        ("to_rows", ctypes.c_uint32),
        ("sample", ctypes.c_uint32),
        ("unused", ctypes.c_uint32),
    )


def on_host(surface: Surface) -> Surface:
    """Return a surface whose pixels the processor can read: the same one, or a copy of it where it is in GPU memory.

    A part of a surface (`Surface.crop`) is copied alone. The copy has the surface's number, size, format and colours;
    its memory lives as long as it, or a view of it. Waits for the copy, on a stream of its own.

    Raises:
        SurfaceError: memory that cannot be copied, or that is not in rows; or CUDA's error, by its name.
        StaleBufferError: the batch was closed.
    """
    return surface if surface.mem_type.on_host else _copy(surface)[0]


def frame_on_host(buffer: Gst.Buffer, format: FrameFormat | None) -> FrameFormat:
    """Bring a single frame's pixels to the host: the buffer gets a copy for memory, and keeps times and metadata.

    Args:
        buffer: a frame, whose only holder is the caller (wrappers count).
        format: what its caps say, see `FrameFormat.from_caps`; None for an NvBufSurface with one surface.

    Returns:
        What it is now, in system memory.

    Raises:
        SurfaceError: see `on_host`.
        ContractError: the buffer is shared or a pool's, is no frame, or has several.
    """
    surfaces = SurfaceBatch.of(buffer) if format is None else SurfaceBatch.of_raw(buffer, format)
    if len(surfaces) != 1:
        raise ContractError(f"a buffer with {len(surfaces)} surfaces is no single frame")
    made, found = _host_frame(surfaces[0], None)
    surfaces.close()
    call(functions().host_replace, gstref.buffer_address(buffer), gstref.buffer_address(made))
    return found


def batch_on_host(buffer: Gst.Buffer) -> bool:
    """Bring the frames of a batch to the host: the buffer's memory becomes a batch of copies, in system memory.

    Each frame of it is a buffer with flags, times and metadata of the one that came into the muxer.

    Args:
        buffer: a batch, whose only holder is the caller (wrappers count).

    Returns:
        False where it is `is_host_batch` already, and nothing was done.

    Raises:
        SurfaceError: see `on_host`.
        ContractError: the buffer is shared or a pool's, or is no batch of surfaces.
    """
    if is_host_batch(gstref.buffer_address(buffer)):
        return False
    surfaces = SurfaceBatch.of(buffer)
    frames = [_host_frame(surface, frame_buffer(buffer, surface.index)) for surface in surfaces]
    surfaces.close()
    made = make_batch(frames, surfaces.capacity)
    call(functions().host_replace, gstref.buffer_address(buffer), gstref.buffer_address(made))
    return True


def is_host_batch(buffer: int) -> bool:
    """Whether the buffer at an address is a batch of `sluice.contract.batching` whose frames are in system memory."""
    return bool(short_functions().is_host_batch(buffer))


def _host_frame(surface: Surface, original: Gst.Buffer | None) -> tuple[Gst.Buffer, FrameFormat]:
    copy, memory = _copy(surface)
    source = None if original is None else gstref.buffer_address(original)
    made = gstref.take(functions().host_buffer(gstref.ref(memory.address), source))
    return made, _format(copy.format, copy.width, copy.height, copy.matrix, copy.full_range)


def _copy(surface: Surface) -> tuple[Surface, Hold]:
    """Return a copy of a surface in system memory, and what holds that memory."""
    name = f"surface {surface.index} ({surface.format} {surface.width}x{surface.height}, memory type "
    name += f"{surface.mem_type.name}, GPU {surface.gpu_id})"
    if surface.layout is not Layout.PITCH or surface.mem_type not in _READABLE:
        raise SurfaceError(
            f"{name} cannot be brought to the host: its layout is {surface.layout.name}, and rows (PITCH) in CUDA's "
            "memory can be; put `nvvideoconvert ! video/x-raw` before this element"
        )
    if surface.mem_type.on_host:  # by the processor, which a wrong address would end
        surface.host_planes()
    keep = surface._lease.hold  # for as long as the copy takes
    found = _format(surface.format, surface.width, surface.height, surface.matrix, surface.full_range)
    planes = [_placed(found, index, plane) for index, plane in enumerate(surface.planes)]
    data = ctypes.c_uint64()
    try:
        memory = call(
            functions().host_copy,
            surface.mem_type,
            surface.gpu_id,
            (_HostPlane * len(planes))(*planes),
            len(planes),
            found.info.size,
            ctypes.byref(data),
        )
    except ContractError as error:
        raise SurfaceError(f"{name} cannot be brought to the host: {error}") from error
    del keep
    hold = Hold(memory)
    return _surface(surface, found, data.value, hold), hold


def _placed(format: FrameFormat, index: int, plane: Plane) -> _HostPlane:
    """Say where a plane of a surface goes in a frame of GStreamer's."""
    shape = format.planes[index]
    return _HostPlane(
        from_address=plane.address,
        to_offset=format.info.offset[index],
        from_pitch=plane.pitch,
        from_row=plane.width * plane.bytes_per_pix,
        from_rows=plane.height,
        to_pitch=format.info.stride[index],
        to_row=shape.row_bytes,
        to_rows=shape.height,
        sample=plane.bytes_per_pix,
    )


def _surface(source: Surface, format: FrameFormat, data: int, hold: Hold) -> Surface:
    numbers: list[int] = []
    for index, shape in enumerate(plane_shapes(format.name, format.width, format.height)):
        numbers += (
            shape.width,
            shape.height,
            format.info.stride[index],
            format.info.offset[index],
            shape.bytes_per_pixel,
        )
    size = format.width, format.height
    fields = (data, format.tag, *size, int(format.color_format), int(Layout.PITCH), format.info.size)
    lease = Lease(MemType.SYSTEM, 0, True, hold)
    return Surface(lease, source.index, (*fields, len(format.planes), *numbers), writable=False)


@functools.lru_cache(maxsize=512)
def _format(name: str, width: int, height: int, matrix: Matrix, full_range: bool) -> FrameFormat:
    """What frames of a format and size are in system memory, with the colours that a surface says exactly."""
    colours = f"{1 if full_range else 2}:{int(matrix)}:0:0"  # range:matrix:transfer:primaries, see GstVideoColorimetry
    caps = f"video/x-raw, format={name}, width={width}, height={height}, framerate=0/1, colorimetry=(string){colours}"
    found = FrameFormat.from_caps(Gst.Caps.from_string(caps))
    return replace(found, matrix=matrix, full_range=full_range, tag=colour_tag(matrix, full_range))
