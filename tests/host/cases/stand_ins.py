"""Elements in the place of decoders on a GPU: frames in the host's memory that say to be in a GPU's."""

from __future__ import annotations

from collections import deque

import gi

gi.require_version("Gst", "1.0")
gi.require_version("GstBase", "1.0")
gi.require_version("GstVideo", "1.0")
from gi.repository import GObject, Gst, GstBase, GstVideo
from surface_samples import ForeignBatch

import sluice.elements
from sluice.contract.formats import MemType

Gst.init(None)
sluice.elements.register_all()


def templates(feature):
    return (
        Gst.PadTemplate.new("sink", Gst.PadDirection.SINK, Gst.PadPresence.ALWAYS, Gst.Caps.from_string("video/x-raw")),
        Gst.PadTemplate.new(
            "src", Gst.PadDirection.SRC, Gst.PadPresence.ALWAYS, Gst.Caps.from_string(f"video/x-raw({feature})")
        ),
    )


class _Lying(GstBase.BaseTransform):
    feature = ""

    def do_transform_caps(self, direction, caps, restriction):
        made = Gst.Caps.new_empty()
        for index in range(caps.get_size()):
            feature = self.feature if direction == Gst.PadDirection.SINK else ""
            made.append_structure_full(
                caps.get_structure(index).copy(), Gst.CapsFeatures.from_string(feature) if feature else None
            )
        return made if restriction is None else restriction.intersect_full(made, Gst.CapsIntersectMode.FIRST)


class ToCuda(_Lying):
    """Passes frames on as memory:CUDAMemory."""

    __gstmetadata__ = ("to CUDA", "Test", "says CUDAMemory", "tests")
    __gsttemplates__ = templates("memory:CUDAMemory")
    feature = "memory:CUDAMemory"

    def __init__(self):
        super().__init__()
        self.set_passthrough(True)

    def do_transform_ip(self, buffer):
        return Gst.FlowReturn.OK


class ToNvmm(_Lying):
    """Puts NV12 frames into NvBufSurfaces of one surface with wide rows, as memory:NVMM."""

    __gstmetadata__ = ("to NVMM", "Test", "makes NvBufSurfaces", "tests")
    __gsttemplates__ = templates("memory:NVMM")
    feature = "memory:NVMM"
    gpu_id = GObject.Property(type=int, default=0)

    def __init__(self):
        super().__init__()
        self._info = None
        self._kept = deque(maxlen=64)

    def do_set_caps(self, incoming, _outgoing):
        self._info = GstVideo.VideoInfo.new_from_caps(incoming)
        assert self._info.finfo.name == "NV12"
        return True

    def do_transform_size(self, _direction, _caps, _size, _other):
        return True, 72

    def do_transform(self, incoming, outgoing):
        info = self._info
        pitch = (info.width + 255) // 256 * 256
        surface = ForeignBatch(1, 1, info.width, info.height, MemType.CUDA_DEVICE, pitch, self.gpu_id)
        surface.params[0].colorFormat = 33  # NV12_709
        rows = surface.pixels[0].reshape(-1, pitch)
        found, mapped = incoming.map(Gst.MapFlags.READ)
        assert found
        for plane, first in ((0, 0), (1, info.height)):
            for row in range(info.height // (plane + 1)):
                start = info.offset[plane] + row * info.stride[plane]
                rows[first + row, : info.width] = bytearray(mapped.data[start : start + info.width])
        incoming.unmap(mapped)
        self._kept.append(surface)
        outgoing.fill(0, bytes(surface.header))
        return Gst.FlowReturn.OK


for _name, _class in (("tocuda", ToCuda), ("tonvmm", ToNvmm)):
    GObject.type_register(_class)
    Gst.Element.register(None, _name, Gst.Rank.NONE, _class)
