"""The part of a stream's picture that the model is given, and what is done where the picture has nothing of it."""

from __future__ import annotations

import gi

gi.require_version("Gst", "1.0")
from gi.repository import Gst

from sluice.contract.structures import required_structure
from sluice.elements import events
from sluice.elements.guard import guarded

Region = tuple[int, int, int, int]
"""x, y, width and height in pixels."""


def outside(region: Region | None, size: tuple[int, int]) -> str:
    """Return why pictures of a size have nothing of a region; "" where they have, or nothing is known of them."""
    if region is None or not all(size):
        return ""
    from sluice.models.crops import region_of  # what the element asks too

    if region_of(region, size) is not None:
        return ""
    return f"the region {', '.join(map(str, region))} lies outside its picture of {size[0]}x{size[1]}"


def region_event(number: int, region: Region | None) -> Gst.Event:
    """Return the event by which a model is given a region of a stream only (None: the whole picture)."""
    sides = {} if region is None else dict(zip(("left_0", "top_0", "width_0", "height_0"), region, strict=True))
    return events.control_event(events.ROI_UPDATE, stream_id=str(number), roi__count=int(region is not None), **sides)


class RegionTeller:
    """Names the region to the model, in its place between the frames: before the first, and where their size changes.

    A region that reaches over the picture's edge is cut there by the model's element. One that lies outside would end
    the run, of all streams: of such a stream the model is given the whole picture.

    Attributes:
        fault: why the model is given the whole picture in place of the region; "" where it is not.
    """

    def __init__(self, pad: Gst.Pad, number: int, region: Region | None) -> None:
        """Tell at the last source pad in front of the mux, for the stream of a number."""
        self.fault = ""
        self._number = number
        self._region = region
        pad.add_probe(Gst.PadProbeType.EVENT_DOWNSTREAM, _heed, self)  # the pad holds this, which holds no pad

    def change(self, pad: Gst.Pad, region: Region | None) -> None:
        """Have the model be given another region, or the whole picture, from the next frame on; may wait."""
        self._region = region
        self._tell(pad, size_at(pad))

    def heed(self, pad: Gst.Pad, event: Gst.Event) -> None:
        """Tell where the pictures' size may be another from here on; of a stream without a region there is no need."""
        if self._region is None:
            return
        if event.type == Gst.EventType.SEGMENT:
            self._tell(pad, size_at(pad))
        elif event.type == Gst.EventType.CAPS and pad.get_sticky_event(Gst.EventType.SEGMENT, 0) is not None:
            self._tell(pad, _size_in(event.parse_caps()))  # without a segment so far, one follows

    def _tell(self, pad: Gst.Pad, size: tuple[int, int]) -> None:
        region = self._region
        self.fault = outside(region, size)
        pad.push_event(region_event(self._number, None if self.fault else region))


def size_at(pad: Gst.Pad) -> tuple[int, int]:
    """Return width and height of the pictures that pass a pad; zeros before they are known."""
    caps = pad.get_current_caps()
    return (0, 0) if caps is None else _size_in(caps)


def _size_in(caps: Gst.Caps) -> tuple[int, int]:
    structure = required_structure(caps, 0)
    return structure.get_int("width")[1], structure.get_int("height")[1]


@guarded(failure=Gst.PadProbeReturn.OK)
def _heed(pad: Gst.Pad, info: Gst.PadProbeInfo, teller: RegionTeller) -> Gst.PadProbeReturn:
    teller.heed(pad, info.get_event())
    return Gst.PadProbeReturn.OK
