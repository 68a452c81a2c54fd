"""The one thread on which outputs are begun, ended and repaired, so that no streaming thread ever does."""

from __future__ import annotations

import heapq
import itertools
import logging
import queue
import threading
import time
import weakref
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from typing import Any, TypeVar

from sluice.errors import SluiceError

Result = TypeVar("Result")
_STOPPING = 2.0  # seconds
_log = logging.getLogger(__name__)


class BusyOutputs(SluiceError):
    """The thread of the outputs does not come to what it was asked for."""


class Hub:
    """A daemon thread that does what it is given in order, now or later. It is not given work that waits for long."""

    def __init__(self, name: str) -> None:
        """Start the thread."""
        self._work: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._later: list[tuple[float, int, Callable[[], None]]] = []
        self._number = itertools.count()
        self._aside: list[threading.Thread] = []
        self._stopped = False
        self._ending = threading.Lock()  # nobody waits for what stands behind the order to end
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def post(self, work: Callable[[], object]) -> None:
        """Have something done soon; what it raises is logged."""
        self._work.put(lambda: self._guard(work))

    def after(self, seconds: float, work: Callable[[], object]) -> None:
        """Have something done in so many seconds. Any thread may call it."""
        due = time.monotonic() + seconds
        self._work.put(lambda: heapq.heappush(self._later, (due, next(self._number), lambda: self._guard(work))))

    def remind(self, seconds: float, method: Callable[[], object]) -> None:
        """Have a method called in so many seconds, if its object is still there then: it is not kept for that."""
        reference = weakref.WeakMethod(method)

        def work() -> None:
            known = reference()
            if known is not None:
                known()

        self.after(seconds, work)

    def call(self, work: Callable[[], Result], timeout: float = 10.0) -> Result:
        """Have something done and return what it returns, or raise what it raises.

        Raises:
            BusyOutputs: it was not done in so many seconds, and is done later; or the thread was ended before.
        """
        if threading.current_thread() is self._thread:
            return work()
        done: Future[Result] = Future()

        def run() -> None:
            try:
                done.set_result(work())
            except BaseException as error:
                done.set_exception(error)

        with self._ending:
            if self._stopped:
                raise BusyOutputs("the outputs were closed")
            self._work.put(run)
        try:
            return done.result(timeout)
        except FutureTimeout:
            if done.done():
                raise  # by the work itself
            raise BusyOutputs(f"the outputs do not answer within {timeout:g} s; this machine is too busy") from None

    def aside(self, work: Callable[[], object]) -> None:
        """Have something done that may hang, on a thread of its own. For the hub's thread."""
        thread = threading.Thread(target=work, name=f"{self._thread.name}-aside", daemon=True)
        self._aside = [known for known in self._aside if known.is_alive()] + [thread]
        thread.start()

    def stop(self) -> None:
        """End the thread after what it was given so far, not what was to be done later; takes two seconds at most."""
        with self._ending:
            self._stopped = True
            self._work.put(None)
        deadline = time.monotonic() + _STOPPING
        for thread in [self._thread, *self._aside]:
            thread.join(max(0.0, deadline - time.monotonic()))

    def _guard(self, work: Callable[[], Any]) -> None:
        try:
            work()
        except Exception:
            _log.exception("an output's work failed")

    def _run(self) -> None:
        while True:
            while self._later and self._later[0][0] <= time.monotonic():
                heapq.heappop(self._later)[2]()
            wait = max(0.0, self._later[0][0] - time.monotonic()) if self._later else None
            try:
                work = self._work.get(timeout=wait)
            except queue.Empty:
                continue
            if work is None:
                return
            work()
