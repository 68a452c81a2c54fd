"""Descriptions of surfaces as another library may have made them: bytes in the place of NvBufSurface's structs."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Iterable

import numpy as np
from readers import refusal

from contract.surface_samples import ForeignBatch, Gst, NvBufSurface, SurfaceParams
from sluice.contract.formats import ColorFormat
from sluice.contract.surface import Surface, SurfaceBatch
from sluice.models.frame import Frame
from sluice.models.preprocess import Preprocessing, Preprocessor
from targets import Target

PIXELS = np.arange(1 << 18, dtype=np.uint32).view(np.uint8)
CAPACITY = 2
STRUCTS = ctypes.sizeof(NvBufSurface) + CAPACITY * ctypes.sizeof(SurfaceParams)
CAPS = Gst.Caps.from_string("video/x-raw(memory:NVMM),format=NV12,width=64,height=48,batch-size=2")
LARGEST = 1 << 16  # pixels of a picture that is converted
Params = SurfaceParams * CAPACITY


def describe(content: bytes) -> tuple[Gst.Buffer, Iterable[SurfaceParams]]:
    """Return a buffer of the described batch, whose pointers are true, and what must live as long."""
    content = content.ljust(STRUCTS, b"\0")
    header = NvBufSurface.from_buffer_copy(content)
    params = Params.from_buffer_copy(content, ctypes.sizeof(NvBufSurface))
    header.batchSize = min(header.batchSize, CAPACITY)
    header.surfaceList = ctypes.addressof(params)
    for one in params:
        # A size that is not told, or too large, is one that nobody can see through.
        one.dataPtr, one.dataSize = PIXELS.ctypes.data, min(one.dataSize or PIXELS.size, PIXELS.size)
    return Gst.Buffer.new_wrapped(bytes(header)), params


def look_at_all(batch: SurfaceBatch, params: Iterable[SurfaceParams]) -> None:
    """Read all surfaces of a batch."""
    for surface, one in zip(batch, params, strict=False):
        look_at(surface, one.dataSize)


def look_at(surface: Surface, size: int) -> None:
    """Read all pixels of a surface, each of which must lie in its memory."""
    for index in range(len(surface.planes)):
        plane = surface.host_plane(index)
        start = plane.ctypes.data - PIXELS.ctypes.data
        assert start >= 0
        assert start + sum((n - 1) * step for n, step in zip(plane.shape, plane.strides, strict=True)) < size
        assert np.array_equal(np.from_dlpack(surface.dlpack(index)), plane)
    if surface.width * surface.height <= LARGEST:
        assert Frame(surface, stream=0, number=0, pts=None).rgb().shape == (surface.height, surface.width, 3)
        network().write(0, surface)


@functools.cache
def network() -> Preprocessor:
    return Preprocessor(Preprocessing(24, 20), 1)


def read(content: bytes) -> None:
    """Read a batch as an element does, with caps and without."""
    buffer, params = describe(content)
    for caps in (None, CAPS):
        assert refusal(lambda caps=caps: look_at_all(SurfaceBatch.of(buffer, caps), params)) != ""


def seed(**fields: int) -> bytes:
    """Return the structs of a good batch, with other values of its surfaces."""
    batch = ForeignBatch(CAPACITY, CAPACITY)
    for one in batch.params:
        for name, value in fields.items():
            setattr(one, name, value)
    return bytes(batch.header) + bytes(batch.params)


TARGETS = {
    "surfaces": Target(read, (seed(), seed(width=63, height=47), seed(colorFormat=ColorFormat.NV12_709), b"")),
}
