"""The metrics as Prometheus and OpenTelemetry get them, of numbers that are known."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from prometheus_client.parser import text_string_to_metric_families

from sluice.contract.latency import BOUNDS, Distribution, Latencies
from sluice.errors import ConfigurationError
from sluice.metrics import ElementNumbers, Metrics, OutputNumbers, Snapshot, StreamNumbers
from sluice.metrics.otel import OtelExport


def times(*seconds: float) -> Distribution:
    buckets = [0] * (len(BOUNDS) + 1)
    for value in seconds:
        buckets[next((index for index, bound in enumerate(BOUNDS) if value <= bound), len(BOUNDS))] += 1
    middle = sorted(seconds)[len(seconds) // 2]
    return Distribution(len(seconds), sum(seconds), max(seconds), len(seconds), middle, 0.9, 0.99, tuple(buckets))


SNAPSHOT = Snapshot(
    streams=(
        StreamNumbers("cam 1", 4, "playing", 100, 90, 10, 25.0, 2, 3, 0.04, {"person": 7, "car": 1}),
        StreamNumbers('odd "name"\n', 9, "lost"),
    ),
    states=("playing", "lost"),
    elements=(ElementNumbers("sluicemux", 50, 150), ElementNumbers("sluiceinfer", 49, 147, 3)),
    batch_size=4,
    latencies=(
        Latencies("sluicemux", 4, None, times(0.001)),
        Latencies("sluiceinfer", 4, times(0.01, 0.03, 70), times(0.1, 0.3)),
        Latencies("sluiceinfer", 9, times(0.02), None),
        Latencies("sluiceinfer", 77, times(0.02), None),  # a stream that is gone
    ),
    last="sluiceinfer",
    model_seconds=(0.02, 0.5),
    model={"inferred": 147, "errors": 0},
    messages={"queued": 9, "acknowledged": 8},
    spooled=1,
    outputs=(OutputNumbers("cam 1", "record", 90, 1, 2, 3, True),),
    viewers={("cam 1", "rtsp"): 2},
    events=12,
)


def parsed(text: str) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_the_text_has_every_number_under_its_name() -> None:
    found = parsed(Metrics(lambda: SNAPSHOT).text())

    def value(name: str, **labels: str) -> float:
        return found[f"sluice_{name}", frozenset(labels.items())]

    assert value("frames_in_total", stream="cam 1") == 100
    assert value("frames_out_total", stream="cam 1") == 90
    assert value("frames_dropped_total", stream="cam 1") == 10
    assert value("fps", stream="cam 1") == 25
    assert value("reconnects_total", stream="cam 1") == 2
    assert value("frames_waiting", stream="cam 1") == 3
    assert value("last_frame_age_seconds", stream="cam 1") == 0.04
    assert value("stream_state", stream="cam 1", state="playing") == 1
    assert value("stream_state", stream="cam 1", state="lost") == 0
    assert value("stream_state", stream='odd "name"\n', state="lost") == 1
    assert value("objects_total", **{"stream": "cam 1", "class": "person"}) == 7
    assert value("batch_fill") == 150 / (50 * 4)
    assert value("element_frames_in_flight", element="sluiceinfer") == 3
    assert value("model_seconds_mean") == 0.02
    assert value("latency_seconds_count", stream="cam 1") == 2
    assert value("latency_seconds_bucket", stream="cam 1", le="0.1") == 1
    assert value("latency_seconds_bucket", stream="cam 1", le="0.5") == 2
    assert value("element_seconds_count", element="sluiceinfer") == 4
    assert value("element_seconds_bucket", element="sluiceinfer", le="60.0") == 3
    assert value("element_seconds_bucket", element="sluiceinfer", le="+Inf") == 4
    quantile = {"stream": "cam 1", "element": "sluiceinfer", "quantile": "0.5"}
    assert value("element_seconds_recent", **quantile) == 0.03
    assert value("latency_seconds_recent", **quantile) == 0.3
    assert value("messages_total", state="acknowledged") == 8
    assert value("messages_spooled") == 1
    assert value("output_files_total", stream="cam 1", output="record") == 3
    assert value("output_viewers", stream="cam 1", output="rtsp") == 2
    assert value("events_total") == 12
    assert value("process_resident_bytes") > 2**20
    assert value("process_open_fds") >= 3
    assert 0 < value("python_switch_interval_seconds") < 1


def test_labels_are_bounded_by_what_is_there() -> None:
    text = Metrics(lambda: SNAPSHOT).text()
    streams = {labels["stream"] for _, pairs in parsed(text) if "stream" in (labels := dict(pairs))}
    assert streams == {"cam 1", 'odd "name"\n'}


def test_before_the_start_there_are_no_streams() -> None:
    found = parsed(Metrics(lambda: Snapshot(states=("playing",))).text())
    assert not any(name == "sluice_fps" for name, _ in found)
    assert ("sluice_process_open_fds", frozenset()) in found


def test_metrics_of_several_pipelines_do_not_meet() -> None:
    one, two = (Metrics(lambda: SNAPSHOT) for _ in range(2))
    assert one.registry is not two.registry
    assert "sluice_fps" in one.text()
    assert "sluice_fps" in two.text()


class Collector(ThreadingHTTPServer):
    """Takes OTLP over HTTP."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, dict[str, str], ExportMetricsServiceRequest]] = []
        self.arrived = threading.Event()
        super().__init__(("127.0.0.1", 0), _Handler)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/v1/metrics"


