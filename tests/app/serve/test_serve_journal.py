"""A service's log has one line for each change of a stream, and few of one that changes all the time."""

from __future__ import annotations

import logging

from sluice.app.allowance import BURST, REFILL
from sluice.app.serve.journal import Journal
from sluice.app.streams import EventLog, StreamState


class Bench:
    """A journal and its events, with clocks that a test moves."""

    def __init__(self, begun: int = 0, all_kinds: bool = False, most: int = 1000) -> None:
        self.now = 0.0
        self.events = EventLog(lambda: self.now, most)
        self.journal = Journal(self.events, lambda: self.now, begun=begun, all_kinds=all_kinds)

    def state(self, stream: str, state: StreamState, reason: str = "") -> None:
        text = f"rtsp://{stream}: {state}" + (f": {reason}" if reason else "")
        self.events.add(f"stream-{state}", stream, text, state=str(state), reason=reason)

    def texts(self) -> list[str]:
        return [line.text for line in self.journal.lines()]


def test_each_change_is_one_line_and_a_stream_that_is_back_says_for_how_long_it_was_away() -> None:
    bench = Bench()
    bench.state("gate", StreamState.PLAYING)
    bench.now = 10
    bench.state("gate", StreamState.LOST, "the other side ended the stream")
    bench.now = 12
    bench.state("gate", StreamState.REFUSED, "nothing answers")
    bench.state("gate", StreamState.REFUSED, "nothing answers, in other words")
    assert bench.texts() == [
        "gate: rtsp://gate: playing",
        "gate: rtsp://gate: lost: the other side ended the stream",
        "gate: rtsp://gate: refused: nothing answers",
    ]
    bench.now = 105
    bench.state("gate", StreamState.PLAYING)
    assert bench.texts() == ["gate: rtsp://gate: playing again, after 0:01:35"]
    assert bench.texts() == []


def test_a_change_that_the_stream_survives_is_one_line() -> None:
    bench = Bench()
    for state in (StreamState.PLAYING, StreamState.FORMAT_CHANGED, StreamState.PLAYING):
        bench.state("gate", state)
    assert bench.texts() == ["gate: rtsp://gate: playing", "gate: rtsp://gate: format-changed"]


def test_faults_are_warnings() -> None:
    bench = Bench()
    for state in StreamState:
        bench.state(str(state), state)
    for kind in ("model-swapped", "model-refused", "output-failed", "element-warning", "element-info"):
        bench.events.add(kind, None, kind)
    warnings = {line.text.rpartition(": ")[2] for line in bench.journal.lines() if line.level == logging.WARNING}
    faults = {str(state) for state in StreamState if state.is_fault}
    assert warnings == {*faults, "failed", "model-refused", "output-failed", "element-warning"}


def test_of_a_stream_that_flaps_the_newest_state_is_written_now_and_then_and_the_others_are_not_affected() -> None:
    bench = Bench()
    for _ in range(20):
        bench.state("flaps", StreamState.PLAYING)
        bench.state("flaps", StreamState.LOST)
    bench.state("calm", StreamState.PLAYING)
    texts = bench.texts()
    assert len(texts) == BURST + 1
    assert texts[-1] == "calm: rtsp://calm: playing"
    bench.now = REFILL / 2
    assert bench.texts() == []
    bench.now = REFILL + 1
    left_out = 40 - BURST - 1
    (text,) = bench.texts()
    assert text.startswith("flaps: rtsp://flaps: lost")
    assert text.endswith(f" ({left_out} changes before this one are not written: there are many)")
    bench.now += REFILL * BURST
    bench.state("flaps", StreamState.PLAYING)
    assert len(bench.texts()) == 1


def test_what_the_start_has_said_and_what_is_routine_is_left_out() -> None:
    def happens(bench: Bench) -> list[str]:
        bench.events.add("stream-added", "a", "test:ball is added")
        bench.events.add("stream-added", "b", "test:snow is added")
        bench.events.add("segment-finished", "b", "b: recorded 1.mp4")
        bench.events.add("stream-removed", "b", "test:snow is removed")
        return bench.texts()

    assert happens(Bench(begun=1)) == ["b: test:snow is added", "b: test:snow is removed"]
    assert happens(Bench(begun=1, all_kinds=True))[1] == "b: recorded 1.mp4"


def test_events_that_are_forgotten_before_they_are_written_are_counted() -> None:
    bench = Bench(most=3)
    bench.events.add("a", None, "a")
    assert bench.texts() == ["a"]
    for number in range(5):
        bench.events.add("a", None, f"a{number}")
    assert bench.texts() == ["2 events came too fast to be written here", "a2", "a3", "a4"]
