"""``sluicetracker``: gives the detected objects of each stream an identity, in the place of nvtracker.

The fields read and written are nvtracker's; the tracking itself is an algorithm of the ``trackers`` library, on the
processor. Metadata is written in place, pixels are only read by algorithms that follow the camera's own motion.

Imports gi and the standard library only; numpy, the contract and the trackers are imported at NULL→READY.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import gi

gi.require_version("Gst", "1.0")
from gi.repository import GObject, Gst

from sluice.contract.structures import required_structure
from sluice.elements import events
from sluice.elements.base import InPlaceElement
from sluice.errors import ConfigurationError

if TYPE_CHECKING:
    from sluice.elements.tracker_frames import FrameTracking

# Any memory and any format: only metadata is needed, and caps go through unchanged.
CAPS = "video/x-raw(ANY)"


def _template(name: str, direction: Gst.PadDirection) -> Gst.PadTemplate:
    return Gst.PadTemplate.new(name, direction, Gst.PadPresence.ALWAYS, Gst.Caps.from_string(CAPS))


@dataclass
class Counters:
    """What the element did since it was started; see the property ``stats``."""

    frames: int = 0
    tracked: int = 0
    predicted: int = 0
    removed: int = 0
    jumps: int = 0


class SluiceTracker(InPlaceElement):
    """The element; see ``gst-inspect-1.0 sluicetracker`` for its properties.

    An object that the tracker has not confirmed (with ByteTrack: seen on one frame only, or with a low score and no
    track to continue) is removed from its frame, as nvtracker does; ``keep-unconfirmed`` keeps it, without an id.

    On a frame that the model did not see (``bInferDone`` 0 and no objects), each track of the last seen frame is
    written as an object where the tracker expects it, with detector confidence -0.1; such frames do not age a track.
    """

    __gtype_name__ = "SluiceTracker"
    __gstmetadata__ = (
        "Sluice tracker",
        "Filter/Analyzer/Video",
        "Follows detected objects from frame to frame and writes their ids into the metadata",
        "The Sluice developers",
    )
    __gsttemplates__ = (_template("sink", Gst.PadDirection.SINK), _template("src", Gst.PadDirection.SRC))

    algorithm = GObject.Property(
        type=str,
        default="bytetrack",
        blurb="What tracks: bytetrack, sort, ocsort, botsort, cbiou or mcbyte (botsort and mcbyte read the picture "
        "to take out the camera's motion; tracker-options=enable_cmc=false turns that off)",
    )
    tracker_options = GObject.Property(
        type=str,
        default="",
        nick="tracker-options",
        blurb="Options of the algorithm, as in lost_track_buffer=60,minimum_consecutive_frames=1; "
        "lost_track_buffer counts frames at 30 frames/s, frame_rate scales it",
    )
    class_aware = GObject.Property(
        type=bool,
        default=False,
        nick="class-aware",
        blurb="Track each class apart, so that a track never takes over a detection of another class",
    )
    use_timestamps = GObject.Property(
        type=bool,
        default=False,
        nick="use-timestamps",
        blurb="Motion and ageing follow the frames' timestamps, for uneven rates; default: every frame is one step",
    )
    keep_unconfirmed = GObject.Property(
        type=bool,
        default=False,
        nick="keep-unconfirmed",
        blurb="Keep objects that belong to no confirmed track, without an id; nvtracker removes them",
    )
    global_ids = GObject.Property(
        type=bool,
        default=False,
        nick="global-ids",
        blurb="Ids are unique over all streams (stream << 32 | n); default: each stream counts from 0",
    )
    display_tracking_id = GObject.Property(
        type=bool, default=True, nick="display-tracking-id", blurb="Append the id to the object's text"
    )
    tracking_id_reset_mode = GObject.Property(
        type=GObject.TYPE_UINT,
        default=1,
        minimum=0,
        maximum=3,
        nick="tracking-id-reset-mode",
        blurb="1: a stream reset ends its tracks, ids go on; 2: ids start at 0 again after a stream's end; 3: both; "
        "0: neither (the end of a stream always ends its tracks)",
    )
    operate_on_class_ids = GObject.Property(
        type=str,
        default="",
        nick="operate-on-class-ids",
        blurb="Class ids to track, as in 0;2; objects of other classes are left alone; default: all",
    )
    tracker_width = GObject.Property(
        type=GObject.TYPE_UINT,
        default=960,
        nick="tracker-width",
        blurb="Accepted for nvtracker's sake, no effect: boxes are tracked in pixels of the surface",
    )
    tracker_height = GObject.Property(
        type=GObject.TYPE_UINT,
        default=544,
        nick="tracker-height",
        blurb="Accepted for nvtracker's sake, no effect: boxes are tracked in pixels of the surface",
    )
    gpu_id = GObject.Property(
        type=GObject.TYPE_UINT,
        default=0,
        nick="gpu-id",
        blurb="Accepted for nvtracker's sake, no effect: tracking is done on the processor",
    )
    ll_lib_file = GObject.Property(
        type=str, default="", nick="ll-lib-file", blurb="Refused: low-level libraries are nvtracker's; set algorithm"
    )
    ll_config_file = GObject.Property(
        type=str,
        default="",
        nick="ll-config-file",
        blurb="Refused: configures nvtracker's low-level library; set algorithm and tracker-options",
    )

    def __init__(self) -> None:
        super().__init__()
        self._tracking: FrameTracking | None = None
        self._counters = Counters()
        self._handled: dict[tuple[int, int], str] = {}

    def _stats(self) -> Gst.Structure:
        """Return the counters as a structure of uint64 fields."""
        counted = vars(self._counters)
        if self._tracking is not None:
            streams = self._tracking.streams
            counted = {**counted, "tracks": streams.tracks_started, "streams": len(streams)}
        structure = Gst.Structure.new_empty("sluicetracker-stats")
        for name, value in counted.items():
            structure.set_value(name, GObject.Value(GObject.TYPE_UINT64, value))
        return structure

    stats = GObject.Property(
        getter=_stats,
        type=Gst.Structure,
        flags=GObject.ParamFlags.READABLE,
        blurb="Counters since the last start: frames, tracked (objects with an id), predicted (objects placed by the "
        "tracker), removed (objects without a confirmed track), tracks (ids given), streams (with tracks at "
        "present), jumps (streams that went back in time)",
    )

    def start(self) -> None:
        from sluice.elements.tracker_frames import FrameTracking, Policy
        from sluice.tracking import ResetMode, Settings, StreamTrackers, parse_options

        for name in ("ll-lib-file", "ll-config-file"):
            if self.get_property(name):
                raise ConfigurationError(
                    f"{name} is set, but NVIDIA's low-level trackers do not run here; choose the algorithm with "
                    "algorithm=bytetrack and set its options with tracker-options=lost_track_buffer=60"
                )
        settings = Settings(
            self.algorithm or "",
            parse_options(self.algorithm or "", self.tracker_options or ""),
            class_aware=self.class_aware,
            timestamps=self.use_timestamps,
        )
        streams = StreamTrackers(
            settings, reset_mode=ResetMode(self.tracking_id_reset_mode), global_ids=self.global_ids
        )
        self._counters = Counters()
        policy = Policy(
            classes=parse_class_ids(self.operate_on_class_ids or ""),
            keep_unconfirmed=self.keep_unconfirmed,
            show_ids=self.display_tracking_id,
        )
        self._tracking = FrameTracking(streams, settings, policy, self._counters)

    def stop(self) -> None:
        self._tracking = None
        self._handled.clear()

    def on_caps(self, caps: Gst.Caps) -> None:
        if self._tracking is not None:
            self._tracking.set_caps(caps)

    def on_event(self, event: Gst.Event) -> None:
        tracking = self._tracking
        if tracking is None:
            return
        if event.type in (Gst.EventType.FLUSH_STOP, Gst.EventType.EOS):
            tracking.streams.clear()
        elif (said := events.parse_stream_event(event)) is not None:
            actions = {
                events.STREAM_RESET: tracking.streams.reset,
                events.STREAM_EOS: tracking.streams.end,
                events.PAD_DELETED: tracking.streams.forget,
            }
            if said.kind in actions and self._is_new(said.kind, said.source_id, event):
                actions[said.kind](said.source_id)

    def _is_new(self, kind: int, stream: int, event: Gst.Event) -> bool:
        """Tell a stream event from its repetition: they are sticky, and sent again after a flush or a new link."""
        name = required_structure(event).get_name()
        known = self._handled.get((kind, stream)) == name
        self._handled[kind, stream] = name
        return not known

    def process(self, buffer: Gst.Buffer) -> bool:
        assert self._tracking is not None
        self._tracking.track(buffer)
        return True


def parse_class_ids(text: str) -> frozenset[int]:
    """Read nvtracker's ``0;2;5`` into class ids; an empty text gives none, which means all.

    Raises:
        ConfigurationError: an item is not a whole number.
    """
    items = [item.strip() for item in text.split(";") if item.strip()]
    wrong = next((item for item in items if not item.isdecimal()), None)
    if wrong is not None:
        raise ConfigurationError(f"operate-on-class-ids holds {wrong!r}; class ids such as 0;2 would be right")
    return frozenset(int(item) for item in items)
