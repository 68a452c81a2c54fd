"""What the controller needs of a cluster. Ray's form is in `ray_cluster`; tests have one without processes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from sluice.app.fleet.orders import StreamOrder, WorkerOrder
from sluice.app.fleet.schema import Resources


@dataclass(frozen=True)
class NodeView:
    """A node of the cluster: its id, the name or address people know it by, and whether it's there."""

    id: str
    name: str
    alive: bool


class Call(Protocol):
    """A question to a worker that is on its way."""

    def done(self) -> bool:
        """Whether it was answered, or has failed."""

    def result(self) -> object:
        """Return the answer; raises what the worker raised, or `WorkerLostError`."""


class WorkerLostError(Exception):
    """The worker's process or node has gone."""


class Handle(Protocol):
    """A worker as the cluster knows it. Nothing here waits."""

    def started(self) -> Call:
        """Ask whether it has loaded its model; the answer is the id of its node."""

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

    def start_worker(self, order: WorkerOrder, resources: Resources, avoid: Sequence[str]) -> Handle:
        """Begin to start a worker on any node with room but those to be avoided."""

    def find_workers(self) -> dict[str, Handle]:
        """Return the workers that run, by name: those of a controller that was lost."""
