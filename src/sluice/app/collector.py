"""Reads what was found out of every batch that passes: counts per stream, and frames for a program that iterates."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import gi

gi.require_version("Gst", "1.0")
from gi.repository import Gst

from sluice.contract.bulk import read_objects
from sluice.contract.metadata import UNTRACKED, BatchMeta, FrameMeta, Lease
from sluice.contract.surface import SurfaceBatch
from sluice.elements import events
from sluice.elements.guard import guarded
from sluice.elements.infer_frames import frame_of

if TYPE_CHECKING:
    from sluice.app.frame_queue import FrameQueue

# Identities remembered per stream, so that a stream of months stays within some megabytes; one that comes back after
# so many others is counted again.
_REMEMBERED_TRACKS = 100_000


class StreamCounts:
    """What was seen of one stream behind the tracker: frames, objects on them, and how many identities."""

    def __init__(self) -> None:
        """Start at zero."""
        self.frames = 0
        self.objects = 0
        self.tracks = 0
        self._known: dict[int, None] = {}

    def add(self, object_ids: list[int]) -> None:
        """Count one frame with the identities of its objects."""
        self.frames += 1
        self.objects += len(object_ids)
        for identity in object_ids:
            if identity == UNTRACKED or identity in self._known:
                continue
            self.tracks += 1
            self._known[identity] = None
            if len(self._known) > _REMEMBERED_TRACKS:
                del self._known[next(iter(self._known))]


class Collector:
    """Watches the batches at one pad, with one entry into Python per batch.

    Attributes:
        counts: per stream, by the number of its mux pad; of those that have joined and not left.
        expected: set for a stream that is being removed, once all its frames have passed and the mux says it is gone.
    """

    def __init__(self, queue: FrameQueue | None) -> None:
        """Collect for streams that join; frames go to the queue if there is one."""
        self.counts: dict[int, StreamCounts] = {}
        self.expected: dict[int, threading.Event] = {}
        self._shown: dict[int, str] = {}
        self._queue = queue

    def join(self, number: int, shown: str) -> StreamCounts:
        """Collect for a stream from now on; `shown` is the address that its frames carry."""
        self._shown[number] = shown
        self.counts[number] = counts = StreamCounts()
        return counts

    def leave(self, number: int) -> None:
        """Forget a stream; frames of it that still come are not counted."""
        self.counts.pop(number, None)
        self._shown.pop(number, None)

    def watch(self, element: Gst.Element) -> None:
        """Start at the source pad of an element, which must be one where the batch's objects are complete."""
        pad = element.get_static_pad("src")
        pad.add_probe(Gst.PadProbeType.BUFFER, _collect, self, element)
        pad.add_probe(Gst.PadProbeType.EVENT_DOWNSTREAM, _hear, self, element)

    def take(self, buffer: Gst.Buffer) -> None:
        """Count the frames of one batch and hand them to the queue."""
        with Lease() as lease:
            batch = BatchMeta.of(buffer, lease)
            metas = batch.frames if batch is not None else []
            for meta in metas:
                if (counts := self.counts.get(meta.pad_index)) is not None:
                    counts.add(read_objects(meta).object_id.tolist())
            if self._queue is not None and metas:
                self._hand_over(SurfaceBatch.of(buffer), metas)

    def _hand_over(self, surfaces: SurfaceBatch, metas: list[FrameMeta]) -> None:
        """Queue frames that hold the batch's memory, not its buffer: they can be used for as long as one likes."""
        assert self._queue is not None
        for meta in metas:
            if (shown := self._shown.get(meta.pad_index)) is not None:
                frame = frame_of(meta, surfaces)
                frame.uri = shown
                self._queue.put(meta.pad_index, frame)


@guarded(failure=Gst.PadProbeReturn.OK)
def _hear(_pad: Gst.Pad, info: Gst.PadProbeInfo, collector: Collector, _element: Gst.Element) -> Gst.PadProbeReturn:
    said = events.parse_stream_event(info.get_event())
    if said is not None and said.kind == events.PAD_DELETED and said.source_id in collector.expected:
        collector.expected[said.source_id].set()
    return Gst.PadProbeReturn.OK


@guarded(failure=Gst.PadProbeReturn.OK)
def _collect(_pad: Gst.Pad, info: Gst.PadProbeInfo, collector: Collector, _element: Gst.Element) -> Gst.PadProbeReturn:
    collector.take(info.get_buffer())
    return Gst.PadProbeReturn.OK
