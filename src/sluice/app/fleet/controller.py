"""Makes a fleet what its file says: starts workers, places streams, gives up what is lost, one step at a time."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, cast

from sluice.app.fleet.cluster import Cluster, WorkerLostError
from sluice.app.fleet.known import Known
from sluice.app.fleet.nodes import NodeHealth
from sluice.app.fleet.orders import Report, StreamOrder, WorkerOrder
from sluice.app.fleet.plan import Placement, WorkerView, make_plan
from sluice.app.fleet.rollout import Verdict
from sluice.app.fleet.schema import Fleet
from sluice.app.fleet.trial import Trial
from sluice.app.streams.events import EventLog
from sluice.errors import ConfigurationError

_STOPPING_SECONDS = 10.0
_LONGEST_PAUSE = 60.0  # seconds between two attempts to start workers that fail


class Controller:
    """The fleet's one mind. It's driven by `step`, which never waits; one thread at a time may call."""

    def __init__(self, fleet: Fleet, cluster: Cluster, clock: Callable[[], float], log: EventLog) -> None:
        """Take over a cluster: workers that run already go on with their streams.

        Args:
            fleet: what shall be.
            cluster: where.
            clock: seconds that only grow.
            log: what happens is noted there.
        """
        self._fleet = fleet
        self._cluster = cluster
        self._clock = clock
        self.log = log
        self._model = fleet.model.name
        self._workers: dict[str, Known] = {}
        self._placed: dict[str, Placement] = {}
        self._failed_starts = 0
        self._start_after = 0.0
        self._leaving: dict[str, str] = {}  # streams that a worker still has to let go of, before they go elsewhere
        self._trial: Trial | None = None
        self._epochs = itertools.count(1)
        self._numbers = itertools.count(1)
        self._health = NodeHealth(fleet.recovery.flapping, clock)
        self._waiting: tuple[str, ...] = ()
        self._failures: dict[str, str] = {}
        for name, handle in cluster.find_workers().items():
            self._workers[name] = Known(name, handle, self._model, clock(), starting=handle.started())
        self._adopting = set(self._workers)
        self._adopted_by = clock() + fleet.recovery.lost_after

    # What people ask for

    def apply(self, fleet: Fleet) -> None:
        """Want something else from now on; streams that stay as they are go on untouched."""
        changed = {s.name for s in self._fleet.streams} ^ {s.name for s in fleet.streams}
        before = {s.name: s for s in self._fleet.streams}
        changed |= {s.name for s in fleet.streams if s.name in before and before[s.name] != s}
        for stream in fleet.streams:  # one with another source or policy is placed anew, with a new epoch
            if stream.name in before and before[stream.name] != stream and stream.name in self._placed:
                self._place(stream.name, self._placed[stream.name].worker)
        self._fleet = fleet
        self._model = fleet.model.name
        self.log.add("fleet-applied", None, f"{len(fleet.streams)} streams are wanted", changed=sorted(changed))

    def drain(self, node: str, drained: bool = True) -> None:
        """Use a node no more, or again; its streams move.

        Raises:
            ConfigurationError: there is no such node.
        """
        ids = [n.id for n in self._cluster.nodes() if node in (n.id, n.name)]
        if not ids:
            known = ", ".join(sorted(n.name for n in self._cluster.nodes() if n.alive))
            raise ConfigurationError(f"there is no node {node!r}; there are: {known or 'none'}")
        for one in ids:
            self._health.drain(one, drained)
        self.log.add("node-drained" if drained else "node-undrained", None, f"node {node}", node=node)

    def roll_out(self, model: str, canary: Sequence[str] = ()) -> None:
        """Try a model on some workers first; `step` promotes it or rolls it back.

        Args:
            model: the new one.
            canary: streams whose workers get it first; none: as the fleet's file says, or the first worker.

        Raises:
            ConfigurationError: another rollout is on its way, a stream is unknown, or no worker runs.
        """
        if self._trial is not None:
            raise ConfigurationError(f"the rollout of {self._trial.model} is not over yet")
        streams = tuple(canary) or self._fleet.rollout.canary
        unplaced = [stream for stream in streams if stream not in self._placed]
        if unplaced:
            raise ConfigurationError(f"no worker runs the stream(s) {', '.join(unplaced)}")
        up = sorted(name for name, known in self._workers.items() if known.up)
        workers = {self._placed[stream].worker for stream in streams} or set(up[:1])
        if not workers:
            raise ConfigurationError("no worker runs yet")
        self._trial = Trial(model, self._model, workers, self._fleet.rollout.rule, self._clock())
        self._trial.begin(self._reports())
        self.log.add("rollout-begun", None, f"{model} on {', '.join(sorted(workers))}", model=model)
        self._give_model(model, workers)

    def _give_model(self, model: str, workers: Iterable[str]) -> None:
        for name in workers:
            if name in self._workers and self._workers[name].up:
                self._workers[name].handle.swap_model(model)

    def _reports(self) -> dict[str, Report]:
        """The last report of every worker that is up."""
        return {name: w.report for name, w in self._workers.items() if w.up and w.report is not None}

    def _judge(self, now: float) -> None:
        trial = self._trial
        if trial is None:
            return
        verdict, reason = trial.judge(self._reports(), now)
        if verdict == Verdict.WAIT:
            return
        self._trial = None
        if verdict == Verdict.PROMOTE:
            self._model = trial.model
            self._give_model(trial.model, self._workers.keys() - trial.canaries)
            self.log.add("rollout-promoted", None, f"{trial.model}: {reason}", model=trial.model)
        else:
            self._give_model(trial.old, trial.canaries)
            self.log.add("rollout-rolled-back", None, f"{trial.model}: {reason}", model=trial.model, reason=reason)

    @property
    def placed(self) -> Mapping[str, Placement]:
        """Where each stream runs."""
        return dict(self._placed)

    @property
    def workers(self) -> Mapping[str, Report | None]:
        """The workers that are not given up, and the last that was heard of each."""
        return {name: known.report for name, known in self._workers.items() if not known.lost}

    # One step

    def step(self) -> None:
        """Hear what workers have answered, decide, and ask again."""
        now = self._clock()
        for known in list(self._workers.values()):
            self._hear(known, now)
        self._let_go(now)
        self._judge(now)
        if not self._adopting or now > self._adopted_by:
            self._rearrange(now)
        for known in self._workers.values():
            self._ask(known, now)

    def _hear(self, known: Known, now: float) -> None:
        if known.starting is not None and known.starting.done():
            self._hear_started(known, now)
        if known.reporting is not None and known.reporting.done():
            call, known.reporting = known.reporting, None
            try:
                self._take_report(known, cast(Report, call.result()), now)
            except WorkerLostError as error:
                self._lose(known, str(error))
            except Exception as error:
                self.log.add("worker-complained", None, f"{known.name}: {error}", worker=known.name)
        if known.syncing is not None and known.syncing.done():
            self._hear_synced(known)
        if known.starting is not None and known.name in self._adopting and now > self._adopted_by:
            known.starting = None
            self._lose(known, "it did not answer the new controller")
        late = known.heard and now - known.heard > self._fleet.recovery.lost_after
        if late and not known.lost and known.stopping is None and known.starting is None:
            self._lose(known, f"no answer for {now - known.heard:.0f} s")

    def _hear_started(self, known: Known, now: float) -> None:
        assert known.starting is not None
        call, known.starting = known.starting, None
        try:
            known.node = str(call.result())
        except Exception as error:
            self._failures[known.name] = str(error)
            self._start_after = now + min(_LONGEST_PAUSE, 2.0**self._failed_starts)
            self._failed_starts += 1
            del self._workers[known.name]
            self.log.add("worker-failed", None, f"{known.name} could not start: {error}", worker=known.name)
            return
        known.heard, self._failed_starts = now, 0
        self.log.add("worker-started", None, f"{known.name} runs on {known.node}", worker=known.name, node=known.node)

    def _hear_synced(self, known: Known) -> None:
        assert known.syncing is not None
        call, known.syncing = known.syncing, None
        try:
            refused = cast(dict[str, str], call.result())
        except WorkerLostError as error:
            self._lose(known, str(error))
        except Exception as error:
            self.log.add("worker-complained", None, f"{known.name}: {error}", worker=known.name)
            known.told = {}
        else:
            for stream, reason in refused.items():
                self.log.add("stream-refused", stream, reason, worker=known.name)

    def _take_report(self, known: Known, report: Report, now: float) -> None:
        if known.lost:  # it was only cut off: what it still runs runs elsewhere
            known.lost = False
            known.told = dict.fromkeys(report.epochs, 0)
            self.log.add("worker-returned", None, f"{known.name} answers again", worker=known.name, node=known.node)
        known.heard, known.report, known.last_event = now, report, report.last_event
        for stream in [s for s, worker in self._leaving.items() if worker == known.name and s not in report.epochs]:
            del self._leaving[stream]
        for event in report.events:
            self.log.add(event.kind, event.stream, event.text, **{**event.details, "worker": known.name})
        if known.name in self._adopting:
            self._adopting.discard(known.name)
            self._adopt(report)
        if report.failure:
            self._lose(known, report.failure)

    def _adopt(self, report: Report) -> None:
        """Take over the streams of a worker of an earlier controller; of two that run the same, the newer counts."""
        for stream, epoch in report.epochs.items():
            self._skip_epochs(epoch)
            if stream not in self._placed or self._placed[stream].epoch < epoch:
                self._placed[stream] = Placement(report.worker, epoch)

    def _skip_epochs(self, seen: int) -> None:
        following = next(self._epochs)
        self._epochs = itertools.count(max(following, seen + 1))

    def _lose(self, known: Known, reason: str) -> None:
        """Give a worker up; if it still runs, it goes on with old epochs until it is heard of again."""
        if known.lost:
            return
        known.lost = True
        known.told = {}
        self._forget(known.name)
        self.log.add("worker-lost", None, f"{known.name}: {reason}", worker=known.name, node=known.node)
        if known.node and self._health.lost(known.node):
            seconds = self._health.quarantined(known.node)
            self.log.add("node-quarantined", None, f"node {known.node} for {seconds:.0f} s", node=known.node)

    def _forget(self, worker: str) -> None:
        """Wait for nothing more from a worker."""
        self._adopting.discard(worker)
        self._leaving = {stream: leaves for stream, leaves in self._leaving.items() if leaves != worker}

    def _let_go(self, now: float) -> None:
        """Forget workers that have ended, and end those that do not."""
        alive = {node.id for node in self._cluster.nodes() if node.alive}
        for known in list(self._workers.values()):
            ended = known.stopping is not None and (known.stopping.done() or now > known.stop_by)
            gone = known.lost and known.node and known.node not in alive
            if ended or gone:
                known.handle.kill()
                self._forget(known.name)
                del self._workers[known.name]
            elif known.node and known.node not in alive and not known.lost:
                self._lose(known, "its node has gone")

    def _rearrange(self, now: float) -> None:
        """Place streams, ask for workers, end those without streams."""
        fleet = self._fleet
        views = [
            WorkerView(w.name, w.node, fleet.workers.streams, w.up and self._health.usable(w.node))
            for w in self._workers.values()
            if w.up
        ]
        starting = sum(1 for w in self._workers.values() if w.starting is not None)
        streams = [s.name for s in fleet.streams if s.name not in self._leaving]
        plan = make_plan(streams, views, self._placed, fleet.workers.streams, starting)
        for stream, worker in plan.withdraw:
            self._placed.pop(stream, None)
            if worker in self._workers and self._workers[worker].up:
                self._leaving[stream] = worker  # it still answers: the stream goes elsewhere once it has let it go
        for stream, worker in plan.place.items():
            if stream not in self._leaving:
                self._place(stream, worker)
        self._waiting = plan.waiting
        room = fleet.workers.most - len(self._workers)
        for _ in range(min(plan.workers, max(0, room)) if now >= self._start_after else 0):
            self._start_worker(now)
        for name in plan.surplus if not self._leaving else ():  # what is leaving may come here
            known = self._workers[name]
            known.stopping, known.stop_by = known.handle.stop(), now + _STOPPING_SECONDS
            self.log.add("worker-stopped", None, f"{name} has no streams left", worker=name)

    def _place(self, stream: str, worker: str) -> None:
        self._placed[stream] = Placement(worker, next(self._epochs))

    def _start_worker(self, now: float) -> None:
        fleet = self._fleet
        name = f"{fleet.name}-{int(now)}-{next(self._numbers)}"
        order = WorkerOrder(name, self._model, fleet.pipeline_options(name), fleet.recovery.orphan_seconds)
        avoid = [node.id for node in self._cluster.nodes() if not self._health.usable(node.id)]
        handle = self._cluster.start_worker(order, fleet.workers.resources, avoid)
        self._workers[name] = Known(name, handle, self._model, now, starting=handle.started())
        self.log.add("worker-asked-for", None, name, worker=name)

    def _ask(self, known: Known, now: float) -> None:
        """Ask a worker how it is, and tell it its streams where they changed."""
        if known.starting is not None or known.stopping is not None:
            return
        if known.reporting is None and (known.lost or now - known.asked >= self._fleet.recovery.heartbeat):
            known.reporting, known.asked = known.handle.report(known.last_event), now
        if known.lost or known.syncing is not None:
            return
        orders = self._orders(known.name)
        told = {order.name: order.epoch for order in orders}
        if told != known.told:
            known.syncing, known.told = known.handle.sync(orders), told

    def _orders(self, worker: str) -> list[StreamOrder]:
        by_name = {stream.name: stream for stream in self._fleet.streams}
        return [
            StreamOrder(name, by_name[name].source, by_name[name].policy, place.epoch)
            for name, place in self._placed.items()
            if place.worker == worker and name in by_name
        ]

    def status(self) -> dict[str, Any]:
        """Return how the fleet is, as JSON takes it; without credentials."""
        streams = {s.name: s for w in self._workers.values() if w.report for s in w.report.streams}
        return {
            "name": self._fleet.name,
            "model": self._model,
            "streams": [self._stream_status(s.name, streams) for s in self._fleet.streams],
            "workers": [self._worker_status(w) for w in self._workers.values()],
            "nodes": [
                {"id": n.id, "name": n.name, "alive": n.alive, "drained": n.id in self._health.drained,
                 "quarantined": round(self._health.quarantined(n.id), 1)}
                for n in self._cluster.nodes()
            ],
            "failures": dict(itertools.islice(reversed(self._failures.items()), 20)),
        }  # fmt: skip

    def _stream_status(self, name: str, known: Mapping[str, Any]) -> dict[str, Any]:
        place, seen = self._placed.get(name), known.get(name)
        return {
            "name": name,
            "worker": place.worker if place else None,
            "epoch": place.epoch if place else None,
            "state": "waiting" if place is None else str(seen.state) if seen else "placed",
            "fps": seen.fps if seen else 0.0,
            "frames_out": seen.frames_out if seen else 0,
            "reason": seen.reason if seen else "",
        }

    def _worker_status(self, known: Known) -> dict[str, Any]:
        state = "starting" if known.starting else "lost" if known.lost else "stopping" if known.stopping else "up"
        report = known.report
        return {
            "name": known.name,
            "node": known.node,
            "state": state,
            "model": report.counts.model if report else known.model,
            "streams": sorted(report.epochs) if report else [],
            "frames": report.counts.frames if report else 0,
            "errors": report.counts.errors if report else 0,
        }
