"""Elements in the place of decoders on a GPU: frames in the host's memory that say to be in a GPU's."""

from __future__ import annotations

from collections import deque
from typing import ClassVar

import cv2
import gi
import numpy as np

gi.require_version("Gst", "1.0")
gi.require_version("GstBase", "1.0")
gi.require_version("GstVideo", "1.0")
from gi.repository import GObject, Gst, GstBase, GstVideo
from surface_samples import ForeignBatch

import sluice.elements
from sluice.contract.formats import MemType
from sluice.contract.structures import required_structure

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
                required_structure(caps, index), Gst.CapsFeatures.from_string(feature) if feature else None
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


def nvmm_of(luma, chroma, gpu_id=0):
    """An NvBufSurface with one NV12 surface, BT.709, whose rows are wide."""
    height, width = luma.shape
    pitch = (width + 255) // 256 * 256
    surface = ForeignBatch(1, 1, width, height, MemType.CUDA_DEVICE, pitch, gpu_id)
    surface.params[0].colorFormat = 33  # NV12_709
    rows = surface.pixels[0].reshape(-1, pitch)
    rows[:height, :width], rows[height:, :width] = luma, chroma
    return surface


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
        pixels = np.frombuffer(incoming.extract_dup(0, incoming.get_size()), np.uint8)
        sizes = info.height, info.height // 2
        planes = [pixels[info.offset[i] :][: info.stride[i] * sizes[i]].reshape(sizes[i], -1) for i in (0, 1)]
        surface = nvmm_of(*(plane[:, : info.width] for plane in planes), self.gpu_id)
        self._kept.append(surface)
        outgoing.fill(0, bytes(surface.header))
        return Gst.FlowReturn.OK


class _Decoder(_Lying):
    """Decodes JPEG pictures into NV12; ``features`` are what it can give, as it prefers where it has the choice."""

    features: ClassVar = ()

    def __init__(self):
        super().__init__()
        self._caps = None
        self._kept = deque(maxlen=64)
        self._asking = False

    def _chosen(self):
        """What is given: what follows is asked, as GStreamer's decoders do, which may offer CUDA memory."""
        if self._asking or len(self.features) == 1:
            return self.features
        self._asking = True
        allowed = self.srcpad.get_allowed_caps()
        self._asking = False
        found = range(0 if allowed is None or allowed.is_any() else allowed.get_size())
        if any(allowed.get_features(index).contains("memory:CUDAMemory") for index in found):
            return self.features[1:]
        return self.features[:1]

    def do_transform_caps(self, direction, caps, restriction):
        made = Gst.Caps.new_empty()
        for index in range(caps.get_size()):
            given = required_structure(caps, index)
            to_raw = direction == Gst.PadDirection.SINK
            for feature in (self._chosen() if caps.is_fixed() else self.features) if to_raw else ("",):
                structure = Gst.Structure.new_empty("video/x-raw" if to_raw else "image/jpeg")
                for name in ("width", "height", "framerate"):
                    if given.has_field(name):
                        structure.set_value(name, given.get_value(name))
                if to_raw:
                    structure.set_value("format", "NV12")
                made.append_structure_full(structure, Gst.CapsFeatures.from_string(feature) if feature else None)
        return made if restriction is None else restriction.intersect_full(made, Gst.CapsIntersectMode.FIRST)

    def do_set_caps(self, _incoming, outgoing):
        self._caps = outgoing
        return True

    def do_transform_size(self, _direction, _caps, _size, other):
        width = required_structure(other, 0).get_int("width")[1]
        height = required_structure(other, 0).get_int("height")[1]
        return True, 72 if other.get_features(0).contains("memory:NVMM") else width * height * 3 // 2

    def do_transform(self, incoming, outgoing):
        picture = cv2.imdecode(np.frombuffer(incoming.extract_dup(0, incoming.get_size()), np.uint8), cv2.IMREAD_COLOR)
        height, width = picture.shape[:2]
        flat = cv2.cvtColor(picture, cv2.COLOR_BGR2YUV_I420).reshape(-1)
        luma, chroma = flat[: width * height].reshape(height, width), flat[width * height :].reshape(2, -1)
        chroma = np.ascontiguousarray(chroma.T).reshape(height // 2, width)
        if self._caps.get_features(0).contains("memory:NVMM"):
            surface = nvmm_of(luma, chroma)
            self._kept.append(surface)
            outgoing.fill(0, bytes(surface.header))
        else:
            outgoing.fill(0, luma.tobytes() + chroma.tobytes())
        return Gst.FlowReturn.OK


def decoder_templates(*sources):
    return (
        Gst.PadTemplate.new("sink", Gst.PadDirection.SINK, Gst.PadPresence.ALWAYS, Gst.Caps.from_string("image/jpeg")),
        Gst.PadTemplate.new(
            "src", Gst.PadDirection.SRC, Gst.PadPresence.ALWAYS, Gst.Caps.from_string("; ".join(sources))
        ),
    )


class CudaDecoder(_Decoder):
    """As nvh264dec: CUDA memory where what follows asks for it, else system memory."""

    __gstmetadata__ = ("CUDA decoder", "Codec/Decoder/Video/Hardware", "decodes", "tests")
    __gsttemplates__ = decoder_templates("video/x-raw(memory:CUDAMemory), format=NV12", "video/x-raw, format=NV12")
    features = ("", "memory:CUDAMemory")


class NvmmDecoder(_Decoder):
    """As nvv4l2decoder: NVMM and nothing else."""

    __gstmetadata__ = ("NVMM decoder", "Codec/Decoder/Video/Hardware", "decodes", "tests")
    __gsttemplates__ = decoder_templates("video/x-raw(memory:NVMM), format=NV12")
    features = ("memory:NVMM",)
    asked_for: ClassVar = []
    num_extra_surfaces = GObject.Property(
        type=int, default=0, nick="num-extra-surfaces", setter=lambda self, value: self.asked_for.append(value)
    )


for _name, _class in (
    ("tocuda", ToCuda),
    ("tonvmm", ToNvmm),
    ("nvstandincuda", CudaDecoder),
    ("nvstandinnvmm", NvmmDecoder),
):
    GObject.type_register(_class)
    Gst.Element.register(None, _name, Gst.Rank.NONE, _class)
