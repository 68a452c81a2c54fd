"""Reads everything that is measured of a running pipeline, for Prometheus and its kin; nothing of it per frame."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import gi

gi.require_version("Gst", "1.0")
from gi.repository import Gst

from sluice.app.streams.states import StreamState, StreamStatus
from sluice.contract.object_counts import ObjectCounter
from sluice.contract.structures import fields_of
from sluice.metrics import ElementNumbers, Metrics, OutputNumbers, Snapshot, StreamNumbers

if TYPE_CHECKING:
    from sluice.app.measuring import Measured
    from sluice.app.outputs import LiveOutputs
    from sluice.app.pipeline import Pipeline

# Behind these the objects of a frame are complete.
_COMPLETE = ("sluicetracker", "sluiceinfer")
_VIEWED = ("pictures", "webrtc", "rtsp")
_NO_MESSAGES = ("reconnects", "spooled")  # among the broker's counters


class Monitor:
    """The numbers of one pipeline. Any thread may ask.

    Attributes:
        metrics: the same as Prometheus and OpenTelemetry take them.
    """

    def __init__(self, pipeline: Pipeline, outputs: LiveOutputs | None = None) -> None:
        """Measure a pipeline and its outputs, from the first question after its start on if it has not started.

        Raises:
            ConfigurationError: prometheus-client is not installed.
        """
        self._pipeline = pipeline
        self._outputs = outputs
        self._lock = threading.Lock()
        self._claimed = False
        self._measured: Measured | None = None
        self._objects: ObjectCounter | None = None
        self.metrics = Metrics(self.snapshot)
        self.attach()

    def text(self) -> str:
        """Return all metrics in Prometheus' text format."""
        return self.metrics.text()

    def attach(self) -> bool:
        """Begin to measure, unless that was done or the pipeline has not started; return whether it is measured."""
        measured = self._pipeline.measured
        with self._lock:
            if measured is None or self._claimed:
                return self._measured is not None
            self._claimed = True
        complete = next((measured.elements[name] for name in _COMPLETE if name in measured.elements), None)
        if complete is not None:
            self._objects = ObjectCounter(complete.get_static_pad("src"))
        self._measured = measured
        return True

    def snapshot(self) -> Snapshot:
        """Return all numbers as they are now."""
        self.attach()
        measured = self._measured
        if measured is None:
            return Snapshot(states=tuple(state.value for state in StreamState))
        elements = measured.elements
        infer = _numbers(elements.get("sluiceinfer"))
        messages = _numbers(elements.get("sluicemsgbroker"))
        outputs = self._outputs.stats() if self._outputs is not None else {}
        objects = self._objects.read() if self._objects is not None else {}
        return Snapshot(
            streams=tuple(_stream(status, objects) for status in self._pipeline.streams),
            states=tuple(state.value for state in StreamState),
            elements=tuple(_element_numbers(measured)),
            batch_size=int(elements["sluicemux"].get_property("batch-size")),
            latencies=tuple(measured.meter.read()),
            last=list(elements)[-1],
            model_seconds=(infer.get("model-ms-mean", 0.0) / 1e3, infer.get("model-ms-max", 0.0) / 1e3),
            model_busy=infer.get("model-ms-total", 0.0) / 1e3,
            model={name: int(infer[name]) for name in ("inferred", "skipped", "errors") if name in infer},
            messages={name: int(count) for name, count in messages.items() if name not in _NO_MESSAGES},
            spooled=int(messages.get("spooled", 0)),
            outputs=tuple(n for stream, counts in outputs.items() for n in _outputs_of(stream, counts)),
            viewers=_viewers_of(outputs),
            events=max((event.number for event in self._pipeline.events.since()), default=0),
        )


def _element_numbers(measured: Measured) -> list[ElementNumbers]:
    found, before = [], None
    for name in measured.elements:
        batches, frames = measured.meter.batches(name)
        found.append(ElementNumbers(name, batches, frames, 0 if before is None else max(0, before - frames)))
        before = frames
    return found


def _numbers(element: Gst.Element | None) -> dict[str, float]:
    """Return the numbers of an element's ``stats``."""
    if element is None:
        return {}
    values = fields_of(element.get_property("stats"))
    return {name: value for name, value in values.items() if isinstance(value, int | float)}


def _stream(status: StreamStatus, objects: dict[tuple[int, str], int]) -> StreamNumbers:
    return StreamNumbers(
        name=status.name,
        number=status.number,
        state=str(status.state),
        frames_in=status.frames_in,
        frames_out=status.frames_out,
        dropped=status.dropped,
        overtaken=status.overtaken,
        fps=status.fps,
        reconnects=status.reconnects,
        waiting=status.waiting,
        last_frame_age=status.last_frame_age,
        live=status.live,
        objects={label: count for (number, label), count in objects.items() if number == status.number},
    )


def _outputs_of(stream: str, counts: dict[str, int]) -> list[OutputNumbers]:
    """Sort a branch's flat counts by output."""

    def get(name: str) -> int:
        return counts.get(name, 0)

    found = [
        OutputNumbers(
            stream,
            output,
            frames=get("encoded") if output == "encode" else get("frames"),
            dropped=get(f"{output}-dropped"),
            failures=get(f"{output}-failures"),
            active=bool(get(f"{output}-active")),
        )
        for output in ("draw", "encode")
    ]
    for output, files in (("record", "segments"), ("clips", "clips"), ("hls", "")):
        if f"{output}-enabled" in counts:
            found.append(
                OutputNumbers(
                    stream,
                    output,
                    frames=get(f"{output}-frames"),
                    dropped=get(f"{output}-dropped"),
                    failures=get(f"{output}-failures"),
                    files=get(f"{output}-{files}"),
                    active=bool(get(f"{output}-enabled")),
                )
            )
    return found


def _viewers_of(outputs: dict[str, dict[str, int]]) -> dict[tuple[str, str], int]:
    """Return how many viewers there are, by stream and kind."""
    return {(stream, kind): counts.get(f"{kind}-viewers", 0) for stream, counts in outputs.items() for kind in _VIEWED}
