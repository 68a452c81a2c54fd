"""What the controller needs of a cluster. Ray's form is in `ray_cluster`; tests have one without processes."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Protocol

from sluice.app.fleet.orders import StreamOrder, WorkerOrder
from sluice.app.fleet.schema import Resources


@dataclass(frozen=True)
class NodeView:
    """A node of the cluster.

    Attributes:
        id: its own, never used again for another.
        name: the name or address that people know it by.
        alive: whether it's there.
        has_cores: whether it offers processor cores to workers; a head often does not.
    """

    id: str
    name: str
    alive: bool
    has_cores: bool = True


class Call(Protocol):
    """A question to a worker that is on its way."""

    def done(self) -> bool:
        """Whether it was answered, or has failed."""

    def result(self) -> object:
        """Return the answer; raises what the worker raised, or `WorkerLostError`."""


class WorkerLostError(Exception):
    """The worker's process or node has gone."""


class WorkerStartError(Exception):
    """The worker could not load what it needs.

    Attributes:
        node: id of the node where.
    """

    def __init__(self, reason: str, node: str) -> None:
        """Both are the arguments of the exception, so that it crosses processes."""
        super().__init__(reason, node)
        self.node = node

    def __str__(self) -> str:
        return str(self.args[0])


class Handle(Protocol):
    """A worker as the cluster knows it. Nothing here waits."""

    def started(self) -> Call:
        """Ask whether it has loaded its model; the answer is the id of its node, or `WorkerStartError`."""

    def sync(self, orders: Sequence[StreamOrder]) -> Call:
        """Have it run exactly these streams."""

    def report(self, since: int) -> Call:
        """Ask for a `Report`."""

    def swap_model(self, model: str) -> Call:
        """Have it change its model."""

    def stop(self) -> Call:
        """Have it end its streams."""

    def kill(self) -> None:
        """End its process, whatever it does."""


class Cluster(Protocol):
    """Where workers run."""

    def nodes(self) -> Sequence[NodeView]:
        """All nodes that were ever there."""

    def start_worker(
        self, order: WorkerOrder, resources: Resources, avoid: Collection[str], rather_not: Collection[str] = ()
    ) -> Handle:
        """Begin to start a worker on any node with room.

        Args:
            order: how it is made.
            resources: what it needs.
            avoid: ids of nodes that it must not be on.
            rather_not: ids of nodes that it is only put on where no other has room.
        """

    def find_workers(self) -> dict[str, Handle]:
        """Return the workers that run, by name: those of a controller that was lost."""