class _Handler(BaseHTTPRequestHandler):
    server: Collector

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        request = ExportMetricsServiceRequest.FromString(body)
        self.server.requests.append((self.path, dict(self.headers.items()), request))
        self.send_response(200)
        self.send_header("Content-Type", "application/x-protobuf")
        self.end_headers()
        self.server.arrived.set()

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def collector() -> Iterator[Collector]:
    server = Collector()
    yield server
    server.shutdown()
    server.server_close()


def test_the_same_numbers_reach_a_collector(collector: Collector) -> None:
    export = OtelExport(
        Metrics(lambda: SNAPSHOT), collector.url, interval=0.2, headers={"x-key": "k"}, resource={"site": "gate"}
    )
    assert collector.arrived.wait(10)
    export.close()
    path, headers, request = collector.requests[0]
    assert path == "/v1/metrics"
    assert {key.lower(): value for key, value in headers.items()}["x-key"] == "k"
    (resource,) = request.resource_metrics
    attributes = {item.key: item.value.string_value for item in resource.resource.attributes}
    assert attributes["service.name"] == "sluice"
    assert attributes["site"] == "gate"
    metrics = {metric.name: metric for scope in resource.scope_metrics for metric in scope.metrics}
    points = metrics["sluice_frames_in_total"].sum.data_points
    assert metrics["sluice_frames_in_total"].sum.is_monotonic
    labels = {point.attributes[0].value.string_value: point.as_double for point in points}
    assert labels["cam 1"] == 100
    assert metrics["sluice_fps"].gauge.data_points[0].as_double == 25
    assert len(metrics["sluice_latency_seconds_bucket"].sum.data_points) == len(BOUNDS) + 1
    assert {name.removeprefix("sluice_") for name in metrics} >= {"messages_total", "stream_state", "batch_fill"}


def test_a_collector_that_is_not_there_stops_nothing() -> None:
    export = OtelExport(Metrics(lambda: SNAPSHOT), "http://127.0.0.1:9/v1/metrics", interval=60)
    export.close()


@pytest.mark.parametrize(("endpoint", "interval"), [("localhost:4318", 15), ("http://localhost:4318", 0)])
def test_wrong_values_are_refused(endpoint: str, interval: float) -> None:
    with pytest.raises(ConfigurationError, match="OpenTelemetry"):
        OtelExport(Metrics(lambda: SNAPSHOT), endpoint, interval=interval)


def test_every_metric_is_named_from_the_start() -> None:
    """OpenTelemetry is told then which there are."""
    before, later = (
        {family.name for family in Metrics(lambda snapshot=snapshot: snapshot).collect()}  # type: ignore[misc]
        for snapshot in (Snapshot(states=("playing",)), SNAPSHOT)
    )
    assert before == later
