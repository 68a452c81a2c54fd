"""The metrics by name, made of a snapshot when somebody asks: nothing is counted here.

Built on prometheus-client, the library of the Prometheus project. Every label's values are bounded: streams by what is
configured, classes by 32 per stream, all others by what exists.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from sluice.contract.latency import BOUNDS, Distribution
from sluice.errors import ConfigurationError
from sluice.metrics.process import ProcessNumbers, read_process
from sluice.metrics.snapshot import Snapshot, StreamNumbers

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

Values = Sequence[tuple[tuple[str, ...], float]]
"""The values of labels, each with its number."""
_QUANTILES = (("0.5", "p50"), ("0.95", "p95"), ("0.99", "p99"))


@functools.cache
def _library() -> Any:
    try:
        import prometheus_client
        import prometheus_client.core
    except ImportError as error:
        raise ConfigurationError(
            'metrics need the package prometheus-client; install it with: pip install "sluice-video[serve]"'
        ) from error
    return prometheus_client


class Metrics:
    """The metrics of one pipeline, with a registry of their own."""

    def __init__(self, read: Callable[[], Snapshot]) -> None:
        """Take the numbers from a function, which is called for every scrape.

        Raises:
            ConfigurationError: prometheus-client is not installed.
        """
        self._read = read
        self.registry = _library().CollectorRegistry(auto_describe=False)
        self.registry.register(self)

    def text(self) -> str:
        """Return all metrics in Prometheus' text format."""
        return str(_library().generate_latest(self.registry).decode())

    def collect(self) -> Iterator[Metric]:
        """Give all metrics as they are now; what the registry calls."""
        snapshot = self._read()
        yield from _streams(snapshot.streams, snapshot.states)
        yield from _elements(snapshot)
        yield from _latencies(snapshot)
        yield from _messages(snapshot)
        yield from _outputs(snapshot)
        yield from _process(snapshot.workers)


def _counter(name: str, text: str, labels: tuple[str, ...], values: Values) -> Metric:
    family = _library().core.CounterMetricFamily(f"sluice_{name}", text, labels=labels)
    for label_values, value in values:
        family.add_metric(label_values, value)
    return family  # type: ignore[no-any-return]


def _gauge(name: str, text: str, labels: tuple[str, ...], values: Values) -> Metric:
    family = _library().core.GaugeMetricFamily(f"sluice_{name}", text, labels=labels)
    for label_values, value in values:
        family.add_metric(label_values, value)
    return family  # type: ignore[no-any-return]


def _histogram(name: str, text: str, label: str, values: dict[str, Distribution]) -> Metric:
    family = _library().core.HistogramMetricFamily(f"sluice_{name}", text, labels=(label,))
    for value, found in values.items():
        counts = [sum(found.buckets[: index + 1]) for index in range(len(found.buckets))]
        bounds = [*(str(bound) for bound in BOUNDS), "+Inf"]
        family.add_metric((value,), list(zip(bounds, counts, strict=True)), found.sum)
    return family  # type: ignore[no-any-return]


def _streams(streams: tuple[StreamNumbers, ...], states: tuple[str, ...]) -> Iterator[Metric]:
    def each(name: str) -> Values:
        return [((stream.name,), float(getattr(stream, name))) for stream in streams]

    one = ("stream",)
    yield _counter("frames_in", "Frames that left a stream's decoder.", one, each("frames_in"))
    yield _counter("frames_out", "Frames that were seen behind the model and the tracker.", one, each("frames_out"))
    yield _counter("frames_dropped", "Frames left out by the stream's policy.", one, each("dropped"))
    yield _counter("frames_overtaken", "Those that gave way to newer ones at the model.", one, each("overtaken"))
    yield _counter("reconnects", "How often a stream was opened again.", one, each("reconnects"))
    yield _gauge("fps", "Frames per second that came lately.", one, each("fps"))
    yield _gauge("frames_waiting", "Frames that wait in front of the batches.", one, each("waiting"))
    yield _gauge("stream_live", "1 for a stream whose frames come at the outside world's pace.", one, each("live"))
    ages = [((s.name,), s.last_frame_age) for s in streams if s.last_frame_age is not None]
    yield _gauge("last_frame_age_seconds", "Seconds since a stream's last frame.", one, ages)
    state = [((s.name, known), float(s.state == known)) for s in streams for known in states]
    yield _gauge("stream_state", "1 for the state that a stream is in.", ("stream", "state"), state)
    objects = [((s.name, label), float(count)) for s in streams for label, count in s.objects.items()]
    yield _counter("objects", "Objects found, by class.", ("stream", "class"), objects)


