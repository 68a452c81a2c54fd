"""`sluice serve --processes`: streams shared out over processes, one API in front, and what becomes of their deaths."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from serve_process import ServeProcess

from killable import free_port
from sluice.app.outputs import webrtc
from sluice.app.outputs.rtsp import server_library
from sluice.errors import ConfigurationError
from waiting import PATIENCE, until
from webrtc_browser import Browser

pytestmark = pytest.mark.timeout(300)
BALL = "test:ball?live=1&fps=5&size=320x240&frames=0"
# Its label tells which process a stream is in.
MODEL = """
import os

from sluice import Detections

class Here:
    labels = [f"{PREFIX}-{{os.getpid()}}"]

    def __init__(self):
        {begin}

    def infer(self, frames):
        return [Detections(xyxy=[[4, 4, 20, 20]], scores=[0.6], class_ids=[0]) for _ in frames]
"""
CONFIG = """
streams:
  - {name: a, source: 'SOURCE'}
  - {name: b, source: 'SOURCE'}
  - {name: c, source: 'SOURCE'}
model: {name: first.py}
tracker: {name: none}
messages: out.jsonl
directories: {models: [.]}
http: {port: 0}
state: state.json
outputs: {record: {folder: rec}, clips: {folder: clips}}
""".replace("SOURCE", BALL)
Start = Callable[..., ServeProcess]


def model(prefix: str, begin: str = "pass") -> str:
    return MODEL.replace("{PREFIX}", prefix).format(begin=begin)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "sluice.yaml").write_text(CONFIG)
    (tmp_path / "first.py").write_text(model("first"))
    return tmp_path


@pytest.fixture
def start(folder: Path) -> Iterator[Start]:
    """Start services with two processes; those that still run at the end are ended."""
    started: list[ServeProcess] = []

    def begin() -> ServeProcess:
        started.append(ServeProcess(folder / "sluice.yaml", processes=2))
        return started[-1]

    yield begin
    for process in started:
        process.stop()
        assert "Traceback" not in process.output


@pytest.fixture
def service(start: Start) -> ServeProcess:
    service = start()
    until(lambda: all(stream["state"] == "playing" for stream in service.streams().values()), "all streams play")
    return service


def messages(folder: Path) -> list[dict[str, Any]]:
    """The messages so far; every line that has its end must be whole."""
    text = (folder / "out.jsonl").read_text()
    return [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]


def labels(folder: Path, stream: int) -> list[str]:
    """What the model called the objects of a stream, in the order of its frames."""
    return [
        found["label"] for message in messages(folder) if message["stream"] == stream for found in message["objects"]
    ]


def process_of(folder: Path, stream: int) -> int:
    """The process that a stream is in."""
    return int(until(lambda: labels(folder, stream), f"objects of stream {stream}")[-1].rpartition("-")[2])


def children_of(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def events(service: ServeProcess, kind: str, since: int = 0) -> list[dict[str, Any]]:
    found = service.get(f"/api/events?since={since}&limit=1000")["events"]
    return [event for event in found if event["kind"].startswith(kind)]


def last_event(service: ServeProcess) -> int:
    return int(service.get("/api/events")["last"])


def request(service: ServeProcess, method: str, path: str, body: object = None) -> httpx.Response:
    return httpx.request(method, service.url + path, json=body, timeout=PATIENCE)


def test_streams_are_shared_out_and_told_of_as_one(service: ServeProcess, folder: Path) -> None:
    streams = service.streams()
    assert [stream["number"] for stream in streams.values()] == [0, 1, 2]
    homes = [process_of(folder, number) for number in range(3)]
    assert homes[0] == homes[2] != homes[1]
    assert sorted(children_of(service.pid)) == sorted({*homes})
    assert request(service, "POST", "/api/streams", {"name": "d", "source": BALL}).json()["number"] == 3
    assert process_of(folder, 3) == homes[1]
    until(lambda: service.streams()["d"]["frames_out"] > 3)
    numbers = [event["number"] for event in events(service, "")]
    assert numbers == list(range(1, len(numbers) + 1))
    assert [event["stream"] for event in events(service, "stream-added")] == ["a", "b", "c", "d"]
    text = httpx.get(service.url + "/metrics", timeout=PATIENCE).text
    for name in "abcd":
        assert f'sluice_frames_out_total{{stream="{name}"}}' in text
        assert f'sluice_latency_seconds_count{{stream="{name}"}}' in text
    found = {line.split()[0]: float(line.split()[1]) for line in text.splitlines() if not line.startswith("#")}
    inferred = found['sluice_element_frames_total{element="sluiceinfer"}']
    assert inferred >= sum(stream["frames_out"] for stream in streams.values())
    alone = int(Path(f"/proc/{service.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    assert service.get("/api/statistics")["memory_bytes"] > 2 * alone
    assert found["sluice_process_resident_bytes"] > 2 * alone


def test_streams_come_go_and_are_kept_for_the_next_start(start: Start, folder: Path) -> None:
    service = start()
    added = request(service, "POST", "/api/streams", {"name": "d", "source": BALL, "policy": {"fps": 2}})
    assert (added.status_code, added.json()["policy"]["fps"]) == (201, 2)
    assert request(service, "POST", "/api/streams", {"name": "d", "source": BALL}).status_code == 409
    assert request(service, "POST", "/api/streams", {"name": "e", "source": "test:nonsense"}).status_code == 422
    assert request(service, "DELETE", "/api/streams/b").status_code == 204
    assert request(service, "GET", "/api/streams/b").status_code == 404
    assert request(service, "POST", "/api/streams/c/restart").status_code == 202
    assert request(service, "PATCH", "/api/streams/c", {"policy": {"fps": 3}}).json()["policy"]["fps"] == 3
    until(lambda: service.streams()["d"]["frames_out"] > 0)
    assert request(service, "POST", "/api/streams", {"name": "b", "source": BALL}).json()["number"] == 4
    assert service.stop() == 0, service.output
    again = start()
    streams = until(lambda: found if len(found := again.streams()) == 4 else None)
    assert {name: stream["policy"]["fps"] for name, stream in streams.items()} == {"a": None, "c": 3, "d": 2, "b": None}
    assert again.stop() == 0


def test_pictures_and_files_come_from_whichever_process_has_the_stream(service: ServeProcess, folder: Path) -> None:
    for name in "abc":
        picture = until(lambda name=name: request(service, "GET", f"/api/streams/{name}/snapshot.jpg")).content
        assert picture[:2] == b"\xff\xd8"
    assert request(service, "GET", "/api/streams/tiled/snapshot.jpg").status_code == 404
    seen: set[str] = set()
    with httpx.stream("GET", service.url + "/api/live?stream=a&stream=b&stream=nobody", timeout=PATIENCE) as live:
        for line in live.iter_lines():
            if line.startswith("X-Stream: "):
                seen.add(line.removeprefix("X-Stream: "))
            if seen == {"a", "b"}:
                break
    for name in "ab":
        assert request(service, "POST", f"/api/streams/{name}/clip", {"reason": "test"}).status_code == 202
    until(lambda: {event["stream"] for event in events(service, "clip-started")} == {"a", "b"})
    off = request(service, "PATCH", "/api/streams/b/outputs", {"record": False})
    assert off.json()["numbers"]["record-enabled"] == 0
    assert request(service, "GET", "/api/streams/a/outputs").json()["numbers"]["record-enabled"] == 1
    assert request(service, "PATCH", "/api/streams/a/outputs", {"hls": True}).status_code == 422
    assert service.stop() == 0
    for name in "abc":
        assert list((folder / "rec" / name).glob("*.mp4"))


def swapped(service: ServeProcess, name: str) -> dict[str, Any]:
    """Ask for another model; return the one event that says how that ended."""
    begun = request(service, "POST", "/api/models/swap", {"model": name})
    assert begun.status_code == 202, begun.text
    number = begun.json()["event"]
    until(lambda: events(service, "model-swapped", number) + events(service, "model-refused", number))
    (outcome,) = events(service, "model-swapped", number) + events(service, "model-refused", number)
    until(lambda: service.get("/api/models")["current"]["state"] == "running")
    return outcome


def test_a_model_is_changed_in_all_processes_or_in_none(service: ServeProcess, folder: Path) -> None:
    (folder / "second.py").write_text(model("second"))
    (folder / "broken.py").write_text("import nothing_of_the_kind\n")
    # The second process that makes one finds the file of the first.
    (folder / "once.py").write_text(model("once", f"open({str(folder / 'taken')!r}, 'x').close()"))
    assert swapped(service, "second.py")["kind"] == "model-swapped"
    for number in range(3):
        until(lambda number=number: labels(folder, number)[-1].startswith("second-"))
    refused = swapped(service, "broken.py")
    assert (refused["kind"], "nothing_of_the_kind" in refused["text"]) == ("model-refused", True)
    seen = len(messages(folder))
    refused = swapped(service, "once.py")
    assert refused["kind"] == "model-refused"
    assert "process " in refused["details"]["reason"]
    assert "File exists" in refused["details"]["reason"]
    tried = {found["label"].split("-")[0] for message in messages(folder)[seen:] for found in message["objects"]}
    assert tried >= {"once"}  # in the first process, until the second one refused
    for number in range(3):
        until(lambda number=number: labels(folder, number)[-1].startswith("second-"))
    current = service.get("/api/models")["current"]
    assert (current["name"], "File exists" in current["reason"]) == (str(folder / "second.py"), True)
    assert json.loads((folder / "state.json").read_text())["model"] == str(folder / "second.py")
    assert len({process_of(folder, number) for number in range(3)}) == 2  # none was started anew


def test_thresholds_count_in_all_processes(service: ServeProcess, folder: Path) -> None:
    since = last_event(service)
    assert request(service, "PATCH", "/api/thresholds", {"confidence": 0.9}).status_code == 202
    until(lambda: events(service, "model-swapped", since))

    def newest(number: int) -> list[Any]:
        return [message["objects"] for message in messages(folder) if message["stream"] == number][-1]

    for number in range(3):
        until(lambda number=number: not newest(number), f"stream {number} has no objects any more")
    assert service.get("/api/thresholds")["confidence"] == 0.9
    assert not events(service, "element-warning", since)
    assert request(service, "PATCH", "/api/thresholds", {"confidence": 7}).status_code == 422


def test_a_process_that_dies_comes_back_with_its_streams(service: ServeProcess, folder: Path) -> None:
    (folder / "second.py").write_text(model("second"))
    assert swapped(service, "second.py")["kind"] == "model-swapped"
    request(service, "PATCH", "/api/streams/a", {"policy": {"fps": 4}})
    request(service, "PATCH", "/api/streams/a/outputs", {"record": False})
    since, victim = last_event(service), process_of(folder, 0)
    with httpx.stream("GET", service.url + "/api/live?stream=a", timeout=PATIENCE) as live:
        lines = live.iter_lines()
        os.kill(victim, signal.SIGKILL)
        (lost,) = until(lambda: events(service, "process-lost", since))
        assert "SIGKILL" in lost["text"]
        assert lost["details"]["streams"] == ["a", "c"]
        streams = service.streams()
        assert {name: stream["state"] for name, stream in streams.items()} == {"a": "lost", "b": "playing", "c": "lost"}
        assert "SIGKILL" in streams["a"]["reason"]
        down = request(service, "GET", "/api/streams/a/snapshot.jpg")
        assert (down.status_code, "SIGKILL" in down.text) == (503, True)
        until(lambda: events(service, "process-started", since))
        until(lambda: service.streams()["c"]["state"] == service.streams()["a"]["state"] == "playing")
        begun = time.monotonic()
        for line in lines:  # whoever looked goes on to look
            if line == "X-Stream: a" and time.monotonic() - begun > 1:
                break
    until(lambda: labels(folder, 0)[-1].startswith("second-") and process_of(folder, 0) != victim)
    assert service.streams()["a"]["policy"]["fps"] == 4
    assert [service.streams()[name]["number"] for name in "abc"] == [0, 1, 2]
    assert request(service, "GET", "/api/streams/a/outputs").json()["numbers"]["record-enabled"] == 0
    assert not events(service, "stream-added", since)
    assert service.status("/healthz") == 200
    assert service.stop() == 0


def totals(service: ServeProcess) -> dict[str, float]:
    """The sums over all processes that only grow."""
    found = {}
    for line in httpx.get(service.url + "/metrics", timeout=PATIENCE).text.splitlines():
        series, _, value = line.rpartition(" ")
        if series.partition("{")[0].endswith("_total") and "stream=" not in series and not series.startswith("#"):
            found[series] = float(value)
    return found


def test_sums_do_not_fall_where_a_process_ends(service: ServeProcess, folder: Path) -> None:
    known = 'sluice_messages_total{state="written"}'
    before = until(lambda: found if (found := totals(service))[known] > 30 else None)
    since = last_event(service)
    os.kill(process_of(folder, 0), signal.SIGKILL)
    until(lambda: events(service, "process-lost", since))
    down = totals(service)
    until(lambda: events(service, "process-started", since))
    until(lambda: service.streams()["a"]["state"] == "playing")
    again = totals(service)
    for earlier, later in ((before, down), (down, again)):
        assert {series for series, value in earlier.items() if later.get(series, 0) < value} == set()
    assert again[known] > down[known]


def test_a_model_that_ends_its_process_is_refused(service: ServeProcess, folder: Path) -> None:
    (folder / "killer.py").write_text(model("killer", "os.kill(os.getpid(), 9)"))
    since, victim = last_event(service), process_of(folder, 0)
    refused = swapped(service, "killer.py")
    assert (refused["kind"], "ended while it was loaded" in refused["text"]) == ("model-refused", True)
    assert "SIGKILL" in events(service, "process-lost", since)[0]["text"]
    until(lambda: events(service, "process-started", since))
    until(lambda: process_of(folder, 0) != victim)
    assert labels(folder, 0)[-1].startswith("first-")
    assert len(children_of(service.pid)) == 2


def test_a_process_that_hangs_holds_up_its_own_streams_alone(service: ServeProcess, folder: Path) -> None:
    hung = process_of(folder, 1)
    assert service.status("/healthz") == 200
    os.kill(hung, signal.SIGSTOP)
    try:
        until(lambda: service.streams()["b"]["state"] == "stalled")
        streams = service.streams()
        assert (streams["b"]["reason"], streams["a"]["state"]) == ("process 1 does not answer", "playing")
        assert request(service, "GET", "/api/streams/b").status_code == 504
        assert request(service, "GET", "/api/streams/a/snapshot.jpg").status_code == 200
        assert request(service, "POST", "/api/streams/c/restart").status_code == 202
        text = httpx.get(service.url + "/metrics", timeout=PATIENCE).text
        assert 'sluice_frames_out_total{stream="a"}' in text
        assert 'sluice_stream_state{state="stalled",stream="b"} 1.0' in text
        assert service.status("/healthz") == 503
    finally:
        os.kill(hung, signal.SIGCONT)
    until(lambda: service.streams()["b"]["state"] == "playing")
    until(lambda: service.status("/healthz") == 200)
    os.kill(hung, signal.SIGSTOP)
    assert service.stop() == 0  # and nobody waits for it for ever
    assert not Path(f"/proc/{hung}").exists()


def test_processes_end_with_the_one_that_started_them(service: ServeProcess) -> None:
    children = children_of(service.pid)
    assert len(children) == 2
    os.kill(service.pid, signal.SIGKILL)
    until(lambda: not any(Path(f"/proc/{child}").exists() for child in children), "both have ended")


@pytest.mark.skipif(webrtc.missing() is not None, reason=str(webrtc.missing()))
def test_a_browser_sees_a_stream_of_each_process(service: ServeProcess) -> None:
    for name in "ab":
        browser = Browser()
        try:
            begun = httpx.post(
                f"{service.url}/api/streams/{name}/whep", content=browser.offer(),
                headers={"Content-Type": "application/sdp"}, timeout=PATIENCE,
            )  # fmt: skip
            assert begun.status_code == 201, begun.text
            browser.accept(begun.text)
            until(lambda browser=browser: browser.frames > 5, "pictures at the browser")
            numbers = service.get(f"/api/streams/{name}/outputs")["numbers"]
            assert numbers["webrtc-viewers"] == 1
            assert request(service, "DELETE", begun.headers["Location"]).status_code == 204
            until(lambda name=name: not service.get(f"/api/streams/{name}/outputs")["numbers"]["webrtc-viewers"])
        finally:
            browser.stop()


def has_rtsp() -> bool:
    try:
        server_library()
    except ConfigurationError:
        return False
    return True


@pytest.mark.skipif(not has_rtsp(), reason="gir1.2-gst-rtsp-server-1.0 is not installed")
def test_rtsp_has_a_port_for_each_process(folder: Path, start: Start) -> None:
    port = free_port()
    (folder / "sluice.yaml").write_text(f"{CONFIG.replace('outputs: {', f'outputs: {{rtsp: {{port: {port}}}, ')}")
    service = start()
    urls = {name: service.get(f"/api/streams/{name}/outputs")["rtsp"] for name in "abc"}
    assert urls == {name: f"rtsp://127.0.0.1:{port + (name == 'b')}/{name}" for name in "abc"}


def serve(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "sluice.app.cli", "serve", str(folder / "sluice.yaml"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def test_a_check_says_the_same_for_any_number(folder: Path) -> None:
    one, two = serve(folder, "--check"), serve(folder, "--check", "--processes", "2")
    assert (two.returncode, two.stdout) == (one.returncode, one.stdout) == (0, one.stdout)


def test_a_process_that_cannot_start_ends_the_service(folder: Path) -> None:
    config = CONFIG.replace("outputs: {", "outputs: {rtsp: {port: 65535}, ")
    (folder / "sluice.yaml").write_text(config)
    refused = serve(folder, "--processes", "2")
    assert refused.returncode == 2
    assert "outputs.rtsp.port" in refused.stderr
    (folder / "sluice.yaml").write_text(CONFIG)
    # The check makes one, then each process does.
    made = (
        f"open({str(folder)!r} + '/made', 'a').write('x') and len(open({str(folder)!r} + '/made').read()) < 3 or 1 / 0"
    )
    (folder / "first.py").write_text(model("first", made))
    broken = serve(folder, "--processes", "2")
    assert broken.returncode == 1, broken.stderr
    assert "ZeroDivisionError" in broken.stderr


def test_a_model_that_fails_at_work_ends_the_service(folder: Path) -> None:
    text = model("first").replace("return [", "return None if len(frames) and frames[0].number > 20 else [")
    (folder / "first.py").write_text(text)
    (folder / "sluice.yaml").write_text(CONFIG.replace("first.py", "first.py, on_error: fail"))
    failed = serve(folder, "--processes", "2")
    assert failed.returncode == 1, failed.stderr
    assert "process " in failed.stderr


def test_messages_that_cannot_be_written_end_the_service(folder: Path) -> None:
    (folder / "sluice.yaml").write_text(CONFIG.replace("out.jsonl", "/dev/full"))
    full = serve(folder, "--processes", "2")
    assert full.returncode == 1, full.stderr
    assert "sluice: messages: a line could not be written to '/dev/full': [Errno 28] No space left" in full.stderr
