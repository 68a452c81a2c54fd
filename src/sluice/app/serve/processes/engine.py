"""The pipelines of all processes as one: what `sluice.app.serve.engine.Engine` describes."""

from __future__ import annotations

import queue
import threading
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from pathlib import Path
from typing import Any

from sluice.app.options import UNCHANGED, Unchanged
from sluice.app.serve.processes.changes import IDLE, ModelChanges, Order
from sluice.app.serve.processes.channel import ProcessDownError
from sluice.app.serve.processes.crew import Crew, Entry, Member
from sluice.app.serve.processes.task import Setup
from sluice.app.sources import parse_source
from sluice.app.streams import Event, EventLog, StreamPolicy, StreamState, StreamStatus
from sluice.errors import SluiceError

PATIENCE = 2.0
"""Seconds that a process is waited for which is asked what every process is asked."""
_LEAST = 0.2  # seconds for one that has not answered in time before


class SharedEngine:
    """Streams shared out over processes. Every method may wait, and may be called by any thread."""

    def __init__(self, crew: Crew) -> None:
        """Take over processes that are not started yet."""
        self._crew = crew
        tries = [_Trying(crew, member) for member in crew.members]
        self._changes = ModelChanges(lambda: list(tries), crew.events, crew.setup, self._keep, crew.turn)
        self._busy = [0.0 for _ in crew.members]
        self._busiest = 0.0
        self._counting = threading.Lock()
        self._adding = threading.Lock()

    def started(self) -> None:
        """Take note that the processes run."""
        self._changes.started(self._crew.facts["model"]["runtime"])

    # Streams

    @property
    def streams(self) -> list[StreamStatus]:
        """All streams that were not removed, by number; those of a process that does not answer as last known."""
        found: dict[str, StreamStatus] = {}
        silent: set[Member] = set()
        for member, statuses in ask_all(self._crew, "streams").items():
            if statuses is None:
                silent.add(member)
            else:
                found.update((status.name, status) for status in statuses)
        return [self._status(entry, found.get(entry.name), entry.member in silent) for entry in self._crew.roster.all()]

    def stream(self, name: str) -> StreamStatus:
        """One stream; raises UnknownStream."""
        entry = self._crew.roster.get(name)
        try:
            return self._status(entry, entry.member.call("stream", name), silent=False)
        except ProcessDownError:
            return self._status(entry, None, silent=False)

    def _status(self, entry: Entry, status: StreamStatus | None, silent: bool) -> StreamStatus:
        if status is not None:
            entry.status = status
            return status
        if entry.member.worker is None:
            return entry.absent(StreamState.LOST, entry.member.why)
        if silent:
            return entry.absent(StreamState.STALLED, f"process {entry.member.number} does not answer")
        return entry.absent(StreamState.CONNECTING, "")

    @property
    def events(self) -> EventLog:
        """What happened, in all processes, in the order in which it came to be known."""
        return self._crew.events

    def add(self, source: str | Path, *, name: str | None = None, policy: StreamPolicy | None = None) -> str:
        """Add a stream to the process that has the fewest, and return its name.

        Raises:
            ConfigurationError: the source or the name cannot be used.
            ProcessDownError: no process runs, or it ended meanwhile.
        """
        parsed = parse_source(source)

        with self._adding:
            member = self._least()
            entry = self._crew.roster.add(
                parsed, name, lambda number, name: Entry(number, name, parsed, str(source), policy, member)
            )
        try:
            self._crew.add_to(entry.member.running(), entry)
        except BaseException:
            self._crew.roster.remove(entry)
            raise
        entry.joined = True
        return entry.name

    def _least(self) -> Member:
        """Return the process with the fewest streams, of those that run."""
        counts = Counter(entry.member.number for entry in self._crew.roster.all())
        running = [member for member in self._crew.members if member.worker is not None]
        if not running:
            raise ProcessDownError("no process runs at the moment; try again when one has been started again")
        return min(running, key=lambda member: (counts[member.number], member.number))

    def remove(self, name: str) -> None:
        """Take a stream out; raises UnknownStream."""
        entry = self._crew.roster.get(name)
        try:
            entry.member.call("remove", name)
        except ProcessDownError:  # it is gone with its process, and is not added to the next
            self._crew.events.add("stream-removed", name, f"{entry.source.shown} is removed", number=entry.number)
        self._crew.roster.remove(entry)

    def restart(self, name: str) -> None:
        """Open a stream anew; raises UnknownStream."""
        self._crew.roster.get(name).member.call("restart", name)

    def ask(self, stream: str, prompt: str | None = None) -> bool:
        """Have the slow model asked about a stream; False where no frame of it has come by yet."""
        return bool(self._crew.roster.get(stream).member.call("ask", stream, prompt))

    def update(self, name: str, policy: StreamPolicy) -> None:
        """Change how a stream is treated; where its process is being started again, from then on."""
        entry = self._crew.roster.get(name)
        if entry.member.worker is not None:
            entry.member.call("update", name, policy)
        entry.policy = policy

    # The model

    @property
    def model(self) -> dict[str, Any]:
        """Name, runtime and state of the model of all processes."""
        return self._changes.status

    @property
    def model_seconds(self) -> float:
        """Seconds that all calls of the model took so far, in whichever process it was the most since the last look."""
        answers = ask_all(self._crew, "model_seconds")
        with self._counting:
            grown = [0.0]
            for member, seconds in answers.items():
                if seconds is not None:
                    grown.append(seconds - self._busy[member.number])
                    self._busy[member.number] = seconds
            self._busiest += max(grown)
            return self._busiest

    def swap_model(self, text: str, policy: str = "beside") -> int:
        """Begin to change the model everywhere; return the number of the event "model-loading"."""
        return self._changes.swap(text, policy)

    def set_thresholds(
        self,
        confidence: float | Unchanged | None = UNCHANGED,
        iou: float | Unchanged | None = UNCHANGED,
        classes: Sequence[int | str] | Unchanged | None = UNCHANGED,
    ) -> None:
        """Begin to change everywhere which detections count."""
        self._changes.set_thresholds({"confidence": confidence, "iou": iou, "classes": classes})

    def _keep(self, setup: Setup) -> None:
        self._crew.setup = setup


