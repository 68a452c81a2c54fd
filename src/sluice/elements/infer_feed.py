"""What a ``sluiceinfer`` does with a buffer's frames before its model: gives them whole, in parts, or their objects."""

import re
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any

import gi

gi.require_version("Gst", "1.0")
from gi.repository import Gst

from sluice.contract.frame_rows import FrameRow
from sluice.contract.metadata import FrameMeta
from sluice.contract.surface import SurfaceBatch
from sluice.elements.events import (
    PAD_DELETED,
    ROI_UPDATE,
    STREAM_EOS,
    STREAM_RESET,
    STREAM_START,
    event_type,
    parse_control_event,
    parse_stream_event,
)
from sluice.elements.infer_calls import BegunCall, Results
from sluice.elements.infer_crops import CachedBatch, ObjectBatch, RegionBatch, RegionError
from sluice.elements.infer_frames import Batch, OpenBatch
from sluice.elements.infer_history import History
from sluice.elements.infer_scope import Scope
from sluice.errors import ConfigurationError
from sluice.models.crops import region_of
from sluice.models.detections import Detections
from sluice.models.instance import ModelDefinition
from sluice.models.network import IOU
from sluice.models.regions import Box, Regions, read_regions, regions_of_event
from sluice.models.slot import ModelSlot


