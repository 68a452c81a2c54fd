"""Which worker each stream belongs on. Nothing here does anything: the controller carries plans out."""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class WorkerView:
    """A worker as the controller sees it.

    Attributes:
        name: the worker's own, never used again for another.
        node: the node it runs on; "" before that is known.
        capacity: most streams it takes.
        fit: whether it was made as the fleet's file says now, and is on a node that may be used. Streams stay on one
            that is not until there is room for them on one that is.
    """

    name: str
    node: str
    capacity: int
    fit: bool = True


@dataclass(frozen=True)
class Placement:
    """Where a stream runs, and its epoch: of two placements of a stream the one with the higher epoch counts."""

    worker: str
    epoch: int


@dataclass(frozen=True)
class Plan:
    """What is to be changed.

    Attributes:
        place: streams that get a place, by name, and the worker of each.
        withdraw: streams that leave a worker that may still run them.
        workers: how many more workers are wanted; below 0, so many of those that start are not wanted any more.
        waiting: streams that have no place for now.
        surplus: workers that no stream is left for.
    """

    place: Mapping[str, str] = field(default_factory=dict)
    withdraw: tuple[tuple[str, str], ...] = ()
    workers: int = 0
    waiting: tuple[str, ...] = ()
    surplus: tuple[str, ...] = ()


def make_plan(
    streams: Iterable[str],
    workers: Collection[WorkerView],
    placed: Mapping[str, Placement],
    capacity: int,
    starting: int = 0,
    settled: bool = True,
    spare: int = 0,
) -> Plan:
    """Say what is to be changed so that every stream runs once; a stream that has a good place keeps it.

    Args:
        streams: the names of all streams that shall run.
        workers: those that can be reached.
        placed: where streams are now.
        capacity: most streams of a worker that is still to be made.
        starting: workers that were asked for and are not there yet.
        settled: whether no stream is on its way from one worker to another; while one is, no other leaves a worker that
            is not fit, since the room it would go to may be taken.
        spare: workers beyond those that the streams need.
    """
    wanted = dict.fromkeys(streams)
    known = {worker.name: worker for worker in workers}
    loads = dict.fromkeys(known, 0)
    keeps: dict[str, str] = {}
    withdraw = []
    for stream, where in placed.items():
        name = where.worker
        # One that was declared smaller meanwhile gives up what is too much.
        if stream in wanted and name in known and loads[name] < known[name].capacity:
            keeps[stream] = name
            loads[name] += 1
        else:
            withdraw.append((stream, name))
    room = _Room(known.values(), loads)
    place, waiting = {}, []
    for stream in wanted:
        if stream in keeps:
            continue
        target = room.take()
        if target is None:
            waiting.append(stream)
        else:
            place[stream] = target
    moving = _of_one_unfit(keeps, known)
    for stream in moving[: room.free] if settled else ():
        withdraw.append((stream, keeps[stream]))  # it gets its place once it has left the old one
    enough = -(-len(wanted) // capacity) + spare if wanted else 0
    needed = max(-(-(len(waiting) + len(moving[room.free :])) // capacity), enough - len(known))
    surplus = [name for name, load in loads.items() if not load and not known[name].fit]
    if not (waiting or moving or starting):
        empty = [name for name, load in loads.items() if not load and known[name].fit]
        surplus += empty[: max(0, len(known) - len(surplus) - enough)]
    return Plan(place, tuple(withdraw), max(0, needed) - starting, tuple(waiting), tuple(surplus))


class _Room:
    """Gives out places, each on the worker with the smallest share of its room taken."""

    def __init__(self, workers: Iterable[WorkerView], loads: dict[str, int]) -> None:
        self._loads = loads
        self._capacities = {worker.name: worker.capacity for worker in workers if worker.fit}
        self.free = sum(capacity - loads[name] for name, capacity in self._capacities.items())
        self._heap = [(loads[name] / capacity, name) for name, capacity in self._capacities.items()]
        heapq.heapify(self._heap)

    def take(self) -> str | None:
        """Take a place; None where there is none."""
        if not self.free:
            return None
        _, name = self._heap[0]
        self.free -= 1
        self._loads[name] += 1
        heapq.heapreplace(self._heap, (self._loads[name] / self._capacities[name], name))
        return name


def _of_one_unfit(keeps: Mapping[str, str], known: Mapping[str, WorkerView]) -> list[str]:
    """The streams of one worker that is to be replaced: one after the other, so that no second cluster is needed."""
    first = min((name for name in set(keeps.values()) if not known[name].fit), default=None)
    return [stream for stream, name in keeps.items() if name == first]


def by_worker(placed: Mapping[str, Placement]) -> dict[str, dict[str, int]]:
    """Return the epochs of the streams of each worker, by its name and theirs."""
    found: dict[str, dict[str, int]] = {}
    for stream, place in placed.items():
        found.setdefault(place.worker, {})[stream] = place.epoch
    return found
