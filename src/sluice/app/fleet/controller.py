"""Makes a fleet what its file says: starts workers, places streams, gives up what is lost, one step at a time."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, cast

from sluice.app.fleet.cluster import Call, Cluster, WorkerLostError
from sluice.app.fleet.known import Known
from sluice.app.fleet.nodes import NodeHealth
from sluice.app.fleet.orders import Report, StreamOrder, WorkerOrder
from sluice.app.fleet.plan import Placement, WorkerView, by_worker, make_plan
from sluice.app.fleet.rollout import Verdict
from sluice.app.fleet.schema import Fleet, FleetStream
from sluice.app.fleet.status import fleet_status
from sluice.app.fleet.trial import Trial
from sluice.app.streams.events import EventLog
from sluice.errors import ConfigurationError

_STOPPING_SECONDS = 10.0
_LONGEST_PAUSE = 60.0  # seconds between two attempts to start workers that fail


class Controller:
    """The fleet's one mind. It's driven by `step`, which never waits; one thread at a time may call."""

    def __init__(
        self,
        fleet: Fleet,
        cluster: Cluster,
        clock: Callable[[], float],
        log: EventLog,
        *,
        first_epoch: int = 1,
        drained: Collection[str] = (),
    ) -> None:
        """Take over a cluster: workers that run already go on with their streams.

        Args:
            fleet: what shall be.
            cluster: where.
            clock: seconds that only grow.
            log: what happens is noted there.
            first_epoch: higher than any of an earlier controller, also of workers that cannot be asked now.
            drained: ids of nodes that are not to be used.
        """
        self._cluster = cluster
        self._clock = clock
        self.log = log
        self._want(fleet)
        self._workers: dict[str, Known] = {}
        self._placed: dict[str, Placement] = {}
        self._failed_starts, self._start_after = 0, 0.0
        self._leaving: dict[str, str] = {}  # streams that a worker still has to let go of, before they go elsewhere
        self._trial: Trial | None = None
        self._epochs = itertools.count(first_epoch)
        self._names = f"{fleet.name}-{first_epoch}"  # no two controllers give a worker the same name
        self._numbers = itertools.count(1)
        self._health = NodeHealth(fleet.recovery.flapping, clock)
        for node in drained:
            self._health.drain(node)
        self._failures: dict[str, str] = {}
        for name, handle in cluster.find_workers().items():
            known = Known(name, handle, fleet.model.name, clock(), fleet.workers.streams, starting=handle.started())
            self._workers[name] = known
        self._adopting = set(self._workers)
        self._adopted_by = clock() + fleet.recovery.lost_after

    # What people ask for

    @property
    def fleet(self) -> Fleet:
        """What is wanted, with the model that is in force: not one that is only being tried."""
        return self._fleet

    @property
    def drained(self) -> frozenset[str]:
        """The nodes that are drained."""
        return self._health.drained

    def apply(self, fleet: Fleet) -> None:
        """Want something else from now on; streams that stay as they are go on untouched.

        Another model is tried first, as by `roll_out`. What a worker cannot change while it runs is changed by new
        workers that take the place of the old ones.

        Raises:
            ConfigurationError: a rollout is on its way, and this would change the model or the workers' pipelines.
        """
        changed = fleet.changed_since(self._fleet)
        running, model = self._fleet.model.name, fleet.model.name
        remade = fleet.made() != self._made
        if self._trial is not None and (remade or model not in (running, self._trial.model)):
            raise ConfigurationError(
                f"the rollout of {self._trial.model} is not over yet; change the model, or what workers are made of, "
                "when sluice fleet logs tells its end"
            )
        tried = model != running and not remade and self._trial is None and bool(self._reports())
        self._want(fleet.with_model(running) if tried or self._trial is not None else fleet)
        for name in self._placed.keys() & changed:
            self._place(name, self._placed[name].worker)  # anew, with a new epoch, unless it is wanted no more
        self.log.add("fleet-applied", None, f"{len(fleet.streams)} streams are wanted", changed=changed)
        if tried:
            self._try(model, [stream for stream in fleet.rollout.canary if stream in self._placed])

    def end(self) -> None:
        """Want nothing any more, also no rollout."""
        self._trial = None
        self.apply(Fleet(name=self._fleet.name, recovery=self._fleet.recovery))

    def _want(self, fleet: Fleet) -> None:
        self._fleet, self._made = fleet, fleet.made()

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
        if "none" in (model, self._fleet.model.name):
            raise ConfigurationError(
                "a rollout changes one model for another; a fleet without a model has none to change"
            )
        streams = tuple(canary) or self._fleet.rollout.canary
        unplaced = [stream for stream in streams if stream not in self._placed]
        if unplaced:
            raise ConfigurationError(f"no worker runs the stream(s) {', '.join(unplaced)}")
        self._try(model, streams)

    def _try(self, model: str, streams: Sequence[str]) -> None:
        reports = self._reports()
        busy = sorted(name for name, report in reports.items() if report.epochs)
        workers = {self._placed[stream].worker for stream in streams} & set(busy) or set(busy[:1])
        if not workers:
            raise ConfigurationError("no worker runs a stream yet")
        self._trial = Trial(model, self._fleet.model.name, workers, self._fleet.rollout.rule, self._clock())
        self._trial.begin(reports)
        self.log.add("rollout-begun", None, f"{model} on {', '.join(sorted(workers))}", model=model)

    def _give_model(self, known: Known, now: float) -> None:
        """Have a worker change its model, where it runs or loads another than it shall."""
        trial = self._trial
        wanted = trial.model if trial is not None and known.name in trial.canaries else self._fleet.model.name
        if self._is_fresh(known) and known.lacks_model(wanted, now):
            known.handle.swap_model(wanted)

    def _is_fresh(self, known: Known) -> bool:
        return known.made in ("", self._made)

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
            self._want(self._fleet.with_model(trial.model))
            self.log.add("rollout-promoted", None, f"{trial.model}: {reason}", model=trial.model)
        else:
            self.log.add("rollout-rolled-back", None, f"{trial.model}: {reason}", model=trial.model, reason=reason)

    @property
    def placed(self) -> Mapping[str, Placement]:
        """Where each stream runs."""
        return dict(self._placed)

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
        wanted = by_worker(self._placed)
        by_name = {stream.name: stream for stream in self._fleet.streams}
        for known in self._workers.values():
            self._ask(known, now, wanted.get(known.name, {}), by_name)

    def _hear(self, known: Known, now: float) -> None:
        if known.starting is not None and known.starting.done():
            self._hear_started(known, known.starting, now)
        if known.reporting is not None and known.reporting.done():
            call, known.reporting = known.reporting, None
            try:
                self._take_report(known, cast(Report, call.result()), now)
            except WorkerLostError as error:
                self._lose(known, str(error), dead=True)
            except Exception as error:
                self.log.add("worker-complained", None, f"{known.name}: {error}", worker=known.name)
        if known.syncing is not None and known.syncing.done():
            self._hear_synced(known, known.syncing)
        if known.starting is not None and known.name in self._adopting and now > self._adopted_by:
            known.starting = None
            self._lose(known, "it did not answer the new controller")
        elif known.starting is not None and now - known.asked > self._fleet.recovery.start_seconds:
            known.handle.kill()
            reason = f"no node had room, or its model was not loaded, for {self._fleet.recovery.start_seconds:g} s"
            self._fail(known, reason, now)
        late = known.heard and now - known.heard > self._fleet.recovery.lost_after
        if late and not known.lost and known.stopping is None and known.starting is None:
            self._lose(known, f"no answer for {now - known.heard:.0f} s")

    def _hear_started(self, known: Known, call: Call, now: float) -> None:
        known.starting = None
        try:
            known.node = str(call.result())
        except Exception as error:
            self._fail(known, str(error), now)
            return
        known.heard, self._failed_starts = now, 0
        self.log.add("worker-started", None, f"{known.name} runs on {known.node}", worker=known.name, node=known.node)

    def _fail(self, known: Known, reason: str, now: float) -> None:
        """Give up a worker that could not start, and wait before another is tried."""
        self._failures[known.name] = reason
        self._start_after = now + min(_LONGEST_PAUSE, 2.0**self._failed_starts)
        self._failed_starts += 1
        self._forget(known.name)
        del self._workers[known.name]
        self.log.add("worker-failed", None, f"{known.name} could not start: {reason}", worker=known.name)

    def _hear_synced(self, known: Known, call: Call) -> None:
        known.syncing = None
        try:
            refused = cast(dict[str, str], call.result())
        except WorkerLostError as error:
            self._lose(known, str(error), dead=True)
        except Exception as error:
            self.log.add("worker-complained", None, f"{known.name}: {error}", worker=known.name)
            known.told = {}
        else:
            known.refused = refused
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
        known.made = report.made
        if report.failure:
            self._lose(known, report.failure, dead=True)
        elif known.is_stuck(now, self._fleet.recovery.stuck_after):
            self._lose(known, f"its streams play, and gave no frame for {now - known.moved[1]:.0f} s", dead=True)

    def _adopt(self, report: Report) -> None:
        """Take over the streams of a worker of an earlier controller; of two that run the same, the newer counts."""
        self._workers[report.worker].told = dict(report.epochs)
        for stream, epoch in report.epochs.items():
            self._epochs = itertools.count(max(next(self._epochs), epoch + 1))
            if stream not in self._placed or self._placed[stream].epoch < epoch:
                self._placed[stream] = Placement(report.worker, epoch)

    def _lose(self, known: Known, reason: str, dead: bool = False) -> None:
        """Give a worker up; if it still runs, it goes on with old epochs until it is heard of again.

        One that is `dead`, or as good as that, is ended and never heard of again.
        """
        known.dead = known.dead or dead
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
            if ended or gone or known.dead:
                known.handle.kill()
                self._forget(known.name)
                del self._workers[known.name]
            elif known.node and known.node not in alive and not known.lost:
                self._lose(known, "its node has gone")

    def _rearrange(self, now: float) -> None:
        """Place streams, ask for workers, end those without streams."""
        fleet = self._fleet
        starting = [known for known in self._workers.values() if known.starting is not None]
        streams = [s.name for s in fleet.streams if s.name not in self._leaving]
        views = [self._view(known) for known in self._workers.values() if known.up]
        plan = make_plan(
            streams, views, self._placed, fleet.workers.streams, len(starting), not self._leaving, fleet.workers.spare
        )
        for stream, worker in plan.withdraw:
            self._placed.pop(stream, None)
            if worker in self._workers and self._workers[worker].up:
                self._leaving[stream] = worker  # it still answers: the stream goes elsewhere once it has let it go
        for stream, worker in plan.place.items():
            if stream not in self._leaving:
                self._place(stream, worker)
        for name in plan.surplus if not self._leaving else ():  # what is leaving may come here
            known = self._workers[name]
            known.stopping, known.stop_by = known.handle.stop(), now + _STOPPING_SECONDS
            self.log.add("worker-stopped", None, f"{name} has no streams left", worker=name)
        room = fleet.workers.most - len(self._workers)
        # One that only replaces another is started once those replaced before have given their resources back.
        replacing = self._leaving or any(w.stopping for w in self._workers.values())
        held_up = now < self._start_after or (replacing and not plan.waiting)
        for _ in range(0 if held_up else min(plan.workers, max(0, room))):
            self._start_worker(now)
        for known in starting[plan.workers :] if plan.workers < 0 and not self._leaving else ():
            known.handle.kill()
            del self._workers[known.name]
            self.log.add("worker-stopped", None, f"{known.name} is not needed any more", worker=known.name)

    def _view(self, known: Known) -> WorkerView:
        fresh = self._is_fresh(known)
        capacity = self._fleet.workers.streams if fresh else max(known.capacity, self._fleet.workers.streams)
        return WorkerView(known.name, known.node, capacity, fresh and self._health.usable(known.node))

    def _place(self, stream: str, worker: str) -> None:
        self._placed[stream] = Placement(worker, next(self._epochs))

    def _start_worker(self, now: float) -> None:
        fleet = self._fleet
        name = f"{self._names}-{next(self._numbers)}"
        options = fleet.pipeline_options(name)
        order = WorkerOrder(name, fleet.model.name, options, fleet.recovery.orphan_seconds, self._made)
        avoid = [node.id for node in self._cluster.nodes() if not self._health.usable(node.id)]
        handle = self._cluster.start_worker(order, fleet.workers.resources, avoid)
        known = Known(name, handle, fleet.model.name, now, fleet.workers.streams, starting=handle.started())
        self._workers[name], known.made = known, self._made
        self.log.add("worker-asked-for", None, name, worker=name)

    def _ask(self, known: Known, now: float, epochs: dict[str, int], streams: Mapping[str, FleetStream]) -> None:
        """Ask a worker how it is, and tell it its streams and its model where they changed."""
        if known.starting is not None or known.stopping is not None:
            return
        if known.reporting is None and now - known.asked >= self._fleet.recovery.heartbeat:
            known.reporting, known.asked = known.handle.report(known.last_event), now
        if known.lost or known.syncing is not None:
            return
        if epochs != known.told:
            orders = [
                StreamOrder(name, streams[name].source, streams[name].policy, epoch)
                for name, epoch in epochs.items()
                if name in streams
            ]
            known.syncing, known.told = known.handle.sync(orders), epochs
        self._give_model(known, now)

    def status(self) -> dict[str, Any]:
        """Return how the fleet is, as JSON takes it; without credentials."""
        failures = dict(itertools.islice(reversed(self._failures.items()), 20))
        return fleet_status(
            self._fleet, self._placed, self._workers, self._cluster.nodes(), self._health, failures, self._trial
        )
