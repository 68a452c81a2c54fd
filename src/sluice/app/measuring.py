"""The elements that all streams share, measured: for metrics, and for DeepStream's latency reports."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterable
from typing import TextIO

import gi

gi.require_version("Gst", "1.0")
from gi.repository import Gst

from sluice.contract.latency import LatencyMeter, component_latencies
from sluice.contract.metadata import BatchMeta
from sluice.elements.guard import guarded
from sluice.metrics.latency_records import LatencyReports, LatencyWriter

# The shared elements that are measured, in the order of the pipeline.
_MEASURED = ("sluicemux", "sluiceinfer", "sluicetracker", "sluiceanalytics", "sluicemsgconv", "sluicemsgbroker")


class Measured:
    """Elements that are measured from now on.

    Attributes:
        elements: by the names of their factories, in the order of the pipeline.
        meter: how long frames are in them.
    """

    def __init__(self, elements: Iterable[Gst.Element], reports: LatencyReports, out: TextIO) -> None:
        """Begin.

        Args:
            elements: of a pipeline that has started; those that all streams share are taken.
            reports: what is printed and written of each batch.
            out: where it is printed.

        Raises:
            ConfigurationError: a file of the reports cannot be written.
        """
        found = {element.get_factory().get_name(): element for element in elements if element.get_factory()}
        self.elements = {name: found[name] for name in _MEASURED if name in found}
        self.meter = LatencyMeter()
        for name, element in self.elements.items():
            self.meter.watch_element(element, name)
        self._writer = LatencyWriter(reports, out) if reports else None
        if self._writer is not None:
            last = list(self.elements.values())[-1]
            end = last.get_static_pad("src") or last.get_static_pad("sink")
            # Behind the meter's own probe, which completes the last element's record.
            end.add_probe(Gst.PadProbeType.BUFFER, _report, self._writer)

    def close(self) -> None:
        """Finish the reports."""
        if self._writer is not None:
            self._writer.close()


class Measuring:
    """Begins to measure a pipeline as soon as somebody asks, once for all who do."""

    def __init__(self, elements: Callable[[], Iterable[Gst.Element]], messages: object) -> None:
        """Prepare it.

        Args:
            elements: returns those of the pipeline, once it has started.
            messages: where messages go, beside which no text may be printed.
        """
        self._elements = elements
        self._out = sys.stderr if str(messages) == "-" else sys.stdout
        self._reports = LatencyReports.of(os.environ)
        self._lock = threading.Lock()
        self._claimed = False
        self._begun = threading.Event()
        self._measured: Measured | None = None

    def started(self) -> None:
        """Take note that the pipeline has started: where reports are wanted, they begin with its first frame.

        Raises:
            ConfigurationError: a file of the reports cannot be written.
        """
        if self._reports:
            self.begin()

    def begin(self) -> Measured:
        """Return what is measured; waits for whoever begins it.

        Raises:
            ConfigurationError: a file of the reports cannot be written.
        """
        with self._lock:
            first, self._claimed = not self._claimed, True
        if first:
            self._measured = Measured(self._elements(), self._reports, self._out)
            self._begun.set()
        self._begun.wait()
        assert self._measured is not None
        return self._measured

    def close(self) -> None:
        """Finish the reports."""
        if self._measured is not None:
            self._measured.close()


@guarded(failure=Gst.PadProbeReturn.OK)
def _report(_pad: Gst.Pad, info: Gst.PadProbeInfo, writer: LatencyWriter) -> Gst.PadProbeReturn:
    batch = BatchMeta.of(info.get_buffer())
    if batch is not None:
        writer.put(component_latencies(batch), time.time() * 1000)
    return Gst.PadProbeReturn.OK
