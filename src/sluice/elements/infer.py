"""``sluiceinfer``: your model in the stream, in the place of nvinfer.

The buffer that leaves is the one that came, its pixels untouched; the model's detections are in its metadata. The model
runs on a thread of its own (``sluice.models.instance``), never on a streaming thread.

Imports gi and the standard library only; numpy, the contract and the models are imported at NULL→READY.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import gi

gi.require_version("Gst", "1.0")
from gi.repository import GObject, Gst

from sluice.elements.base import Pending, guarded
from sluice.elements.events import INFER_INTERVAL_UPDATE, event_type, parse_control_event
from sluice.elements.frame_caps import RAW_FORMATS, pad_template
from sluice.elements.infer_nvinfer import with_configuration
from sluice.elements.infer_prompt import PromptedElement
from sluice.elements.infer_properties import (
    BY_NAME,
    CHOICES,
    Settings,
    choice_fault,
    declarations,
    property_name,
)
from sluice.elements.infer_property import Change
from sluice.elements.infer_state import IntervalCounter, RateLimit, Stats
from sluice.errors import ConfigurationError, format_trace

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sluice.contract.inflight import Claimed
    from sluice.elements.infer_calls import Remark, Results
    from sluice.elements.infer_feed import Feed
    from sluice.elements.infer_frames import BatchReader, OpenBatch
    from sluice.models.instance import Unfinished
    from sluice.models.raw_files import RawFiles

NVMM_FORMATS = "{ NV12, RGBA, I420, RGB }"
CAPS = (
    f"video/x-raw(memory:NVMM), format={NVMM_FORMATS}; "
    "video/x-raw(memory:SluiceSurface); "
    f"video/x-raw(memory:CUDAMemory), format={RAW_FORMATS}; "
    f"video/x-raw, format={RAW_FORMATS}"
)


class SluiceInfer(PromptedElement):
    """The element; see ``gst-inspect-1.0 sluiceinfer`` for its properties."""

    __gtype_name__ = "SluiceInfer"
    __gstmetadata__ = (
        "Sluice inference",
        "Filter/Analyzer/Video",
        "Runs a Python or network model on batches of frames and writes what it finds into their metadata",
        "The Sluice developers",
    )
    __gsttemplates__ = (
        pad_template("sink", Gst.PadDirection.SINK, CAPS),
        pad_template("src", Gst.PadDirection.SRC, CAPS),
    )
    __gproperties__ = declarations()
    __gsignals__: ClassVar[dict[str, Any]] = {"model-updated": (GObject.SignalFlags.RUN_LAST, None, (int, str))}

    def __init__(self) -> None:
        super().__init__()
        self._counter = IntervalCounter()
        self._warnings = RateLimit()
        self._told: set[tuple[str, str]] = set()  # kind of remark, and model
        self._stats = Stats()
        self._readers: dict[int, BatchReader] = {}  # by the mark that buffers carry, newest last
        self._feed: Feed | None = None
        self._files: RawFiles | None = None

    # Properties

    @guarded(None)
    def do_get_property(self, spec: GObject.ParamSpec) -> Any:
        return self._stats_structure() if spec.name == "stats" else self._values[property_name(spec.name)]

    @guarded(None)
    def do_set_property(self, spec: GObject.ParamSpec, value: Any) -> None:
        name, running = property_name(spec.name), self._settings is not None
        change = BY_NAME[name].change
        if running and change is Change.SWAPS:
            self.request_swap(name, value)
            return
        if running and change is Change.PROMPTS:
            self.request_prompt(value)
            return
        if running and name in CHOICES and value not in CHOICES[name]:
            self.warn(f"{choice_fault(name, value)}; it stays {self._values[name]!r}")
            return
        self._values[name] = value
        self._given.add(name)
        if name != spec.name:
            self.notify(name)
        if running and change is not Change.AT_ONCE:
            when = (
                "the next change of model or of state to NULL"
                if change is Change.WITH_MODEL
                else "the next change to NULL"
            )
            self.warn(f"{name} was set while the element runs; it takes effect after {when}")

    def _stats_structure(self) -> Gst.Structure:
        """Return the counters as the ``stats`` property gives them."""
        counted = self._stats.snapshot()
        structure = Gst.Structure.new_empty("sluiceinfer-stats")
        structure.set_value("model", self._values["model"] or self._values["config-file-path"] or "")
        for name in ("batches", "frames", "inferred", "skipped", "errors", "objects", "cut"):
            structure.set_value(name, GObject.Value(GObject.TYPE_UINT64, getattr(counted, name)))
        structure.set_value("model-ms-mean", counted.model_ms_mean)
        structure.set_value("model-ms-max", counted.model_ms_max)
        return structure

    # Start and stop

    def start(self) -> None:
        from sluice.elements.infer_feed import Feed
        from sluice.models.raw_files import RawFiles

        self._values = with_configuration(self._values, self._given)
        settings = Settings.from_values(self._values)
        if settings.model == "none" and settings.options:
            keys = ", ".join(key for key, _ in settings.options)
            raise ConfigurationError(f"model-options has {keys}, and model is 'none', which takes no options")
        self._stats = Stats()
        self._told.clear()
        self._counter.reset()
        self._readers.clear()
        self._feed = Feed(settings.scope, settings.iou, self.warn)
        self._files = RawFiles(settings.unique_id, Path.cwd()) if settings.nvinfer.writes_files else None
        self.start_model(settings)

    def stop(self) -> None:
        self.stop_model()
        self._feed = None

    # Queries: what downstream can take is what this element can take, since the buffers go through

    def on_sink_query(self, query: Gst.Query) -> bool:
        if query.type == Gst.QueryType.CAPS:
            return bool(self.sinkpad.proxy_query_caps(query))
        return bool(super().on_sink_query(query))

    def on_src_query(self, query: Gst.Query) -> bool:
        if query.type == Gst.QueryType.CAPS:
            return bool(self.srcpad.proxy_query_caps(query))
        return bool(super().on_src_query(query))

    # The stream

    def in_flight(self) -> int:
        return int(self._values["in-flight"])

    def on_event(self, event: Gst.Event) -> Gst.Event | None:
        self.in_turn(lambda: self._heed(event))
        return event

    def _heed(self, event: Gst.Event) -> None:
        """Do what an event says for the buffers behind it."""
        kind = event_type(event)
        if kind == Gst.EventType.EOS:
            self._counter.reset()
        elif kind == INFER_INTERVAL_UPDATE:
            self.set_property("interval", (parse_control_event(event) or {})["interval"])
        if self._feed is not None:
            self._feed.on_event(event)

    def on_flush(self) -> None:
        self.catch_up()
        if self._feed is not None:
            self._feed.forget()

    def on_caps(self, caps: Gst.Caps) -> Gst.Caps:
        from sluice.elements.infer_frames import BatchReader

        settings = self._settings
        assert settings is not None
        mark = max(self._readers, default=0) + 1
        self._readers[mark] = BatchReader(caps, settings.nvinfer.gpu)
        self._fifo.queue.set_mark(mark)
        return caps

    def submit(self, buffer: Gst.Buffer, _caps: Gst.Caps) -> "Pending[Results] | None":
        from sluice.contract import gstref
        from sluice.elements.infer_calls import call_model

        settings, slot, stats, feed, files = self._settings, self._slot, self._stats, self._feed, self._files
        assert settings is not None
        assert feed is not None
        assert slot is not None
        self.catch_up()
        batch = self._open(
            gstref.buffer_address(buffer), max(self._readers), self._fifo.queue.arrived - 1, running=slot.running
        )
        if batch is None:
            return None
        pending = feed.submit(slot, batch, lambda model: call_model(model, batch, settings, stats, files))
        if pending is None:
            stats.count_batch(len(batch.metas), skipped=len(batch.metas))
        return pending

    def _open(
        self, buffer: int, mark: int, number: int, *, running: bool = True, lent: bool = False
    ) -> "OpenBatch | None":
        """Return what the model is given of a buffer; None, and it is counted, where that is nothing.

        Args:
            buffer: address of the buffer.
            mark: that of its caps.
            number: how many buffers came before it.
            running: whether there is a model.
            lent: whether the caller keeps the buffer alive until the batch is released.
        """
        from sluice.contract.metadata import Lease

        settings, slot, feed, reader = self._settings, self._slot, self._feed, self._readers[mark]
        assert settings is not None
        assert feed is not None
        assert slot is not None
        metas, rows = reader.read(buffer, number, Lease())
        if metas and slot.wants_sample:
            sample = feed.sample(metas, reader.surfaces_at(buffer), settings.batch_size)
            if sample is not None:
                slot.offer(sample)
        if metas and running and (feed.secondary or self._counter.wants(self._values["interval"])):
            return feed.open(slot, metas, rows, reader.surfaces_at(buffer, lent=lent))
        self._stats.count_batch(len(metas), skipped=len(metas))
        return None

    def work(self, item: int, model: Any) -> "Unfinished | None":
        from sluice.contract.inflight import DROP, PUSH, claim
        from sluice.elements.infer_calls import BegunCall, BegunWork, call_model

        claimed = claim(item)
        settings = self._settings
        if not claimed.buffer or settings is None:
            self._let_go(item, claimed, DROP)
            return None
        try:
            self.catch_up(claimed.number)
            batch = self._open_claimed(claimed)
            if batch is None:
                self._let_go(item, claimed, PUSH)
                return None
            results = call_model(model, batch, settings, self._stats, self._files)
        except BaseException as error:
            self._give_up(item, claimed, error)
            return None
        if isinstance(results, BegunCall):
            return BegunWork(results, lambda found: self._end(item, claimed, found))
        self._end(item, claimed, results)
        return None

    def _open_claimed(self, claimed: "Claimed") -> "OpenBatch | None":
        """`_open` for a buffer that was announced; forgets the readers of caps before its own."""
        if len(self._readers) > 1:
            for mark in [mark for mark in self._readers if mark < claimed.mark]:
                del self._readers[mark]
        return self._open(claimed.buffer, claimed.mark, claimed.number, lent=True)

    def _end(self, item: int, claimed: "Claimed", results: "Results") -> None:
        """Write the results of an item's batch, unless it was abandoned while the model worked, and let it leave."""
        from sluice.contract.inflight import DROP, PUSH, is_wanted

        if not is_wanted(item):
            self._let_go(item, claimed, DROP)
            return
        try:
            self._write(results)
        except BaseException as error:
            self._give_up(item, claimed, error)
        else:
            self._let_go(item, claimed, PUSH)

    @staticmethod
    def _let_go(item: int, claimed: "Claimed", state: int) -> None:
        """Give the buffer back and say what becomes of it."""
        from sluice.contract.inflight import done, let_go

        if claimed.buffer:
            let_go(item, claimed.buffer)
        done(item, state)

    def _give_up(self, item: int, claimed: "Claimed", error: BaseException) -> None:
        """Give the buffer back and have the error end the stream."""
        from sluice.contract.inflight import let_go

        let_go(item, claimed.buffer)
        self.fail(item, claimed.number, error)

    def finish(self, _buffer: Gst.Buffer, result: "Results | None") -> bool:
        if result is not None:
            self._write(result)
        return True

    def _write(self, result: "Results") -> None:
        """Write what the model found into the metadata; raises what ends the stream."""
        settings = self._settings
        assert settings is not None
        if result.error is not None:
            if self._values["on-error"] == "fail":
                raise result.error
            outcome = "passed on without detections" if result.lost else "inferred again frame by frame"
            self._warn_of_model_error(result.error, outcome)
        cut = result.cut() if settings.max_detections is None else 0
        objects = result.attach(settings.unique_id)
        self._tell_once(result.remarks)
        frames = len(result.batch.metas)
        seen = len(result) - result.lost
        self._stats.count_batch(frames, inferred=seen, errors=result.lost, objects=objects, cut=cut)

    def _tell_once(self, remarks: "Iterable[Remark]") -> None:
        """Post a warning for each kind of remark that was not told of the model that runs."""
        for remark in remarks:
            model = self._values["model"] or self._values["config-file-path"]
            if (remark.kind, model) not in self._told:
                self._told.add((remark.kind, model))
                self.warn(f"{model}: {remark.text}", remark.trace)

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
        trace = format_trace(error)
        self.warn(f"{place}{outcome}: {type(error).__name__}: {error}{more}", trace)
