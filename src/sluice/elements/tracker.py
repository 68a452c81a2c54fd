"""``sluicetracker``: gives the detected objects of each stream an identity, in the place of nvtracker.

The fields read and written are nvtracker's; the tracking itself is an open algorithm, on the processor. Metadata is
written in place, pixels are only read by algorithms that follow the camera's own motion.

Imports gi and the standard library only; numpy, the contract and the trackers are imported at NULL→READY.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import gi

gi.require_version("Gst", "1.0")
from gi.repository import GObject, Gst

from sluice.elements import events
from sluice.elements.base import InPlaceElement
from sluice.elements.frame_caps import pad_template
from sluice.errors import ConfigurationError

if TYPE_CHECKING:
    from sluice.elements.tracker_frames import FrameTracking

_MOST_HANDLED = 1024  # stream events remembered; streams that come and go have ever new numbers
_PATIENCE = 100  # frames without any embedding after which deepsort tells that it misses them


def _accepted(name: str, default: bool | int | str, why: str, kind: GObject.GType | type | None = None) -> Any:
    """Return a property that nvtracker has and that changes nothing here."""
    of_default = GObject.TYPE_UINT if type(default) is int else type(default)
    blurb = f"Accepted for nvtracker's sake, no effect: {why}"
    return GObject.Property(type=kind or of_default, default=default, nick=name, blurb=blurb)


@dataclass
class Counters:
    """What the element did since it was started; see the property ``stats``."""

    frames: int = 0
    tracked: int = 0
    predicted: int = 0
    removed: int = 0
    embeddings: int = 0
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
    __gsttemplates__ = (pad_template("sink", Gst.PadDirection.SINK), pad_template("src", Gst.PadDirection.SRC))

    algorithm = GObject.Property(
        type=str,
        default="",
        blurb="What tracks: bytetrack, sort, ocsort, botsort, cbiou, iou, deepsort or mcbyte (botsort and mcbyte read "
        "the picture to take out the camera's motion; tracker-options=enable_cmc=false turns that off; deepsort wants "
        "embeddings from a sluiceinfer before it); default: that of ll-config-file, or bytetrack",
    )
    implementation = GObject.Property(
        type=str,
        default="auto",
        blurb="batched: all streams of a batch in one pass (bytetrack, sort, ocsort, iou, deepsort, and botsort "
        "without the camera's motion); library: each stream by the trackers library; auto: batched where there is one",
    )
    tracker_options = GObject.Property(
        type=str,
        default="",
        nick="tracker-options",
        blurb="Options of the algorithm, as in lost_track_buffer=60,minimum_consecutive_frames=1; "
        "lost_track_buffer counts frames at 30 frames/s, frame_rate scales it",
    )
    track_threshold = GObject.Property(
        type=float,
        default=0.25,
        minimum=-1.0,
        maximum=1.0,
        nick="track-threshold",
        blurb="The score from which a detection begins a track and takes part in the first round, as sluiceinfer's own "
        "threshold; what is weaker only carries tracks on. -1: the algorithm's values (ByteTrack 0.7 and 0.6). Without "
        "effect with ll-config-file, and where tracker-options has the values",
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
    tracker_width = _accepted("tracker-width", 960, "boxes are tracked in pixels of the surface")
    tracker_height = _accepted("tracker-height", 544, "boxes are tracked in pixels of the surface")
    gpu_id = _accepted("gpu-id", 0, "tracking is done on the processor")
    ll_lib_file = GObject.Property(
        type=str,
        default="",
        nick="ll-lib-file",
        blurb="Accepted if it is NVIDIA's library, which is not loaded: an open algorithm takes its place",
    )
    ll_config_file = GObject.Property(
        type=str,
        default="",
        nick="ll-config-file",
        blurb="NVIDIA's configuration of IOU, NvSORT, NvDeepSORT or NvDCF: the nearest algorithm, with its values; a "
        "warning message tells what differs. tracker-options counts more",
    )
    reid_component_id = GObject.Property(
        type=GObject.TYPE_UINT,
        default=0,
        nick="reid-component-id",
        blurb="unique-id of the sluiceinfer whose embeddings deepsort compares; 0: the first on each object",
    )
    output_past_frames = GObject.Property(
        type=bool,
        default=False,
        nick="output-past-frames",
        blurb="Tell of an object's frames before its confirmation, or since it was lost (NVDS_TRACKER_PAST_FRAME_META)",
    )
    output_shadow_tracks = GObject.Property(
        type=bool,
        default=False,
        nick="output-shadow-tracks",
        blurb="List the tracks that no detection was found for (NVDS_TRACKER_SHADOW_LIST_META)",
    )
    output_terminated_tracks = GObject.Property(
        type=bool,
        default=False,
        nick="output-terminated-tracks",
        blurb="List the tracks that have ended, with all their frames (NVDS_TRACKER_TERMINATED_LIST_META)",
    )
    tracking_surface_type = GObject.Property(
        type=GObject.TYPE_UINT,
        default=0,
        nick="tracking-surface-type",
        blurb="Frames of another of nvdewarper's surface types are left alone; those without a type never are",
    )
    compute_hw = _accepted("compute-hw", 0, "no pixels are scaled")
    input_tensor_meta = _accepted("input-tensor-meta", False, "no pixels are tracked")
    tensor_meta_gie_id = _accepted("tensor-meta-gie-id", 0, "no pixels are tracked")
    user_meta_pool_size = _accepted("user-meta-pool-size", 32, "lists are allocated as needed")
    sub_batches = _accepted("sub-batches", "", "every stream has tracks of its own")
    sub_batch_err_recovery_trial_cnt = _accepted(
        "sub-batch-err-recovery-trial-cnt", 0, "there is no context that could fail", GObject.TYPE_INT
    )

    def __init__(self) -> None:
        super().__init__()
        self._tracking: FrameTracking | None = None
        self._counters = Counters()
        self._handled: dict[tuple[int, int], str] = {}
        self._expects_embeddings = False

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
        "tracker), removed (objects without a confirmed track), embeddings (read from objects), tracks (ids given), "
        "streams (with tracks at present), jumps (streams that went back in time)",
    )

    def start(self) -> None:
        from sluice.elements.tracker_frames import FrameTracking
        from sluice.elements.tracker_lists import TargetLists
        from sluice.elements.tracker_setup import set_up
        from sluice.tracking import ResetMode, StreamTrackers

        setup = set_up(self, self.ll_config_file or "")
        streams = StreamTrackers(
            setup.settings, reset_mode=ResetMode(self.tracking_id_reset_mode), global_ids=setup.global_ids
        )
        self._counters = Counters()
        lists = TargetLists(setup.lists) if setup.lists else None
        self._tracking = FrameTracking(streams, setup.settings, setup.policy, self._counters, lists)
        self._expects_embeddings = setup.settings.algorithm == "deepsort"
        if setup.notes:
            self.warn("; ".join(setup.notes))

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
            tracking.end_all()
        elif events.event_type(event) == events.TRACKER_CONFIG_UPDATE:
            self._reconfigure(tracking, events.parse_control_event(event) or {})
        elif (said := events.parse_stream_event(event)) is not None:
            actions = {
                events.STREAM_RESET: tracking.streams.reset,
                events.STREAM_EOS: tracking.end,
                events.PAD_DELETED: tracking.forget,
            }
            if said.kind in actions and self._is_new(said.kind, said.source_id, event):
                actions[said.kind](said.source_id)

    def _is_new(self, kind: int, stream: int, event: Gst.Event) -> bool:
        """Tell a stream event from its repetition: they are sticky, and sent again after a flush or a new link."""
        name = events.identity(event)
        known = self._handled.get((kind, stream)) == name
        self._handled[kind, stream] = name
        if len(self._handled) > _MOST_HANDLED:
            del self._handled[next(iter(self._handled))]
        return not known

    def _reconfigure(self, tracking: "FrameTracking", fields: dict[str, Any]) -> None:
        """Go on by the values of another configuration file of the same algorithm; a wrong one changes nothing."""
        from sluice.elements.tracker_setup import set_up

        path = str(fields.get("config_path") or "")
        try:
            if not path:
                raise ConfigurationError("the event has no config_path")
            setup = set_up(self, path)
            tracking.streams.change(setup.settings)
            tracking.policy = setup.policy
        except ConfigurationError as error:
            self.warn(f"nv-tracker-config-update is refused, tracking goes on as before: {error}")
        else:
            self.warn("; ".join(setup.notes))

    def process(self, buffer: Gst.Buffer) -> bool:
        assert self._tracking is not None
        self._tracking.track(buffer)
        counted = self._counters
        if self._expects_embeddings and counted.frames >= _PATIENCE:
            self._expects_embeddings = False
            if not counted.embeddings:
                self.warn(
                    f"algorithm=deepsort: no object of {counted.frames} frames carries an embedding, so looks do not "
                    "count; put a sluiceinfer with a re-identification model (process-mode=2) before sluicetracker"
                )
        return True
