"""Pictures turned upright as their container says, and those that are upright already left alone."""

from __future__ import annotations

import gi

gi.require_version("Gst", "1.0")
gi.require_version("GstBase", "1.0")
from gi.repository import Gst, GstBase

from sluice.app.gst import make_element
from sluice.elements.guard import guarded

_UPRIGHT = "rotate-0"


def make_upright() -> Gst.Element:
    """Return an element that turns and mirrors pictures as the stream's image-orientation tag says.

    It is a videoflip, which in GStreamer 1.22 copies each picture that needs no turning (0.7 ms of a core for one of
    1080p, and as much again where the decoder then has to copy what it keeps). Passthrough ends with the first tag that
    asks for something, before the videoflip sees it.
    """
    flip = make_element("videoflip", video_direction="auto")
    GstBase.BaseTransform.set_passthrough(flip, True)
    flip.get_static_pad("sink").add_probe(Gst.PadProbeType.EVENT_DOWNSTREAM, _heed_tag)
    return flip


@guarded(failure=Gst.PadProbeReturn.OK)
def _heed_tag(pad: Gst.Pad, info: Gst.PadProbeInfo) -> Gst.PadProbeReturn:
    event = info.get_event()
    if event.type == Gst.EventType.TAG:
        told, orientation = event.parse_tag().get_string(Gst.TAG_IMAGE_ORIENTATION)
        if told:
            GstBase.BaseTransform.set_passthrough(pad.get_parent_element(), orientation == _UPRIGHT)
    return Gst.PadProbeReturn.OK
