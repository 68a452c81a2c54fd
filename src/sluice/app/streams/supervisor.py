"""When a stream is opened, closed, opened again and given up: a state machine that knows no GStreamer.

It is told what happens to the source and looked at regularly; it answers with what is to be done. Times come from the
clock it is given, chance from the random numbers it is given.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from sluice.app.streams.policy import RetryPolicy, StreamPolicy
from sluice.app.streams.states import StreamState

Noted = Callable[[StreamState, str], None]
_USELESS_TO_HURRY = (StreamState.UNAUTHORIZED, StreamState.UNSUPPORTED)
"""Faults that pass only when a person acts; and cameras lock out who tries wrong passwords again and again."""
_SHOWN_SECONDS = 1.0  # for so long a state that passes by itself is shown


class Action(Enum):
    """What is to be done with a stream's source."""

    OPEN = "open"
    """Open it anew; what was open is closed first."""
    CLOSE = "close"
    """Close it; it will be opened again."""
    END = "end"
    """Close it and end the stream."""


@dataclass(frozen=True)
class Sight:
    """What is seen of an open source at one moment.

    Attributes:
        frames: frames it has given since it was opened.
        last: when the last one came, by the supervisor's clock; None before the first.
        held_back: whether frames wait in front of the model, so that it is not the source's fault if none come.
        undecoded: whether encoded data has come since the last frame.
    """

    frames: int = 0
    last: float | None = None
    held_back: bool = False
    undecoded: bool = False


class Supervisor:
    """Decides over one stream. Used by one thread.

    Attributes:
        state: what the stream is doing.
        reason: why, for people.
        reconnects: how often the source was opened again.
        next_attempt: when it will be, by the clock; None where that is not due.
    """

    def __init__(
        self,
        policy: StreamPolicy,
        *,
        live: bool,
        remote: bool,
        service: bool,
        clock: Callable[[], float],
        random: Callable[[], float],
        noted: Noted,
    ) -> None:
        """Begin with a stream that is not open yet.

        Args:
            policy: the user's choice.
            live: whether the source is a camera or alike.
            remote: whether it comes over a network.
            service: whether the pipeline goes on for ever; else a live source that ends by itself has ended, and one
                that never gave a frame is not tried again unless a retry policy was asked for.
            clock: seconds that only go forward.
            random: numbers from 0 to 1.
            noted: called with every state that begins and its reason.
        """
        self.policy = policy
        self.state = StreamState.CONNECTING
        self.reason = ""
        self.reconnects = 0
        self.next_attempt: float | None = None
        self._live = live
        self._remote = remote
        self._service = service
        self._clock = clock
        self._random = random
        self._noted = noted
        self._opened: float | None = None
        self._played: float | None = None
        self._ever_played = False
        self._failures = 0
        self._waited = 0.0
        self._entered = clock()

    @property
    def plays(self) -> bool:
        """Whether frames come, perhaps changed ones."""
        return self.state == StreamState.PLAYING or self.state.is_passing

    # What happens

    def begin(self) -> Action:
        """Open the source for the first time, or anew because somebody asked for it."""
        if self._opened is not None:
            self.reconnects += 1
        self._failures = 0
        return self._open()

    def fault(self, state: StreamState, reason: str) -> Action | None:
        """Take note that the source has failed; None where nothing is open, so that it can't be news."""
        if self.state.is_final or self.next_attempt is not None:
            return None
        retry = self._retry()
        self._failures += 1
        if retry is None:
            return self._finish(StreamState.FAILED, f"{state}: {reason}")
        if retry.limit is not None and self._failures > retry.limit:
            text = f"{state}: {reason}; given up after {retry.limit} attempts"
            return self._finish(StreamState.FAILED, text)
        self._enter(state, reason)
        self._waited = retry.wait(self._failures, self._random, patient=state in _USELESS_TO_HURRY)
        self.next_attempt = self._clock() + self._waited
        return Action.CLOSE

    def ended(self, frames: int, fault: str = "") -> Action | None:
        """Take note that the source has come to its end.

        Args:
            frames: what it gave since it was opened.
            fault: why that is not its proper end; "" where it may be.
        """
        if self.state.is_final or self.next_attempt is not None:
            return None
        if self.policy.loop and not self._live and frames:
            return self._open()
        if self._live and (fault or self._service):
            return self.fault(StreamState.LOST, fault or "the other side ended the stream")
        return self._finish(StreamState.ENDED, "")

    def finish(self) -> Action | None:
        """Take note that the stream has given all that was wanted of it."""
        return None if self.state.is_final else self._finish(StreamState.ENDED, "")

    def give_up(self, reason: str) -> Action | None:
        """Take note of what no other attempt can mend."""
        return None if self.state.is_final else self._finish(StreamState.FAILED, reason)

    def changed(self, state: StreamState, reason: str) -> None:
        """Take note of a change that a playing stream survives: of its format, or of its sender's clock."""
        if self.plays:
            self._enter(state, reason)

    def removed(self) -> None:
        """Take note that the stream is taken out."""
        self.next_attempt = None
        self._enter(StreamState.REMOVED, "")

    def look(self, sight: Sight) -> Action | None:
        """Look at the source, as often as states are wanted to be up to date."""
        now = self._clock()
        if self.state.is_final:
            return None
        if self.next_attempt is not None:
            if now < self.next_attempt:
                return None
            self.reconnects += 1
            return self._open()
        if sight.frames:
            self._note_frames(now)
        return self._stalled(now, sight)

    # What follows from it

    def _open(self) -> Action:
        self.next_attempt = None
        self._opened, self._played = self._clock(), None
        self._enter(StreamState.CONNECTING, self.reason)
        return Action.OPEN

    def _finish(self, state: StreamState, reason: str) -> Action:
        self.next_attempt = None
        self._enter(state, reason)
        return Action.END

    def _note_frames(self, now: float) -> None:
        if self._played is None:
            self._played = now
        elif now - self._played >= self._waited:  # not before: one that gives a frame and fails is not well
            self._failures = 0
        self._ever_played = True
        passing = self.state.is_passing and now - self._entered < _SHOWN_SECONDS
        if self.state != StreamState.PLAYING and not passing:
            self._enter(StreamState.PLAYING, "")

    def _stalled(self, now: float, sight: Sight) -> Action | None:
        if not (self._live or self._remote) or sight.held_back or self._opened is None:
            return None
        allowed = self.policy.stall_seconds if sight.frames else self.policy.connect_seconds
        since = sight.last if sight.last is not None else self._opened
        if now - since <= allowed:
            return None
        if sight.undecoded:
            return self.fault(StreamState.CORRUPT, f"data comes that gives no frame for {allowed:g} s")
        return self.fault(StreamState.STALLED, f"no frame for {allowed:g} s")

    def _retry(self) -> RetryPolicy | None:
        """Return how the stream is tried again, if it is."""
        if self.policy.retry == "auto" and not self._service and not self._ever_played:
            return None
        return self.policy.retries(self._live or (self._remote and self._service))

    def _enter(self, state: StreamState, reason: str) -> None:
        changed = state != self.state or (reason != self.reason and state != StreamState.CONNECTING)
        self.state, self.reason = state, reason
        self._entered = self._clock()
        if changed:
            self._noted(state, reason)
