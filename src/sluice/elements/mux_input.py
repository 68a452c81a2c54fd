"""One sink pad of ``sluicemux``: its caps, segment, frame numbers and timestamps, and the queries it answers."""

import time
from dataclasses import dataclass
from typing import Any

import gi

gi.require_version("Gst", "1.0")
gi.require_version("GstVideo", "1.0")
from gi.repository import Gst, GstVideo

from sluice.contract.structures import required_structure
from sluice.elements import events, queries
from sluice.elements.batch_policy import Stream

_NTP_TO_UNIX = 2_208_988_800 * Gst.SECOND  # from 1900 to 1970 (RFC 868)
_NO_STOP = 2**64 - 1
_DEFAULT_DURATION = Gst.SECOND // 30


@dataclass(slots=True)
class Frame:
    """One frame on its way into a batch.

    Attributes:
        source: the pad it came from.
        buffer: the buffer; the batch's memory takes it over.
        format: the contract's description of raw frames, None for NvBufSurfaces.
        width, height: in pixels, from the caps.
        number: counted from 0 per stream.
        pts: of the buffer, or counted from the frame rate where it has none; nanoseconds.
        running_time: of the PTS in the stream's segment; nanoseconds.
        ntp: wall clock's or sender's time in nanoseconds since 1970, or 0.
    """

    source: "Input"
    buffer: Gst.Buffer
    format: Any
    width: int
    height: int
    number: int
    pts: int
    running_time: int
    ntp: int


def time_segment() -> Gst.Event:
    """Return the SEGMENT event of the batches: time from 0, so that a PTS is a running time."""
    segment = Gst.Segment()
    segment.init(Gst.Format.TIME)
    return Gst.Event.new_segment(segment)


class Input:
    """The state of one sink pad. The pad's thread changes it; ``announced`` and ``stream_id`` are the task's.

    Args:
        pad: the pad.
        number: the N of its name ``sink_N``, which is the frames' ``pad_index``.
        stream: its queue.
    """

    def __init__(self, pad: Gst.Pad, number: int, stream: Stream) -> None:
        self.pad = pad
        self.number = number
        self.stream = stream
        self.reset()

    def reset(self) -> None:
        """Begin anew, as at READY→PAUSED."""
        self.caps: Gst.Caps | None = None
        self.format: Any = None
        self.source_id = self.number
        self.stream_id = ""
        self.announced = False
        self.refused = 0
        self.refused_batched = 0
        self.untimed = 0
        self.number_next = 0
        self.flushed()

    def flushed(self) -> None:
        """Forget the segment and where the stream stood in it."""
        self._segment = Gst.Segment()
        self._segment.init(Gst.Format.TIME)
        self._plain, self._first = True, 0
        self._last_running_time = 0
        self._pts_next = 0

    def set_segment(self, segment: Gst.Segment) -> None:
        """Take the segment of the frames that follow; one that is not in time is taken for time from 0."""
        if segment.format == Gst.Format.TIME:
            self._segment = segment.copy()
            # The common kind, for which the running time is worked out without calling GStreamer.
            self._plain = segment.rate == 1 and segment.base == segment.offset == 0 and segment.stop == _NO_STOP
            self._first = segment.start
            self._pts_next = segment.start
        else:
            self.flushed()

    def _to_running_time(self, pts: int) -> int:
        """Return a timestamp's running time; that of the frame before where it lies outside the segment."""
        if self._plain and self._first <= pts:
            return pts - self._first
        running_time = self._segment.to_running_time(Gst.Format.TIME, pts)
        return self._last_running_time if running_time == Gst.CLOCK_TIME_NONE else int(running_time)

    def set_caps(self, caps: Gst.Caps, builder: Any) -> None:
        """Take the caps of the frames that follow.

        Raises:
            ContractError, ConfigurationError: they cannot be batched, or not together with the other streams'.
        """
        self._raw_format, self.format = builder.accept(caps, self.number)
        self._builder = builder
        self.caps = caps
        structure = required_structure(caps, 0)
        self._width = structure.get_int("width")[1]
        self._height = structure.get_int("height")[1]
        self._duration = queries.frame_duration(caps) or _DEFAULT_DURATION
        source_id = events.ask(self.pad, "nv-sourceid", "source-id")
        self.source_id = self.number if source_id is None else source_id

    def frame(self, buffer: Gst.Buffer) -> tuple[Frame, bool]:
        """Return a buffer with what its metadata needs, and whether its timestamp had to be counted."""
        pts = buffer.pts
        untimed = pts == Gst.CLOCK_TIME_NONE
        if untimed:
            pts = self._pts_next
            self.untimed += 1
        self._pts_next = pts + (buffer.duration if buffer.duration != Gst.CLOCK_TIME_NONE else self._duration)
        running_time = self._last_running_time = self._to_running_time(pts)
        number = self.number_next
        self.number_next += 1
        frame = Frame(
            source=self,
            buffer=self._builder.scale(buffer, self._raw_format),
            format=self.format,
            width=self._width,
            height=self._height,
            number=number,
            pts=pts,
            running_time=running_time,
            ntp=time.time_ns() if self._builder.system_time else _sender_time(buffer),
        )
        return frame, untimed

    def stats(self) -> dict[str, int]:
        """Return the pad's counts by name."""
        counts = self.stream.counts
        return {
            "frames-in": counts.frames_in,
            "frames-out": counts.frames_out - self.refused_batched,
            "discarded": counts.discarded,
            "late": counts.late,
            "refused": self.refused + self.refused_batched,
            "untimed": self.untimed,
        }


def _sender_time(buffer: Gst.Buffer) -> int:
    """Return the sender's time of a frame in nanoseconds since 1970, from its NTP reference timestamp; 0 without."""
    meta = buffer.get_reference_timestamp_meta(Gst.Caps.from_string("timestamp/x-ntp"))
    return 0 if meta is None or meta.timestamp < _NTP_TO_UNIX else int(meta.timestamp - _NTP_TO_UNIX)


def answer_caps(pad: Gst.Pad, query: Gst.Query) -> bool:
    """Answer what the pad takes.

    Asked with a filter, as converters and sources do when they choose: those of its formats that can be batched.
    Asked without, as linking does, or with nothing but formats that cannot be batched: every raw format. So an element
    that can make no other is linked, and refused in words when its caps arrive, not by a bare "not-negotiated".
    """
    from sluice.contract.batching import raw_caps_template

    template = pad.get_pad_template_caps()
    wanted = query.parse_caps()
    if wanted is None:
        query.set_caps_result(template)
        return True
    taken = raw_caps_template()
    for index in range(template.get_size()):
        if template.get_features(index).contains("memory:NVMM"):
            taken.append(template.copy_nth(index))
    chosen = wanted.intersect_full(taken, Gst.CapsIntersectMode.FIRST)
    query.set_caps_result(wanted.intersect(template) if chosen.is_empty() else chosen)
    return True


def answer_allocation(query: Gst.Query, buffers: int) -> bool:
    """Say that frames may have strides and offsets of their own (GstVideoMeta), and how many will be held."""
    caps, _need_pool = query.parse_allocation()
    if caps is None or caps.get_features(0).contains("memory:NVMM"):
        return False
    info = GstVideo.VideoInfo.new_from_caps(caps)
    if info is None:
        return False
    query.add_allocation_pool(None, info.size, buffers, 0)
    query.add_allocation_meta(GstVideo.video_meta_api_get_type(), None)
    return True
