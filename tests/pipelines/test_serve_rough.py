"""`sluice serve` on bad days: many callers at once, killed and started again, told to end in the midst of a change."""

from __future__ import annotations

import http.server
import json
import os
import random
import signal
import threading
import time
from collections import Counter
from pathlib import Path

import httpx
import pytest
from serve_process import ServeProcess, corner_model

from sluice.app.serve.loading import load
from sluice.errors import ConfigurationError
from waiting import until

pytestmark = pytest.mark.timeout(400)
CONFIG = """
streams:
  - {name: ball, source: 'test:ball?live=1&fps=5&size=64x48'}
model: {name: corner.py, offered: [corner.py, other.py]}
http: {port: 0}
state: state.json
"""
SOURCE = "test:snow?live=1&fps=2&size=64x48"


@pytest.fixture
def config(tmp_path: Path) -> Path:
    (tmp_path / "corner.py").write_text(corner_model())
    (tmp_path / "other.py").write_text(corner_model("other"))
    (tmp_path / "sluice.yaml").write_text(CONFIG)
    return tmp_path / "sluice.yaml"


def test_eight_callers_at_once_leave_what_they_asked_for(config: Path) -> None:
    service = ServeProcess(config)
    answers: Counter[int] = Counter()
    odd: list[str] = []

    def ask(client: httpx.Client, method: str, path: str, body: object = None) -> int:
        answer = client.request(method, path, json=body)
        answers[answer.status_code] += 1
        if answer.status_code not in (200, 201, 202, 204, 404, 409):
            odd.append(f"{method} {path} {body}: {answer.status_code} {answer.text}")
        return answer.status_code

    def call(number: int) -> None:
        chance = random.Random(number)
        with httpx.Client(base_url=service.url, timeout=60) as client:
            for _ in range(12):
                name = f"s{chance.randrange(4)}"
                choice = chance.randrange(6)
                if choice < 2:
                    ask(client, "POST", "/api/streams", {"name": name, "source": SOURCE})
                elif choice == 2:
                    ask(client, "DELETE", f"/api/streams/{name}")
                elif choice == 3:
                    ask(client, "POST", f"/api/streams/{name}/restart")
                elif choice == 4:
                    ask(client, "PATCH", f"/api/streams/{name}", {"policy": {"fps": chance.choice([1, 2, None])}})
                else:
                    model = chance.choice(["corner.py", "other.py"])
                    ask(client, "POST", "/api/models/swap", {"model": model})
                    ask(client, "PATCH", "/api/thresholds", {"confidence": chance.choice([0.2, None])})

    threads = [threading.Thread(target=call, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not odd
    assert answers[201]
    streams = service.streams()
    before = {name: stream["frames_out"] for name, stream in streams.items()}
    until(lambda: all(stream["frames_out"] > before[name] for name, stream in service.streams().items()), seconds=60)
    assert service.stop() == 0
    assert "Traceback" not in service.output
    kept = json.loads(config.with_name("state.json").read_text())
    assert {entry["name"] for entry in kept["added"]} | {"ball"} == set(streams)


def test_a_broker_that_is_away_and_comes_back_is_told_in_the_log_and_as_events(config: Path) -> None:
    class Hook(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = http.server.HTTPServer(("127.0.0.1", 0), Hook, bind_and_activate=False)
    server.server_bind()  # nothing answers until it listens too
    address = f"127.0.0.1:{server.server_address[1]}"
    config.write_text(CONFIG + f"messages: http://me:${{ENV:HOOK}}@{address}/hook?spool=none\n")
    service = ServeProcess(config, {**os.environ, "HOOK": "s3cr3t/pass"}, verbose=False)
    try:
        until(lambda: f"WARNING sluice.serve: sluicemsgbroker: http://{address}/hook" in service.output)
        server.server_activate()
        threading.Thread(target=server.serve_forever, daemon=True).start()
        until(lambda: "it takes messages again" in service.output)
        events = [event for event in service.get("/api/events")["events"] if event["kind"].startswith("element-")]
        assert [event["kind"] for event in events] == ["element-warning", "element-info"]
    finally:
        assert service.stop() == 0
        server.shutdown()
        server.server_close()
    assert "s3cr3t" not in service.output + json.dumps(events)


def test_killed_and_started_again_it_has_the_same_streams(config: Path) -> None:
    service = ServeProcess(config)
    for number in range(3):
        body = {"name": f"s{number}", "source": SOURCE, "policy": {"fps": 1}}
        httpx.post(f"{service.url}/api/streams", json=body, timeout=30).raise_for_status()
    httpx.delete(f"{service.url}/api/streams/ball", timeout=30).raise_for_status()
    service.stop(signal.SIGKILL)
    again = ServeProcess(config)
    try:
        until(lambda: set(again.streams()) == {"s0", "s1", "s2"})
        assert again.streams()["s1"]["policy"]["fps"] == 1
        until(lambda: all(stream["frames_out"] for stream in again.streams().values()))
    finally:
        assert again.stop() == 0


def test_a_signal_while_streams_are_added_ends_it_in_order(config: Path) -> None:
    service = ServeProcess(config)
    added: list[str] = []

    def add() -> None:
        with httpx.Client(base_url=service.url, timeout=30) as client:
            for number in range(200):
                try:
                    answer = client.post("/api/streams", json={"name": f"s{number}", "source": SOURCE})
                except httpx.TransportError:
                    return
                if answer.status_code != 201:
                    assert answer.status_code in (409, 503), answer.text
                    return
                added.append(f"s{number}")

    adding = threading.Thread(target=add)
    adding.start()
    until(lambda: len(added) >= 3)
    begun = time.monotonic()
    assert service.stop() == 0
    adding.join()
    assert time.monotonic() - begun < 30
    assert "Traceback" not in service.output
    kept = [entry["name"] for entry in json.loads(config.with_name("state.json").read_text())["added"]]
    assert kept[: len(added)] == added  # and perhaps one whose answer did not get through


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"streams: [{name: a, source: 'test:ball'}]\nmodel:\n\tname: none\n", "line 3: no YAML"),
        (b"streams: \xff\xfe\n", "is no UTF-8 text"),
        (b"\xff\xfes\0t\0r\0", "is no UTF-8 text"),
        (b"streams: [{name: a, source: '\x00'}]\n", "no YAML"),
        (b"model: {name: none}\nmodel: {name: none}\n", "has the key 'model' twice, again in line 2"),
        (b"streams: [{name: a, source: '${ENV:SLUICE_NO_SUCH}'}]", "SLUICE_NO_SUCH is not set"),
        (b"http: {token: '${FILE:/nowhere/token}'}", "there is no file '/nowhere/token'"),
        (b"http: {token: '${FILE:.}'}", "there is no file '.'"),
        (b"streams: &a [*a]\n", "without end"),
        (b"streams: [*nothing]\n", "undefined alias"),
        (b"streams: " + b"[" * 3000, "nested"),
        (b"\xef\xbb\xbfstreamz: []\n", "the nearest that is right is 'streams'"),
        (b"", None),
        (b"\xef\xbb\xbfstreams: []\r\nmodel: {name: none}\r\n", None),
    ],
)
def test_a_file_that_is_no_configuration_says_why(tmp_path: Path, text: bytes, said: str | None) -> None:
    path = tmp_path / "sluice.yaml"
    path.write_bytes(text)
    if said is None:
        load(path, {})
        return
    with pytest.raises(ConfigurationError) as caught:
        load(path, {})
    assert said in str(caught.value)
    assert str(path) in str(caught.value)


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe", tmp_path / "nothing", Path("/dev/zero")):
        with pytest.raises(ConfigurationError, match=r"is no file|is not there"):
            load(path, {})


HEAVY = """
import sys, time
import cv2
import numpy as np
from sluice import Detections

class Heavy:
    labels = ["none"]

    def infer(self, frames):
        print("it computes", file=sys.stderr, flush=True)
        finder, picture = cv2.HOGDescriptor(), np.zeros((1500, 1500), np.uint8)
        finder.setSVMDetector(cv2.HOGDescriptor.getDefaultPeopleDetector())
        end = time.monotonic() + 60
        while time.monotonic() < end:
            finder.detectMultiScale(picture)
        return [Detections.empty() for _ in frames]
"""


def test_the_exit_status_is_its_own_while_a_model_computes_in_another_language(tmp_path: Path) -> None:
    (tmp_path / "heavy.py").write_text(HEAVY)
    (tmp_path / "sluice.yaml").write_text(
        "streams: [{name: ball, source: 'test:ball?live=1&size=64x48'}]\n"
        "model: {name: 'heavy.py:Heavy'}\nhttp: {port: 0}\n"
    )
    process = ServeProcess(tmp_path / "sluice.yaml")
    until(lambda: "it computes" in process.output)
    assert process.stop() == 0, process.output
    assert "terminate called" not in process.output
