"""Feeds hand-made batches with metadata through elements, and reads them behind; used by several element tests."""

import ctypes
from dataclasses import dataclass, field

import gi
import numpy as np

gi.require_version("Gst", "1.0")
gi.require_version("GstApp", "1.0")
gi.require_version("GstVideo", "1.0")
from gi.repository import GLib, Gst, GstApp, GstVideo  # noqa: F401 - GstApp gives appsrc its methods

from sluice import elements
from sluice.contract import batching, bulk, gstref
from sluice.contract.metadata import BatchMeta, Lease
from sluice.elements import flow
from waiting import PATIENCE

Gst.init(None)

push_to_appsrc = ctypes.CDLL("libgstapp-1.0.so.0").gst_app_src_push_buffer
push_to_appsrc.argtypes = [ctypes.c_void_p, ctypes.c_void_p]

NONE = Gst.CLOCK_TIME_NONE
WIDTH, HEIGHT = 64, 48


@dataclass
class Given:
    """One frame to feed: rows are left, top, width, height, score; ``seen`` is bInferDone."""

    rows: list = field(default_factory=list)
    stream: int = 0
    number: int = 0
    pts: int = NONE
    class_ids: list | None = None
    label: str = "person"
    rotation: list | None = None
    seen: bool = True
    ntp: int = 0


def grey(width=WIDTH, height=HEIGHT):
    info = GstVideo.VideoInfo.new_from_caps(
        Gst.Caps.from_string(f"video/x-raw,format=GRAY8,width={width},height={height},framerate=25/1")
    )
    buffer = Gst.Buffer.new_allocate(None, info.size, None)
    buffer.memset(0, 128, info.size)
    return buffer, info


def make_buffer(frames, size=(WIDTH, HEIGHT), unique_id=3):
    """Return a host batch with metadata, as sluicemux and sluiceinfer would leave it."""
    buffer = batching.make_batch([grey(*size) for _ in frames], max(1, len(frames)))
    with Lease() as lease:
        batch = BatchMeta.attach(buffer, max(1, len(frames)), lease)
        rows = np.zeros(len(frames), bulk.FRAME_ROW)
        for row, frame in zip(rows, frames, strict=True):
            row["pad_index"] = row["source_id"] = frame.stream
            row["frame_num"], row["buf_pts"], row["ntp_timestamp"] = frame.number, frame.pts, frame.ntp
            row["source_width"], row["source_height"] = size
        bulk.fill_frames(batch, rows)
        for meta, frame in zip(batch.frames, frames, strict=True):
            table = np.asarray(frame.rows, dtype=np.float32).reshape(-1, 5)
            bulk.write_objects(
                meta,
                table[:, :4],
                table[:, 4],
                np.asarray(frame.class_ids or [0] * len(table), dtype=np.int32),
                [frame.label] * len(table),
                unique_id=unique_id,
                rotation=frame.rotation,
                infer_done=frame.seen,
            )
    return buffer


class Feed:
    """``appsrc ! elements ! appsink``; a context manager that stops the pipeline."""

    def __init__(self, description, *, live=False):
        for name in ("sluicetracker", "sluicemsgconv", "sluicemsgbroker"):
            if name in description:
                elements.register(name)
        self.pipeline = Gst.parse_launch(
            f"appsrc name=src format=time is-live={str(live).lower()} ! {description} ! "
            "appsink name=sink sync=false async=false max-buffers=0"
        )
        self.source = self.pipeline.get_by_name("src")
        self.sink = self.pipeline.get_by_name("sink")
        self.source.set_caps(batching.surface_caps(8))

    def __enter__(self):
        assert self.pipeline.set_state(Gst.State.PLAYING) != Gst.StateChangeReturn.FAILURE
        return self

    def __exit__(self, *_):
        self.pipeline.set_state(Gst.State.NULL)

    def get(self, name):
        return self.pipeline.get_by_name(name)

    def push(self, *frames, **options):
        """Push one batch and return its buffer as it comes out; fails where none does, or after an error."""
        return self.pass_on([make_buffer(frames, **options)])

    def send(self, *frames, **options):
        self.give([make_buffer(frames, **options)])

    def pass_on(self, held):
        """`give` a buffer, and return what comes out."""
        self.give(held)
        sample = self.pull()
        assert sample is not None, self.error(1) or "nothing came out"
        return sample.get_buffer()

    def pull(self, seconds=PATIENCE):
        """Return what comes out next; None where nothing does."""
        return self.sink.try_pull_sample(int(seconds * Gst.SECOND))

    def give(self, held):
        """Push the buffer that is the list's only item, without a wrapper left: appsrc copies a shared buffer."""
        assert push_to_appsrc(gstref.address(self.source), flow.release(held)) == 0

    def event(self, event):
        """Send a serialized event downstream, in its place between the buffers."""
        assert self.source.get_static_pad("src").push_event(event)

    def refusal(self):
        """Try to start the pipeline, which cannot be; return the error that says why."""
        try:
            assert self.pipeline.set_state(Gst.State.PLAYING) == Gst.StateChangeReturn.FAILURE
            return self.message(Gst.MessageType.ERROR).parse_error()[0]
        finally:
            self.pipeline.set_state(Gst.State.NULL)

    def end(self):
        self.source.end_of_stream()
        return self.message(Gst.MessageType.EOS | Gst.MessageType.ERROR)

    def message(self, types, seconds=PATIENCE):
        return self.pipeline.get_bus().timed_pop_filtered(int(seconds * Gst.SECOND), types)

    def error(self, seconds=0):
        message = self.message(Gst.MessageType.ERROR, seconds)
        return None if message is None else message.parse_error()[0].message


def objects(buffer, frame=0):
    """Return copies of the objects of one frame, in the order they were written."""
    with Lease() as lease:
        return bulk.Objects(bulk.read_objects(BatchMeta.of(buffer, lease).frames[frame]).rows[::-1].copy())


def texts(buffer, frame=0):
    with Lease() as lease:
        metas = BatchMeta.of(buffer, lease).frames[frame].objects[::-1]
        return [(meta.text.display_text, meta.text.x_offset, meta.text.y_offset) for meta in metas]
