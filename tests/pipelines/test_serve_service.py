"""`sluice serve` as a process: its commands, its messages, its end, and its next start."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
from serve_process import ServeProcess, corner_model

from rtsp_server import RtspServer
from waiting import PATIENCE, until

pytestmark = pytest.mark.timeout(240)
CLIP = Path(__file__).parents[2] / "examples" / "data" / "pedestrians.mp4"
CONFIG = """
streams:
  - {{name: ball, source: 'test:ball?live=1&fps=10&size=64x48'}}
  - {{name: camera, source: 'rtsp://viewer:${{ENV:CAMERA}}@127.0.0.1:9/stream'}}
model: {{name: corner.py}}
tracker: {{name: none}}
messages: out.jsonl
directories: {{media: [{media}], models: [.]}}
http: {{port: 0}}
state: state.json
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "sluice.yaml").write_text(CONFIG.format(media=CLIP.parent))
    (tmp_path / "corner.py").write_text(corner_model())
    (tmp_path / "other.py").write_text(corner_model("other"))
    (tmp_path / "broken.py").write_text("import nothing_of_the_kind\n\ndef infer(frames): ...\n")
    return tmp_path


@pytest.fixture
def environment() -> dict[str, str]:
    return {**os.environ, "CAMERA": "hunter22@door"}


@pytest.fixture
def service(folder: Path, environment: dict[str, str]) -> Iterator[ServeProcess]:
    process = ServeProcess(folder / "sluice.yaml", environment)
    yield process
    process.stop()
    assert "Traceback" not in process.output
    assert "hunter22" not in process.output


def sluice(service: ServeProcess, *arguments: str, text: str | None = None) -> subprocess.CompletedProcess[str]:
    """Run a command against a service."""
    environment = {**os.environ, "SLUICE_URL": service.url}
    command = [sys.executable, "-m", "sluice.app.cli", *arguments]
    return subprocess.run(command, env=environment, input=text, capture_output=True, text=True, timeout=60)


def test_the_command_line_does_what_the_api_does(service: ServeProcess) -> None:
    until(lambda: service.streams()["ball"]["state"] == "playing")
    until(lambda: service.streams()["camera"]["state"] == "refused")
    listed = sluice(service, "streams", "list").stdout
    assert "ball" in listed
    assert "playing" in listed
    assert "rtsp://127.0.0.1:9/stream" in listed
    assert "hunter22" not in listed
    source = str(CLIP)
    added = sluice(service, "streams", "add", "-", "--name", "clip", "--policy", "loop=true", text=source + "\n")
    assert added.returncode == 0, added.stderr
    until(lambda: service.streams()["clip"]["frames_out"] > 10)
    assert service.streams()["clip"]["policy"]["loop"] is True
    again = sluice(service, "streams", "add", source, "--name", "clip")
    assert (again.returncode, "choose another name" in again.stderr) == (1, True)
    assert sluice(service, "streams", "restart", "clip").returncode == 0
    assert sluice(service, "streams", "remove", "clip").returncode == 0
    names = [stream["name"] for stream in json.loads(sluice(service, "streams", "list", "--json").stdout)]
    assert names == ["ball", "camera"]
    assert "there are: ball, camera" in sluice(service, "streams", "remove", "clip").stderr


