"""The workers of a fleet: started, heard, given up and ended. Which streams they run is the controller's."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection
from typing import Protocol, cast

from sluice.app.fleet.cluster import Call, Cluster, WorkerLostError, WorkerStartError
from sluice.app.fleet.known import Known
from sluice.app.fleet.orders import Report, WorkerOrder
from sluice.app.fleet.schema import Recovery, Resources
from sluice.app.model_control import BusyModel
from sluice.app.streams.events import EventLog

_STOPPING_SECONDS = 10.0
_LONGEST_PAUSE = 60.0  # seconds between two attempts to start workers that fail
_MOST_FAILURES = 20  # that are told


class Listener(Protocol):
    """What a controller hears of its workers."""

    def reported(self, known: Known, report: Report, adopted: bool) -> None:
        """A worker said how it is; `adopted` where it is an earlier controller's and said so for the first time."""

    def lost(self, known: Known, streams: Collection[str], dead: bool) -> None:
        """A worker that was told of these streams is given up; its process has ended where it is `dead`."""

    def gone(self, worker: str) -> None:
        """Nothing more comes from a worker."""


class Workers:
    """All workers that are known, by name in `known`; the clock's time is given by the caller."""

    def __init__(
        self, cluster: Cluster, recovery: Callable[[], Recovery], log: EventLog, listener: Listener, names: str
    ) -> None:
        """Begin without workers.

        Args:
            cluster: where they run.
            recovery: gives the rules that are in force.
            log: what happens is noted there.
            listener: is told of it.
            names: what the names of new workers begin with; no two controllers have the same.
        """
        self.known: dict[str, Known] = {}
        self._cluster = cluster
        self._recovery = recovery
        self._log = log
        self._listener = listener
        self._names = (f"{names}-{number}" for number in itertools.count(1))
        self._failures: dict[str, str] = {}
        self._failed_starts, self._start_after = 0, 0.0
        self._failed_on: set[str] = set()  # nodes where the last one that tried could not start
        self._adopting: set[str] = set()
        self._adopted_by = 0.0

    def adopt(self, model: str, capacity: int, now: float) -> None:
        """Take over the workers that run already; each is asked how it is before anything is decided."""
        for name, handle in self._cluster.find_workers().items():
            self.known[name] = Known(name, handle, model, now, capacity, starting=handle.started())
        self._adopting = set(self.known)
        self._adopted_by = now + self._recovery().lost_after

    def are_adopted(self, now: float) -> bool:
        """Whether all workers of an earlier controller have answered, or had the time to."""
        return not self._adopting or now > self._adopted_by

    @property
    def starting(self) -> list[Known]:
        """Those that are not there yet."""
        return [known for known in self.known.values() if known.starting is not None]

    @property
    def failures(self) -> dict[str, str]:
        """Why the last workers that could not start could not, by their names, the newest first."""
        return dict(itertools.islice(reversed(self._failures.items()), _MOST_FAILURES))

    def reports(self) -> dict[str, Report]:
        """Return the last report of every worker that is up."""
        return {name: w.report for name, w in self.known.items() if w.up and w.report is not None}

    def next_name(self) -> str:
        """Return a name for a worker."""
        return next(self._names)

    def may_start(self, now: float) -> bool:
        """Whether one may be started: not soon after others could not."""
        return now >= self._start_after

    def start(
        self,
        order: WorkerOrder,
        resources: Resources,
        avoid: Collection[str],
        rather_not: Collection[str],
        capacity: int,
        now: float,
    ) -> None:
        """Begin to start a worker; see `Cluster.start_worker`."""
        handle = self._cluster.start_worker(order, resources, avoid, {*rather_not, *self._failed_on})
        known = Known(order.name, handle, order.model, now, capacity, starting=handle.started(), made=order.made)
        self.known[order.name] = known
        self._log.add("worker-asked-for", None, order.name, worker=order.name)

    def cancel(self, known: Known) -> None:
        """End a worker that is not there yet and not needed any more."""
        known.handle.kill()
        del self.known[known.name]
        self._log.add("worker-stopped", None, f"{known.name} is not needed any more", worker=known.name)

    def stop(self, name: str, now: float) -> None:
        """Have a worker without streams end."""
        known = self.known[name]
        known.stopping, known.stop_by = known.handle.stop(), now + _STOPPING_SECONDS
        self._log.add("worker-stopped", None, f"{name} has no streams left", worker=name)

    def hear(self, now: float) -> None:
        """Take what workers have answered, and give up those that do not answer."""
        for known in list(self.known.values()):
            self._hear(known, now)

    def _hear(self, known: Known, now: float) -> None:
        recovery = self._recovery()
        if known.starting is not None and known.starting.done():
            self._hear_started(known, known.starting, now)
        if known.reporting is not None and known.reporting.done():
            self._hear_report(known, known.reporting, now)
        if known.syncing is not None and known.syncing.done():
            self._hear_synced(known, known.syncing, now)
        if known.swapping is not None and known.swapping.done():
            self._hear_swapped(known, known.swapping, now)
        if known.starting is not None and known.name in self._adopting and now > self._adopted_by:
            known.starting = None
            self.lose(known, "it did not answer the new controller")
        elif known.starting is not None and now - known.asked > recovery.start_seconds:
            self._fail(known, f"no node had room, or its model was not loaded, for {recovery.start_seconds:g} s", now)
        if known.syncing is not None and now - known.synced > recovery.stuck_after:
            known.syncing = None
            self.lose(known, f"it did not do what it was told for {now - known.synced:.0f} s", dead=True)
        late = known.heard and now - known.heard > recovery.lost_after
        if late and not known.lost and known.stopping is None and known.starting is None:
            self.lose(known, f"no answer for {now - known.heard:.0f} s")

    def _hear_started(self, known: Known, call: Call, now: float) -> None:
        known.starting = None
        try:
            known.node = str(call.result())
        except WorkerStartError as error:
            self._failed_on.add(error.node)
            self._fail(known, f"on node {self._name_of(error.node)}: {error}", now)
            return
        except Exception as error:
            self._fail(known, str(error), now)
            return
        known.heard, self._failed_starts = now, 0
        self._failed_on.discard(known.node)
        self._log.add("worker-started", None, f"{known.name} runs on {known.node}", worker=known.name, node=known.node)

    def _fail(self, known: Known, reason: str, now: float) -> None:
        """Give up a worker that could not start, and wait before another is tried."""
        known.handle.kill()
        self._failures[known.name] = reason
        self._start_after = now + min(_LONGEST_PAUSE, 2.0**self._failed_starts)
        self._failed_starts += 1
        self._forget(known)
        self._log.add("worker-failed", None, f"{known.name} could not start: {reason}", worker=known.name)

    def _name_of(self, node: str) -> str:
        return next((known.name for known in self._cluster.nodes() if known.id == node), node)

    def _hear_report(self, known: Known, call: Call, now: float) -> None:
        known.reporting = None
        try:
            self._take_report(known, cast(Report, call.result()), now)
        except WorkerLostError as error:
            self.lose(known, str(error), dead=True)
        except Exception as error:
            self._log.add("worker-complained", None, f"{known.name}: {error}", worker=known.name)

    def _hear_synced(self, known: Known, call: Call, now: float) -> None:
        known.syncing = None
        try:
            refused = cast(dict[str, str], call.result())
        except WorkerLostError as error:
            self.lose(known, str(error), dead=True)
        except Exception as error:
            self._log.add("worker-complained", None, f"{known.name}: {error}", worker=known.name)
            known.told = {}
        else:
            for stream, reason in refused.items() - known.refused.items():
                self._log.add("stream-refused", stream, reason, worker=known.name)
            known.refused, known.refused_at = refused, now

    def _hear_swapped(self, known: Known, call: Call, now: float) -> None:
        known.swapping = None
        try:
            call.result()
        except BusyModel:
            known.was_busy(now)
        except WorkerLostError as error:
            self.lose(known, str(error), dead=True)
        except Exception as error:
            self._log.add("worker-complained", None, f"{known.name}: {error}", worker=known.name)

    def _take_report(self, known: Known, report: Report, now: float) -> None:
        if known.lost:  # it was only cut off: what it still runs runs elsewhere
            known.lost = False
            known.told = dict.fromkeys(report.epochs, 0)
            self._log.add("worker-returned", None, f"{known.name} answers again", worker=known.name, node=known.node)
        known.heard, known.report, known.last_event = now, report, report.last_event
        for event in report.events:
            self._log.add(event.kind, event.stream, event.text, **{**event.details, "worker": known.name})
        adopted = known.name in self._adopting
        self._adopting.discard(known.name)
        if adopted:
            known.told = dict(report.epochs)
        self._listener.reported(known, report, adopted)
        known.made = report.made
        if report.failure:
            self.lose(known, report.failure, dead=True)
        elif known.is_stuck(now, self._recovery().stuck_after):
            self.lose(known, f"its streams play, and gave no frame for {now - known.moved[1]:.0f} s", dead=True)

    def lose(self, known: Known, reason: str, dead: bool = False) -> None:
        """Give a worker up; if it still runs, it goes on with old epochs until it is heard of again.

        One that is `dead`, or as good as that, is ended and never heard of again.
        """
        known.dead = known.dead or dead
        if known.lost:
            return
        known.lost = True
        streams, known.told = list(known.told), {}
        self._adopting.discard(known.name)
        self._listener.gone(known.name)
        self._log.add("worker-lost", None, f"{known.name}: {reason}", worker=known.name, node=known.node)
        self._listener.lost(known, streams, dead)

    def let_go(self, now: float) -> None:
        """Forget workers that have ended, and end those that do not."""
        alive = {node.id for node in self._cluster.nodes() if node.alive}
        for known in list(self.known.values()):
            ended = known.stopping is not None and (known.stopping.done() or now > known.stop_by)
            gone = known.lost and known.node and known.node not in alive
            if ended or gone or known.dead:
                known.handle.kill()
                self._forget(known)
            elif known.node and known.node not in alive and not known.lost:
                self.lose(known, "its node has gone")

    def _forget(self, known: Known) -> None:
        self._adopting.discard(known.name)
        self._listener.gone(known.name)
        del self.known[known.name]
