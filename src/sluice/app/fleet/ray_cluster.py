"""Ray as the cluster: a worker is a detached, named actor; Ray places it by the resources that it declares.

Ray is used because it is the engine that such fleets run on already: it starts processes on nodes, restarts what shall
be restarted, and finds actors by name. Questions to Ray's own head are asked by threads of their own, since they wait
for as long as the head is away.
"""

from __future__ import annotations

import contextlib
import logging
import re
import threading
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future
from typing import Any

import ray
from ray.exceptions import ActorUnavailableError, RayActorError, RayTaskError
from ray.util.scheduling_strategies import NodeLabelSchedulingStrategy, NotIn

from sluice.app.fleet.cluster import Handle, NodeView, WorkerLostError, WorkerStartError
from sluice.app.fleet.orders import StreamOrder, WorkerOrder
from sluice.app.fleet.schema import Resources
from sluice.app.fleet.worker import Worker
from sluice.errors import SluiceError

NAMESPACE = "sluice"
_REFRESH = 0.5  # seconds between two looks at the nodes
_NODE_LABEL = "ray.io/node-id"
_AT_ONCE = 4  # calls that a worker works on at once: one may wait for a stream that is slow to close
_log = logging.getLogger(__name__)


class RayWorker(Worker):
    """A worker that knows the node it runs on, and tells of it also where it could not be made."""

    def __init__(self, order: WorkerOrder) -> None:
        """See `Worker`, but for errors: `started` raises them."""
        node = ray.get_runtime_context().get_node_id()
        self._fault: WorkerStartError | None = None
        try:
            super().__init__(order, node)
        except SluiceError as error:
            self._fault = WorkerStartError(str(error), node)
        except Exception as error:
            self._fault = WorkerStartError(f"{type(error).__name__}: {error}", node)

    def started(self) -> str:
        """Return the id of the node; answered once the model was loaded, or could not be."""
        if self._fault is not None:
            raise self._fault
        return self._node


class RayCall:
    """A call of an actor's method."""

    def __init__(self, reference: Any) -> None:
        self._reference = reference

    def done(self) -> bool:
        """Whether it was answered, or has failed."""
        ready, _ = ray.wait([self._reference], timeout=0)
        return bool(ready)

    def result(self) -> object:
        """Return the answer; raises what the worker raised, or `WorkerLostError`."""
        try:
            return ray.get(self._reference)
        except RayTaskError as error:
            raise error.cause if isinstance(error.cause, Exception) else error from None
        except ActorUnavailableError as error:  # it may be back in a moment
            raise SluiceError(_last_line(str(error))) from error
        except RayActorError as error:
            raise WorkerLostError(_last_line(str(error))) from error


class StartCall:
    """The question whether a worker has started; asked as soon as Ray's head knows of the worker."""

    def __init__(self, actor: Future[Any]) -> None:
        self._actor = actor
        self._call: RayCall | None = None

    def done(self) -> bool:
        """Whether it was answered, or has failed."""
        if not self._actor.done():
            return False
        if self._actor.exception() is not None:
            return True
        if self._call is None:
            self._call = RayCall(self._actor.result().started.remote())
        return self._call.done()

    def result(self) -> object:
        """Return the id of its node; raises why it could not start."""
        actor = self._actor.result()
        return (self._call or RayCall(actor.started.remote())).result()


class RayHandle:
    """A worker's actor, which is still to be made at first: that waits for Ray's head."""

    def __init__(self, making: Future[Any]) -> None:
        self._making = making

    @property
    def _actor(self) -> Any:
        return self._making.result()

    def started(self) -> StartCall:
        """Ask whether it has loaded its model; the answer is the id of its node."""
        return StartCall(self._making)

    def sync(self, orders: Sequence[StreamOrder]) -> RayCall:
        """Have it run exactly these streams."""
        return RayCall(self._actor.sync.remote(list(orders)))

    def report(self, since: int) -> RayCall:
        """Ask for a report."""
        return RayCall(self._actor.report.remote(since))

    def swap_model(self, model: str) -> RayCall:
        """Have it change its model."""
        return RayCall(self._actor.swap_model.remote(model))

    def stop(self) -> RayCall:
        """Have it end its streams."""
        return RayCall(self._actor.stop.remote())

    def kill(self) -> None:
        """End its process."""
        in_background(lambda: ray.kill(self._actor))


