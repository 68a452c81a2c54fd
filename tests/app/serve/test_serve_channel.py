"""Calls between the processes of a service: many at once, errors by their class, and the other side's end."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from multiprocessing.connection import Connection
from typing import Any

import pytest

from sluice.app.roster import UnknownStream
from sluice.app.serve.processes.channel import Answerer, Caller, ProcessDownError, Told
from sluice.errors import ConfigurationError, ModelError
from waiting import PATIENCE, until


class Pair:
    """Both ends of a connection, one of which answers calls of the functions given."""

    def __init__(self, methods: Mapping[str, Callable[..., Any]], before: Callable[[], None] = lambda: None) -> None:
        ours, theirs = socket.socketpair()
        self.theirs = Connection(theirs.detach())
        self.answerer = Answerer(self.theirs, methods, before)
        self.caller = Caller(Connection(ours.detach()))
        self.heard: list[Told] = []
        self._listening = threading.Thread(target=self.caller.listen, args=(self.heard.append,), daemon=True)
        self._serving = threading.Thread(target=self.answerer.serve, daemon=True)
        self._listening.start()
        self._serving.start()

    def call(self, method: str, *arguments: Any, **named: Any) -> Any:
        return self.caller.begin(method, *arguments, **named).result(PATIENCE)

    def close(self) -> None:
        self.caller.send("end")
        self._serving.join(PATIENCE)
        self.theirs.close()
        self._listening.join(PATIENCE)
        assert not self._listening.is_alive()


@pytest.fixture
def release() -> Iterator[threading.Event]:
    event = threading.Event()
    yield event
    event.set()


def test_a_call_that_waits_holds_up_no_other(release: threading.Event) -> None:
    pair = Pair({"hang": lambda: release.wait(PATIENCE), "add": lambda one, other=0: one + other})
    slow: Future[Any] = pair.caller.begin("hang")
    assert [pair.call("add", 1), pair.call("add", 1, other=2)] == [1, 3]
    assert not slow.done()
    release.set()
    assert slow.result(PATIENCE) is True
    pair.close()


@pytest.mark.parametrize(
    ("raised", "kind"),
    [
        (UnknownStream("there is none"), UnknownStream),
        (ModelError("there is none"), ModelError),
        (ConfigurationError("there is none"), ConfigurationError),
        (KeyError("there is none"), RuntimeError),
    ],
)
def test_an_error_arrives_as_what_it_was(raised: Exception, kind: type[Exception]) -> None:
    def fail() -> None:
        raise raised

    pair = Pair({"fail": fail})
    with pytest.raises(kind, match="there is none") as caught:
        pair.call("fail")
    assert type(caught.value) is kind
    pair.close()


def test_what_is_told_before_an_answer_arrives_before_it() -> None:
    pair: Pair = Pair({"count": lambda: 7}, lambda: pair.answerer.tell("events", [1, 2]))
    future = pair.caller.begin("count")
    seen: list[int] = []
    future.add_done_callback(lambda _: seen.append(len(pair.heard)))
    assert future.result(PATIENCE) == 7
    until(lambda: seen)
    assert (seen, pair.heard) == ([1], [Told("events", [1, 2])])
    pair.close()


def test_calls_end_with_the_other_side(release: threading.Event) -> None:
    pair = Pair({"hang": lambda: release.wait(PATIENCE)})
    future = pair.caller.begin("hang")
    pair.close()
    pair.caller.end("process 1 has ended: killed by SIGKILL")
    for each in (future, pair.caller.begin("hang")):
        with pytest.raises(ProcessDownError, match="SIGKILL"):
            each.result(PATIENCE)
