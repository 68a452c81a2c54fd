"""What goes wrong on a stream's own thread is that stream's state, with words, whatever it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from sluice.app.sources import parse_source
from sluice.app.streams import EventLog, StreamPolicy, StreamState
from sluice.app.streams.stream import Stream
from sluice.app.streams.tending import Tending
from sluice.app.summary import Summary
from sluice.errors import ConfigurationError


class Graph:
    """Takes no stream."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def join(self, _stream: Stream) -> None:
        raise self.error

    def open(self, _stream: Stream) -> bool:
        raise self.error

    def close_source(self, _stream: Stream) -> None:
        """There is none."""

    def leave(self, _stream: Stream, _seconds: float) -> None:
        raise self.error

    def drop_branch(self, _stream: Stream) -> None:
        raise self.error

    def mux_stats(self) -> None:
        raise self.error


def tended(error: Exception, policy: StreamPolicy) -> tuple[Tending, Stream, EventLog, list[Callable[[], None]]]:
    log, posted = EventLog(lambda: 0.0), list[Callable[[], None]]()
    summary = Summary([], model="none", runtime="none", tracker=None, provider="portable")
    graph: Any = Graph(error)
    tending = Tending(graph, log, summary, posted.append, True, lambda: 0.5)
    return tending, tending.maker(parse_source("test:ball?live=1"), policy)(0, "a"), log, posted


@pytest.mark.parametrize("error", [ConfigurationError("no pad"), RuntimeError("no pad"), TimeoutError("no pad")])
def test_a_stream_that_finds_no_place_has_failed_and_says_why(error: Exception) -> None:
    tending, stream, log, posted = tended(error, StreamPolicy())
    tending.join(stream)
    for work in posted:
        work()
    assert (stream.supervisor.state, stream.supervisor.reason) == (StreamState.FAILED, "no pad")
    assert [event.kind for event in log.since()] == ["stream-failed"]


def test_a_source_that_cannot_be_opened_for_any_reason_is_tried_again() -> None:
    tending, stream, log, posted = tended(RuntimeError("rtsp://u:hunter22@cam/1 broke"), StreamPolicy())
    tending.begin(stream)
    assert stream.worker.join(30)
    for work in posted:
        work()
    assert (stream.supervisor.state, stream.supervisor.reason) == (StreamState.LOST, "rtsp://cam/1 broke")
    assert stream.supervisor.next_attempt is not None
    assert "hunter22" not in log.since()[-1].text


def test_a_stream_that_cannot_be_taken_out_whole_is_gone_all_the_same() -> None:
    """Else its name would be taken for ever."""
    tending, stream, log, _ = tended(TimeoutError("the outputs do not answer"), StreamPolicy())
    gone: list[bool] = []
    tending.remove(stream, lambda: gone.append(True))
    assert stream.worker.join(30)
    assert gone == [True]
    assert log.since()[-1].kind == "stream-removed"
