"""``sluiceinfer``: your model in the stream, in the place of nvinfer.

The buffer that leaves is the one that came, its pixels untouched; the model's detections are in its metadata. The model
runs on a thread of its own (``sluice.models.instance``), never on a streaming thread.

Imports gi and the standard library only; numpy, the contract and the models are imported at NULL→READY.
"""

from typing import TYPE_CHECKING, Any

import gi

gi.require_version("Gst", "1.0")
from gi.repository import GLib, GObject, Gst

from sluice.elements.base import InFlightElement, Pending, guarded, post_error
from sluice.elements.guard import format_trace
from sluice.elements.events import INFER_INTERVAL_UPDATE, event_type, parse_control_event
from sluice.elements.infer_properties import (
    BY_NAME,
    ON_ERROR,
    PASS_THROUGH,
    PROPERTIES,
    Settings,
    declarations,
    on_error_fault,
    property_name,
)
from sluice.elements.infer_state import IntervalCounter, RateLimit, Stats

if TYPE_CHECKING:
    from sluice.elements.infer_calls import Results
    from sluice.elements.infer_frames import BatchReader
    from sluice.models.instance import ModelInstance

NVMM_FORMATS = "{ NV12, RGBA, I420, RGB }"
RAW_FORMATS = "{ I420, NV12, RGB, BGR, RGBA, BGRA, BGRx, RGBx, GRAY8, YUY2 }"
CAPS = (
    f"video/x-raw(memory:NVMM), format={NVMM_FORMATS}; "
    "video/x-raw(memory:SluiceSurface); "
    f"video/x-raw(memory:CUDAMemory), format={RAW_FORMATS}; "
    f"video/x-raw, format={RAW_FORMATS}"
)


def _template(name: str, direction: Gst.PadDirection) -> Gst.PadTemplate:
    return Gst.PadTemplate.new(name, direction, Gst.PadPresence.ALWAYS, Gst.Caps.from_string(CAPS))


class SluiceInfer(InFlightElement):
    """The element; see ``gst-inspect-1.0 sluiceinfer`` for its properties."""

    __gtype_name__ = "SluiceInfer"
    __gstmetadata__ = (
        "Sluice inference",
        "Filter/Analyzer/Video",
        "Runs a Python or network model on batches of frames and writes what it finds into their metadata",
        "The Sluice developers",
    )
    __gsttemplates__ = (_template("sink", Gst.PadDirection.SINK), _template("src", Gst.PadDirection.SRC))
    __gproperties__ = declarations()

    def __init__(self) -> None:
        super().__init__()
        self._values: dict[str, Any] = {entry.name: entry.default for entry in PROPERTIES}
        self._settings: Settings | None = None
        self._instance: ModelInstance | None = None
        self._labels: tuple[str, ...] = ()
        self._counter = IntervalCounter()
        self._warnings = RateLimit()
        self._stats = Stats()
        self._frame_number = 0
        self._reader: BatchReader | None = None

    # Properties

    @guarded(None)
    def do_get_property(self, spec: GObject.ParamSpec) -> Any:
        return self._stats_structure() if spec.name == "stats" else self._values[property_name(spec.name)]

    @guarded(None)
    def do_set_property(self, spec: GObject.ParamSpec, value: Any) -> None:
        name, running = property_name(spec.name), self._settings is not None
        if running and name == "on-error" and value not in ON_ERROR:
            self._warn(f"{on_error_fault(value)}; it stays {self._values[name]!r}")
            return
        self._values[name] = value
        if name != spec.name:
            self.notify(name)
        if running and not BY_NAME[name].playing:
            self._warn(f"{name} was set while the element runs; it takes effect after the next change to NULL")

    def _stats_structure(self) -> Gst.Structure:
        """Return the counters as the ``stats`` property gives them."""
        counted = self._stats.snapshot()
        structure = Gst.Structure.new_empty("sluiceinfer-stats")
        structure.set_value("model", self._values["model"] or "")
        for name in ("batches", "frames", "inferred", "skipped", "errors", "objects"):
            structure.set_value(name, GObject.Value(GObject.TYPE_UINT64, getattr(counted, name)))
        structure.set_value("model-ms-mean", counted.model_ms_mean)
        structure.set_value("model-ms-max", counted.model_ms_max)
        return structure

    # Start and stop

    def start(self) -> None:
        settings = Settings.from_values(self._values)
        self._stats = Stats()
        self._counter.reset()
        self._frame_number = 0
        if settings.model != PASS_THROUGH:
            from sluice.elements.infer_calls import acquire_instance

            self._instance = acquire_instance(settings)
            self._labels = self._instance.wait_loaded().labels
        self._settings = settings

    def stop(self) -> None:
        self._settings = None
        instance, self._instance = self._instance, None
        if instance is not None:
            from sluice.models.instance import release

            release(instance)

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
        kind = event_type(event)
        if kind == Gst.EventType.EOS:
            self._counter.reset()
        elif kind == INFER_INTERVAL_UPDATE:
            self.set_property("interval", (parse_control_event(event) or {})["interval"])
        return event

    def on_caps(self, caps: Gst.Caps) -> Gst.Caps:
        from sluice.elements.infer_frames import BatchReader

        self._reader = BatchReader(caps)
        return caps

    def submit(self, buffer: Gst.Buffer, _caps: Gst.Caps) -> "Pending[Results] | None":
        from sluice.contract.metadata import Lease
        from sluice.elements.infer_calls import call_model

        settings, stats, reader = self._settings, self._stats, self._reader
        assert settings is not None
        assert reader is not None
        metas = reader.metadata(buffer, self._frame_number, Lease())
        self._frame_number += 1
        if not metas or self._instance is None or not self._counter.wants(self._values["interval"]):
            stats.count_batch(len(metas), skipped=len(metas))
            return None
        batch = reader.open(buffer, metas)
        return self._instance.submit(lambda model: call_model(model, batch, settings, stats))

    def finish(self, _buffer: Gst.Buffer, result: "Results | None") -> bool:
        if result is None:
            return True
        settings = self._settings
        assert settings is not None
        if result.error is not None:
            if self._values["on-error"] == "fail":
                return self._fail(result.error)
            outcome = "passed on without detections" if result.lost else "inferred again frame by frame"
            self._warn_of_model_error(result.error, outcome)
        objects = result.attach(self._labels, settings.unique_id)
        self._stats.count_batch(len(result), inferred=len(result) - result.lost, errors=result.lost, objects=objects)
        return True

    def _fail(self, error: BaseException) -> bool:
        """Post the error, then refuse data: elements upstream post an error that says nothing when they are refused."""
        post_error(self, error)
        self.flow = Gst.FlowReturn.ERROR
        return False

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
        self._warn(f"{place}{outcome}: {type(error).__name__}: {error}{more}", trace)

    def _warn(self, text: str, debug: str = "") -> None:
        """Post a warning message."""
        warning = GLib.Error.new_literal(Gst.StreamError.quark(), text, int(Gst.StreamError.FAILED))
        self.post_message(Gst.Message.new_warning(self, warning, debug))
