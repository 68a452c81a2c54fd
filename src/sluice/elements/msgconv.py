"""``sluicemsgconv``: turns the metadata of frames into messages and attaches them, in the place of nvmsgconv.

The messages' format is Sluice's own (``sluice.messages.schema``). They travel as user metadata of NVIDIA's payload
type, so that ``sluicemsgbroker`` or nvmsgbroker behind can send them. Pixels are not touched.

Imports gi and the standard library only; numpy and the contract are imported at NULL→READY.
"""

from typing import TYPE_CHECKING

import gi

gi.require_version("Gst", "1.0")
from gi.repository import GLib, GObject, Gst

from sluice.elements.base import InPlaceElement
from sluice.errors import ConfigurationError

if TYPE_CHECKING:
    from sluice.elements.msgconv_frames import Conversion

PER = ("frame", "object")
EMPTY_FRAMES = ("emit", "skip")


class SluiceMsgConv(InPlaceElement):
    """The element; see ``gst-inspect-1.0 sluicemsgconv`` for its properties.

    Unlike nvmsgconv, which by default sends one frame in thirty, it makes a message for every frame.
    """

    __gtype_name__ = "SluiceMsgConv"
    __gstmetadata__ = (
        "Sluice message converter",
        "Filter/Metadata",
        "Makes a JSON message of each frame or object and attaches it to the frame",
        "The Sluice developers",
    )
    __gsttemplates__ = (
        Gst.PadTemplate.new("sink", Gst.PadDirection.SINK, Gst.PadPresence.ALWAYS, Gst.Caps.new_any()),
        Gst.PadTemplate.new("src", Gst.PadDirection.SRC, Gst.PadPresence.ALWAYS, Gst.Caps.new_any()),
    )

    per = GObject.Property(
        type=str, default="frame", blurb="What one message is about: frame (with all its objects) or object"
    )
    empty_frames = GObject.Property(
        type=str,
        default="emit",
        nick="empty-frames",
        blurb="Frames without objects: emit a message that says so, or skip them",
    )
    frame_interval = GObject.Property(
        type=GObject.TYPE_UINT,
        default=1,
        minimum=1,
        maximum=GLib.MAXINT32,
        nick="frame-interval",
        blurb="Only frames whose number is a multiple of this give messages (nvmsgconv's default is 30)",
    )
    embeddings = GObject.Property(
        type=bool,
        default=False,
        blurb="Tell the objects' embeddings, which are long: some 10 KB of text for 512 numbers",
    )
    comp_id = GObject.Property(
        type=GObject.TYPE_UINT,
        default=0,
        nick="comp-id",
        blurb="Component id written to the messages, for the broker's comp-id",
    )

    def __init__(self) -> None:
        super().__init__()
        self._conversion: Conversion | None = None

    def _stats(self) -> Gst.Structure:
        """Return the counters as a structure of uint64 fields."""
        structure = Gst.Structure.new_empty("sluicemsgconv-stats")
        counted = vars(self._conversion.counters) if self._conversion is not None else {}
        for name in ("frames", "messages", "skipped"):
            structure.set_value(name, GObject.Value(GObject.TYPE_UINT64, counted.get(name, 0)))
        return structure

    stats = GObject.Property(
        getter=_stats,
        type=Gst.Structure,
        flags=GObject.ParamFlags.READABLE,
        blurb="Counters since the last start: frames, messages, skipped (frames without a message, by frame-interval "
        "or empty-frames)",
    )

    def start(self) -> None:
        from sluice.elements.msgconv_frames import Conversion
        from sluice.messages import Per

        for name, values in (("per", PER), ("empty-frames", EMPTY_FRAMES)):
            if self.get_property(name) not in values:
                raise ConfigurationError(f"{name} is {self.get_property(name)!r}; it can be {' or '.join(values)}")
        self._conversion = Conversion(
            Per(self.per),
            empty_frames=self.empty_frames == "emit",
            frame_interval=self.frame_interval,
            component_id=self.comp_id,
            embeddings=self.embeddings,
        )

    def on_caps(self, caps: Gst.Caps) -> None:
        if self._conversion is not None:
            self._conversion.set_caps(caps)

    def process(self, buffer: Gst.Buffer) -> bool:
        assert self._conversion is not None
        self._conversion.convert(buffer)
        return True
