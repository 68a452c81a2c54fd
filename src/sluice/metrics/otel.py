"""The same metrics through OpenTelemetry, to any collector that takes OTLP over HTTP; by OpenTelemetry's own SDK."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from sluice.errors import ConfigurationError
from sluice.metrics.families import Metrics

_FRESH = 1.0  # seconds for which one reading serves all instruments of an export


class OtelExport:
    """Exports the metrics in a given interval, on a thread of the SDK, until `close`.

    Histograms go as their ``_count``, ``_sum`` and ``_bucket`` counters: the API has no histograms that are read.
    """

    def __init__(
        self,
        metrics: Metrics,
        endpoint: str,
        *,
        interval: float = 15.0,
        headers: Mapping[str, str] | None = None,
        resource: Mapping[str, str] | None = None,
    ) -> None:
        """Begin to export.

        Args:
            metrics: what is exported.
            endpoint: of the collector, such as ``http://localhost:4318/v1/metrics``.
            interval: seconds between exports.
            headers: of the requests, for a collector that wants a key.
            resource: attributes of what is measured, besides ``service.name``.

        Raises:
            ConfigurationError: the SDK is not installed, or the endpoint is no HTTP URL.
        """
        if not endpoint.startswith(("http://", "https://")):
            raise ConfigurationError("the OpenTelemetry endpoint is no http:// or https:// URL")
        if interval <= 0:
            raise ConfigurationError(f"the OpenTelemetry interval is {interval}; it is a number of seconds above 0")
        try:
            from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
            from opentelemetry.metrics import Observation
            from opentelemetry.sdk.metrics import MeterProvider
            from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
            from opentelemetry.sdk.resources import Resource
        except ImportError as error:
            raise ConfigurationError(
                'OpenTelemetry needs its SDK and the OTLP exporter; install them with: pip install "sluice-video[otel]"'
            ) from error
        self._metrics = metrics
        self._observation = Observation
        self._read_at = float("-inf")
        self._families: dict[str, Any] = {}
        reader = PeriodicExportingMetricReader(
            OTLPMetricExporter(endpoint=endpoint, headers=dict(headers or {})), export_interval_millis=interval * 1000
        )
        self._provider = MeterProvider(
            metric_readers=[reader], resource=Resource.create({"service.name": "sluice", **(resource or {})})
        )
        meter = self._provider.get_meter("sluice")
        for family in self._now().values():
            for name in _sample_names(family):
                make = meter.create_observable_gauge if family.type == "gauge" else meter.create_observable_counter
                make(name, callbacks=[self._observer(family.name, name)], description=family.documentation)

    def close(self) -> None:
        """Export once more and end."""
        self._provider.shutdown()

    def _now(self) -> dict[str, Any]:
        now = time.monotonic()
        if now > self._read_at + _FRESH:
            self._families = {family.name: family for family in self._metrics.collect()}
            self._read_at = now
        return self._families

    def _observer(self, family: str, sample: str) -> Callable[[Any], Iterable[Any]]:
        def observe(_options: Any) -> Iterable[Any]:
            found = self._now().get(family)
            for one in found.samples if found is not None else ():
                if one.name == sample:
                    yield self._observation(one.value, dict(one.labels))

        return observe


def _sample_names(family: Any) -> list[str]:
    suffixes = {"counter": ("_total",), "histogram": ("_bucket", "_sum", "_count")}.get(family.type, ("",))
    return [family.name + suffix for suffix in suffixes]
