"""What language models say about the streams: a bounded list that whoever asks them adds to."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable

from sluice.app.serve.bodies import TextAnswer

MOST_ANSWERS = 500
"""Answers kept; of more, the oldest are forgotten."""


class Answers:
    """The answers, oldest first. Every method may be called by any thread."""

    def __init__(self, scrub: Callable[[str], str]) -> None:
        """Make an empty list; secrets are removed from what is added."""
        self._answers: deque[TextAnswer] = deque(maxlen=MOST_ANSWERS)
        self._lock = threading.Lock()
        self._scrub = scrub

    def add(self, stream: str, text: str, at: float | None = None) -> None:
        """Add what was said about a stream, at a time in seconds since 1970 (default: now)."""
        answer = TextAnswer(stream=stream, text=self._scrub(text), time=time.time() if at is None else at)
        with self._lock:
            self._answers.append(answer)

    def since(self, at: float) -> list[TextAnswer]:
        """Return the answers after a time."""
        with self._lock:
            return [answer for answer in self._answers if answer.time > at]
