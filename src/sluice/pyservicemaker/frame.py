"""Buffers of one frame made of pixels that a program has: what `Tensor.wrap` returns."""

import ctypes
from typing import Any

import gi

gi.require_version("Gst", "1.0")
from gi.repository import Gst

from sluice.contract.batching import make_batch
from sluice.contract.formats import FrameFormat, MemType
from sluice.contract.gstref import buffer_address
from sluice.contract.layout import layout
from sluice.pyservicemaker.dlpack import Memory, drop_function, hold

_gst = ctypes.CDLL("libgstreamer-1.0.so.0")
_gst.gst_memory_new_wrapped.restype = ctypes.c_void_p
_gst.gst_memory_new_wrapped.argtypes = [ctypes.c_int, ctypes.c_void_p, *[ctypes.c_size_t] * 3, *[ctypes.c_void_p] * 2]
_gst.gst_buffer_append_memory.restype = None
_gst.gst_buffer_append_memory.argtypes = [ctypes.c_void_p, ctypes.c_void_p]


def host_frame(pixels: Any, name: str) -> Gst.Buffer:
    """Return a batch of one frame in host memory, a copy of the pixels.

    Args:
        pixels: uint8 (height, width, channels), packed.
        name: GStreamer's name of the format.
    """
    height, width, channels = pixels.shape
    stride = -(-width * channels // 4) * 4  # GStreamer's own stride of packed RGB
    rows = bytearray(stride * height)
    for row in range(height):
        rows[row * stride : row * stride + width * channels] = pixels[row].tobytes()
    caps = Gst.Caps.from_string(f"video/x-raw, format={name}, width={width}, height={height}, framerate=0/1")
    return make_batch([(Gst.Buffer.new_wrapped(bytes(rows)), FrameFormat.from_caps(caps))], 1)


def cuda_frame(memory: Memory, color_format: int) -> Gst.Buffer:
    """Return a buffer whose memory is an NvBufSurface over packed pixels (height, width, channels) of a GPU.

    The buffer's memory keeps the pixels alive until it is freed, on any thread.
    """
    height, width, channels = memory.shape
    table = layout()
    surface, params = table.struct("NvBufSurface"), table.struct("NvBufSurfaceParams")
    block = ctypes.create_string_buffer(surface.size + params.size)
    start = ctypes.addressof(block)

    def put(base: int, struct: Any, values: dict[str, int]) -> None:
        for path, value in values.items():
            struct.ctype(path).from_address(base + struct.offset(path)).value = value

    pitch = width * channels
    put(
        start,
        surface,
        {
            "gpuId": memory.device[1],
            "batchSize": 1,
            "numFilled": 1,
            "memType": int(MemType.CUDA_DEVICE),
            "surfaceList": start + surface.size,
        },
    )
    plane = {"width": width, "height": height, "pitch": pitch, "psize": pitch * height, "bytesPerPix": channels}
    put(
        start + surface.size,
        params,
        {
            "width": width,
            "height": height,
            "pitch": pitch,
            "colorFormat": color_format,
            "dataSize": pitch * height,
            "dataPtr": memory.address,
            "planeParams.num_planes": 1,
            **{f"planeParams.{name}": value for name, value in plane.items()},
        },
    )
    buffer = Gst.Buffer.new()
    kept = hold((block, memory))
    made = _gst.gst_memory_new_wrapped(0, start, surface.size, 0, surface.size, kept, drop_function())
    _gst.gst_buffer_append_memory(buffer_address(buffer), made)
    return buffer
