"""Servers that say something else than they should, and what becomes of the streams from them and beside them."""

from __future__ import annotations

import contextlib
import os
import random
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from live import happened, plays, quick, status

import sluice
from rtsp_server import Mount, RtspServer
from sluice.app.streams import RetryPolicy, StreamState
from waiting import PATIENCE, until

BESIDE = "test:ball?live=1&fps=10&size=64x48"
NOISE = random.Random(4)


@pytest.fixture
def service() -> Iterator[sluice.Pipeline]:
    """A service with a stream that plays, which must not notice anything, and which is stopped at the end."""
    with sluice.Pipeline([], service=True) as pipeline:
        pipeline.start()
        pipeline.add(BESIDE, name="beside")
        plays(pipeline, "beside", 2)
        yield pipeline
        plays(pipeline, "beside", 2)
        assert status(pipeline, "beside").reconnects == 0
        begun = time.monotonic()
        pipeline.stop()
        assert time.monotonic() - begun < PATIENCE  # two seconds, on a machine that is not busy


@contextmanager
def listening(talk: Callable[[socket.socket], None]) -> Iterator[str]:
    """Answer every connection by a function; give "host:port"."""
    server = socket.create_server(("127.0.0.1", 0))
    open_sockets: list[socket.socket] = []

    def answer(connection: socket.socket) -> None:
        with contextlib.suppress(OSError), connection:
            talk(connection)

    def accept() -> None:
        while True:
            try:
                connection, _ = server.accept()
            except OSError:
                return
            open_sockets.append(connection)
            threading.Thread(target=answer, args=(connection,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield f"127.0.0.1:{server.getsockname()[1]}"
    finally:
        with contextlib.suppress(OSError):
            server.shutdown(socket.SHUT_RDWR)
        server.close()
        for connection in open_sockets:
            connection.close()


def close_at_once(_connection: socket.socket) -> None:
    """Say nothing."""


def garbage(connection: socket.socket) -> None:
    """Answer with what is no protocol."""
    connection.recv(4096)
    connection.sendall(NOISE.randbytes(50_000))
    time.sleep(0.2)


def endless_header(connection: socket.socket) -> None:
    """Begin an answer that never ends."""
    connection.recv(4096)
    connection.sendall(b"RTSP/1.0 200 OK\r\n")
    while True:
        connection.sendall(b"X-More: " + b"a" * 4000 + b"\r\n")
        time.sleep(0.005)


def huge_body(connection: socket.socket) -> None:
    """Promise more than any memory holds."""
    connection.recv(4096)
    connection.sendall(b"RTSP/1.0 200 OK\r\nCSeq: 1\r\nContent-Length: 99999999999\r\n\r\nabc")
    time.sleep(1)


def silent(connection: socket.socket) -> None:
    """Take everything and say nothing."""
    while connection.recv(4096):
        pass


@pytest.mark.parametrize("talk", [close_at_once, garbage, endless_header, huge_body, silent])
def test_a_server_that_speaks_no_rtsp_is_a_fault_with_a_name(
    service: sluice.Pipeline, talk: Callable[[socket.socket], None]
) -> None:
    with listening(talk) as host:
        service.add(f"rtsp://user:hunter22@{host}/cam", name="liar", policy=quick(connect_seconds=3))
        until(lambda: status(service, "liar").state.is_fault, "it has a fault")
        until(lambda: status(service, "liar").reconnects >= 2, "it is tried again")
        found = status(service, "liar")
        assert found.frames_out == 0
        assert found.reason
        assert not any("hunter22" in event.text for event in service.events.since())
        begun = time.monotonic()
        service.remove("liar")
        assert time.monotonic() - begun < PATIENCE  # five seconds, on a machine that is not busy
        # While the other side still lies: a header that never ends is cut off.
        until(lambda: happened(service, "stream-removed", "liar"), "it is gone")


def http(answer: Callable[[socket.socket, str], None]) -> Callable[[socket.socket], None]:
    """Answer an HTTP request by a function of the connection and the path that was asked for."""

    def talk(connection: socket.socket) -> None:
        request = connection.recv(65536).decode("latin-1")
        answer(connection, request.split(" ")[1] if " " in request else "/")

    return talk


def redirect(connection: socket.socket, path: str) -> None:
    """Send everybody on for ever."""
    connection.sendall(f"HTTP/1.1 302 Found\r\nLocation: {path}x\r\nContent-Length: 0\r\n\r\n".encode())


def text(connection: socket.socket, _path: str) -> None:
    """Give a page in place of a video."""
    body = b"<html><body>log in, please</body></html>" * 200
    head = f"HTTP/1.1 200 OK\r\nContent-Type: video/mp4\r\nContent-Length: {len(body)}\r\n\r\n"
    connection.sendall(head.encode() + body)


def drip(connection: socket.socket, _path: str) -> None:
    """Give one byte now and then."""
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: video/mp4\r\nContent-Length: 10000000\r\n\r\n")
    while True:
        connection.sendall(b"\0")
        time.sleep(0.2)


def gone(connection: socket.socket, _path: str) -> None:
    """Say that it was here once."""
    connection.sendall(b"HTTP/1.1 410 Gone\r\nContent-Length: 0\r\n\r\n")


def broken(connection: socket.socket, _path: str) -> None:
    """Say that the fault is on this side."""
    connection.sendall(b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n")


@pytest.mark.parametrize(
    ("answer", "states"),
    [
        (redirect, None),
        (text, {StreamState.UNSUPPORTED, StreamState.CORRUPT}),
        (drip, {StreamState.STALLED, StreamState.UNSUPPORTED, StreamState.CORRUPT}),
        (gone, {StreamState.NOT_FOUND}),
        (broken, None),
    ],
)
def test_a_web_server_that_gives_no_video_is_a_fault_with_a_name(
    service: sluice.Pipeline, answer: Callable[[socket.socket, str], None], states: set[StreamState] | None
) -> None:
    with listening(http(answer)) as host:
        policy = quick(connect_seconds=3, retry=RetryPolicy(first=0.2, most=1, limit=2))
        service.add(f"http://user:hunter22@{host}/clip.mp4", name="liar", policy=policy)
        found = until(lambda: found if (found := status(service, "liar")).state.is_fault else None, "it has a fault")
        assert states is None or found.state in states, found
        assert found.reason
        until(lambda: status(service, "liar").state == StreamState.FAILED, "it is given up")
        assert not any("hunter22" in event.text for event in service.events.since())


def test_a_camera_that_changes_its_size_again_and_again_goes_on(service: sluice.Pipeline) -> None:
    with RtspServer([Mount()]) as server:
        service.add(server.url(), name="cam", policy=quick())
        plays(service, "cam", 5)
        for turn in range(6):
            width, height = ((320, 240), (160, 128))[turn % 2]
            server.tell("size", path="/cam", width=width, height=height)
            until(lambda w=width: status(service, "cam").width == w, "the new size is known")  # type: ignore[misc]
            plays(service, "cam", 5)
        assert status(service, "cam").reconnects == 0


def test_files_and_threads_of_sources_that_fail_do_not_pile_up(service: sluice.Pipeline) -> None:
    with listening(garbage) as host:
        policy = quick(connect_seconds=3, retry=RetryPolicy(first=0.05, most=0.05, jitter=0))
        service.add(f"rtsp://{host}/cam", name="liar", policy=policy)

        def used() -> tuple[int, int]:
            return len(os.listdir("/proc/self/fd")), threading.active_count()  # noqa: PTH208

        until(lambda: status(service, "liar").reconnects >= 5, "it is tried again")
        files, threads = used()
        until(lambda: status(service, "liar").reconnects >= 40, "and again", seconds=120)
        until(lambda: used()[0] <= files + 10 and used()[1] <= threads + 5, "nothing is left of the attempts")
