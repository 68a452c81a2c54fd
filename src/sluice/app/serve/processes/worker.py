"""A process of the service as the one with the API sees it, from its start to its end."""

from __future__ import annotations

import contextlib
import os
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, Protocol

from sluice.app.serve.processes.channel import Caller, Told
from sluice.app.serve.processes.task import Task
from sluice.app.spawning import Spawned, how_it_ended
from sluice.errors import SluiceError

MODULE = "sluice.app.serve.processes.child"
_END = "end"
_LATE = 1.0  # seconds after which a question that is not answered is not asked once more
_CLOSING = 5.0  # seconds that a process may take to end once it has closed its connection


class Hears(Protocol):
    """Whoever is told what a process says; called on the thread that listens to it, and returns at once."""

    def told(self, worker: Worker, topic: str, value: Any) -> None:
        """Take in what it says."""

    def gone(self, worker: Worker) -> None:
        """Take note that it has ended, `Worker.how` says how."""


class Worker:
    """One process. Any thread may call.

    Attributes:
        number: which of the service's processes it is, from 0.
        begun: when it was started, by the monotonic clock.
        started: set once its pipeline runs, and everything that it told before that was taken in.
        over: set once it has ended.
        ending: whether it was asked to end.
        how: how it ended, "" before.
        failure: why it could not start.
    """

    def __init__(self, number: int, task: Task, hears: Hears, passed: Sequence[int] = ()) -> None:
        """Start the process, which loads its model; `passed` are descriptors that it has under the same numbers."""
        self.number = number
        self.begun = time.monotonic()
        self.started, self.over = threading.Event(), threading.Event()
        self.ending = False
        self.how = ""
        self.failure: Exception | None = None
        self._hears = hears
        self._questions: dict[str, tuple[float, Future[Any]]] = {}
        self._asking = threading.Lock()
        spawned = Spawned(MODULE, passed)
        self._process = spawned.process
        self._caller = Caller(spawned.connection)
        with contextlib.suppress(OSError):  # it may have ended already, which `_listen` tells
            self._caller.send(task)
        threading.Thread(target=self._listen, name=f"sluice-process-{number}", daemon=True).start()

    @property
    def pid(self) -> int:
        """The process's id."""
        return self._process.pid

    @property
    def name(self) -> str:
        """The process, for people."""
        return f"process {self.number} (pid {self.pid})"

    def wait_started(self) -> None:
        """Wait until its pipeline runs; raises why that cannot be."""
        while not self.started.wait(0.05):
            if self.over.is_set():
                raise self.failure or SluiceError(f"{self.name} ended before it had started: {self.how}")

    def call(self, method: str, *arguments: Any, **named: Any) -> Any:
        """Call a function there and return what it returns, however long that takes.

        Raises:
            ProcessDownError: it ended, before the call or meanwhile.
            SluiceError: what the function raises.
        """
        return self._caller.begin(method, *arguments, **named).result()

    def ask(self, method: str) -> Future[Any]:
        """Ask for something that is asked again and again; a question that waits for its answer is not asked anew."""
        with self._asking:
            asked, future = self._questions.get(method, (0.0, None))
            now = time.monotonic()
            if future is None or future.done() or now - asked < _LATE:
                fresh = self._caller.begin(method)
                if future is None or future.done():
                    self._questions[method] = (now, fresh)
                return fresh
            return future

    def kept_waiting(self) -> float:
        """Return for how many seconds the oldest question waits for its answer; 0 where none does."""
        with self._asking:
            asked = [asked for asked, future in self._questions.values() if not future.done()]
        return time.monotonic() - min(asked) if asked else 0.0

    def ask_to_end(self) -> None:
        """Ask it to end its streams, finish its files, and go."""
        self.ending = True
        threading.Thread(target=self._send_end, name="sluice-ending", daemon=True).start()  # it may take nothing

    def end(self, deadline: float) -> None:
        """Wait for its end until a moment of the monotonic clock, then end it."""
        self.over.wait(max(0.0, deadline - time.monotonic()))
        if self._process.poll() is None:
            self._process.kill()
        self.over.wait(1.0)

    def _send_end(self) -> None:
        with contextlib.suppress(OSError):
            self._caller.send(_END)

    def _listen(self) -> None:
        self._caller.listen(self._take)
        try:
            status = self._process.wait(_CLOSING)
        except subprocess.TimeoutExpired:
            self._process.kill()
            status = self._process.wait()
        self.how = how_it_ended(status)
        self._caller.end(f"{self.name} has ended: {self.how}")
        self._hears.gone(self)
        self.over.set()

    def _take(self, told: Told) -> None:
        if told.topic == "failed":
            self.failure = told.value.error()
        else:
            self._hears.told(self, told.topic, told.value)
        if told.topic == "started":
            self.started.set()


def start(number: int, make: Callable[[str | None], Task], hears: Hears, pipe: int | None) -> Worker:
    """Start a process whose messages go into a pipe, if there is one; our copy of that is closed."""
    if pipe is None:
        return Worker(number, make(None), hears)
    try:
        return Worker(number, make(f"/dev/fd/{pipe}"), hears, [pipe])
    finally:
        os.close(pipe)
