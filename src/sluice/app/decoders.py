"""Which decoder opens a stream: in software, by VA-API or by NVDEC, or what GStreamer ranks highest."""

from __future__ import annotations

from typing import Any

import gi

gi.require_version("Gst", "1.0")
from gi.repository import Gst

from sluice.app.streams.policy import Decoder
from sluice.contract import gstref
from sluice.contract.batching import CUDA_FEATURE
from sluice.elements import events
from sluice.elements.frame_caps import RAW_FORMATS
from sluice.elements.guard import guarded
from sluice.errors import ConfigurationError

# What "autoplug-select" of uridecodebin is answered (GstAutoplugSelectResult, which is not introspected).
TRY, EXPOSE, SKIP = 0, 1, 2
# DeepStream's decoder waits where its surfaces are all in queues, batches and under inference; see docs/gpu.md.
_SURFACES, _MORE_SURFACES = "num-extra-surfaces", 16
# What a decoder of GStreamer's that has CUDA memory is told that follows: it chooses its output before anything is
# linked to it, and would take system memory.
_CUDA_FIRST = f"video/x-raw({CUDA_FEATURE}), format={RAW_FORMATS}; video/x-raw"
_PACKAGES = {
    "vaapi": "gstreamer1.0-plugins-bad (va) or gstreamer1.0-vaapi, and a driver: `vainfo` shows it",
    "nvdec": "gstreamer1.0-plugins-bad (nvcodec) or DeepStream, and NVIDIA's driver",
    "software": "gstreamer1.0-libav",
}


def family(factory: str, klass: str) -> str:
    """Return what a decoding element works with: "software", "vaapi", "nvdec" or "other".

    Args:
        factory: the element's name, such as "avdec_h264".
        klass: its class as GStreamer's metadata says, such as "Codec/Decoder/Video/Hardware".
    """
    if factory.startswith("va"):  # vah264dec of the va plugin, vaapih264dec of the older one
        return "vaapi" if factory.startswith("vaapi") or "Hardware" in klass else "software"
    if factory.startswith("nv"):  # nvh264dec of nvcodec, nvv4l2decoder of DeepStream
        return "nvdec"
    return "other" if "Hardware" in klass else "software"


def is_video_decoder(klass: str) -> bool:
    """Whether a class names a decoder of video or of still pictures."""
    return "Decoder" in klass and ("Video" in klass or "Image" in klass)


def refuses(factory: Gst.ElementFactory, wanted: Decoder) -> bool:
    """Whether a decoder of video is not of the family wanted."""
    klass = factory.get_metadata("klass") or ""
    return is_video_decoder(klass) and family(factory.get_name(), klass) != wanted


def keep_on_gpu(decoder: Gst.Element, *, asked: bool) -> None:
    """Prepare a decoder of video for frames that stay in GPU memory.

    Args:
        decoder: one that works on the GPU.
        asked: whether one on the GPU was asked for, so that streams are not of both kinds.
    """
    if decoder.find_property(_SURFACES) is not None:
        decoder.set_property(_SURFACES, _MORE_SURFACES)
    pad = decoder.get_static_pad("src")
    if asked and pad is not None and _makes_cuda(pad):
        pad.add_probe(Gst.PadProbeType.QUERY_DOWNSTREAM | Gst.PadProbeType.PUSH, _prefer_cuda)


def _makes_cuda(pad: Gst.Pad) -> bool:
    caps = pad.get_pad_template_caps()
    return any(caps.get_features(index).contains(CUDA_FEATURE) for index in range(caps.get_size()))


@guarded(failure=Gst.PadProbeReturn.OK)
def _prefer_cuda(_pad: Gst.Pad, info: Gst.PadProbeInfo) -> Gst.PadProbeReturn:
    """Answer what follows a decoder, a probe function: CUDA memory before the host's."""
    query = info.get_query()
    if query.type != Gst.QueryType.CAPS:
        return Gst.PadProbeReturn.OK
    wanted, taken = query.parse_caps(), Gst.Caps.from_string(_CUDA_FIRST)
    if wanted is not None:
        taken = taken.intersect_full(wanted, Gst.CapsIntersectMode.FIRST)
    address = gstref.address(query)
    del query
    events.answer_caps_address(address, taken)
    return Gst.PadProbeReturn.HANDLED


def check_available(wanted: Decoder) -> None:
    """Refuse a family of which nothing is installed.

    Raises:
        ConfigurationError: with what to install.
    """
    if wanted == "auto" or wanted in installed():
        return
    raise ConfigurationError(f"decoder={wanted}: no such decoder works here; it needs {_PACKAGES[wanted]}")


def installed() -> set[str]:
    """Return the families of which there are decoders of video."""
    kinds: Any = Gst.ELEMENT_FACTORY_TYPE_DECODER | Gst.ELEMENT_FACTORY_TYPE_MEDIA_VIDEO
    factories = Gst.ElementFactory.list_get_elements(kinds, Gst.Rank.MARGINAL)
    return {family(factory.get_name(), factory.get_metadata("klass") or "") for factory in factories}
