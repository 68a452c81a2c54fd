"""Which worker each stream belongs on. Nothing here does anything: the controller carries plans out."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class WorkerView:
    """A worker as the controller sees it.

    Attributes:
        name: the worker's own, never used again for another.
        node: the node it runs on; "" before that is known.
        capacity: most streams it takes.
        usable: whether streams may be placed on it and stay there; False for one that is lost, or on a node that is
            being drained or is quarantined.
    """

    name: str
    node: str
    capacity: int
    usable: bool = True


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
        workers: how many more workers are wanted for the streams that found no room.
        waiting: streams that have no place for now.
        surplus: usable workers that no stream is left for.
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
) -> Plan:
    """Say what is to be changed so that every stream runs once; a stream that has a good place keeps it.

    Args:
        streams: the names of all streams that shall run.
        workers: the workers there are.
        placed: where streams are now.
        capacity: most streams of a worker that is still to be made.
        starting: workers that were asked for and are not there yet.
    """
    wanted = list(dict.fromkeys(streams))
    usable = {worker.name: worker for worker in workers if worker.usable}
    keeps = {stream: placed[stream].worker for stream in wanted if stream in placed and placed[stream].worker in usable}
    loads = dict.fromkeys(usable, 0)
    place: dict[str, str] = {}
    withdraw = [(stream, where.worker) for stream, where in placed.items() if keeps.get(stream) != where.worker]
    for stream, worker in list(keeps.items()):
        if loads[worker] < usable[worker].capacity:
            loads[worker] += 1
        else:  # the worker was declared smaller meanwhile
            del keeps[stream]
            withdraw.append((stream, worker))
    waiting = []
    for stream in wanted:
        if stream in keeps:
            continue
        target = _emptiest(usable, loads)
        if target is None:
            waiting.append(stream)
        else:
            place[stream] = target
            loads[target] += 1
    more = max(0, -(-len(waiting) // capacity) - starting)
    surplus = tuple(name for name, load in loads.items() if not load) if not waiting and not starting else ()
    return Plan(place, tuple(withdraw), more, tuple(waiting), surplus)


def _emptiest(usable: Mapping[str, WorkerView], loads: Mapping[str, int]) -> str | None:
    """The worker with the smallest share of its room taken, that has room left."""
    free = [name for name, load in loads.items() if load < usable[name].capacity]
    return min(free, key=lambda name: (loads[name] / usable[name].capacity, name), default=None)
