"""The processes of a service, their streams, and the end of those that die."""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from sluice.app.merged_lines import MergedLines
from sluice.app.roster import Roster
from sluice.app.serve.processes import worker as workers
from sluice.app.serve.processes.channel import ProcessDownError
from sluice.app.serve.processes.task import Recipe, Setup, Task
from sluice.app.serve.processes.worker import Worker
from sluice.app.sources import Source
from sluice.app.streams import Event, EventLog, StreamPolicy, StreamState, StreamStatus
from sluice.errors import SluiceError

LONGEST_PAUSE = 60.0
"""Seconds, at most, between two attempts to start a process; it begins with one and doubles. A process that has run for
so long begins anew."""
_STOPPING = 10.0  # seconds for a pipeline's stop and its outputs' end, which have limits of two and six of their own
_OUTPUTS = 10.0  # seconds in which the streams of a new process have their outputs
_LOOK = 0.05  # seconds between two looks whether they have
_OUTCOMES = ("model-swapped", "model-refused")
_NOT_PASSED_ON = (*_OUTCOMES, "model-loading", "pipeline-ended")  # which are told once for all processes


@dataclass(eq=False)
class Member:
    """A place for a process, which may be another one after it died.

    Attributes:
        number: from 0.
        worker: the process; None while there is none, or one that is not ready.
        why: why there is none.
        next_start: when it is started again, in seconds since 1970; None where that is under way or needless.
        attempts: to start it, since it last ran for long.
        rejoining: whether its streams are being added to a new process, which is no news of theirs.
        outcomes: the events that end changes of its model, and None for the process's end.
    """

    number: int
    worker: Worker | None = None
    why: str = "the process has not started yet"
    next_start: float | None = None
    attempts: int = 0
    rejoining: bool = False
    outcomes: queue.SimpleQueue[Event | None] = field(default_factory=queue.SimpleQueue)

    def running(self) -> Worker:
        """Return the process; raises ProcessDownError where there is none."""
        worker = self.worker
        if worker is None:
            raise ProcessDownError(f"{self.why}; try again in a moment")
        return worker

    def call(self, method: str, *arguments: Any, **named: Any) -> Any:
        """Call a function of the process, see `Worker.call`."""
        return self.running().call(method, *arguments, **named)


@dataclass(eq=False)
class Entry:
    """A stream, and where it is.

    Attributes:
        number: unique over all processes.
        name: unique over all processes.
        source: what it shows.
        opened: what is opened for it, with credentials.
        policy: how it is treated.
        member: the process that has it.
        joined: whether that process has taken it.
        switches: the outputs that were switched on or off.
        status: as last known.
    """

    number: int
    name: str
    source: Source
    opened: str = field(repr=False)
    policy: StreamPolicy | None
    member: Member
    joined: bool = False
    switches: dict[str, bool] = field(default_factory=dict)
    status: StreamStatus | None = None
    since: float = field(default_factory=time.time)

    def absent(self, state: StreamState, reason: str) -> StreamStatus:
        """Return a status in place of one that cannot be had, with the counts that are known."""
        known = self.status
        return StreamStatus(
            name=self.name,
            number=self.number,
            uri=self.source.shown,
            live=self.source.live,
            state=state,
            since=self.since,
            reason=reason,
            frames_in=known.frames_in if known is not None else 0,
            frames_out=known.frames_out if known is not None else 0,
            dropped=known.dropped if known is not None else 0,
            overtaken=known.overtaken if known is not None else 0,
            reconnects=known.reconnects if known is not None else 0,
            next_retry=self.member.next_start,
        )


