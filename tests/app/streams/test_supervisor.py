"""When a stream is opened, closed, opened again and given up, under a clock of our own."""

from __future__ import annotations

import pytest

from sluice.app.streams.policy import RetryPolicy, StreamPolicy
from sluice.app.streams.states import StreamState
from sluice.app.streams.supervisor import Action, Sight, Supervisor

RETRY = RetryPolicy(first=1, most=8, factor=2, jitter=0)


class Bench:
    """A supervisor with its clock, its chance and what it noted."""

    def __init__(
        self,
        policy: StreamPolicy | None = None,
        *,
        live: bool = True,
        remote: bool = True,
        service: bool = True,
        chance: float = 0.5,
    ) -> None:
        self.now = 100.0
        self.noted: list[str] = []
        self.supervisor = Supervisor(
            policy or StreamPolicy(retry=RETRY, stall_seconds=5, connect_seconds=10),
            live=live,
            remote=remote,
            service=service,
            clock=lambda: self.now,
            random=lambda: chance,
            noted=lambda state, _reason: self.noted.append(str(state)),
        )

    def look(self, frames: int = 0, last: float | None = None, **seen: bool) -> Action | None:
        return self.supervisor.look(Sight(frames, last, **seen))

    def play(self) -> None:
        """Be opened, and give a frame."""
        self.look(1, self.now)
        assert self.supervisor.state == StreamState.PLAYING

    def wait_out(self) -> float:
        """Wait until the source is opened again; return how long that took."""
        due = self.supervisor.next_attempt
        assert due is not None
        waited = due - self.now
        self.now = due - 0.001
        assert self.look() is None
        self.now = due
        assert self.look() == Action.OPEN
        return waited


def test_a_stream_connects_and_plays() -> None:
    bench = Bench()
    assert bench.supervisor.begin() == Action.OPEN
    assert bench.supervisor.state == StreamState.CONNECTING
    assert bench.look() is None
    bench.play()
    assert bench.noted == ["playing"]


def test_waits_grow_to_the_most_and_begin_anew_after_it_has_played_as_long_as_it_waited() -> None:
    bench = Bench()
    bench.supervisor.begin()
    waits = []
    for _ in range(6):
        assert bench.supervisor.fault(StreamState.REFUSED, "refused") == Action.CLOSE
        waits.append(bench.wait_out())
    assert waits == [1, 2, 4, 8, 8, 8]
    assert bench.supervisor.reconnects == 6
    bench.play()
    bench.now += 7.9
    bench.look(100, bench.now)
    bench.supervisor.fault(StreamState.LOST, "lost")
    assert bench.wait_out() == 8  # it played for less than it had waited
    bench.play()
    bench.now += 8
    bench.look(100, bench.now)
    bench.supervisor.fault(StreamState.LOST, "lost")
    assert bench.wait_out() == 1


@pytest.mark.parametrize(("chance", "wait"), [(0.0, 0.8), (0.5, 1.0), (1.0, 1.2)])
def test_jitter_spreads_the_attempts(chance: float, wait: float) -> None:
    bench = Bench(StreamPolicy(retry=RetryPolicy(first=1, jitter=0.2)), chance=chance)
    bench.supervisor.begin()
    bench.supervisor.fault(StreamState.LOST, "lost")
    assert bench.supervisor.next_attempt == pytest.approx(bench.now + wait)


@pytest.mark.parametrize("state", [StreamState.UNAUTHORIZED, StreamState.UNSUPPORTED])
def test_what_an_early_attempt_cannot_mend_waits_the_most_at_once(state: StreamState) -> None:
    bench = Bench()
    bench.supervisor.begin()
    bench.supervisor.fault(state, "no")
    assert bench.wait_out() == 8


def test_a_limit_ends_the_attempts() -> None:
    bench = Bench(StreamPolicy(retry=RetryPolicy(first=1, jitter=0, limit=2)))
    bench.supervisor.begin()
    for _ in range(2):
        assert bench.supervisor.fault(StreamState.LOST, "gone") == Action.CLOSE
        bench.wait_out()
    assert bench.supervisor.fault(StreamState.LOST, "gone") == Action.END
    assert bench.supervisor.state == StreamState.FAILED
    assert bench.supervisor.reason == "lost: gone; given up after 2 attempts"
    assert bench.look() is None


def test_a_fault_is_one_however_many_errors_tell_of_it() -> None:
    bench = Bench()
    bench.supervisor.begin()
    assert bench.supervisor.fault(StreamState.UNAUTHORIZED, "wrong password") == Action.CLOSE
    assert bench.supervisor.fault(StreamState.LOST, "internal data stream error") is None
    assert bench.supervisor.ended(0) is None
    assert bench.supervisor.state == StreamState.UNAUTHORIZED
    assert bench.noted == ["unauthorized"]


def test_no_frame_for_too_long_is_a_stall() -> None:
    bench = Bench()
    bench.supervisor.begin()
    bench.play()
    last = bench.now
    bench.now += 5
    assert bench.look(1, last) is None
    bench.now += 0.1
    assert bench.look(1, last) == Action.CLOSE
    assert bench.supervisor.state == StreamState.STALLED