class RayCluster:
    """The cluster that this process is connected to."""

    def __init__(self, fleet: str) -> None:
        """Look at the cluster for a fleet of that name; its actors' names begin with it."""
        self._own = re.compile(rf"{re.escape(fleet)}-\d+-\d+")  # a fleet's name may begin as another's
        self._nodes: tuple[NodeView, ...] = read_nodes()
        self._over = threading.Event()
        threading.Thread(target=self._refresh, name="sluice-fleet-nodes", daemon=True).start()

    def close(self) -> None:
        """Look no more."""
        self._over.set()

    def nodes(self) -> Sequence[NodeView]:
        """All nodes, as they were a moment ago; while Ray's head is away, as they were then."""
        return self._nodes

    def start_worker(
        self, order: WorkerOrder, resources: Resources, avoid: Collection[str], rather_not: Collection[str] = ()
    ) -> RayHandle:
        """Begin to start a worker; Ray starts it once a node has room. See `Cluster`."""
        strategy: Any = "SPREAD"
        alive = {node.id for node in self._nodes if node.alive}
        never, unwillingly = alive & set(avoid), alive & set(rather_not)
        if never or unwillingly:
            strategy = NodeLabelSchedulingStrategy(_none_of(never), soft=_none_of(unwillingly))
        described = ray.remote(RayWorker).options(
            name=order.name,
            namespace=NAMESPACE,
            lifetime="detached",
            max_restarts=0,
            max_concurrency=_AT_ONCE,
            num_cpus=resources.cpus,
            num_gpus=resources.gpus,
            memory=resources.memory_mb * 2**20 or None,
            resources={"decoder": resources.decoders} if resources.decoders else None,
            scheduling_strategy=strategy,
        )
        making: Future[Any] = Future()

        def make() -> None:
            try:
                making.set_result(described.remote(order))
            except Exception as error:
                making.set_exception(error)

        in_background(make)
        return RayHandle(making)

    def find_workers(self) -> dict[str, Handle]:
        """Return the workers of this fleet that run."""
        found: dict[str, Handle] = {}
        for name in ray.util.list_named_actors():
            if self._own.fullmatch(name):
                with contextlib.suppress(ValueError):  # it ended meanwhile
                    known: Future[Any] = Future()
                    known.set_result(ray.get_actor(name, namespace=NAMESPACE))
                    found[name] = RayHandle(known)
        return found

    def _refresh(self) -> None:
        while not self._over.wait(_REFRESH):
            try:
                self._nodes = read_nodes()
            except Exception as error:
                _log.warning("the cluster's head does not answer: %s", _last_line(str(error)))


def _none_of(nodes: Collection[str]) -> Any:
    """Return the labels of all nodes but these, as Ray takes them."""
    return {_NODE_LABEL: NotIn(*sorted(nodes))} if nodes else {}  # type: ignore[no-untyped-call]


def read_nodes() -> tuple[NodeView, ...]:
    """Ask Ray's head for the nodes; waits for it."""
    return tuple(
        NodeView(
            node["NodeID"],
            node.get("NodeName") or node["NodeManagerAddress"],
            bool(node["Alive"]),
            node["Resources"].get("CPU", 0) > 0,
        )
        for node in ray.nodes()  # type: ignore[no-untyped-call]
    )


def in_background(work: Callable[[], object]) -> None:
    """Do what waits for Ray's head on a thread of its own."""

    def run() -> None:
        try:
            work()
        except Exception as error:
            _log.warning("%s", _last_line(str(error)))

    threading.Thread(target=run, name="sluice-fleet-call", daemon=True).start()


def _last_line(text: str) -> str:
    """The last line, and of it what comes before Ray begins to guess at causes."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1].partition(" Some common causes")[0] if lines else ""
