"""The log of events: bounded, read from any point, and heard by subscribers that harm nobody."""

from __future__ import annotations

import queue
import threading

import pytest

from sluice.app.streams import Event, EventLog


def log(most: int = 3) -> EventLog:
    return EventLog(lambda: 7.0, most)


def test_the_oldest_are_forgotten_and_numbers_go_on() -> None:
    events = log()
    for number in range(5):
        events.add("stream-added", f"s{number}", "text", number=number)
    assert [event.number for event in events.since()] == [3, 4, 5]
    assert [event.stream for event in events.since(4)] == ["s4"]
    assert events.since(5) == []
    assert events.since(4)[0] == Event(7.0, "stream-added", "s4", "text", {"number": 4}, 5)


def test_subscribers_hear_in_order_until_they_leave() -> None:
    events, heard = log(), queue.Queue[str]()
    events.add("before", None, "")
    leave = events.subscribe(lambda event: heard.put(event.kind))
    for kind in ("one", "two", "three", "four", "five"):
        events.add(kind, None, "")
    assert [heard.get(timeout=5) for _ in range(5)] == ["one", "two", "three", "four", "five"]
    leave()
    heard_later = queue.Queue[str]()
    events.subscribe(lambda event: heard_later.put(event.kind))
    events.add("six", None, "")
    assert heard_later.get(timeout=5) == "six"
    assert heard.empty()


def test_a_subscriber_that_fails_is_logged_and_the_others_hear(caplog: pytest.LogCaptureFixture) -> None:
    events, heard = log(), threading.Event()

    def fail(event: Event) -> None:
        raise ValueError("no")

    events.subscribe(fail)
    events.subscribe(lambda event: heard.set())
    events.add("one", None, "")
    assert heard.wait(5)
    assert "ValueError: no" in caplog.text


def test_a_closed_log_tells_what_happened_before_and_lets_its_thread_end() -> None:
    events, heard = log(), queue.Queue[str]()
    before = set(threading.enumerate())
    events.subscribe(lambda event: heard.put(event.kind))
    (thread,) = set(threading.enumerate()) - before
    events.add("last", None, "")
    events.close()
    assert heard.get(timeout=5) == "last"
    thread.join(5)
    assert not thread.is_alive()
