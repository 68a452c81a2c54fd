"""What a ``sluiceinfer`` does with a buffer's frames before its model: gives them whole, in parts, or their objects."""

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any

import gi

gi.require_version("Gst", "1.0")
from gi.repository import Gst

from sluice.contract.metadata import FrameMeta
from sluice.contract.surface import SurfaceBatch
from sluice.elements.events import PAD_DELETED, STREAM_EOS, STREAM_RESET, event_type, parse_stream_event
from sluice.elements.infer_calls import BegunCall, Results
from sluice.elements.infer_crops import CachedBatch, ObjectBatch, RegionBatch
from sluice.elements.infer_frames import Batch, OpenBatch
from sluice.elements.infer_history import History
from sluice.elements.infer_scope import Scope
from sluice.models.detections import Detections
from sluice.models.instance import ModelDefinition
from sluice.models.network import IOU
from sluice.models.regions import read_regions
from sluice.models.slot import ModelSlot


class Feed:
    """Makes of each buffer what the model is given; one per start of an element.

    Attributes:
        secondary: whether objects are given. Every buffer then counts, whatever ``interval`` says.
    """

    def __init__(self, scope: Scope, iou: float | None) -> None:
        """Read the regions and begin an empty history.

        Args:
            scope: what the model is given.
            iou: overlap above which boxes of different regions are merged; None for the default of network models.

        Raises:
            ConfigurationError: the regions cannot be read.
        """
        self._scope = scope
        self._regions = read_regions(scope.regions)
        self._iou = IOU if iou is None else iou
        self._history = History(scope.interval)
        self._definition: ModelDefinition | None = None
        self._busy: Future[Results] | None = None
        self._late: Results | None = None
        self.secondary = scope.secondary

    def open(self, slot: ModelSlot, metas: Sequence[FrameMeta], surfaces: SurfaceBatch) -> OpenBatch:
        """Return the batch that the model is given of a buffer.

        Args:
            slot: where the model is.
            metas: the buffer's frames.
            surfaces: its surfaces.

        Raises:
            ConfigurationError: a region lies outside a stream's picture.
            ContractError: the surfaces do not fit the metadata.
        """
        if slot.definition != self._definition:
            # What another model said of an object does not hold any more.
            self._definition = slot.definition
            self._history.clear()
        if self.secondary:
            return ObjectBatch(metas, surfaces, self._scope, self._history)
        if self._regions:
            return RegionBatch(metas, surfaces, self._regions, self._iou, clip=self._scope.clip)
        return Batch(metas, surfaces)

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
            batch = RegionBatch(metas, surfaces, self._regions, self._iou)
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
        """Forget the objects of streams that ended, began anew or were removed."""
        kind = event_type(event)
        if kind in (STREAM_EOS, STREAM_RESET, PAD_DELETED):
            said = parse_stream_event(event)
            if said is not None:
                self._history.forget(said.source_id)
        elif kind == Gst.EventType.EOS:
            self.forget()

    def forget(self) -> None:
        """Forget the objects of all streams: what was in the element may have been lost."""
        self._history.clear()


def _done(results: Results) -> "Future[Results]":
    future: Future[Results] = Future()
    future.set_result(results)
    return future
