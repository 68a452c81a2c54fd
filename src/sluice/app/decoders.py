"""Which decoder opens a stream: in software, by VA-API or by NVDEC, or what GStreamer ranks highest."""

from __future__ import annotations

from typing import Any

import gi

gi.require_version("Gst", "1.0")
from gi.repository import Gst

from sluice.app.streams.policy import Decoder
from sluice.errors import ConfigurationError

# What "autoplug-select" of uridecodebin is answered (GstAutoplugSelectResult, which is not introspected).
TRY, EXPOSE, SKIP = 0, 1, 2
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
