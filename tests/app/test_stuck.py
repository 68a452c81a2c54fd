"""Connections that are cut off, and those that look alike and are not."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Iterator

import pytest

from sluice.app.sources import parse_source
from sluice.app.stuck import bounded, cut_off

SILENT = 0.5


@pytest.fixture
def talker() -> Iterator[int]:
    """The port of a server that sends without end to whoever connects."""
    server = socket.create_server(("127.0.0.1", 0))

    def talk(connection: socket.socket) -> None:
        with contextlib.suppress(OSError), connection:
            while True:
                connection.sendall(b"X-More: more\r\n")
                time.sleep(0.01)

    def accept() -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = server.accept()
                threading.Thread(target=talk, args=(connection,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    yield server.getsockname()[1]
    server.shutdown(socket.SHUT_RDWR)
    server.close()


def read_to_the_end(connection: socket.socket, seconds: float) -> bool:
    """Whether a connection ends in that time."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if not connection.recv(4096):
            return True
    return False


def test_who_talks_without_being_asked_is_cut_off(talker: int) -> None:
    with socket.create_connection(("127.0.0.1", talker)) as connection:
        connection.sendall(b"OPTIONS")
        assert not read_to_the_end(connection, SILENT + 0.2)
        assert cut_off("127.0.0.1", talker, SILENT) == 1
        assert read_to_the_end(connection, 10)


def test_a_connection_that_is_answered_stays(talker: int) -> None:
    with socket.create_connection(("127.0.0.1", talker)) as connection:
        for _ in range(4):
            connection.sendall(b"report")
            assert not read_to_the_end(connection, SILENT / 2)
        connection.sendall(b"report")  # a busy machine may have taken longer than that
        assert cut_off("127.0.0.1", talker, SILENT) == 0
        assert not read_to_the_end(connection, 0.2)


def test_a_quiet_connection_and_that_of_another_stay(talker: int) -> None:
    with socket.create_server(("127.0.0.1", 0)) as quiet:
        port = quiet.getsockname()[1]
        with (
            socket.create_connection(("127.0.0.1", port)) as idle,
            socket.create_connection(("127.0.0.1", talker)) as on,
        ):
            idle.sendall(b"OPTIONS")
            on.sendall(b"OPTIONS")
            time.sleep(1.5)
            assert cut_off("127.0.0.1", port, SILENT) == 0
            assert not read_to_the_end(on, 0.1)
        assert cut_off("no-such-host.invalid", talker, SILENT) == 0


def test_closing_that_hangs_is_bounded_and_said(talker: int, caplog: pytest.LogCaptureFixture) -> None:
    source = parse_source(f"rtsp://user:hunter22@127.0.0.1:{talker}/cam")
    with socket.create_connection(("127.0.0.1", talker)) as connection, bounded(source, SILENT):
        connection.sendall(b"OPTIONS")
        assert read_to_the_end(connection, 20)
        deadline = time.monotonic() + 20
        while not caplog.text and time.monotonic() < deadline:
            time.sleep(0.02)
    assert f"rtsp://127.0.0.1:{talker}/cam: its answer never ends" in caplog.text
    assert "hunter22" not in caplog.text
