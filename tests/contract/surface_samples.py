"""Frames with known pixels, in every format, and numpy's own reading of them to compare with."""

import ctypes
import threading
from collections import deque
from typing import ClassVar

import gi
import numpy as np

gi.require_version("Gst", "1.0")
gi.require_version("GstVideo", "1.0")
from gi.repository import Gst, GstVideo

from sluice.contract.formats import FrameFormat, plane_shapes

Gst.init(None)

SIZES = ((64, 48), (33, 17), (1, 1), (31, 2))


def let_die_on_other_threads(hoard):
    """Drop what is in a list, on four threads at once."""

    def drop():
        while hoard:
            try:
                hoard.pop()
            except IndexError:
                return

    threads = [threading.Thread(target=drop) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def frame_format(name, width=33, height=17, extra=""):
    """Return the FrameFormat of a raw format and size."""
    return FrameFormat.from_caps(raw_caps(name, width, height, extra))


def raw_caps(name, width=33, height=17, extra=""):
    """Return fixed raw caps."""
    return Gst.Caps.from_string(f"video/x-raw, format={name}, width={width}, height={height}, framerate=30/1 {extra}")


def random_frame(format, seed=0):
    """Return a buffer of random bytes in GStreamer's default layout, and its planes as numpy reads them."""
    content = np.random.default_rng(seed).integers(0, 256, format.info.size, dtype=np.uint8)
    return Gst.Buffer.new_wrapped(content.tobytes()), read_planes(
        content, format, format.info.offset, format.info.stride
    )


def padded_frame(format, seed=0, padding=13, lead=7):
    """Return the same with a GstVideoMeta: rows padded by an odd number of bytes, planes apart, an offset in front."""
    offsets, strides, end = [0] * 4, [0] * 4, lead
    for index, plane in enumerate(format.planes):
        offsets[index], strides[index] = end, plane.row_bytes + padding
        end += strides[index] * plane.height + 5
    content = np.random.default_rng(seed).integers(0, 256, end, dtype=np.uint8)
    buffer = Gst.Buffer.new_wrapped(content.tobytes())
    add_video_meta(buffer, format, offsets, strides)
    return buffer, read_planes(content, format, offsets, strides)


def scattered_frame(format, seed=0):
    """Return a frame whose planes lie in one GstMemory each, with a GstVideoMeta that says so, and its planes."""
    generator = np.random.default_rng(seed)
    buffer, contents, offsets, strides, end = Gst.Buffer.new(), [], [0] * 4, [0] * 4, 0
    for index, plane in enumerate(format.planes):
        content = generator.integers(0, 256, plane.row_bytes * plane.height, dtype=np.uint8)
        buffer.append_memory(Gst.Buffer.new_wrapped(content.tobytes()).get_all_memory())
        offsets[index], strides[index] = end, plane.row_bytes
        end += content.size
        contents.append(content)
    add_video_meta(buffer, format, offsets, strides)
    return buffer, read_planes(np.concatenate(contents), format, offsets, strides)


def add_video_meta(buffer, format, offsets, strides):
    """Attach a GstVideoMeta with the given layout."""
    GstVideo.buffer_add_video_meta_full(
        buffer,
        GstVideo.VideoFrameFlags.NONE,
        format.info.finfo.format,
        format.width,
        format.height,
        len(format.planes),
        offsets,
        strides,
    )


def read_planes(content, format, offsets, strides):
    """Return copies of the planes, (h, w) or (h, w, bytes), row by row out of the bytes of a buffer."""
    planes = []
    for plane, offset, stride in zip(
        plane_shapes(format.name, format.width, format.height), offsets, strides, strict=False
    ):
        rows = [content[offset + y * stride : offset + y * stride + plane.row_bytes] for y in range(plane.height)]
        array = np.stack(rows)
        planes.append(array if plane.bytes_per_pixel == 1 else array.reshape(plane.height, plane.width, -1))
    return planes


def copy_of(buffer):
    """Return another buffer of the same memory and metas; ``Gst.Buffer.copy()`` is only one more reference."""
    return buffer.copy_region(Gst.BufferCopyFlags.MEMORY | Gst.BufferCopyFlags.META, 0, 2**64 - 1)


def same_planes(surface, planes):
    """Return whether every plane of a surface equals the expected one, in shape and content."""
    return all(np.array_equal(found, wanted) for found, wanted in zip(surface.host_planes(), planes, strict=True))


class PlaneParams(ctypes.Structure):
    """NvBufSurfacePlaneParams, written here from the field table and not taken from the code under test."""

    _fields_ = [("num_planes", ctypes.c_uint32)] + [
        (name, ctypes.c_uint32 * 4) for name in ("width", "height", "pitch", "offset", "psize", "bytesPerPix")
    ]
    _fields_.append(("reserved", ctypes.c_void_p * 16))


class SurfaceParams(ctypes.Structure):
    """NvBufSurfaceParams."""

    _fields_ = [
        ("width", ctypes.c_uint32),
        ("height", ctypes.c_uint32),
        ("pitch", ctypes.c_uint32),
        ("colorFormat", ctypes.c_uint32),
        ("layout", ctypes.c_uint32),
        ("bufferDesc", ctypes.c_uint64),
        ("dataSize", ctypes.c_uint32),
        ("dataPtr", ctypes.c_void_p),
        ("planeParams", PlaneParams),
        ("mappedAddr", ctypes.c_void_p * 11),
        ("paramex", ctypes.c_void_p),
        ("cudaBuffer", ctypes.c_void_p),
        ("reserved", ctypes.c_void_p * 4),
    ]


class NvBufSurface(ctypes.Structure):
    """NvBufSurface."""

    _fields_ = [
        ("gpuId", ctypes.c_uint32),
        ("batchSize", ctypes.c_uint32),
        ("numFilled", ctypes.c_uint32),
        ("isContiguous", ctypes.c_bool),
        ("memType", ctypes.c_uint32),
        ("surfaceList", ctypes.c_void_p),
        ("isImportedBuf", ctypes.c_bool),
        ("reserved", ctypes.c_void_p * 4),
    ]


assert (ctypes.sizeof(NvBufSurface), ctypes.sizeof(SurfaceParams), ctypes.sizeof(PlaneParams)) == (72, 416, 232)


class ForeignBatch:
    """An NvBufSurface of NV12 surfaces as another library would make it; its pixels live until 64 more are made."""

    alive: ClassVar = deque(maxlen=64)

    def __init__(self, count=1, capacity=4, width=64, height=48, mem_type=6, pitch=512, gpu_id=0):
        self.params = (SurfaceParams * capacity)()
        self.pixels = []
        for index in range(count):
            content = np.random.default_rng(index).integers(0, 256, pitch * height * 3 // 2, dtype=np.uint8)
            self.pixels.append(content)
            one = self.params[index]
            one.width, one.height, one.pitch, one.colorFormat = width, height, pitch, 6
            one.dataSize, one.dataPtr = content.size, content.ctypes.data
            planes = one.planeParams
            planes.num_planes = 2
            planes.width[:2], planes.height[:2] = (width, width // 2), (height, height // 2)
            planes.pitch[:2], planes.offset[:2] = (pitch, pitch), (0, pitch * height)
            planes.psize[:2], planes.bytesPerPix[:2] = (pitch * height, pitch * height // 2), (1, 2)
        self.header = NvBufSurface(
            gpuId=gpu_id,
            batchSize=capacity,
            numFilled=count,
            memType=mem_type,
            surfaceList=ctypes.addressof(self.params),
        )

        self.alive.append(self)

    def buffer(self):
        """Return a buffer whose memory holds the struct as it is now."""
        return Gst.Buffer.new_wrapped(bytes(self.header))
