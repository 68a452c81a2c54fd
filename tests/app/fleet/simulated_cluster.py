"""A cluster without processes: nodes and workers that can be killed, cut off and brought back, on its own clock."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from sluice.app.fleet.cluster import NodeView, WorkerLostError, WorkerStartError
from sluice.app.fleet.orders import Report, StreamOrder, WorkerOrder
from sluice.app.fleet.rollout import ModelCounts
from sluice.app.fleet.schema import Resources
from sluice.app.model_control import BusyModel
from sluice.app.streams.states import StreamState, StreamStatus
from sluice.errors import SluiceError


class Answer:
    """A call that is answered when the worker can be reached."""

    def __init__(self, worker: Simulated, work: Callable[[], object], hangs: bool = False) -> None:
        self._worker, self._work, self._hangs = worker, work, hangs
        self._done: object = None
        self._failure: SluiceError | None = None
        self._ended = False

    def done(self) -> bool:
        return self._worker.dead or not (self._worker.cut_off or self._hangs)

    def result(self) -> object:
        if self._worker.dead:
            raise WorkerLostError(f"{self._worker.name} has died")
        if not self._ended:
            self._ended = True
            try:
                self._done = self._work()
            except SluiceError as error:
                self._failure = error
        if self._failure is not None:
            raise self._failure
        return self._done


@dataclass
class Simulated:
    """A worker."""

    name: str
    node: str
    model: str
    clock: Callable[[], float]
    bad_models: set[str]
    made: str
    dead: bool = False
    cut_off: bool = False
    streams: dict[str, StreamOrder] = field(default_factory=dict)
    refusal: str = ""
    refused: int = 0
    begun: float = 0.0
    hangs_from: float | None = None
    fatal: set[str] = field(default_factory=set)
    broken_nodes: set[str] = field(default_factory=set)
    hangs_in: str = ""
    loads_until: float = 0.0
    orders: int = 0  # to change the model
    refuses: set[str] = field(default_factory=set)  # streams
    has_started: bool = False

    def started(self) -> Answer:
        def start() -> str:
            if self.node in self.broken_nodes:
                raise WorkerStartError("there is no file old.onnx", self.node)
            self.has_started = True
            return self.node

        return Answer(self, start)

    def sync(self, orders: Sequence[StreamOrder]) -> Answer:
        def take() -> dict[str, str]:
            self.streams = {order.name: order for order in orders if order.name not in self.refuses}
            return {order.name: "it is there already" for order in orders if order.name in self.refuses}

        return Answer(self, take, self.hangs_in == "sync")

    def report(self, since: int) -> Answer:
        return Answer(self, self._report)

    def die_of_fatal_streams(self) -> None:
        self.dead = self.dead or not self.fatal.isdisjoint(self.streams)

    def _report(self) -> Report:
        frames = int((self.clock() - self.begun) * 10)
        errors = frames if self.model in self.bad_models and "raises" in self.model else 0
        counts = ModelCounts(self.model, frames - errors, errors, frames * 5.0, frames, self.refusal, self.refused)
        epochs = {name: order.epoch for name, order in self.streams.items()}
        moved = self.clock() if self.hangs_from is None else min(self.hangs_from, self.clock())
        streams = tuple(
            StreamStatus(name, i, "test:", True, StreamState.PLAYING, 0.0, "", int(moved * 10), int(moved * 10), 10.0)
            for i, name in enumerate(epochs)
        )
        return Report(self.name, self.node, 1, epochs, streams, counts, made=self.made)

    def swap_model(self, model: str) -> Answer:
        def change() -> None:
            self.orders += 1
            if self.clock() < self.loads_until:
                raise BusyModel("another model is being loaded")
            if "missing" in model:
                self.refusal, self.refused = f"there is no file {model}", self.refused + 1
            else:
                self.model, self.begun = model, self.clock()

        answer = Answer(self, change)
        if answer.done():
            with suppress(BusyModel):
                answer.result()
        return answer

    def stop(self) -> Answer:
        if self.hangs_in != "stop":
            self.streams = {}
        return Answer(self, lambda: None, self.hangs_in == "stop")

    def kill(self) -> None:
        self.dead = True


class Cluster:
    """Nodes with room for some workers each."""

    def __init__(self, nodes: int = 3, room: int = 4) -> None:
        self.now = 0.0
        self.room = room
        self.alive = {f"n{i}": True for i in range(nodes)}
        self.workers: list[Simulated] = []
        self.bad_models: set[str] = set()
        self.broken_nodes: set[str] = set()  # where no worker can start
        self.fatal: set[str] = set()  # streams that end the process of their worker
        self.generation = 0
        self.drained: frozenset[str] = frozenset()

    def clock(self) -> float:
        return self.now

    def nodes(self) -> list[NodeView]:
        return [NodeView(name, name, alive) for name, alive in self.alive.items()]

    def start_worker(
        self, order: WorkerOrder, resources: Resources, avoid: Collection[str], rather_not: Collection[str] = ()
    ) -> Simulated:
        loads = Counter(worker.node for worker in self.workers if not worker.dead)
        free = [name for name, alive in self.alive.items() if alive and name not in avoid and loads[name] < self.room]
        node = min(free, key=lambda name: (name in rather_not, loads[name])) if free else ""
        worker = Simulated(
            order.name, node, order.model, self.clock, self.bad_models, order.made, begun=self.now, cut_off=not free
        )
        worker.fatal, worker.broken_nodes = self.fatal, self.broken_nodes
        self.workers.append(worker)
        return worker

    def find_workers(self) -> dict[str, Simulated]:
        return {worker.name: worker for worker in self.workers if not worker.dead}

    # What tests do

    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        for worker in self.workers:
            worker.die_of_fatal_streams()

    def kill_node(self, name: str) -> None:
        self.alive[name] = False
        for worker in self.workers:
            worker.dead = worker.dead or worker.node == name

    def running(self) -> dict[str, list[tuple[int, Simulated]]]:
        """By stream, who runs it, with which epoch; also workers that are cut off."""
        found: dict[str, list[tuple[int, Simulated]]] = {}
        for worker in self.workers:
            for name, order in worker.streams.items() if not worker.dead else ():
                found.setdefault(name, []).append((order.epoch, worker))
        return found
