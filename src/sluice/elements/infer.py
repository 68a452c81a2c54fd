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
from sluice.elements.frame_caps import DEVICE_FORMATS, NVMM_FORMATS, RAW_FORMATS, pad_template
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
from sluice.elements.infer_state import Stats
from sluice.errors import ConfigurationError

if TYPE_CHECKING:
    from sluice.contract.inflight import Call
    from sluice.elements.infer_calls import Results
    from sluice.elements.infer_feed import Feed
    from sluice.elements.infer_work import Work
    from sluice.models.instance import Unfinished

CAPS = (
    f"video/x-raw(memory:NVMM), format={NVMM_FORMATS}; "
    "video/x-raw(memory:SluiceSurface); "
    f"video/x-raw(memory:CUDAMemory), format={DEVICE_FORMATS}; "
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
        self._stats = Stats()
        self._feed: Feed | None = None
        self._work: Work | None = None

    # Properties

    @guarded(None)
    def do_get_property(self, spec: GObject.ParamSpec) -> Any:
        return self._stats_structure() if spec.name == "stats" else self._values[property_name(spec.name)]

    @guarded(None)
    def do_set_property(self, spec: GObject.ParamSpec, value: Any) -> None:
        """Set a property; while running that swaps the model, changes its prompt, or says when it will count."""
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
            # Whoever changes the model next hears of that one, and has nothing to be warned of.
            told_as = "model-updated" if change is Change.WITH_MODEL else ""
            self.warn(f"{name} was set while the element runs; it takes effect after {when}", told_as=told_as)

    def _stats_structure(self) -> Gst.Structure:
        """Return the counters as the ``stats`` property gives them."""
        counted = self._stats.snapshot()
        structure = Gst.Structure.new_empty("sluiceinfer-stats")
        structure.set_value("model", self._values["model"] or self._values["config-file-path"] or "")
        for name in ("batches", "frames", "inferred", "skipped", "errors", "objects", "cut"):
            structure.set_value(name, GObject.Value(GObject.TYPE_UINT64, getattr(counted, name)))
        structure.set_value("model-ms-total", counted.model_ms_total)
        structure.set_value("model-ms-mean", counted.model_ms_mean)
        structure.set_value("model-ms-max", counted.model_ms_max)
        return structure

    # Start and stop

    def start(self) -> None:
        from sluice.elements.infer_feed import Feed
        from sluice.elements.infer_work import Work
        from sluice.models.raw_files import RawFiles

        self._values = with_configuration(self._values, self._given)
        settings = Settings.from_values(self._values)
        if settings.model == "none" and settings.options:
            keys = ", ".join(key for key, _ in settings.options)
            raise ConfigurationError(f"model-options has {keys}, and model is 'none', which takes no options")
        self._stats = Stats()
        self._feed = Feed(settings.scope, settings.iou, self.warn)
        files = RawFiles(settings.unique_id, Path.cwd()) if settings.nvinfer.writes_files else None
        slot = self.start_model(settings)
        self._work = Work(settings, self._values, slot, self._stats, self._feed, files, self.warn)

    def stop(self) -> None:
        self.stop_model()
        self._feed = self._work = None

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
            if self._work is not None:
                self._work.counter.reset()
        elif kind == INFER_INTERVAL_UPDATE:
            self.set_property("interval", (parse_control_event(event) or {})["interval"])
        if self._feed is not None:
            self._feed.on_event(event)

    def on_flush(self) -> None:
        self.catch_up()
        if self._feed is not None:
            self._feed.forget()

    def on_caps(self, caps: Gst.Caps) -> Gst.Caps:
        assert self._work is not None
        queue = self._fifo.queue
        queue.set_mark(self._work.on_caps(caps, queue.arrived))
        return caps

    def submit(self, buffer: Gst.Buffer, _caps: Gst.Caps) -> "Pending[Results] | None":
        from sluice.contract import gstref

        assert self._work is not None
        self.catch_up()
        return self._work.submit(gstref.buffer_address(buffer), self._fifo.queue.arrived - 1)

    def work(self, call: "Call", model: Any) -> "Unfinished | None":
        work = self._work
        if work is None:
            super().work(call, model)
            return None
        try:
            self.catch_up(call.number)
        except BaseException as error:
            self.fail(call, error)
            return None
        return work.work(call, model, self.fail)

    def finish(self, _buffer: Gst.Buffer, result: "Results | None") -> bool:
        if result is not None:
            assert self._work is not None
            self._work.write(result)
        return True