class Feed:
    """Makes of each buffer what the model is given; one per start of an element.

    Attributes:
        secondary: whether objects are given. Every buffer then counts, whatever ``interval`` says.
    """

    def __init__(self, scope: Scope, iou: float | None, warn: Callable[[str], None]) -> None:
        """Read the regions and begin an empty history.

        Args:
            scope: what the model is given.
            iou: overlap above which boxes of different regions are merged; None for the default of network models.
            warn: told what is wrong with regions that an event brings.

        Raises:
            ConfigurationError: the regions cannot be read.
        """
        self._scope = scope
        self._regions = read_regions(scope.regions)
        # By stream, what an event replaced, until frames have shown that it was right to.
        self._before: dict[int, tuple[Box, ...]] = {}
        self._fitted: set[int] = set()  # streams whose pictures have had their regions
        self._shrunk: dict[int, tuple[int, int]] = {}  # those whose pictures have not any more, and their size
        self._stream_ids: dict[str, int] = {}
        self._warn = warn
        self._iou = IOU if iou is None else iou
        self._history = History(scope.interval)
        self._definition: ModelDefinition | None = None
        self._busy: Future[Results] | None = None
        self._late: Results | None = None
        self.secondary = scope.secondary

    def open(
        self, slot: ModelSlot, metas: Sequence[FrameMeta], rows: Sequence[FrameRow], surfaces: SurfaceBatch
    ) -> OpenBatch:
        """Return the batch that the model is given of a buffer.

        Args:
            slot: where the model is.
            metas: the buffer's frames.
            rows: what was read of them.
            surfaces: its surfaces.

        Raises:
            ConfigurationError: a region lies outside a stream's first picture.
            ContractError: the surfaces do not fit the metadata.
        """
        if slot.definition != self._definition:
            # What another model said of an object does not hold any more.
            self._definition = slot.definition
            self._history.clear()
        if self.secondary:
            return ObjectBatch(metas, surfaces, self._scope, self._history)
        if self._regions:
            return self._open_regions(metas, surfaces)
        return Batch(metas, surfaces, rows)

    def _open_regions(self, metas: Sequence[FrameMeta], surfaces: SurfaceBatch) -> RegionBatch:
        """Return the regions of a buffer; a stream's that an event brought and its picture has not are as before.

        Of a stream whose pictures have become too small, the regions that they still have, else the whole picture.
        """
        regions = self._regions
        while True:
            try:
                batch = RegionBatch(metas, surfaces, regions, self._iou, clip=self._scope.clip)
                break
            except RegionError as error:
                if error.stream in self._before:
                    self._warn(f"nv-roi-update: {error}; the regions before go on")
                    regions = self._regions
                    regions[error.stream] = self._before.pop(error.stream)
                elif error.stream in self._fitted:
                    regions = {**regions, error.stream: self._left_of(regions[error.stream], error)}
                else:
                    raise
        self._note_fitting({meta.source_id for meta in metas}, regions)
        return batch

    def _left_of(self, boxes: tuple[Box, ...], error: RegionError) -> tuple[Box, ...]:
        """Return the regions that a picture has which shrank, and warn of it once for each size."""
        left = tuple(box for box in boxes if region_of(box, error.size) is not None)
        if self._shrunk.get(error.stream) != error.size:
            self._shrunk[error.stream] = error.size
            given = "its other regions" if left else "the whole picture"
            self._warn(f"{error}; the model is given {given} until it is larger again")
        return left

    def _note_fitting(self, streams: set[int], regions: Regions) -> None:
        for stream in streams:
            if regions.get(stream) is self._regions.get(stream):
                self._before.pop(stream, None)
                self._fitted.add(stream)
                self._shrunk.pop(stream, None)

    def sample(self, metas: Sequence[FrameMeta], surfaces: SurfaceBatch, most: int) -> OpenBatch | None:
        """Return what a model that is to replace the one that runs is tried on; None where this buffer has nothing.

        Args:
            metas: the buffer's frames.
            surfaces: its surfaces.
            most: how many frames or parts at most; 0 for all.
        """
        if self.secondary:
            batch: OpenBatch = ObjectBatch(metas, surfaces, self._scope, History(0))
        elif self._regions:
            batch = self._open_regions(metas, surfaces)
        else:
            batch = Batch(metas[: most or None], surfaces)
        batch.frames = batch.frames[: most or None]
        if not batch.frames:
            batch.release()
            return None
        return batch

    def submit(
        self, slot: ModelSlot, batch: OpenBatch, call: Callable[[Any], Results | BegunCall]
    ) -> "Future[Results] | None":
        """Have the model called on a batch; never waits.

        Args:
            slot: where the model is.
            batch: what `open` returned.
            call: makes the call, given the model.

        Returns:
            The results to come; None where frames were to be inferred and no model is loaded.
        """
        if not isinstance(batch, ObjectBatch):
            pending = slot.submit(call)
            if pending is None:
                batch.release()
            return pending
        pending = slot.submit(call) if batch.frames and not self._is_busy() else None
        if pending is None:
            batch.release()
            batch.remember_all([], ())
        elif not self._scope.asynchronous:
            return pending
        else:
            self._busy = pending
            pending.add_done_callback(lambda done: self._arrived(batch, done))
        late, self._late = self._late, None
        lost: list[Detections | None] = [None] * (late.lost if late else 0)
        return _done(Results(CachedBatch(batch), lost, (), late.error if late else None))

    def _is_busy(self) -> bool:
        """Whether the model still works on objects that no buffer waits for."""
        return self._busy is not None and not self._busy.done()

    def _arrived(self, batch: ObjectBatch, done: "Future[Results]") -> None:
        """Take the results that no buffer waited for; called on the model's thread."""
        if done.cancelled() or done.exception() is not None:
            batch.remember_all([], ())
            return
        results = done.result()
        batch.remember_all(results.found, results.labels)
        if results.error is not None:
            self._late = results

    def on_event(self, event: Gst.Event) -> None:
        """Forget the objects of streams that ended, began anew or were removed; take over a stream's new regions."""
        kind = event_type(event)
        if kind == ROI_UPDATE:
            self._update_regions(parse_control_event(event) or {})
        elif kind == STREAM_START:
            said = parse_stream_event(event)
            if said is not None and said.stream_id is not None:
                self._forget_ids(said.source_id)
                self._stream_ids[said.stream_id] = said.source_id
        elif kind in (STREAM_EOS, STREAM_RESET, PAD_DELETED):
            said = parse_stream_event(event)
            if said is not None:
                self._history.forget(said.source_id)
                if kind == PAD_DELETED:
                    self._forget_ids(said.source_id)
                    self._regions.pop(said.source_id, None)
                    self._before.pop(said.source_id, None)
                    self._shrunk.pop(said.source_id, None)
                    self._fitted.discard(said.source_id)
        elif kind == Gst.EventType.EOS:
            self.forget()

    def _forget_ids(self, stream: int) -> None:
        """Forget the id texts of a stream, whose source has another each time it is opened."""
        for name in [name for name, number in self._stream_ids.items() if number == stream]:
            del self._stream_ids[name]

    def _update_regions(self, fields: dict[str, Any]) -> None:
        """Take the regions of a stream from an event, which names it by its number or its id text."""
        try:
            if self.secondary:
                raise ConfigurationError("nv-roi-update: regions are parts of frames, and process-mode is secondary")
            name, boxes = regions_of_event(fields)
            stream = self._stream_ids.get(name, int(name) if re.fullmatch(r"[0-9]{1,9}", name) else None)
            if stream is None:
                raise ConfigurationError(f"nv-roi-update: there is no stream {name!r}; right is its number, such as 0")
        except ConfigurationError as error:
            self._warn(f"{error}; the regions stay as they are")
            return
        self._before.setdefault(stream, self._regions.get(stream, ()))
        self._regions[stream] = boxes

    def forget(self) -> None:
        """Forget the objects of all streams: what was in the element may have been lost."""
        self._history.clear()


def _done(results: Results) -> "Future[Results]":
    future: Future[Results] = Future()
    future.set_result(results)
    return future
