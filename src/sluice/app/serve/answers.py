"""What language models say about the streams: a bounded list that whoever asks them adds to."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable

from sluice.app.serve.bodies import TextAnswer

MOST_ANSWERS = 500
"""Answers kept; of more, the oldest are forgotten."""
_STEP = 1e-6  # seconds between two answers at least


class Answers:
    """The answers, oldest first. Every method may be called by any thread."""

    def __init__(self, scrub: Callable[[str], str]) -> None:
        """Make an empty list; secrets are removed from what is added."""
        self._answers: deque[TextAnswer] = deque(maxlen=MOST_ANSWERS)
        self._lock = threading.Lock()
        self._scrub = scrub

    def add(self, stream: str, text: str, at: float | None = None) -> None:
        """Add what was said about a stream, at a time in seconds since 1970 (default: now).

        Each answer's time is behind that of the one before, though the clock be set back: who has asked up to one shall
        get the next.
        """
        shown, told = self._scrub(text), time.time() if at is None else at
        with self._lock:
            least = self._answers[-1].time + _STEP if self._answers else told
            self._answers.append(TextAnswer(stream=stream, text=shown, time=max(told, least)))

    def since(self, at: float) -> list[TextAnswer]:
        """Return the answers after a time."""
        with self._lock:
            return [answer for answer in self._answers if answer.time > at]