class _Trying:
    """A member, as changes of the model see it."""

    def __init__(self, crew: Crew, member: Member) -> None:
        self._crew = crew
        self._member = member

    @property
    def name(self) -> str:
        worker = self._member.worker
        return f"process {self._member.number}" if worker is None else worker.name

    def runs(self) -> bool:
        return self._member.worker is not None

    def fed(self) -> bool:
        try:
            statuses = self._member.running().ask("streams").result(PATIENCE)
        except (ProcessDownError, FutureTimeout):
            return True  # of one that does not answer nothing is known
        return any(status.last_frame_age is not None and status.last_frame_age < IDLE for status in statuses)

    def order(self, order: Order) -> queue.SimpleQueue[Event | None]:
        member = self._member
        outcomes = member.outcomes = queue.SimpleQueue()
        member.call(order.method, *order.arguments, **order.named)
        return outcomes

    def begin_anew(self, setup: Setup) -> None:
        self._crew.replace(self._member, setup)
        self._crew.tell_started(self._member)

    def restore(self, setup: Setup) -> None:
        try:
            self.begin_anew(setup)
        except SluiceError as error:
            self._crew.could_not_start(self._member, error)

    def runtime(self) -> str:
        try:
            return str(self._member.running().ask("model").result(PATIENCE)["runtime"])
        except (SluiceError, FutureTimeout):
            return "unknown"


def ask_all(crew: Crew, method: str, patience: float | None = PATIENCE) -> dict[Member, Any]:
    """Ask all processes that run the same thing; None stands for no answer, also within so many seconds if limited."""
    asked: list[tuple[Member, float, Future[Any]]] = []
    begun = time.monotonic()
    for member in crew.members:
        if (worker := member.worker) is not None:
            asked.append((member, worker.kept_waiting(), worker.ask(method)))
    found: dict[Member, Any] = {}
    for member, waited, future in asked:
        try:
            # One that has not answered others is not waited for as long once more.
            left = None if patience is None else max(_LEAST, patience - waited) + begun - time.monotonic()
            found[member] = future.result(left if left is None else max(0.0, left))
        except ProcessDownError:
            continue
        except (FutureTimeout, SluiceError):
            found[member] = None
    return found
