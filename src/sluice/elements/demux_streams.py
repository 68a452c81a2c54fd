"""What ``sluicedemux`` knows of its streams and of its source pads. Imports gi only."""

import gi

gi.require_version("Gst", "1.0")
from gi.repository import Gst

from sluice.elements.host_caps import host_caps, on_gpu


class Stream:
    """What is known of one stream: the events its pad has to begin with, and counts."""

    def __init__(self) -> None:
        self.start: Gst.Event | None = None
        self.caps: Gst.Event | None = None
        self.segment: Gst.Event | None = None
        self.frames = 0
        self.dropped = 0
        self._host_caps: tuple[Gst.Event, Gst.Event] | None = None  # what became of which

    def told_caps(self, on_host: bool) -> Gst.Event | None:
        """The CAPS event, which says system memory where the frames have been brought to the host."""
        event = self.caps
        if event is None or not (on_host and on_gpu(event.parse_caps())):
            return event
        if self._host_caps is None or self._host_caps[0] is not event:
            self._host_caps = event, Gst.Event.new_caps(host_caps(event.parse_caps()))
        return self._host_caps[1]


class Output:
    """One source pad, the begin events it has been sent, and what was returned from it last."""

    def __init__(self, pad: Gst.Pad) -> None:
        self.pad = pad
        self.sent: dict[str, Gst.Event] = {}
        self.flow = Gst.FlowReturn.OK
        self.ended = False
