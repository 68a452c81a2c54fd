"""The frames of many streams, queued, batched and pushed in C: Python is entered for events only.

`native/collect.c` has the rule by which batches leave. Each stream has a bounded queue of frames and of the events
between them. The streams' pads put frames; one thread collects: it pushes a batch when there are enough frames or the
oldest has waited long enough, and hands over the events that stand at the head of the queues as they come.
"""

import ctypes
import weakref
from dataclasses import dataclass, fields

import gi

gi.require_version("Gst", "1.0")
from gi.repository import Gst

from sluice.contract import gstref
from sluice.contract._collect import (
    EVENT,
    STOPPED,
    CountsStruct,
    FormatStruct,
    OutputStruct,
    SettingsStruct,
    StepStruct,
    functions,
)
from sluice.contract._pixels import RawFrameStruct
from sluice.contract.capture import CAPTURE_TIME
from sluice.contract.formats import FrameFormat
from sluice.contract.provider import provider
from sluice.errors import ContractError

UNLIMITED = -1
_ERROR_BYTES = 512


@dataclass
class Settings:
    """What decides when a batch leaves; `Collector.configure` may change it while the streams run.

    Attributes:
        batch_size: the most frames in a batch, at least 1.
        timeout: nanoseconds after which a waiting frame leaves in a batch that is not full; `UNLIMITED`: never.
        max_same_source_frames: the most frames of one stream in a batch, at least 1.
        queue_size: frames one stream may have waiting before its thread waits too.
        sync_window: with synchronised inputs, nanoseconds (before, after): a frame takes part once the running time
            has passed its own less the first number, and is discarded when it has passed it by the second; None
            without.
        wall_clock: ``ntp_timestamp`` is this machine's time of arrival; False: the sender's, from a timestamp/x-ntp
            reference timestamp, 0 without one.
    """

    batch_size: int = 1
    timeout: int = 33_000_000
    max_same_source_frames: int = 1
    queue_size: int = 4
    sync_window: tuple[int, int] | None = None
    wall_clock: bool = True


@dataclass(frozen=True)
class Counts:
    """Frames of one stream since the start.

    Attributes:
        frames_in: were queued.
        frames_out: left in a batch.
        discarded: were taken out of the queue by a flush, a removal, a stop, or for lateness.
        late: of these, the last.
        refused: came, or were taken for a batch, after downstream had refused one, or did not make a batch.
        untimed: had no timestamp; theirs was counted from the frame rate.
        replaced: gave way to newer ones while they waited, where that was asked for.
    """

    frames_in: int
    frames_out: int
    discarded: int
    late: int
    refused: int
    untimed: int
    replaced: int = 0


@dataclass(frozen=True)
class Step:
    """What `Collector.run` returns: an event, the notice of a removal, a refusal, or a batch where there is no pad.

    Attributes:
        stream: `Stream.address` of the event's or the removed stream; None else.
        event: the event; None with a notice.
        flow: what downstream returned; OK but for a refusal.
        batch: the batch; None but for a collector without a pad.
    """

    stream: int | None = None
    event: Gst.Event | None = None
    flow: int = 0
    batch: Gst.Buffer | None = None