def test_a_command_without_a_service_says_so(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
    command = [sys.executable, "-m", "sluice.app.cli", "streams", "list", "--url", url]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert "is `sluice serve` running there?" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_model_is_swapped_and_one_that_breaks_is_refused(service: ServeProcess, folder: Path) -> None:
    swapped = sluice(service, "models", "swap", "other.py")
    assert (swapped.returncode, swapped.stdout) == (0, f"the model {folder / 'other.py'} runs\n")
    assert service.get("/api/models")["current"]["name"] == str(folder / "other.py")
    until(lambda: '"other"' in (folder / "out.jsonl").read_text())
    refused = sluice(service, "models", "swap", "broken.py")
    assert refused.returncode == 1
    assert "nothing_of_the_kind" in refused.stderr
    current = service.get("/api/models")["current"]
    assert (current["name"], current["state"]) == (str(folder / "other.py"), "running")
    assert "nothing_of_the_kind" in current["reason"]
    assert json.loads((folder / "state.json").read_text())["model"] == str(folder / "other.py")
    frames = service.streams()["ball"]["frames_out"]
    until(lambda: service.streams()["ball"]["frames_out"] > frames)


def test_the_log_tells_the_model_and_each_change_of_a_stream(folder: Path) -> None:
    with RtspServer(user="viewer", password="hunter22@door") as server:
        url = server.url(user_info="viewer:hunter22%40door")
        (folder / "sluice.yaml").write_text(
            f"streams: [{{name: gate, source: '{url}', policy: {{retry: {{first: 0.5, most: 0.5}}}}}}]\n"
            "model: {name: corner.py}\nhttp: {port: 0}\n"
        )
        service = ServeProcess(folder / "sluice.yaml", verbose=False)
        try:
            shown = f"gate: {server.url()}"
            until(lambda: f"INFO sluice.serve: {shown}: playing\n" in service.output)
            server.kill()
            until(lambda: f"WARNING sluice.serve: {shown}: " in service.output)
            server.start()
            until(lambda: f"{shown}: playing again, after 0:00:" in service.output)
            assert sluice(service, "streams", "remove", "gate").returncode == 0
            until(lambda: f"{shown} is removed" in service.output)
        finally:
            assert service.stop() == 0, service.output
    lines = service.output.splitlines()
    assert lines[1].endswith(f"INFO sluice.serve: the model {folder / 'corner.py'} (python); streams: gate")
    assert lines[-1].endswith("SIGTERM: the service ends")
    assert "hunter22" not in service.output


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_with_all_messages_and_the_next_start_has_the_same_streams(
    folder: Path, environment: dict[str, str], number: int
) -> None:
    first = ServeProcess(folder / "sluice.yaml", environment)
    new = {"source": "test:snow?live=1&fps=10&size=64x48", "name": "snow", "policy": {"fps": 5}}
    assert httpx.post(f"{first.url}/api/streams", json=new, timeout=PATIENCE).status_code == 201
    assert httpx.delete(f"{first.url}/api/streams/ball", timeout=PATIENCE).status_code == 204
    until(lambda: first.streams()["snow"]["frames_out"] > 10)
    events = httpx.stream("GET", f"{first.url}/api/events/stream", timeout=20)
    with events as following:  # who still reads does not hold up the end
        frames = first.streams()["snow"]["frames_out"]
        begun = time.monotonic()
        assert first.stop(number) == 0, first.output
        assert time.monotonic() - begun < 15
        assert "snow is added" in following.read().decode() or following.is_closed
    messages = [json.loads(line) for line in (folder / "out.jsonl").read_text().splitlines()]
    assert sum(message["stream"] == 2 for message in messages) >= frames
    second = ServeProcess(folder / "sluice.yaml", environment)
    try:
        assert sorted(second.streams()) == ["camera", "snow"]
        assert second.streams()["snow"]["policy"]["fps"] == 5
        until(lambda: second.streams()["snow"]["state"] == "playing")
    finally:
        assert second.stop() == 0, second.output
    for process in (first, second):
        assert "Traceback" not in process.output


def test_readers_that_are_slow_or_go_away_slow_no_stream(service: ServeProcess) -> None:
    until(lambda: service.streams()["ball"]["frames_out"] > 5)
    address = urlsplit(service.url)
    sleepers = []
    for _ in range(5):  # ask, and read nothing
        sleeper = socket.create_connection((address.hostname, address.port), timeout=20)
        sleeper.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sleeper.sendall(b"GET /api/streams/ball/live.mjpeg HTTP/1.1\r\nHost: localhost\r\n\r\n")
        sleepers.append(sleeper)
    for _ in range(20):  # ask, and go at once
        with socket.create_connection((address.hostname, address.port), timeout=20) as passer:
            passer.sendall(b"GET /api/live?stream=ball HTTP/1.1\r\nHost: localhost\r\n\r\n")

    def keeps_its_rate() -> bool:
        before, begun = service.streams()["ball"], time.monotonic()
        time.sleep(5)
        after, seconds = service.streams()["ball"], time.monotonic() - begun
        come, gone = (after[name] - before[name] for name in ("frames_in", "frames_out"))
        return come / seconds > 7 and gone > 20  # of 10 per second

    # A busy machine may hold the stream up for some of the seconds looked at; readers that do, hold it up in all.
    until(keeps_its_rate, "five seconds in which the stream keeps its rate")
    for sleeper in sleepers:
        sleeper.close()
    until(lambda: service.get("/api/statistics")["viewers"] == 0)


def test_each_stream_has_its_own_outputs_and_all_are_indexed(folder: Path) -> None:
    with (folder / "corner.py").open("a") as file:
        file.write(
            "\n    def encode_prompt(self, labels):\n        return labels\n"
            "\n    def use_prompt(self, labels, encoded):\n        self.labels = labels\n"
        )
    (folder / "own.yaml").write_text("""
streams:
  - {name: a, source: 'test:ball?live=1&fps=10&size=64x48', outputs: {record: {folder: evidence}}}
  - {name: b, source: 'test:snow?live=1&fps=10&size=64x48', outputs: {record: null}}
  - {name: c, source: 'test:snow?live=1&fps=10&size=64x48'}
model: {name: corner.py}
outputs: {record: {folder: recordings}}
look_for: [red corner]
messages: out.jsonl
index: archive
http: {port: 0}
""")
    process = ServeProcess(folder / "own.yaml")
    try:
        until(lambda: all(stream["frames_out"] > 20 for stream in process.streams().values()))
    finally:
        assert process.stop() == 0
    assert [path.name for path in folder.glob("evidence/*")] == ["a"]
    assert sorted(path.name for path in folder.glob("recordings/*")) == ["c"]
    assert list(folder.glob("evidence/a/*.mp4"))
    assert (folder / "archive").is_dir()
    assert '"red corner"' in (folder / "out.jsonl").read_text()


def test_fifty_clients_at_once_are_answered(service: ServeProcess) -> None:
    until(lambda: service.status("/api/streams/ball/snapshot.jpg") == 200)
    statuses: list[int] = []

    def ask() -> None:
        for path in ("/api/streams", "/api/statistics", "/api/streams/ball/snapshot.jpg", "/metrics", "/api/events"):
            until(lambda path=path: (status := service.status(path)) != 504 and not statuses.append(status), seconds=60)

    threads = [threading.Thread(target=ask) for _ in range(50)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(100)
    assert statuses == [200] * 250


def test_a_pipeline_that_cannot_start_ends_the_service_with_the_reason(folder: Path) -> None:
    loading = "def load(self):\n        raise RuntimeError('no weights')\n\n    "
    (folder / "corner.py").write_text(corner_model().replace("def infer", f"{loading}def infer"))
    (folder / "sluice.yaml").write_text("model: {name: corner.py}\nhttp: {port: 0}\n")
    command = [sys.executable, "-m", "sluice.app.cli", "serve", str(folder / "sluice.yaml")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100)
    assert done.returncode in (1, 2)
    assert "no weights" in done.stderr


def test_a_port_that_is_taken_is_named(folder: Path, environment: dict[str, str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        (folder / "sluice.yaml").write_text(f"http: {{port: {port}}}")
        command = [sys.executable, "-m", "sluice.app.cli", "serve", str(folder / "sluice.yaml")]
        done = subprocess.run(command, capture_output=True, text=True, timeout=100, env=environment)
    assert done.returncode == 2
    assert f"port {port}, cannot be listened at: Address already in use" in done.stderr


def test_a_pipeline_that_fails_at_work_ends_the_service_with_status_one(
    folder: Path, environment: dict[str, str]
) -> None:
    now = f"if Path({str(folder / 'now')!r}).exists():\n            raise RuntimeError('bad luck')\n        "
    failing = corner_model().replace("return [", f"{now}return [")
    (folder / "corner.py").write_text(f"from pathlib import Path\n{failing}")
    text = (folder / "sluice.yaml").read_text().replace("{name: corner.py}", "{name: corner.py, on_error: fail}")
    (folder / "sluice.yaml").write_text(text)
    process = ServeProcess(folder / "sluice.yaml", environment)
    until(lambda: process.streams()["ball"]["frames_out"] > 5)
    (folder / "now").touch()
    until(lambda: process.ended)
    assert process.stop() == 1
    assert "bad luck" in process.output


def test_a_camera_that_takes_the_connection_and_says_nothing_holds_nobody_up(service: ServeProcess) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        source = f"rtsp://viewer:hunter22@127.0.0.1:{silent.getsockname()[1]}/stream"
        for number in range(4):
            new = {"source": source, "name": f"silent-{number}"}
            assert httpx.post(f"{service.url}/api/streams", json=new, timeout=PATIENCE).status_code == 201
        until(lambda: service.streams()["ball"]["frames_out"] > 5)
        before = service.streams()["ball"]["frames_out"]

        def answers_soon() -> bool:
            slowest = 0.0
            for _ in range(20):
                begun = time.monotonic()
                assert {"ball", "silent-0", "silent-3"} <= set(service.streams())
                slowest = max(slowest, time.monotonic() - begun)
                time.sleep(0.1)
            return slowest < 2

        until(answers_soon, "twenty answers in a row that no camera holds up, nor a busy machine")
        assert httpx.get(f"{service.url}/api/streams/silent-0/snapshot.jpg", timeout=PATIENCE).status_code == 404
        assert httpx.post(f"{service.url}/api/streams/silent-1/restart", timeout=PATIENCE).status_code in (202, 504)
        for number in range(4):
            removed = httpx.delete(f"{service.url}/api/streams/silent-{number}", timeout=PATIENCE)
            assert removed.status_code in (204, 409, 504), removed.text
        until(lambda: service.streams()["ball"]["frames_out"] > before + 20)
        until(lambda: set(service.streams()) == {"ball", "camera"})


def test_streams_that_came_and_went_leave_nothing_behind(service: ServeProcess) -> None:
    def left() -> tuple[int, int]:
        process = Path(f"/proc/{service.pid}")
        return len(list((process / "fd").iterdir())), len(list((process / "task").iterdir()))

    def cycle(number: int) -> None:
        new = {"source": "test:snow?live=1&fps=20&size=64x48", "name": f"s{number}"}
        with httpx.Client(base_url=service.url, timeout=PATIENCE) as client:
            assert client.post("/api/streams", json=new).status_code == 201
            until(lambda: client.get(f"/api/streams/s{number}").json()["frames_out"] > 0)
            until(lambda: client.get(f"/api/streams/s{number}/snapshot.jpg").status_code == 200)
            assert client.delete(f"/api/streams/s{number}").status_code == 204

    for number in range(5):  # what is made at the first time only
        cycle(number)
    before = left()
    for number in range(5, 45):
        cycle(number)
    until(lambda: left()[0] <= before[0] + 4 and left()[1] <= before[1] + 4)
    assert sorted(service.streams()) == ["ball", "camera"]


def test_numbers_are_sent_to_a_collector_too(folder: Path, environment: dict[str, str]) -> None:
    bodies: list[tuple[str, str | None, int]] = []

    class Collector(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            length = len(self.rfile.read(int(self.headers["Content-Length"])))
            bodies.append((self.path, self.headers["x-key"], length))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Collector) as collector:
        threading.Thread(target=collector.serve_forever, daemon=True).start()
        text = (folder / "sluice.yaml").read_text()
        endpoint = f"http://127.0.0.1:{collector.server_port}/v1/metrics"
        text += f"opentelemetry: {{endpoint: '{endpoint}', interval: 1, headers: {{x-key: '${{ENV:CAMERA}}'}}}}\n"
        (folder / "sluice.yaml").write_text(text)
        process = ServeProcess(folder / "sluice.yaml", environment)
        try:
            until(lambda: len(bodies) > 1)
        finally:
            assert process.stop() == 0, process.output
        collector.shutdown()
    assert {(path, key) for path, key, _ in bodies} == {("/v1/metrics", "hunter22@door")}
    assert min(length for _, _, length in bodies) > 100
    assert "hunter22" not in process.output