class Crew:
    """All processes. One that dies is started again, with its streams.

    Attributes:
        members: in the order of their numbers.
        roster: the streams.
        events: what happened, in all processes.
        setup: the model and thresholds that processes are started with.
        turn: held by whoever starts a process again or changes the model, so that all have the same.
        joined: called with a member whose new process has its streams again.
        shown: takes pictures with the number of their subscription.
        over: set when the service cannot go on, or was stopped.
        failure: why it cannot.
        facts: what the first process told at its start.
    """

    def __init__(self, recipe: Recipe, events: EventLog, hidden: Callable[[], tuple[str, ...]]) -> None:
        """Prepare the processes; nothing is started yet. `hidden` are the values that appear in no log."""
        self.members = [Member(number) for number in range(recipe.count)]
        self.roster: Roster[Entry] = Roster()
        self.events = events
        self.setup = Setup.of(recipe.pipeline)
        self.turn = threading.Lock()
        self.joined: Callable[[Member], None] = lambda _member: None
        self.shown: Callable[[int, bytes], None] = lambda _key, _picture: None
        self.over = threading.Event()
        self.failure: SluiceError | None = None
        self.facts: dict[str, Any] = {}
        self.hidden = hidden
        self._recipe = recipe
        self._lines: MergedLines | None = None
        self._lock = threading.Lock()  # of which processes there are: never held while one is called
        self._all: set[Worker] = set()  # those that are being started or ended among them
        self._stopping = False

    # Start and end

    def start(self) -> None:
        """Start all processes and wait until each has loaded its model.

        Raises:
            SluiceError: one could not start, as a pipeline in this process would say; the others are ended.
        """
        self._recipe.check()
        if self._recipe.lines is not None:
            self._lines = MergedLines(self._recipe.lines, self._failed)
        try:
            begun = [self.spawn(member, self.setup) for member in self.members]
            for member, worker in zip(self.members, begun, strict=True):
                worker.wait_started()
                self._take_on(member, worker)
        except BaseException:
            self.stop()
            raise

    def spawn(self, member: Member, setup: Setup) -> Worker:
        """Start a process for a member that has none; it is not ready yet."""

        def make(messages: str | None) -> Task:
            return self._recipe.task(member.number, setup, self.hidden(), messages)

        with self._lock:
            if self._stopping:
                raise ProcessDownError("the service ends")
            worker = workers.start(member.number, make, self, None if self._lines is None else self._lines.add())
            self._all.add(worker)
        return worker

    def _take_on(self, member: Member, worker: Worker) -> None:
        """Let calls reach a process from now on, unless it has ended already."""
        with self._lock:
            if worker.how:
                raise ProcessDownError(f"{worker.name} has ended: {worker.how}")
            member.worker = worker

    def stop(self) -> None:
        """End all streams and processes, and finish all files."""
        with self._lock:
            self._stopping = True
            running = list(self._all)
        deadline = time.monotonic() + _STOPPING
        for worker in running:
            worker.ask_to_end()
        for worker in running:
            worker.end(deadline)
        if self._lines is not None:
            self._lines.close()
        self.events.add("pipeline-ended", None, "the run is over", stopped=self.failure is None)
        self.events.close()
        self.over.set()

    @property
    def pids(self) -> list[int]:
        """Ids of the processes that run."""
        return [worker.pid for member in self.members if (worker := member.worker) is not None]

    # What processes say; called on the threads that listen to them

    def told(self, worker: Worker, topic: str, value: Any) -> None:
        """Take in what a process says."""
        if topic == "events":
            for event in value:
                self._happened(self.members[worker.number], event)
        elif topic == "picture":
            self.shown(*value)
        elif topic == "started":
            self.facts = self.facts or value
        elif topic == "ended" and not worker.ending:
            error = value.error()
            self._failed(type(error)(f"{worker.name}: {error}"))

    def _failed(self, error: SluiceError) -> None:
        self.failure = error
        self.over.set()

    def _happened(self, member: Member, event: Event) -> None:
        if event.kind in _OUTCOMES:
            member.outcomes.put(event)
        hushed = event.kind == "stream-added" and member.rejoining
        if event.kind not in _NOT_PASSED_ON and not hushed:
            self.events.add(event.kind, event.stream, event.text, **event.details)

    def gone(self, worker: Worker) -> None:
        """Take note that a process has ended; where nobody asked it to, it is started again."""
        member = self.members[worker.number]
        with self._lock:
            self._all.discard(worker)
            ready = member.worker is worker
            if ready:
                member.worker = None
        member.outcomes.put(None)  # now it is seen that there is none
        if not ready or worker.ending or self._stopping or self.over.is_set():
            return  # whoever waits for one that had not started yet sees it
        if time.monotonic() - worker.begun > LONGEST_PAUSE:
            member.attempts = 0
        member.why = f"{worker.name} has ended: {worker.how}"
        pause = self._postpone(member)
        names = [entry.name for entry in self.entries(member)]
        streams = f"; its streams {', '.join(names)} go on with it" if names else ""
        self.events.add(
            "process-lost", None, f"{member.why}; it is started again in {pause:g} s{streams}",
            process=worker.number, reason=worker.how, streams=names,
        )  # fmt: skip
        for entry in self.entries(member):
            self._tell_lost(entry)
        self._begin_reviving(member, pause)

    def _tell_lost(self, entry: Entry) -> None:
        entry.since = time.time()
        state, why = StreamState.LOST, entry.member.why
        self.events.add(
            f"stream-{state}", entry.name, f"{entry.source.shown}: {state}: {why}", state=str(state), reason=why
        )

    # New processes for old ones

    def entries(self, member: Member) -> list[Entry]:
        """Return the streams that a process has, or is to have again."""
        return [entry for entry in self.roster.all() if entry.member is member and entry.joined]

    def replace(self, member: Member, setup: Setup) -> None:
        """Give a member a new process in place of the one it has, if any, with its streams; for who has the turn.

        Raises:
            SluiceError: it cannot start; there is none then.
        """
        old, member.worker = member.worker, None
        if old is not None:
            member.why = f"process {member.number} is started anew"
            old.ask_to_end()
            old.end(time.monotonic() + _STOPPING)
        member.next_start = None
        worker = self.spawn(member, setup)
        try:
            worker.wait_started()
            self._join_again(member, worker)
        except BaseException:
            worker.ask_to_end()
            worker.end(time.monotonic())
            raise

    def _revive(self, member: Member, pause: float) -> None:
        """Start a process again, after longer and longer pauses, until that works."""
        while not self.over.wait(pause) and not self._stopping:
            with self.turn:
                if member.worker is not None or self._stopping:  # a change of the model has started it
                    return
                try:
                    self.replace(member, self.setup)
                except SluiceError as error:
                    pause = self._tell_not_started(member, error)
                else:
                    self.tell_started(member)
                    return

    def could_not_start(self, member: Member, error: SluiceError) -> None:
        """Have a process started that could not be: after a pause, until that works."""
        self._begin_reviving(member, self._tell_not_started(member, error))

    def _begin_reviving(self, member: Member, pause: float) -> None:
        threading.Thread(target=self._revive, args=(member, pause), name="sluice-revive", daemon=True).start()

    def _tell_not_started(self, member: Member, error: SluiceError) -> float:
        member.why = f"process {member.number} could not be started: {error}"
        pause = self._postpone(member)
        text = f"{member.why}; the next attempt is in {pause:g} s"
        self.events.add("process-lost", None, text, process=member.number, reason=str(error))
        return pause

    def tell_started(self, member: Member) -> None:
        """Note that a member has a new process."""
        worker = member.worker
        names = [entry.name for entry in self.entries(member)]
        streams = f" with the streams {', '.join(names)}" if names else ""
        if worker is not None:
            self.events.add(
                "process-started", None, f"{worker.name} runs{streams}", process=member.number, streams=names
            )

    def _postpone(self, member: Member) -> float:
        pause = min(LONGEST_PAUSE, 2.0**member.attempts)
        member.attempts += 1
        member.next_start = time.time() + pause
        return pause

    def _join_again(self, member: Member, worker: Worker) -> None:
        """Add a member's streams to its new process."""
        added: dict[Entry, StreamPolicy | None] = {}
        member.rejoining = True
        try:
            for entry in self.entries(member):
                with self._refused(entry):
                    added[entry] = entry.policy
                    self.add_to(worker, entry)
        finally:
            member.rejoining = False
        self._take_on(member, worker)
        for entry, policy in added.items():  # what was changed meanwhile found no process to tell
            with contextlib.suppress(SluiceError):
                if entry not in self.roster.all():
                    worker.call("remove", entry.name)
                elif entry.policy is not policy and entry.policy is not None:
                    worker.call("update", entry.name, entry.policy)
        self._restore_outputs(member, worker)

    def _restore_outputs(self, member: Member, worker: Worker) -> None:
        """Switch the outputs as they were, and have those look again who looked."""
        entries = self.entries(member)
        deadline = time.monotonic() + _OUTPUTS
        names = {entry.name for entry in entries}
        while not names <= set(worker.call("pictured")) and time.monotonic() < deadline:
            self.over.wait(_LOOK)  # a stream has its outputs a moment after it was added
        for entry in entries:
            for output, on in list(entry.switches.items()):
                with contextlib.suppress(SluiceError):
                    worker.call("enable", entry.name, output, on)
        self.joined(member)

    def add_to(self, worker: Worker, entry: Entry) -> None:
        """Add a stream to a process."""
        worker.call("add", entry.opened, entry.name, entry.policy, entry.number, self.hidden())

    @contextlib.contextmanager
    def _refused(self, entry: Entry) -> Iterator[None]:
        """Forget a stream that a new process does not take; the process's end is no such refusal."""
        try:
            yield
        except ProcessDownError:
            raise
        except SluiceError as error:
            self.roster.remove(entry)
            self.events.add("stream-not-added", entry.name, f"{entry.name} could not be added again: {error}")
