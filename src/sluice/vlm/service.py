"""Asks a model about segments on threads of its own, and accounts for every segment."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from sluice.contract.answer_meta import Answer
from sluice.errors import format_trace, text_of
from sluice.vlm.answers import Check, cleaned
from sluice.vlm.backends import Backend, Question
from sluice.vlm.failures import NoAnswer, Reason
from sluice.vlm.pictures import Picture
from sluice.vlm.queue import StreamQueue

_JOIN = 1.0  # seconds that `close` waits for the workers


@dataclass(frozen=True, eq=False)
class Request:
    """A segment that a model is to be asked about.

    Attributes:
        stream: number of the stream.
        name: its name.
        segment: number of the segment within the stream.
        cause: why it was selected.
        prompt: the whole prompt.
        check: what an answer must be.
        pictures: oldest first.
        model: name of the model, for the answer.
        began: `time.monotonic` when the segment was complete.
    """

    stream: int
    name: str
    segment: int
    cause: str
    prompt: str
    check: Check
    pictures: Sequence[Picture]
    model: str = ""
    began: float = field(default_factory=time.monotonic)

    def answer(self, text: str, value: object) -> Answer:
        """Return an answer to it."""
        first, last = self.pictures[0], self.pictures[-1]
        return Answer(
            stream=self.stream,
            segment=self.segment,
            text=text,
            mode=self.check.mode,
            value=value,
            start_pts=first.pts,
            end_pts=last.pts,
            start_utc=first.utc,
            end_utc=last.utc,
            cause=self.cause,
            pictures=len(self.pictures),
            model=self.model,
            seconds=round(time.monotonic() - self.began, 3),
        )


class Listener:
    """What a `Service` tells; each call comes from one of its threads, or from the caller's. For overriding."""

    def answered(self, request: Request, answer: Answer) -> None:
        """A request was answered."""

    def lost(self, request: Request, why: NoAnswer, trace: str) -> None:
        """A request has no answer; `trace` is the traceback of an exception in a model's own code, else ""."""


class Service:
    """A queue, and threads that ask a back end. Every request that is put ends in exactly one call of the listener.

    Attributes:
        counts: "asked", "answered", and one entry per `Reason` that occurred.
    """

    def __init__(self, backend: Backend, queue: StreamQueue[Request], listener: Listener, concurrency: int) -> None:
        """Start the threads.

        Args:
            backend: who is asked; opened already.
            queue: where requests wait.
            listener: who is told.
            concurrency: requests at the same time, of which the back end may allow fewer.
        """
        self._backend = backend
        self._queue = queue
        self._listener = listener
        self._lock = threading.Lock()
        self._open: set[Request] = set()
        self.counts: Counter[str] = Counter()
        number = max(1, min(concurrency, backend.most_at_once or concurrency))
        self._threads = [
            threading.Thread(target=self._work, name=f"sluice-vlm-{index}", daemon=True) for index in range(number)
        ]
        for thread in self._threads:
            thread.start()

    def put(self, request: Request) -> None:
        """Have a request answered, or dropped by the queue's policy. Never waits."""
        with self._lock:
            self.counts["asked"] += 1
            self._open.add(request)
        dropped = self._queue.put(request.stream, request)
        if dropped is not None:
            self._lose(dropped, NoAnswer(Reason.QUEUE_FULL, "the queue of its stream is full"))

    def drop(self, request: Request, reason: Reason, text: str) -> None:
        """Count a segment that is never asked about."""
        with self._lock:
            self.counts["asked"] += 1
            self._open.add(request)
        self._lose(request, NoAnswer(reason, text))

    def withdraw(self, requests: Sequence[Request], reason: Reason) -> None:
        """Drop requests that nobody waits for any more; of one that is being answered the answer is not told."""
        unwanted = set(requests)
        self._queue.remove(unwanted.__contains__)
        for request in requests:
            self._lose(request, NoAnswer(reason, "nobody waits for its answer any more"))

    @property
    def waiting(self) -> int:
        """Requests in the queue."""
        return len(self._queue)

    @property
    def pending(self) -> int:
        """Requests without an outcome yet, those in the queue included."""
        with self._lock:
            return len(self._open)

    def snapshot(self) -> dict[str, int]:
        """Return a copy of `counts`."""
        with self._lock:
            return dict(self.counts)

    def close(self) -> bool:
        """End within about a second; what is open is lost. Return whether all threads have ended.

        A model's own code that does not return is abandoned with its thread, which ends with it.
        """
        self._queue.close()
        with self._lock:
            left = list(self._open)
        for request in left:
            self._lose(request, NoAnswer(Reason.STOPPED, "the element was stopped before the answer"))
        self._backend.cancel()
        deadline = time.monotonic() + _JOIN
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        ended = not any(thread.is_alive() for thread in self._threads)
        if ended:
            self._backend.close()
        return ended

    def _work(self) -> None:
        while (request := self._queue.get()) is not None:
            with self._lock:
                wanted = request in self._open
            if wanted:
                self._ask(request)

    def _ask(self, request: Request) -> None:
        trace = ""
        try:
            check = request.check
            prompt = f"{request.prompt}\n\n{check.instructions}" if check.instructions else request.prompt
            text = cleaned(self._backend.answer(Question(prompt, request.pictures, check.schema)))
            value = check.value(text)
        except NoAnswer as error:
            self._lose(request, error)
            return
        except BaseException as error:  # a model's own code; SystemExit would end this thread unseen
            trace = format_trace(error)
            self._lose(request, NoAnswer(Reason.MODEL_ERROR, text_of(error)), trace)
            return
        if self._settle(request, "answered"):
            self._listener.answered(request, request.answer(text, value))

    def _lose(self, request: Request, why: NoAnswer, trace: str = "") -> None:
        if self._settle(request, why.reason.value):
            self._listener.lost(request, why, trace)

    def _settle(self, request: Request, outcome: str) -> bool:
        """Count the one outcome of a request; False where it has one already."""
        with self._lock:
            if request not in self._open:
                return False
            self._open.discard(request)
            self.counts[outcome] += 1
            return True