class Collector:
    """The queues of all streams.

    One thread calls `run`; everything else may be called by any thread, and waits for nothing.
    """

    def __init__(self) -> None:
        self._functions = functions()
        self._address: int = self._functions.sluice_collector_new()
        weakref.finalize(self, self._functions.sluice_collector_end, self._address).atexit = False
        self._step = StepStruct()
        self._error = ctypes.create_string_buffer(_ERROR_BYTES)

    def configure(self, settings: Settings) -> None:
        """Take other settings and let the waiters look again."""
        early, late = settings.sync_window or (0, 0)
        struct = SettingsStruct(
            settings.timeout,
            early,
            late,
            settings.batch_size,
            settings.max_same_source_frames,
            settings.queue_size,
            settings.sync_window is not None,
            settings.wall_clock,
        )
        self._functions.sluice_collector_configure(self._address, ctypes.byref(struct))

    def start(self) -> None:
        """Begin to accept and deliver, with empty queues, no stream ended and nothing counted."""
        self._functions.sluice_collector_start(self._address)

    def stop(self) -> None:
        """Refuse everything and wake every waiter; what is queued counts as discarded."""
        self._functions.sluice_collector_stop(self._address)

    def add(self, number: int) -> "Stream":
        """Add a stream; frames carry ``number`` as their ``pad_index``."""
        return Stream(self._functions.sluice_collector_add(self._address, number))

    def set_flow(self, flow: int) -> None:
        """Say what downstream returned: unless OK, the streams get it for their next frames, until the next start."""
        self._functions.sluice_collector_set_flow(self._address, flow)

    def all_ended(self) -> bool:
        """Whether there are streams, and every one has ended."""
        return bool(self._functions.sluice_collector_all_ended(self._address))

    def hold_clock(self, now: int, running_time: int = -1) -> None:
        """Let time stand still, for tests: nanoseconds of the monotonic clock, and of running time (-1: not known)."""
        self._functions.sluice_collector_hold_clock(self._address, now, running_time)

    def wait_time(self) -> int | None:
        """Return nanoseconds until a batch is due by what waits now: 0 for now, None for until something changes."""
        wait = self._functions.sluice_collector_wait_time(self._address)
        return None if wait < 0 else int(wait)

    def batches(self) -> int:
        """Return how many batches have been made since the start."""
        return int(self._functions.sluice_collector_batches(self._address))

    def run(self, capacity: int, pad: Gst.Pad | None = None) -> Step | None:
        """Make batches and push them, until there is an event at the head of a queue or a refusal; None when stopped.

        A batch is a buffer whose memory owns the frames (see `sluice.contract.batching`), with an NvDsBatchMeta that
        describes them, and with their largest running time as PTS, which never goes back. Once downstream has returned
        anything but OK, frames are refused until the next `start`.

        Args:
            capacity: ``batchSize`` of the batches.
            pad: a source pad to push to; without, each batch is returned.

        Raises:
            ContractError: frames did not make a batch, with the reason; they are gone, and more are refused.
        """
        owner = provider()
        kind = owner.layout.enum("GstNvDsMetaType")["NVDS_BATCH_GST_META"]
        output = OutputStruct(
            None if pad is None else gstref.address(pad),
            ctypes.addressof(owner.block),
            capacity,
            kind,
            owner.user_meta_type(CAPTURE_TIME),
        )
        step, error = self._step, self._error
        error.value = b""
        found = self._functions.sluice_collector_run(
            self._address, ctypes.byref(output), ctypes.byref(step), error, _ERROR_BYTES
        )
        if found == STOPPED:
            return None
        if found == EVENT:
            return Step(step.stream, gstref.take(step.event, Gst.Event) if step.event else None)
        if error.value:
            raise ContractError(error.value.decode(errors="replace"))
        return Step(flow=step.flow, batch=gstref.take(step.batch) if step.batch else None)


