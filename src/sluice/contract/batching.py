"""Batches: many frames in one ``Gst.Buffer``, whose memory is an NvBufSurface and owns the frames it points to.

Nothing is copied. The frames of a batch live until the last holder of its memory is gone, in whatever buffer the memory
has been moved to, and are then unmapped and released from C on whichever thread that happens. Host batches travel under
the caps feature ``memory:SluiceSurface``; a batch of NvBufSurfaces stays ``memory:NVMM``.
"""

from collections.abc import Sequence
from typing import Any

import gi

gi.require_version("Gst", "1.0")
from gi.repository import Gst

from sluice.contract._pixels import RawFrameStruct, call, functions
from sluice.contract.formats import DEEP_FORMATS, FORMATS, FrameFormat
from sluice.contract.gstref import buffer_address, take
from sluice.errors import ContractError

SURFACE_FEATURE = "memory:SluiceSurface"
NVMM_FEATURE = "memory:NVMM"
CUDA_FEATURE = "memory:CUDAMemory"
MAX_CAPACITY = 1024
"""The largest ``batch-size`` that ``nvstreammux`` takes."""


def make_batch(frames: Sequence[tuple[Gst.Buffer, Any]], capacity: int) -> Gst.Buffer:
    """Return a new buffer whose only memory is the batch of the given frames, in their order.

    Args:
        frames: (buffer, format) pairs. The format is a `FrameFormat` (cheapest: made once per CAPS event), a
            ``GstVideo.VideoInfo`` (system memory), or None for a buffer that maps to an NvBufSurface already (NVMM, or
            a batch): its surfaces are taken over as they are. The kinds do not mix in one batch.
        capacity: ``batchSize`` of the batch; the frames fill the first places.

    The batch has no timestamps; those and its metadata are the caller's. Each incoming buffer is referenced by the
    batch's memory, raw ones also stay mapped for reading. A frame whose planes are not in one allocation is copied,
    and counted in `sluice.contract.counters`.

    Raises:
        ContractError: too many frames, kinds mixed, or a frame that is not what its format says, by its index.
    """
    if not 1 <= capacity <= MAX_CAPACITY or len(frames) > capacity:
        raise ContractError(
            f"{len(frames)} frames do not make a batch of capacity {capacity}; "
            f"the capacity is 1 to {MAX_CAPACITY} and at least the number of frames"
        )
    # Kept until the call is over: C reads their infos.
    formats = [None if format is None else FrameFormat.of(format) for _, format in frames]
    structs = (RawFrameStruct * max(len(frames), 1))(
        *(frame_struct(buffer, format) for (buffer, _), format in zip(frames, formats, strict=True))
    )
    batch = Gst.Buffer.new()
    call(functions().batch_frames, buffer_address(batch), structs, len(frames), capacity)
    return batch


def raw_struct(buffer: Gst.Buffer, format: FrameFormat) -> RawFrameStruct:
    """Return the C description of one raw frame; it holds addresses, so buffer and format must outlive its use."""
    return raw_struct_at(buffer_address(buffer), format)


def raw_struct_at(buffer: int, format: FrameFormat) -> RawFrameStruct:
    """`raw_struct` for the buffer at an address."""
    return RawFrameStruct(buffer, format.address, format.tag, format.color_format, format.on_cuda)


def frame_struct(buffer: Gst.Buffer, format: FrameFormat | None) -> RawFrameStruct:
    """Return the C description of one frame, which is an NvBufSurface where it has no format; see `raw_struct`."""
    return RawFrameStruct(buffer_address(buffer)) if format is None else raw_struct(buffer, format)


def original_buffer(batch: Gst.Buffer, index: int) -> Gst.Buffer:
    """Return the very buffer that surface `index` of a batch came in with (or its copy, where the frame was drawn on).

    Raises:
        ContractError: the buffer is not a batch made here, or has no such surface.
    """
    found = functions().batch_original(buffer_address(batch), index) if index >= 0 else None
    if found is None:
        raise ContractError(
            f"there is no buffer for surface {index}: the batch was not made by sluicemux, or has fewer surfaces"
        )
    return take(found)


def frame_buffer(batch: Gst.Buffer, index: int) -> Gst.Buffer:
    """Return a buffer with the pixels of surface `index` of a batch and no others, whoever made the batch.

    That is the very buffer the surface came in with, where it came alone into a batch made here. Of other batches it is
    a new buffer with a batch of one, which shares the pixels and has the batch's times and no metadata. It holds the
    batch of another library, so that its pixels are not given out anew.

    Raises:
        ContractError: the buffer is not a batch of surfaces, or has no such valid surface.
    """
    if index < 0:
        raise ContractError(f"surface {index} is in no batch; they are counted from 0")
    return take(call(functions().batch_frame, buffer_address(batch), index))


def surface_caps(batch_size: int, framerate: tuple[int, int] = (0, 1)) -> Gst.Caps:
    """Return the caps of host batches: a batch size and no format, since each surface has its own."""
    rate = f"{framerate[0]}/{framerate[1]}"
    return Gst.Caps.from_string(
        f"video/x-raw({SURFACE_FEATURE}), batch-size=(int){batch_size}, framerate=(fraction){rate}"
    )


def nvmm_caps(
    format: str,
    width: int,
    height: int,
    batch_size: int,
    framerate: tuple[int, int] = (0, 1),
    *,
    memory_type: str | None = None,
    gpu_id: int = 0,
) -> Gst.Caps:
    """Return the caps of batches in NvBufSurfaces of one format, as ``nvstreammux`` sends them.

    Args:
        format: GStreamer's format name.
        width: of the surfaces when the mux scales, else of the first stream's.
        height: see width.
        batch_size: the capacity.
        framerate: of the first stream.
        memory_type: ``nvbuf-memory-type``, such as "nvbuf-mem-system" or "nvbuf-mem-cuda-device"; None leaves it out.
        gpu_id: ``gpu-id``.
    """
    kind = f", nvbuf-memory-type=(string){memory_type}" if memory_type else ""
    return Gst.Caps.from_string(
        f"video/x-raw({NVMM_FEATURE}), format=(string){format}, width=(int){width}, height=(int){height}, "
        f"framerate=(fraction){framerate[0]}/{framerate[1]}, batch-size=(int){batch_size}, "
        f"num-surfaces-per-frame=(int)1, gpu-id=(int){gpu_id}{kind}"
    )


def raw_caps_template() -> Gst.Caps:
    """Return the caps of single frames that can be batched: the raw formats in system and in CUDA memory."""
    formats, device = ", ".join(FORMATS), ", ".join((*FORMATS, *DEEP_FORMATS))
    return Gst.Caps.from_string(
        f"video/x-raw, format=(string){{ {formats} }}; video/x-raw({CUDA_FEATURE}), format=(string){{ {device} }}"
    )


def memory_feature(caps: Gst.Caps) -> str:
    """Return which memory caps name: `SURFACE_FEATURE`, `NVMM_FEATURE`, `CUDA_FEATURE` or "memory:SystemMemory".

    Raises:
        ContractError: none of these.
    """
    features = caps.get_features(0)
    for feature in (SURFACE_FEATURE, NVMM_FEATURE, CUDA_FEATURE, "memory:SystemMemory"):
        if features.contains(feature):
            return feature
    raise ContractError(
        f"video in {features.to_string()} cannot be read; system memory, {CUDA_FEATURE}, {NVMM_FEATURE} and "
        f"{SURFACE_FEATURE} can"
    )