def test_data_that_gives_no_frame_is_corrupt() -> None:
    bench = Bench()
    bench.supervisor.begin()
    bench.play()
    last = bench.now
    bench.now += 5.1
    assert bench.look(1, last, undecoded=True) == Action.CLOSE
    assert bench.supervisor.state == StreamState.CORRUPT


def test_a_source_that_is_held_back_has_not_stalled() -> None:
    bench = Bench()
    bench.supervisor.begin()
    bench.play()
    last = bench.now
    bench.now += 60
    assert bench.look(1, last, held_back=True) is None
    assert bench.supervisor.state == StreamState.PLAYING


def test_a_source_that_hangs_in_connecting_has_stalled() -> None:
    bench = Bench()
    bench.supervisor.begin()
    bench.now += 10
    assert bench.look() is None
    bench.now += 0.1
    assert bench.look() == Action.CLOSE
    assert bench.supervisor.state == StreamState.STALLED


def test_a_file_never_stalls() -> None:
    bench = Bench(live=False, remote=False)
    bench.supervisor.begin()
    bench.play()
    bench.now += 3600
    assert bench.look(1, bench.now - 3600) is None


def test_a_file_ends_once_and_a_looped_one_is_opened_again() -> None:
    bench = Bench(StreamPolicy(), live=False, remote=False)
    bench.supervisor.begin()
    bench.play()
    assert bench.supervisor.ended(10) == Action.END
    assert bench.supervisor.state == StreamState.ENDED
    looped = Bench(StreamPolicy(loop=True), live=False, remote=False)
    looped.supervisor.begin()
    assert looped.supervisor.ended(10) == Action.OPEN
    assert looped.supervisor.ended(0) == Action.END  # one without a frame would be opened again and again


def test_a_file_that_fails_is_not_tried_again() -> None:
    bench = Bench(StreamPolicy(), live=False, remote=False)
    bench.supervisor.begin()
    assert bench.supervisor.fault(StreamState.CORRUPT, "broken") == Action.END
    assert bench.supervisor.state == StreamState.FAILED


@pytest.mark.parametrize(
    ("service", "fault", "action", "state"),
    [
        (True, "", Action.CLOSE, StreamState.LOST),
        (True, "the server closed the connection", Action.CLOSE, StreamState.LOST),
        (False, "the server closed the connection", Action.CLOSE, StreamState.LOST),
        (False, "", Action.END, StreamState.ENDED),
    ],
)
def test_the_end_of_a_camera(service: bool, fault: str, action: Action, state: StreamState) -> None:
    bench = Bench(service=service)
    bench.supervisor.begin()
    bench.play()
    assert bench.supervisor.ended(10, fault) == action
    assert bench.supervisor.state == state


def test_in_a_run_a_camera_that_never_played_is_a_mistake_unless_attempts_were_asked_for() -> None:
    bench = Bench(StreamPolicy(), service=False)
    bench.supervisor.begin()
    assert bench.supervisor.fault(StreamState.REFUSED, "refused") == Action.END
    asked = Bench(StreamPolicy(retry=RETRY), service=False)
    asked.supervisor.begin()
    assert asked.supervisor.fault(StreamState.REFUSED, "refused") == Action.CLOSE
    played = Bench(StreamPolicy(), service=False)
    played.supervisor.begin()
    played.play()
    assert played.supervisor.fault(StreamState.LOST, "lost") == Action.CLOSE


def test_a_network_stream_that_is_not_live_is_tried_again_in_a_service_only() -> None:
    for service, action in ((True, Action.CLOSE), (False, Action.END)):
        bench = Bench(StreamPolicy(), live=False, service=service)
        bench.supervisor.begin()
        bench.play()
        assert bench.supervisor.fault(StreamState.LOST, "lost") == action


def test_changes_that_a_stream_survives_are_shown_for_a_while() -> None:
    bench = Bench()
    bench.supervisor.begin()
    bench.play()
    bench.supervisor.changed(StreamState.FORMAT_CHANGED, "64x48 became 128x96")
    bench.now += 0.5
    bench.look(2, bench.now)
    assert bench.supervisor.state == StreamState.FORMAT_CHANGED
    bench.now += 0.6
    bench.look(3, bench.now)
    assert bench.supervisor.state == StreamState.PLAYING
    assert bench.noted == ["playing", "format-changed", "playing"]


def test_a_restart_that_was_asked_for_waits_for_nothing() -> None:
    bench = Bench()
    bench.supervisor.begin()
    bench.supervisor.fault(StreamState.UNAUTHORIZED, "no")
    assert bench.supervisor.begin() == Action.OPEN
    assert bench.supervisor.next_attempt is None
    assert bench.supervisor.reconnects == 1


def test_a_removed_stream_does_nothing_more() -> None:
    bench = Bench()
    bench.supervisor.begin()
    bench.supervisor.fault(StreamState.LOST, "lost")
    bench.supervisor.removed()
    bench.now += 1000
    assert bench.look() is None
    assert bench.supervisor.fault(StreamState.LOST, "lost") is None
    assert bench.supervisor.state == StreamState.REMOVED
