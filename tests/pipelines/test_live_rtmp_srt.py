"""RTMP and SRT from real servers that are killed and come back."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from live import happened, plays, quick, status

import sluice
from killable import free_port
from sluice.app.streams import StreamState
from stream_servers import RtmpServer, SrtServer, missing_for_rtmp, missing_for_srt
from waiting import until

needs_rtmp = pytest.mark.skipif(missing_for_rtmp() is not None, reason=missing_for_rtmp() or "")
needs_srt = pytest.mark.skipif(missing_for_srt() is not None, reason=missing_for_srt() or "")


@pytest.fixture
def service(service: sluice.Pipeline) -> sluice.Pipeline:
    """A service with one stream that nothing happens to."""
    service.add("test:ball?live=1&fps=25&size=64x48", name="steady")
    plays(service, "steady", 5)
    return service


def keeps_its_rate(pipeline: sluice.Pipeline, name: str, seconds: float = 2.0) -> bool:
    """Whether a stream of 25 frames per second gives as many for a while.

    A busy machine may hold it up for some of the whiles that are looked at; trouble beside it that does, is in all.
    """

    def gives_as_many() -> bool:
        before, begun = status(pipeline, name).frames_in, time.monotonic()
        time.sleep(seconds)
        return status(pipeline, name).frames_in - before >= 0.9 * 25 * (time.monotonic() - begun)

    return until(gives_as_many, f"{name} keeps its rate")


@needs_rtmp
def test_rtmp_from_a_server_that_is_killed_and_comes_back(service: sluice.Pipeline, tmp_path: Path) -> None:
    with RtmpServer(tmp_path) as server:
        service.add(server.url, name="cam", policy=quick())
        plays(service, "cam", 20)
        found = status(service, "cam")
        assert (found.width, found.height, found.live) == (160, 128, True)
        server.kill()
        until(lambda: status(service, "cam").state.is_fault, "it's lost")
        until(lambda: happened(service, "stream-refused", "cam"), "nothing listens")
        assert status(service, "cam").next_retry is not None
        assert keeps_its_rate(service, "steady")
        server.start()
        plays(service, "cam", 20)
        assert status(service, "cam").reconnects >= 1
    assert status(service, "steady").reconnects == 0


@needs_rtmp
def test_rtmp_whose_publisher_goes_while_the_server_stays(service: sluice.Pipeline, tmp_path: Path) -> None:
    with RtmpServer(tmp_path) as server:
        service.add(server.url, name="cam", policy=quick())
        plays(service, "cam", 20)
        server.kill_publisher()
        until(lambda: status(service, "cam").state.is_fault, "it's lost or stalled")
        assert keeps_its_rate(service, "steady")
        server.publish()
        plays(service, "cam", 20)


@needs_srt
def test_srt_from_a_listener_that_is_killed_and_comes_back(service: sluice.Pipeline) -> None:
    with SrtServer() as server:
        service.add(server.url(), name="cam", policy=quick())
        plays(service, "cam", 20)
        found = status(service, "cam")
        assert (found.width, found.height, found.live) == (160, 128, True)
        server.kill()
        until(lambda: status(service, "cam").state.is_fault, "it's lost or stalled")
        until(lambda: status(service, "cam").next_retry is not None, "it's to be opened again")
        assert keeps_its_rate(service, "steady")
        server.start()
        plays(service, "cam", 20)
        assert status(service, "cam").reconnects >= 1
    assert status(service, "steady").reconnects == 0


@needs_srt
def test_srt_with_a_passphrase(service: sluice.Pipeline) -> None:
    with SrtServer("correct-horse") as server:
        service.add(server.url("correct-horse"), name="right", policy=quick())
        service.add(server.url("battery-staple"), name="wrong", policy=quick())
        plays(service, "right", 20)
        until(lambda: happened(service, "stream-unauthorized", "wrong"), "the passphrase is wrong")
        told = " ".join(event.text for event in service.events.since()) + status(service, "wrong").uri
        assert "battery" not in told
        assert "correct-horse" not in told
        assert keeps_its_rate(service, "right")


@pytest.mark.parametrize(
    "address",
    [
        pytest.param("rtmp://127.0.0.1:{port}/live/cam", marks=needs_rtmp),
        pytest.param("srt://127.0.0.1:{port}?mode=caller", marks=needs_srt),
    ],
)
def test_where_nothing_listens_the_stream_is_refused_and_can_be_removed(service: sluice.Pipeline, address: str) -> None:
    service.add(address.format(port=free_port()), name="cam", policy=quick())
    until(lambda: status(service, "cam").next_retry is not None, "it's to be opened again")
    until(lambda: status(service, "cam").reconnects >= 2, "it is tried again and again")
    assert status(service, "cam").state in (StreamState.REFUSED, StreamState.CONNECTING)
    begun = time.monotonic()
    service.remove("cam")
    assert time.monotonic() - begun < 10
    assert keeps_its_rate(service, "steady")
