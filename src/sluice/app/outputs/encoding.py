"""Which encoder makes the videos, and the size of the pictures that it is given."""

from __future__ import annotations

from typing import Any

import gi

gi.require_version("Gst", "1.0")
from gi.repository import Gst

from sluice.app.gst import make_element
from sluice.contract.structures import required_structure
from sluice.elements.guard import guarded
from sluice.errors import ConfigurationError

# Video encoders by preference, each with its parser and what to set. All make streams without B-frames, whose
# timestamps stay those of the frames. Quality about that of CRF 23, at the speed of the fastest presets.
ENCODERS: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("x264enc", "h264parse", {"speed_preset": "superfast", "pass": "qual", "quantizer": 23, "bframes": 0}),
    ("nvh264enc", "h264parse", {}),
    ("openh264enc", "h264parse", {"bitrate": 4_000_000}),
    ("avenc_mpeg4", "mpeg4videoparse", {"bitrate": 4_000_000, "max_bframes": 0}),
)
# Encoders refuse smaller pictures, and 4:2:0 ones with an odd side.
_SMALLEST_SIDE = 16


def find_encoder() -> tuple[str, str, dict[str, Any]]:
    """Return the first entry of `ENCODERS` that is installed.

    Raises:
        ConfigurationError: none is, with the command that installs one.
    """
    for entry in ENCODERS:
        if Gst.ElementFactory.find(entry[0]) and Gst.ElementFactory.find(entry[1]):
            return entry
    raise ConfigurationError(
        f"no video encoder is installed (one of {', '.join(name for name, _, _ in ENCODERS)}); "
        "install one with: apt-get install gstreamer1.0-plugins-ugly"
    )


# What live viewing changes: no frame waits in the encoder, and every browser decodes what comes out. The rate is in
# the unit of the property that has it.
_LIVE: dict[str, tuple[dict[str, Any], str, int]] = {
    "x264enc": ({"tune": "zerolatency", "b-adapt": False, "rc-lookahead": 0, "key-int-max": 10_000}, "bitrate", 1000),
    "nvh264enc": ({"zerolatency": True, "bframes": 0}, "bitrate", 1000),
    "openh264enc": ({"complexity": "low"}, "bitrate", 1),
    "avenc_mpeg4": ({}, "bitrate", 1),
}


def live_encoder(bitrate: int | None) -> list[Gst.Element]:
    """Return the encoder of `find_encoder` set for live viewing, what fixes its profile, and its parser.

    Key frames are asked for by time (see `Relay`), so that they come as often whatever the frame rate is.

    Args:
        bitrate: bit/s; None: constant quality.

    Raises:
        ConfigurationError: no encoder is installed.
    """
    name, parser, settings = find_encoder()
    changes, rate_property, unit = _LIVE[name]
    encoder = make_element(name, **settings, **{key.replace("-", "_"): value for key, value in changes.items()})
    if bitrate is not None:
        encoder.set_property(rate_property, max(1, bitrate // unit))
        if name == "x264enc":
            Gst.util_set_object_arg(encoder, "pass", "cbr")
    if parser != "h264parse":
        return [encoder, make_element(parser)]
    # Constrained baseline is what WebRTC asks of every browser.
    profile = make_element("capsfilter", caps=Gst.Caps.from_string("video/x-h264, profile=constrained-baseline"))
    return [encoder, profile, make_element(parser, config_interval=-1)]


class Fit:
    """Elements that give all pictures of a stream the size of its first one, made even; later ones are scaled to it.

    Attributes:
        elements: to be linked behind a converter and in front of an encoder.
    """

    def __init__(self) -> None:
        """Make the elements; `watch` has them follow the stream."""
        scaled, even = make_element("capsfilter"), make_element("capsfilter")
        border = make_element("videobox", border_alpha=0.0)
        self.elements = [make_element("videoscale", add_borders=True), scaled, border, even]

    def watch(self, pad: Gst.Pad) -> None:
        """Fix the size at the first CAPS event that comes to this pad."""
        _, scaled, border, even = self.elements
        pad.add_probe(Gst.PadProbeType.EVENT_DOWNSTREAM, _fit_to_first_size, scaled, border, even)


@guarded(failure=Gst.PadProbeReturn.OK)
def _fit_to_first_size(
    _pad: Gst.Pad, info: Gst.PadProbeInfo, scaled: Gst.Element, border: Gst.Element, even: Gst.Element
) -> Gst.PadProbeReturn:
    """Fix the file's size at the first CAPS event; a probe function."""
    event = info.get_event()
    if event.type != Gst.EventType.CAPS or not scaled.get_property("caps").is_any():
        return Gst.PadProbeReturn.OK
    picture = required_structure(event.parse_caps(), 0)
    width, height = picture.get_value("width"), picture.get_value("height")
    given, numerator, denominator = picture.get_fraction("pixel-aspect-ratio")
    # Named even where the caps leave it out: the scaler would change it rather than add borders, and a file has one.
    shape = f"pixel-aspect-ratio={numerator}/{denominator}" if given else "pixel-aspect-ratio=1/1"
    scaled.set_property("caps", Gst.Caps.from_string(f"video/x-raw, width={width}, height={height}, {shape}"))
    out_width, out_height = (max(side + side % 2, _SMALLEST_SIDE) for side in (width, height))
    border.set_property("right", width - out_width)
    border.set_property("bottom", height - out_height)
    size = f"width={out_width}, height={out_height}"
    even.set_property("caps", Gst.Caps.from_string(f"video/x-raw, format=I420, {size}"))
    return Gst.PadProbeReturn.OK
