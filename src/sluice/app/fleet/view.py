"""What a fleet's page, its ``/metrics`` and ``/api/fleet`` show: the host's status, asked for at most once a second."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from sluice.errors import SluiceError

Status = dict[str, Any]
_FRESH = 1.0  # seconds for which a status is shown again


class FleetView:
    """The last status of a fleet, and its numbers for Prometheus. Any thread may ask."""

    def __init__(self, read: Callable[[], Status], clock: Callable[[], float] = time.monotonic) -> None:
        """Show what `read` returns; it raises SluiceError where the fleet does not answer."""
        self._read = read
        self._clock = clock
        self._lock = threading.Lock()
        self._found: Status | SluiceError | None = None
        self._at = 0.0
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(self)

    def status(self) -> Status:
        """Return how the fleet is.

        Raises:
            SluiceError: it does not answer.
        """
        with self._lock:
            if self._found is None or self._clock() - self._at >= _FRESH:
                try:
                    self._found = self._read()
                except SluiceError as error:
                    self._found = error
                self._at = self._clock()
            if isinstance(self._found, SluiceError):
                raise self._found
            return self._found

    def metrics(self) -> str:
        """Return all numbers in Prometheus' text format."""
        return str(generate_latest(self._registry).decode())

    def collect(self) -> Iterator[Metric]:
        """Give all numbers as they are now; what the registry calls."""
        try:
            status = self.status()
        except SluiceError:
            yield _gauge("up", "Whether the fleet's host answers.", (), [((), 0.0)])
            return
        yield _gauge("up", "Whether the fleet's host answers.", (), [((), 1.0)])
        yield from _streams(status)
        yield from _nodes(status)


Values = list[tuple[tuple[str, ...], float]]


def _gauge(name: str, text: str, labels: tuple[str, ...], values: Values) -> Metric:
    family = GaugeMetricFamily(f"sluice_fleet_{name}", text, labels=labels)
    for label_values, value in values:
        family.add_metric(label_values, value)
    return family


def _counter(name: str, text: str, labels: tuple[str, ...], values: Values) -> Metric:
    family = CounterMetricFamily(f"sluice_fleet_{name}", text, labels=labels)
    for label_values, value in values:
        family.add_metric(label_values, value)
    return family


def _streams(status: Status) -> Iterator[Metric]:
    streams = status["streams"]
    where = {worker["name"]: worker["node"] for worker in status["workers"]}
    states = Counter(stream["state"] for stream in streams)
    yield _gauge("streams", "Streams by state.", ("state",), [((state,), float(n)) for state, n in states.items()])
    labels = ("stream", "worker", "node")
    each = [(stream, (stream["name"], stream["worker"] or "", where.get(stream["worker"], ""))) for stream in streams]
    playing: Values = [(values, float(stream["state"] == "playing")) for stream, values in each]
    yield _gauge("stream_playing", "1 for a stream whose frames come.", labels, playing)
    yield _gauge("stream_fps", "Frames per second that came lately.", labels, [(v, s["fps"]) for s, v in each])
    parked: Values = [(values, float(stream["parked"])) for stream, values in each]
    yield _gauge("stream_parked_seconds", "For how long a stream that ended its workers is parked.", labels, parked)
    frames: Values = [(values, float(stream["frames_out"])) for stream, values in each]
    yield _counter("stream_frames", "Frames that the stream's present worker has worked on.", labels, frames)


def _nodes(status: Status) -> Iterator[Metric]:
    nodes = {node["id"]: (node["id"], node["name"]) for node in status["nodes"]}
    labels = ("node", "node_name")
    for name, text, key in (
        ("node_up", "Whether Ray counts the node as alive.", "alive"),
        ("node_drained", "Whether the node is drained.", "drained"),
        ("node_quarantined_seconds", "For how long a node is still left alone.", "quarantined"),
    ):
        yield _gauge(name, text, labels, [(nodes[node["id"]], float(node[key])) for node in status["nodes"]])
    up = [worker for worker in status["workers"] if worker["state"] == "up" and worker["node"] in nodes]
    held = Counter(worker["node"] for worker in up)
    yield _gauge("node_workers", "Workers on a node.", labels, [(nodes[i], float(held[i])) for i in nodes])
    for name, text, key in (
        ("node_streams", "Streams on a node.", "streams"),
        ("node_frames", "Frames that the present workers' models have worked on.", "frames"),
        ("node_errors", "Frames on which they have failed.", "errors"),
    ):
        sums: Counter[str] = Counter()
        for worker in up:
            sums[worker["node"]] += len(worker["streams"]) if key == "streams" else worker[key]
        make = _gauge if key == "streams" else _counter
        yield make(name, text, labels, [(nodes[i], float(sums[i])) for i in nodes])
    starting = sum(worker["state"] == "starting" for worker in status["workers"])
    yield _gauge("workers_starting", "Workers that load their model, or wait for a node.", (), [((), float(starting))])
