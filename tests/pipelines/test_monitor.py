"""What is measured of real pipelines, and `sluice top` on it."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from prometheus_client.parser import text_string_to_metric_families
from rich.console import Console

import sluice
from sluice.app.monitor import Monitor
from sluice.app.outputs import LiveOutputs, OutputOptions, RecordOptions
from sluice.app.streams import StreamPolicy
from sluice.app.top import Look, Numbers, picture, top
from sluice.errors import SluiceError
from waiting import until


class Slow:
    """Finds one thing in every frame, after 20 ms."""

    labels = ("thing",)

    def infer(self, frames: list[Any]) -> list[sluice.Detections]:
        time.sleep(0.02)
        box = np.array([[1, 2, 30, 40]], np.float32)
        return [sluice.Detections(xyxy=box, scores=[0.9], class_ids=[0]) for _ in frames]


@pytest.fixture
def running(tmp_path: Path) -> Iterator[tuple[sluice.Pipeline, Monitor]]:
    outputs = LiveOutputs(OutputOptions(record=RecordOptions(tmp_path / "r")))
    pipeline = sluice.Pipeline(
        ["test:ball?live=1&size=64x48", "test:snow?live=1&size=64x48"],
        model=Slow(),
        tracker="sort",
        messages=tmp_path / "messages.jsonl",
        branches=outputs,
        service=True,
    )
    pipeline.start()
    monitor = Monitor(pipeline, outputs)
    yield pipeline, monitor
    pipeline.stop()
    outputs.close()


def value(text: str, name: str, **labels: str) -> float:
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if sample.name == f"sluice_{name}" and labels.items() <= sample.labels.items():
                return float(sample.value)
    raise AssertionError(f"no {name} with {labels}")


def test_a_pipeline_is_measured(running: tuple[sluice.Pipeline, Monitor]) -> None:
    pipeline, monitor = running
    until(lambda: all(stream.frames_out > 30 for stream in pipeline.streams))

    def arrived() -> str:
        """The numbers, once the recorder and the writer of the messages have some of those frames too."""
        text = monitor.text()
        recorded = [value(text, "output_frames_total", stream=name, output="record") for name in streams]
        return text if min(recorded) > 5 and value(text, "messages_total", state="written") > 20 else ""

    streams = ("test_ball", "test_snow")
    text = until(arrived, "frames are recorded, and messages written")
    for stream in streams:
        assert value(text, "frames_out_total", stream=stream) > 30
        assert value(text, "stream_state", stream=stream, state="playing") == 1
        assert value(text, "objects_total", **{"stream": stream, "class": "thing"}) > 10
        in_model = value(text, "element_seconds_recent", stream=stream, element="sluiceinfer", quantile="0.5")
        assert 0.018 <= in_model < 2
        age = value(text, "latency_seconds_recent", stream=stream, element="sluicemsgbroker", quantile="0.99")
        assert 0.018 <= age < 10
        assert value(text, "latency_seconds_count", stream=stream) > 10
    assert value(text, "model_seconds_mean") >= 0.02
    assert 0 < value(text, "batch_fill") <= 1
    # Looked at later: elements are read one after another while frames go on.
    assert value(monitor.text(), "element_frames_total", element="sluicemux") >= value(
        text, "element_frames_total", element="sluicemsgbroker"
    )


def test_a_stream_that_is_removed_is_no_longer_among_the_numbers(running: tuple[sluice.Pipeline, Monitor]) -> None:
    pipeline, monitor = running
    until(lambda: all(stream.frames_out > 5 for stream in pipeline.streams))
    pipeline.remove("test_snow")
    text = monitor.text()
    assert "test_snow" not in text
    assert all(latencies.stream == 0 for latencies in monitor.snapshot().latencies)
    assert value(text, "fps", stream="test_ball") >= 0


def test_before_the_start_nothing_is_said_of_streams() -> None:
    monitor = Monitor(sluice.Pipeline(["test:ball"], model=None))
    assert not monitor.attach()
    assert "sluice_fps{" not in monitor.text()


def shown(text: str) -> str:
    console = Console(width=160, record=True, file=open("/dev/null", "w"))  # noqa: SIM115, PTH123
    console.print(picture([Look(Numbers(text), 0.0)]))
    return console.export_text()


def test_top_shows_every_stream(running: tuple[sluice.Pipeline, Monitor]) -> None:
    pipeline, monitor = running
    until(lambda: all(stream.frames_out > 30 for stream in pipeline.streams))
    lines = shown(monitor.text()).splitlines()
    assert lines[0].startswith("2 of 2 streams play")
    assert "messages delivered" in lines[0]
    (ball,) = [line for line in lines if line.startswith("test_ball")]
    assert "playing" in ball
    assert float(ball.split()[2]) > 5


class Slower(Slow):
    """Has time for ten calls a second."""

    def infer(self, frames: list[Any]) -> list[sluice.Detections]:
        time.sleep(0.08)
        return super().infer(frames)


@pytest.mark.parametrize(("delivery", "what"), [("freshest", "of the frames are dropped"), ("every", "frames wait")])
def test_top_says_what_helps_against_a_model_that_is_too_slow(delivery: Any, what: str) -> None:
    policy = StreamPolicy(delivery=delivery)
    with sluice.Pipeline(
        "test:ball?live=1&size=64x48&frames=0", model=Slower(), policy=policy, tracker=None
    ) as pipeline:
        pipeline.start()
        monitor = Monitor(pipeline)
        until(lambda: pipeline.streams[0].frames_out > 10)

        def hints() -> list[str]:
            """What is said of it between two looks."""
            first, out = Look(Numbers(monitor.text()), time.monotonic()), pipeline.streams[0].frames_out
            until(lambda: pipeline.streams[0].frames_out > out + 15)
            console = Console(width=300, record=True, file=open("/dev/null", "w"))  # noqa: SIM115, PTH123
            console.print(picture([first, Look(Numbers(monitor.text()), time.monotonic())]))
            return [line for line in console.export_text().splitlines() if "too slow" in line]

        # A look may find the queue in the moment between a frame that leaves it and the next, longer on a busy machine.
        (hint,) = until(hints, "the hint")
    assert what in hint
    assert "a smaller model" in hint
    assert "too slow" not in shown(monitor.text())


class Service(HTTPServer):
    """Answers /metrics as a service does."""

    text = ""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str | None]] = []
        super().__init__(("127.0.0.1", 0), _Answer)
        threading.Thread(target=self.serve_forever, daemon=True).start()


class _Answer(BaseHTTPRequestHandler):
    server: Service

    def do_GET(self) -> None:
        self.server.asked.append((self.path, self.headers.get("Authorization")))
        self.send_response(200)
        self.end_headers()
        self.wfile.write(self.server.text.encode())

    def log_message(self, *_: Any) -> None:
        pass


def test_top_asks_a_service_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    service = Service()
    service.text = Monitor(sluice.Pipeline(["test:ball"], model=None)).text()
    token = tmp_path / "token"
    token.write_text("secret-token\n")
    top(f"http://127.0.0.1:{service.server_port}", token, once=True, interval=0.1)
    service.shutdown()
    service.server_close()
    assert service.asked == [("/metrics", "Bearer secret-token")] * 2
    out = capsys.readouterr().out
    assert "0 of 0 streams play" in out
    assert "secret-token" not in out


def test_top_says_when_no_service_answers() -> None:
    with pytest.raises(SluiceError, match="does not answer"):
        top("http://127.0.0.1:9", None, once=True, interval=1)
