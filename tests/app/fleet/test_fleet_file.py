"""Fleet files that are wrong are refused by name and line, before anything knows of them."""

from __future__ import annotations

import contextlib
import socket
import threading
from pathlib import Path

import pytest

from sluice.app.fleet import connection
from sluice.app.fleet.connection import check_reachable, read_fleet
from sluice.errors import ConfigurationError
from waiting import PATIENCE

SECRET = "open-sesame"


def said(tmp_path: Path, text: str) -> str:
    file = tmp_path / "fleet.yaml"
    file.write_text(text)
    with pytest.raises(ConfigurationError) as caught:
        read_fleet(file, {"PASSWORD": SECRET})
    assert SECRET not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("name: a\nname: b\n", ["line 1", "'name' twice", "line 2"]),
        (
            "streams:\n- {name: a, source: 'test:ball'}\n- {name: a, source: 'test:snow'}\n",
            ["more than one is called a"],
        ),
        ("streams: &a [*a]\n", ["without end"]),
        ("model: &m {name: none, options: *m}\n", ["without end"]),
        ("- a\n", ["group of keys"]),
        ("streems: []\n", ["line 1", "'streams'"]),
        ("recovery:\n  flaping: {}\n", ["line 2", "'flapping'"]),
        ("recovery: {flapping: {losses: 0}}\n", ["recovery.flapping.losses"]),
        ("recovery: {poison: {worker: 3}}\n", ["'workers'"]),
        ("recovery: {heartbeat: 9, lost_after: 2}\n", ["lost_after must be longer than heartbeat"]),
        ("recovery: {stuck_after: .inf}\n", ["recovery.stuck_after", "finite"]),
        ("workers: {resources: {cpus: .nan}}\n", ["workers.resources.cpus", "finite"]),
        ("workers: {streams: many}\n", ["workers.streams", "'many'"]),
        ("rollout: {canary: [z]}\n", ["not there: z"]),
        ("tracker: {name: sort-of}\n", ["tracker.name", "sort-of"]),
        ("messages: gopher://x\n", ["messages", "gopher"]),
        ("messages: 'kafka://user:${ENV:PASSWORD}@/x'\n", ["messages"]),
        ("streams:\n- {name: a, source: 'test:nosuch'}\n", ["line 2", "nosuch"]),
        ("streams:\n- {name: a, source: 'ftp://u:${ENV:PASSWORD}@x'}\n", ["line 2", "ftp"]),
        ("streams:\n- {name: a, source: ' '}\n", ["line 2", "is empty"]),
        ("streams:\n- {name: a, source: '${ENV:NOPE}'}\n", ["line 2", "NOPE is not set"]),
    ],
)
def test_faults_are_named(tmp_path: Path, text: str, says: list[str]) -> None:
    message = said(tmp_path, text)
    assert all(part in message for part in says), message


def test_a_file_on_the_nodes_need_not_be_here(tmp_path: Path) -> None:
    file = tmp_path / "fleet.yaml"
    file.write_text("streams: [{name: a, source: /on/the/nodes/only.mp4}]\nmodel: {name: /on/the/nodes/model.onnx}\n")
    assert read_fleet(file, {}).streams[0].source == "/on/the/nodes/only.mp4"


def test_ten_thousand_cameras_fit_into_a_file(tmp_path: Path) -> None:
    camera = (
        "- {{name: cam-{}, source: 'rtsp://user:password@cameras.example/site/building/{}', policy: {{fps: 10}}}}\n"
    )
    file = tmp_path / "fleet.yaml"
    file.write_text("streams:\n" + "".join(camera.format(i, i) for i in range(10_000)))
    assert len(read_fleet(file, {}).streams) == 10_000


@pytest.mark.parametrize("address", ["host", "host:", "host:ray", "127.0.0.1:70000", "127.0.0.1:٣"])
def test_addresses_that_are_none(address: str) -> None:
    with pytest.raises(ConfigurationError, match="right is host:port"):
        check_reachable(address)


class Listener:
    """Something that listens and is no Ray head."""

    def __init__(self, says: bytes) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._socket.getsockname()[1]}"
        self._says = says
        self._kept: list[socket.socket] = []
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._socket.accept()
                connection.sendall(self._says)
                self._kept.append(connection)

    def close(self) -> None:
        for one in (self._socket, *self._kept):
            one.close()


@pytest.mark.parametrize(
    ("greeting", "says"), [(b"", "does not answer"), (b"220 mail.example ESMTP\r\n", "is no Ray head")]
)
def test_something_else_that_listens_is_no_cluster(greeting: bytes, says: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "_REACH", PATIENCE if greeting else 0.5)
    monkeypatch.delenv("RAY_USE_TLS", raising=False)
    other = Listener(greeting)
    try:
        with pytest.raises(ConfigurationError, match=says):
            check_reachable(other.address)
    finally:
        other.close()


def test_a_head_that_greets_as_grpc_does_is_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RAY_USE_TLS", raising=False)
    head = Listener(bytes([0, 0, 6, 4, 0, 0, 0, 0, 0, 0, 4, 0, 1, 0, 0]))
    try:
        check_reachable(head.address)
    finally:
        head.close()
