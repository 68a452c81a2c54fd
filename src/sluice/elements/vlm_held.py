"""A buffer that ``sluicevlm`` holds back until its answers are there."""

import threading
from concurrent.futures import Future, InvalidStateError

from sluice.contract.answer_meta import Answer
from sluice.vlm.service import Request

Placed = tuple[int, Answer]
"""A frame's place in its batch, and an answer for it."""


class Held:
    """The answers that one held-back buffer waits for; its future is done when all have an outcome."""

    def __init__(self) -> None:
        self.future: Future[list[Placed]] = Future()
        self.places: dict[Request, int] = {}
        self._answers: list[Placed] = []
        self._lock = threading.Lock()
        self._open = 1  # until `seal`: outcomes may come while requests are still being added

    def add(self, request: Request, place: int) -> None:
        """Wait for a request too; its answer is for the frame at this place of the batch."""
        with self._lock:
            self.places[request] = place
            self._open += 1

    def settle(self, request: Request | None, answer: Answer | None) -> None:
        """Take the outcome of a request; None for the one that `seal` stands for."""
        with self._lock:
            if request is not None and answer is not None:
                self._answers.append((self.places[request], answer))
            self._open -= 1
            if self._open:
                return
            answers = sorted(self._answers, key=lambda placed: (placed[0], placed[1].segment))
        try:
            self.future.set_result(answers)
        except InvalidStateError:
            return  # cancelled: the buffer is gone

    def seal(self) -> None:
        """All requests are added."""
        self.settle(None, None)
