"""Makes a fleet what its file says: places streams, tries models, has workers started and ended, one step at a time."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from sluice.app.fleet.cluster import Cluster
from sluice.app.fleet.known import Known
from sluice.app.fleet.nodes import NodeHealth
from sluice.app.fleet.orders import Report, StreamOrder, WorkerOrder
from sluice.app.fleet.plan import Placement, WorkerView, by_worker, make_plan
from sluice.app.fleet.rollout import Verdict
from sluice.app.fleet.schema import Fleet, FleetStream
from sluice.app.fleet.status import fleet_status
from sluice.app.fleet.suspects import Suspects
from sluice.app.fleet.trial import Trial
from sluice.app.fleet.workers import Workers
from sluice.app.streams.events import EventLog
from sluice.errors import ConfigurationError


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
        self._placed: dict[str, Placement] = {}
        self._leaving: dict[str, str] = {}  # streams that a worker still has to let go of, before they go elsewhere
        self._trial: Trial | None = None
        self._epochs = itertools.count(first_epoch)
        self._health = NodeHealth(fleet.recovery.flapping, clock)
        self._suspects = Suspects(fleet.recovery.poison, clock)
        self._want(fleet)
        for node in drained:
            self._health.drain(node)
        self._workers = Workers(cluster, lambda: self._fleet.recovery, log, self, f"{fleet.name}-{first_epoch}")
        self._workers.adopt(fleet.model.name, fleet.workers.streams, clock())

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
        tried = model != running and not remade and self._trial is None and bool(self._workers.reports())
        self._want(fleet.with_model(running) if tried or self._trial is not None else fleet)
        self._suspects.forget(self._suspects.suspected if remade else changed)
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
        self._health.rule, self._suspects.rule = fleet.recovery.flapping, fleet.recovery.poison

    def drain(self, node: str, drained: bool = True) -> tuple[int, int]:
        """Use a node no more, or again; its streams move.

        Returns:
            How many streams are on it, and how many other nodes may be used.

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
        there = {name for name, known in self._workers.known.items() if known.node in ids}
        return sum(place.worker in there for place in self._placed.values()), self._usable_nodes()

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
        reports = self._workers.reports()
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
            known.give_model(wanted, now)

    def _is_fresh(self, known: Known) -> bool:
        return known.made in ("", self._made)

    def _judge(self, now: float) -> None:
        trial = self._trial
        if trial is None:
            return
        verdict, reason = trial.judge(self._workers.reports(), now)
        if verdict == Verdict.WAIT:
            return
        self._trial = None
        if verdict == Verdict.PROMOTE:
            self._want(self._fleet.with_model(trial.model))
            self._suspects.forget(self._suspects.suspected)  # it may have been the old model's fault
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
        self._workers.hear(now)
        self._workers.let_go(now)
        self._look_at_suspects()
        self._judge(now)
        if self._workers.are_adopted(now):
            self._rearrange(now)
        wanted = by_worker(self._placed)
        by_name = {stream.name: stream for stream in self._fleet.streams}
        for known in self._workers.known.values():
            self._ask(known, now, wanted.get(known.name, {}), by_name)

    # What workers tell

    def reported(self, known: Known, report: Report, adopted: bool) -> None:
        """See `sluice.app.fleet.workers.Listener`."""
        for stream in [s for s, worker in self._leaving.items() if worker == known.name and s not in report.epochs]:
            del self._leaving[stream]
        if adopted:
            self._adopt(report)

    def lost(self, known: Known, streams: Collection[str], dead: bool) -> None:
        """See `sluice.app.fleet.workers.Listener`."""
        at_fault = True
        if dead and known.node in {node.id for node in self._cluster.nodes() if node.alive}:
            ran = [stream for stream in streams if self._runs_on(stream, known.name)]
            parked, at_fault = self._suspects.worker_died(ran, known.node, self._usable_nodes())
            for stream in parked:
                self.log.add("stream-parked", stream, self._suspects.held[stream], worker=known.name)
        if known.node and at_fault and self._health.lost(known.node):
            seconds = self._health.quarantined(known.node)
            self.log.add("node-quarantined", None, f"node {known.node} for {seconds:.0f} s", node=known.node)

    def gone(self, worker: str) -> None:
        """See `sluice.app.fleet.workers.Listener`."""
        self._leaving = {stream: leaves for stream, leaves in self._leaving.items() if leaves != worker}

    def _runs_on(self, stream: str, worker: str) -> bool:
        return stream in self._placed and self._placed[stream].worker == worker

    def _usable_nodes(self) -> int:
        return sum(node.alive and node.has_cores and self._health.usable(node.id) for node in self._cluster.nodes())

    def _look_at_suspects(self) -> None:
        """Clear the streams that have done no harm for long enough."""
        if not self._suspects.suspected:
            return
        for node in self._cluster.nodes():
            if not node.alive:
                self._suspects.node_gone(node.id)
        reports = self._workers.reports()
        running = {
            stream: (place := self._placed.get(stream)) is not None
            and place.worker in reports
            and reports[place.worker].epochs.get(stream) == place.epoch
            for stream in self._suspects.suspected
        }
        for stream in self._suspects.look(running):
            self.log.add("stream-tried-again", stream, "it is parked no more")

    def _adopt(self, report: Report) -> None:
        """Take over the streams of a worker of an earlier controller; of two that run the same, the newer counts."""
        for stream, epoch in report.epochs.items():
            self._epochs = itertools.count(max(next(self._epochs), epoch + 1))
            if stream not in self._placed or self._placed[stream].epoch < epoch:
                self._placed[stream] = Placement(report.worker, epoch)

    def _rearrange(self, now: float) -> None:
        """Place streams, ask for workers, end those without streams."""
        fleet, workers = self._fleet, self._workers
        starting = workers.starting
        held = self._suspects.held
        streams = [s.name for s in fleet.streams if s.name not in self._leaving and s.name not in held]
        views = [self._view(known) for known in workers.known.values() if known.up]
        plan = make_plan(
            streams, views, self._placed, fleet.workers.streams, len(starting), not self._leaving, fleet.workers.spare
        )
        for stream, worker in plan.withdraw:
            self._placed.pop(stream, None)
            if worker in workers.known and workers.known[worker].up:
                self._leaving[stream] = worker  # it still answers: the stream goes elsewhere once it has let it go
        for stream, worker in plan.place.items():
            if stream not in self._leaving:
                self._place(stream, worker)
        for name in plan.surplus if not self._leaving else ():  # what is leaving may come here
            workers.stop(name, now)
        room = fleet.workers.most - len(workers.known)
        # One that only replaces another is started once those replaced before have given their resources back.
        replacing = self._leaving or any(w.stopping for w in workers.known.values())
        held_up = not workers.may_start(now) or (replacing and not plan.waiting)
        for _ in range(0 if held_up else min(plan.workers, max(0, room))):
            self._start_worker(now)
        for known in starting[plan.workers :] if plan.workers < 0 and not self._leaving else ():
            workers.cancel(known)

    def _view(self, known: Known) -> WorkerView:
        fresh = self._is_fresh(known)
        capacity = self._fleet.workers.streams if fresh else max(known.capacity, self._fleet.workers.streams)
        return WorkerView(known.name, known.node, capacity, fresh and self._health.usable(known.node))

    def _place(self, stream: str, worker: str) -> None:
        self._placed[stream] = Placement(worker, next(self._epochs))

    def _start_worker(self, now: float) -> None:
        fleet, name = self._fleet, self._workers.next_name()
        options = fleet.pipeline_options(name)
        order = WorkerOrder(name, fleet.model.name, options, fleet.recovery.orphan_seconds, self._made)
        avoid = [node.id for node in self._cluster.nodes() if not self._health.usable(node.id)]
        doubtful = self._suspects.doubtful_nodes
        self._workers.start(order, fleet.workers.resources, avoid, doubtful, fleet.workers.streams, now)

    def _ask(self, known: Known, now: float, epochs: dict[str, int], streams: Mapping[str, FleetStream]) -> None:
        """Ask a worker how it is, and tell it its streams and its model where they changed."""
        if known.starting is not None or known.stopping is not None:
            return
        if known.reporting is None and now - known.asked >= self._fleet.recovery.heartbeat:
            known.reporting, known.asked = known.handle.report(known.last_event), now
        if known.lost or known.syncing is not None:
            return
        if epochs != known.told or known.may_take_refused(now):
            orders = [
                StreamOrder(name, streams[name].source, streams[name].policy, epoch)
                for name, epoch in epochs.items()
                if name in streams
            ]
            known.syncing, known.told, known.synced = known.handle.sync(orders), epochs, now
        self._give_model(known, now)

    def status(self) -> dict[str, Any]:
        """Return how the fleet is, as JSON takes it; without credentials."""
        return fleet_status(
            self._fleet,
            self._placed,
            self._workers.known,
            self._cluster.nodes(),
            self._health,
            self._suspects,
            self._workers.failures,
            self._trial,
        )