class Stream:
    """One stream of a `Collector`, by the address of its struct in C, which lives at least as long as this.

    Attributes:
        address: tells it from every other stream.
    """

    def __init__(self, address: int) -> None:
        self._functions = functions()
        self.address = address
        weakref.finalize(self, self._functions.sluice_stream_unref, address).atexit = False

    def bind(self, pad: Gst.Pad) -> None:
        """Make a pad the stream's, for `take_frames_of` and as long as the pad lives."""
        self._functions.sluice_stream_bind(self.address, gstref.address(pad))

    def take_frames_of(self, pad: Gst.Pad) -> None:
        """Let the frames that arrive at the bound pad be put in C, by its chain function."""
        self._functions.sluice_stream_chain_on(gstref.address(pad))

    def set_format(
        self,
        format: FrameFormat | None,
        *,
        source_id: int,
        size: tuple[int, int],
        pipeline_size: tuple[int, int] = (0, 0),
        duration: int,
    ) -> None:
        """Take what the frames from now on are; frames before the first call are not negotiated.

        Args:
            format: as they go into batches; None for NvBufSurfaces.
            source_id: for their metadata.
            size: width and height of the source's frames in pixels.
            pipeline_size: of the frames as scaled, where they were; else zeros.
            duration: nanoseconds of a frame that does not tell its own.
        """
        raw = RawFrameStruct()
        if format is not None:
            raw = RawFrameStruct(None, format.address, format.tag, format.color_format, format.on_cuda)
        struct = FormatStruct(raw, duration, source_id, *size, *pipeline_size)
        self._functions.sluice_stream_set_format(self.address, ctypes.byref(struct))

    def put(self, buffer: Gst.Buffer, element: Gst.Element | None = None) -> int:
        """Queue a frame, waiting for room, as the pad's chain function does; return the flow value.

        Args:
            buffer: the frame.
            element: which warns of the first frame without a timestamp, and whose clock synchronised inputs follow.
        """
        owner = None if element is None else gstref.address(element)
        return int(self._functions.sluice_stream_put(self.address, owner, gstref.steal(buffer)))

    def put_event(self, event: Gst.Event) -> bool:
        """Queue an event behind the frames that came before it; False when flushing, removed or stopped.

        A SEGMENT is also that of the frames that follow; one that is not in time is taken for time from 0.
        """
        return bool(self._functions.sluice_stream_put_event(self.address, gstref.address(event)))

    def flush(self) -> None:
        """Refuse data until `resume` and discard what waits, but STREAM_START and CAPS events."""
        self._functions.sluice_stream_flush(self.address)

    def resume(self) -> None:
        """Accept data again after a flush; the stream has no segment and has not ended any more."""
        self._functions.sluice_stream_resume(self.address)

    def remove(self) -> tuple[int, bool]:
        """Take the stream out at once and wake its waiter; `Collector.collect` delivers a notice, unless stopped.

        Returns:
            how many of its frames were discarded, and whether there will be a notice.
        """
        noticed = ctypes.c_int()
        discarded = self._functions.sluice_stream_remove(self.address, ctypes.byref(noticed))
        return int(discarded), bool(noticed.value)

    def mark_ended(self, ended: bool = True) -> bool:
        """Note that the stream has ended, or begins again; return whether no stream is left that has not ended."""
        return bool(self._functions.sluice_stream_mark_ended(self.address, ended))

    def set_absent(self) -> None:
        """Let no batch wait for this stream until it has a frame: its source is away, or not there yet."""
        self._functions.sluice_stream_set_absent(self.address)

    def set_freshest(self, freshest: bool) -> None:
        """Have a frame that waits give way to a newer one and be counted, rather than have `put` wait for room."""
        self._functions.sluice_stream_set_freshest(self.address, freshest)

    def set_capture(self, source: str | None) -> None:
        """Choose what ``ntp_timestamp`` of the frames is, and have a user meta on each frame say so.

        Args:
            source: "rtcp": the sender's time, 0 (and unsaid) until it is known; "arrival": this machine's time;
                None: as `Settings.wall_clock` says, where "arrival" is unsaid.
        """
        self._functions.sluice_stream_set_capture(self.address, (None, "arrival", "rtcp").index(source))

    def renumber(self) -> None:
        """Count the frames from 0 again."""
        self._functions.sluice_stream_renumber(self.address)

    def counts(self) -> Counts:
        """Return what has happened to the stream's frames since the start."""
        struct = CountsStruct()
        self._functions.sluice_stream_read_counts(self.address, ctypes.byref(struct))
        return Counts(*(getattr(struct, field.name) for field in fields(Counts)))
