"""What ``sluiceinfer`` does with each buffer: open its frames, have the model called on them, write what it found.

One `Work` lasts from start to stop. Its modules are imported once, with it: an import statement in a function that runs
for every buffer costs as much as reading the buffer's metadata.
"""

import itertools
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from typing import Any

import gi

gi.require_version("Gst", "1.0")
from gi.repository import Gst

from sluice.contract.inflight import DROP, PUSH, Call, finish, is_wanted
from sluice.contract.metadata import Lease
from sluice.elements.infer_calls import BegunCall, BegunWork, Remark, Results, call_model
from sluice.elements.infer_feed import Feed
from sluice.elements.infer_frames import BatchReader, OpenBatch
from sluice.elements.infer_properties import MOST_IN_FLIGHT, Settings
from sluice.elements.infer_state import IntervalCounter, RateLimit, Stats
from sluice.errors import format_trace, text_of
from sluice.models.instance import Unfinished
from sluice.models.raw_files import RawFiles
from sluice.models.slot import ModelSlot


class Work:
    """The work on the buffers of one element between its start and its stop.

    Args:
        settings: the properties at the start.
        values: all properties, as they are at any time.
        slot: where the model is.
        stats: what is counted.
        feed: makes of a buffer what the model is given.
        files: where raw outputs are written, if they are.
        warn: posts a warning, given its text and a traceback.
    """

    def __init__(
        self,
        settings: Settings,
        values: dict[str, Any],
        slot: ModelSlot,
        stats: Stats,
        feed: Feed,
        files: RawFiles | None,
        warn: Callable[[str, str], None],
    ) -> None:
        self._settings, self._values, self._slot, self._stats = settings, values, slot, stats
        self._feed, self._files, self._warn = feed, files, warn
        self._warnings = RateLimit()
        self._told: set[tuple[str, str]] = set()  # kind of remark, and model
        # By the mark that buffers carry, the newest last; with how many buffers came before. Changed by the
        # thread of the sink pad only: a model that is being replaced still works on old buffers beside the new model.
        self._readers: dict[int, tuple[BatchReader, int]] = {}
        self.counter = IntervalCounter()

    def on_caps(self, caps: Gst.Caps, number: int) -> int:
        """Take the caps of the buffers that come from now on, and return the mark that they are to carry.

        Args:
            caps: of those buffers.
            number: how many buffers came before them.

        Raises:
            ContractError: caps that cannot be read, with what can.
        """
        mark = max(self._readers, default=0) + 1
        self._readers[mark] = BatchReader(caps, self._settings.nvinfer.gpu), number
        self._forget_readers(number)
        return mark

    def _forget_readers(self, number: int) -> None:
        """Forget the readers all of whose buffers have left, as so many have come since that no older one is inside."""
        while len(self._readers) > 1:
            oldest, second = itertools.islice(self._readers, 2)
            if number - MOST_IN_FLIGHT < self._readers[second][1] <= number:
                break
            del self._readers[oldest]

    def submit(self, buffer: int, number: int) -> "Future[Results] | None":
        """Queue a call on the buffer at an address, which has the newest caps; None where there is nothing to do.

        The results are for `write`.

        Args:
            buffer: address of the buffer, which its holder keeps alive.
            number: how many buffers came before it.
        """
        batch = self._open(buffer, max(self._readers), number, running=self._slot.running)
        if batch is None:
            return None
        pending = self._feed.submit(
            self._slot, batch, lambda model: call_model(model, batch, self._settings, self._stats, self._files)
        )
        if pending is None:
            self._stats.count_batch(len(batch.metas), skipped=len(batch.metas))
        return pending

    def work(self, call: Call, model: Any, fail: Callable[[Call, BaseException], None]) -> Unfinished | None:
        """Call the model on a buffer that was announced, write what it found and let the buffer leave; never raises.

        Args:
            call: the buffer; see `sluice.contract.inflight.finish`.
            model: what is called.
            fail: ends the stream with an exception, and the call.

        Returns:
            None; or, where the model has only begun, what ends the call.
        """
        if not call.buffer:
            finish(call, DROP)
            return None
        try:
            batch = self._open(call.buffer, call.mark, call.number, lent=True)
            if batch is None:
                finish(call, PUSH)
                return None
            results = call_model(model, batch, self._settings, self._stats, self._files)
        except BaseException as error:
            fail(call, error)
            return None
        if isinstance(results, BegunCall):
            return BegunWork(results, lambda found: self._end(call, found, fail))
        self._end(call, results, fail)
        return None

    def _open(
        self, buffer: int, mark: int, number: int, *, running: bool = True, lent: bool = False
    ) -> OpenBatch | None:
        """Return what the model is given of a buffer; None, and it is counted, where that is nothing.

        Args:
            buffer: address of the buffer.
            mark: that of its caps.
            number: how many buffers came before it.
            running: whether there is a model.
            lent: whether the caller keeps the buffer alive until the batch is released.
        """
        slot, feed, reader = self._slot, self._feed, self._readers[mark][0]
        metas, rows = reader.read(buffer, number, Lease())
        if metas and slot.wants_sample:
            sample = feed.sample(metas, reader.surfaces_at(buffer), self._settings.batch_size)
            if sample is not None:
                slot.offer(sample)
        if metas and running and (feed.secondary or self.counter.wants(self._values["interval"])):
            batch = feed.open(slot, metas, rows, reader.surfaces_at(buffer, lent=lent))
            if batch.frames:
                size = min(len(batch.frames), self._settings.batch_size or len(batch.frames))
                on_gpu = batch.frames[0].surface.mem_type.on_cuda
                slot.note_call(size, self._values["in-flight"], on_gpu=on_gpu)
            return batch
        self._stats.count_batch(len(metas), skipped=len(metas))
        return None

    def _end(self, call: Call, results: Results, fail: Callable[[Call, BaseException], None]) -> None:
        """Write the results of a buffer, unless it was abandoned while the model worked, and let it leave."""
        if not is_wanted(call):
            finish(call, DROP)
            return
        try:
            self.write(results)
        except BaseException as error:
            fail(call, error)
        else:
            finish(call, PUSH)

    def write(self, results: Results) -> None:
        """Write what the model found into the metadata; raises what ends the stream."""
        settings = self._settings
        if results.error is not None:
            if self._values["on-error"] == "fail":
                raise results.error
            outcome = "passed on without detections" if results.lost else "inferred again frame by frame"
            self._warn_of_model_error(results.error, outcome)
        cut = results.cut() if settings.max_detections is None else 0
        objects = results.attach(settings.unique_id)
        self._tell_once(results.remarks)
        lost = results.lost
        self._stats.count_batch(
            len(results.batch.metas), inferred=len(results) - lost, errors=lost, objects=objects, cut=cut
        )

    def _tell_once(self, remarks: Iterable[Remark]) -> None:
        """Post a warning for each kind of remark that was not told of the model that runs."""
        for remark in remarks:
            model = self._values["model"] or self._values["config-file-path"]
            if (remark.kind, model) not in self._told:
                self._told.add((remark.kind, model))
                self._warn(f"{model}: {remark.text}", remark.trace)

    def _warn_of_model_error(self, error: BaseException, outcome: str) -> None:
        """Post a warning with what became of the frames and the model's traceback, at most one in five seconds."""
        held_back = self._warnings.passes()
        if held_back is None:
            return
        place = (
            f"stream {error.stream}, frame {error.frame}: "
            if hasattr(error, "stream") and hasattr(error, "frame")
            else ""
        )
        more = f" ({held_back} more since the last such warning)" if held_back else ""
        self._warn(f"{place}{outcome}: {text_of(error)}{more}", format_trace(error))
