"""Several calls at once: the frames of a batch, and of the batch behind it, are shared out among threads.

A network on a processor wins more from working on two frames side by side than from sharing one frame's work out among
the cores: threads that share a frame wait for one another at every layer, and for any that a decoder displaced.
"""

from __future__ import annotations

import contextlib
import queue
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from typing import Any, Generic, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")
Call = Callable[[int, Sequence[Item]], list[Result]]
"""Given the number of the thread that calls, and items; returns one result for each."""


class Workers(Generic[Item, Result]):
    """Threads that each make calls of their own. They are daemons: a call that hangs can't keep the process alive.

    Args:
        count: how many threads.
        step: how many items a call takes at best; 1 for any number.
    """

    def __init__(self, count: int, step: int = 1) -> None:
        self._step = step
        self._jobs: queue.SimpleQueue[_Job[Item, Result] | None] = queue.SimpleQueue()
        self._threads = [
            threading.Thread(target=_run, args=(self._jobs, number), name=f"network {number}", daemon=True)
            for number in range(count)
        ]
        for thread in self._threads:
            thread.start()
        _all.add(self)

    def begin(self, call: Call[Item, Result], items: Sequence[Item]) -> BegunParts[Result]:
        """Share items out among the threads and return at once."""
        calls = -(-len(items) // self._step)
        most = max(1, -(-calls // len(self._threads)) * self._step)
        parts = []
        for first in range(0, len(items), most):
            future: Future[list[Result]] = Future()
            self._jobs.put((call, items[first : first + most], future))
            parts.append(future)
        return BegunParts(parts)

    def end(self) -> None:
        """Let the threads end behind the calls begun; never waits, so that any thread may say it, one of them too."""
        for _ in self._threads:
            self._jobs.put(None)

    def close(self, timeout: float) -> None:
        """End the threads behind the calls begun; wait for so many seconds for each."""
        self.end()
        for thread in self._threads:
            thread.join(timeout)

    def join(self, end: float) -> None:
        """Wait for the threads until a time of `time.monotonic`."""
        for thread in self._threads:
            thread.join(max(0.0, end - time.monotonic()))

    def cancel(self) -> None:
        """Take back what has not begun and let the threads end; never waits."""
        with contextlib.suppress(queue.Empty):
            while (job := self._jobs.get_nowait()) is not None:
                job[2].cancel()
        self.end()


_all: weakref.WeakSet[Workers[Any, Any]] = weakref.WeakSet()


def end_workers(end: float) -> None:
    """End the threads of all workers at the end of the process, and wait for calls in progress.

    Args:
        end: until when, by `time.monotonic`.
    """
    running = list(_all)
    for workers in running:
        workers.cancel()
    for workers in running:
        workers.join(end)


_Job = tuple[Call[Item, Result], Sequence[Item], "Future[list[Result]]"]


def _run(jobs: queue.SimpleQueue[Any], number: int) -> None:
    """Body of a thread, which keeps nothing alive while it waits: neither the caller, nor frames of the last job."""
    while (job := jobs.get()) is not None:
        call, items, future = job
        try:
            future.set_result(call(number, items))
        except BaseException as error:
            future.set_exception(error)
        del job, call, items, future


class BegunParts(Generic[Result]):
    """What `Workers.begin` returns; see `sluice.models.model.Begun`.

    Attributes:
        valid: see there.
    """

    valid = False

    def __init__(self, parts: list[Future[list[Result]]]) -> None:
        self._parts = parts

    def ready(self) -> bool:
        """Whether `finish` would return without waiting."""
        return all(part.done() for part in self._parts)

    def notify(self, wake: Callable[[], None]) -> bool:
        """Have `wake` called, by any thread, when the last part is ready; at once where all are. Returns True."""

        def tell(_part: Future[list[Result]]) -> None:
            if self.ready():
                wake()

        for part in self._parts:
            part.add_done_callback(tell)
        return True

    def finish(self) -> list[Result]:
        """One result per item, in their order; waits for them.

        Raises:
            Exception: what the first call that failed raised, when all have ended: until then they read the items.
        """
        wait(self._parts)
        return [result for part in self._parts for result in part.result()]
