"""``sluiceanalyticsbridge``: between Sluice's metadata and GStreamer's own analytics metadata (GstAnalytics).

``to-gst`` writes the objects of a frame beside themselves, so that elements such as objectdetectionoverlay work behind
Sluice. ``from-gst`` reads what other people's elements found into objects, so that Sluice's elements work behind them.
GStreamer has such metadata from 1.24 on; where it has not, the element is there and refuses to start.

Imports gi and the standard library only; GstAnalytics, numpy and the contract are imported at NULL→READY.
"""

from typing import TYPE_CHECKING

import gi

gi.require_version("Gst", "1.0")
from gi.repository import GObject, Gst

from sluice.elements import events
from sluice.elements.base import InPlaceElement
from sluice.elements.frame_caps import ANY_FRAMES, pad_template
from sluice.errors import ConfigurationError

if TYPE_CHECKING:
    from sluice.elements.analyticsbridge_frames import FromGst, ToGst

DIRECTIONS = ("to-gst", "from-gst")


class SluiceAnalyticsBridge(InPlaceElement):
    """The element; see ``gst-inspect-1.0 sluiceanalyticsbridge`` for its properties.

    ``to-gst`` takes single frames: those of sluicedemux, or of sluiceinfer without a mux. ``from-gst`` takes single
    frames and batches of sluicemux, and marks every frame as seen by a model.
    """

    __gtype_name__ = "SluiceAnalyticsBridge"
    __gstmetadata__ = (
        "Sluice bridge to GStreamer's analytics metadata",
        "Filter/Metadata",
        "Writes objects as GStreamer's analytics metadata, or reads those into objects",
        "The Sluice developers",
    )
    __gsttemplates__ = (
        pad_template("sink", Gst.PadDirection.SINK, ANY_FRAMES),
        pad_template("src", Gst.PadDirection.SRC, ANY_FRAMES),
    )

    direction = GObject.Property(
        type=str,
        default="to-gst",
        blurb="to-gst: write GStreamer's metadata beside Sluice's; from-gst: read them into Sluice's",
    )
    unique_id = GObject.Property(
        type=GObject.TYPE_UINT, default=1, nick="unique-id", blurb="from-gst: the objects' component"
    )
    labels = GObject.Property(
        type=str,
        default="",
        blurb="from-gst: names of the classes from 0 on, as in person;car; others are numbered after them as they come",
    )

    def __init__(self) -> None:
        super().__init__()
        self._bridge: ToGst | FromGst | None = None
        self._frames = 0
        self._objects = 0

    def _stats(self) -> Gst.Structure:
        """Return the counters as a structure of uint64 fields."""
        numbers = {"buffers": self._frames, "objects": self._objects}
        return events.numbers_structure("sluiceanalyticsbridge-stats", numbers)

    stats = GObject.Property(
        getter=_stats,
        type=Gst.Structure,
        flags=GObject.ParamFlags.READABLE,
        blurb="Counters since the last start: buffers, objects (carried over)",
    )

    def start(self) -> None:
        from sluice.contract import provider
        from sluice.elements.analyticsbridge_frames import FromGst, ToGst, analytics_api

        if self.direction not in DIRECTIONS:
            raise ConfigurationError(f"direction is {self.direction!r}; there are {', '.join(DIRECTIONS)}")
        api = analytics_api()
        provider.provider()
        self._frames = self._objects = 0
        labels = [name.strip() for name in self.labels.split(";") if name.strip()] if self.labels else []
        to_gst = self.direction == "to-gst"
        self._bridge = ToGst(api) if to_gst else FromGst(api, unique_id=self.unique_id, labels=labels)
        # Adding a GstMeta needs a buffer of one's own: the base class then copies a shared one, without its pixels.
        self.set_passthrough(not to_gst)

    def stop(self) -> None:
        self._bridge = None

    def on_caps(self, caps: Gst.Caps) -> None:
        if self._bridge is not None:
            self._bridge.set_caps(caps)

    def process(self, buffer: Gst.Buffer) -> bool:
        assert self._bridge is not None
        self._frames += 1
        self._objects += self._bridge.convert(buffer)
        return True