def _elements(snapshot: Snapshot) -> Iterator[Metric]:
    def each(name: str) -> Values:
        return [((element.name,), float(getattr(element, name))) for element in snapshot.elements]

    one = ("element",)
    yield _counter("element_batches", "Batches that left an element.", one, each("batches"))
    yield _counter("element_frames", "Frames that left an element.", one, each("frames"))
    yield _gauge("element_frames_in_flight", "Frames that are in an element.", one, each("in_flight"))
    muxer = snapshot.elements[0] if snapshot.elements else None
    room = muxer.batches * snapshot.batch_size if muxer is not None else 0
    fill: Values = [((), muxer.frames / room)] if muxer is not None and room else []
    # Also before the first batch: OpenTelemetry is told once, at the start, which metrics there are.
    yield _gauge("batch_fill", "How full the batches were so far, 0 to 1.", (), fill)
    mean, longest = snapshot.model_seconds
    yield _gauge("model_seconds_mean", "Mean time of a call of the model.", (), [((), mean)])
    yield _gauge("model_seconds_max", "Longest time of a call of the model.", (), [((), longest)])
    yield _counter("model_busy_seconds", "Time that all calls of the model took.", (), [((), snapshot.model_busy)])
    counts = [((name,), float(count)) for name, count in snapshot.model.items()]
    yield _counter("model_frames", "Frames by what the model did with them.", ("result",), counts)


def _latencies(snapshot: Snapshot) -> Iterator[Metric]:
    names = {stream.number: stream.name for stream in snapshot.streams}
    known = [found for found in snapshot.latencies if found.stream in names]
    last = {names[f.stream]: f.age for f in known if f.element == snapshot.last and f.age is not None}
    yield _histogram(
        "latency_seconds", "From capture, as far as it is known, to the last shared element.", "stream", last
    )
    inside: dict[str, Distribution] = {}
    for found in known:
        if found.inside is not None:
            inside[found.element] = _sum(inside.get(found.element), found.inside)
    yield _histogram("element_seconds", "Time of a frame in an element.", "element", inside)
    for name, text, which in (
        ("element_seconds_recent", "Quantiles of the time in an element, of the last minute.", "inside"),
        ("latency_seconds_recent", "Quantiles of the time since capture behind an element, of the last minute.", "age"),
    ):
        values = [
            ((names[found.stream], found.element, quantile), float(getattr(times, field)))
            for found in known
            if (times := getattr(found, which)) is not None and times.recent
            for quantile, field in _QUANTILES
        ]
        yield _gauge(name, text, ("stream", "element", "quantile"), values)


def _sum(one: Distribution | None, other: Distribution) -> Distribution:
    """Add what can be added; the quantiles mean nothing then."""
    if one is None:
        return other
    buckets = tuple(a + b for a, b in zip(one.buckets, other.buckets, strict=True))
    longest = max(one.longest, other.longest)
    return Distribution(one.count + other.count, one.sum + other.sum, longest, 0, 0.0, 0.0, 0.0, buckets)


def _messages(snapshot: Snapshot) -> Iterator[Metric]:
    states = [((state,), float(count)) for state, count in snapshot.messages.items()]
    yield _counter("messages", "Messages by what has become of them.", ("state",), states)
    yield _gauge("messages_spooled", "Messages that are on the disk now.", (), [((), float(snapshot.spooled))])
    yield _counter("events", "Things that have happened to the streams.", (), [((), float(snapshot.events))])


def _outputs(snapshot: Snapshot) -> Iterator[Metric]:
    def each(name: str) -> Values:
        return [((output.stream, output.output), float(getattr(output, name))) for output in snapshot.outputs]

    viewers = [((name, kind), float(count)) for (name, kind), count in snapshot.viewers.items()]
    two = ("stream", "output")
    yield _counter("output_frames", "Frames that an output has got.", two, each("frames"))
    yield _counter("output_dropped", "Frames that an output did not take in time.", two, each("dropped"))
    yield _counter("output_failures", "How often an output has failed.", two, each("failures"))
    yield _counter("output_files", "Files that an output has finished.", two, each("files"))
    yield _gauge("output_viewers", "Who views an output.", two, viewers)
    yield _gauge("output_active", "Whether an output is at work.", two, each("active"))


def _process(workers: Sequence[ProcessNumbers]) -> Iterator[Metric]:
    own = read_process()

    def total(name: str) -> Values:
        return [((), float(sum(getattr(found, name) for found in (own, *workers))))]

    yield _gauge("process_resident_bytes", "Memory of the process that is in RAM.", (), total("rss"))
    yield _gauge("process_open_fds", "Open file descriptors.", (), total("fds"))
    yield _gauge("process_python_threads", "Threads that Python knows.", (), total("threads"))
    yield _counter("process_cpu_seconds", "Processor time of the process.", (), total("cpu_seconds"))
    text = "Seconds after which a waiting thread gets Python's interpreter."
    yield _gauge("python_switch_interval_seconds", text, (), [((), own.switch_interval)])
