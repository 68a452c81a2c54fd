"""Streams that end the process of every worker they come to: found by narrowing down, and parked by name.

A worker that dies says nothing of which of its streams killed it. So all of them are suspected; each further death
clears those that were not on that worker, and once workers have died on two nodes only half of those that are left run
at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Annotated

from pydantic import Field

_MOST_PAUSE = 3600.0  # seconds: the longest a stream is parked before it is tried again


@dataclass(frozen=True)
class PoisonRule:
    """When a stream counts as one that ends its workers.

    Attributes:
        workers: so many workers in a row died with it, on different nodes where there are several.
        steady: a stream that was on a worker for so many seconds did no harm to it.
        pause: so many seconds it is parked; twice as long each further time, up to an hour.
    """

    workers: Annotated[int, Field(ge=2)] = 3
    steady: Annotated[float, Field(gt=0)] = 60.0
    pause: Annotated[float, Field(gt=0)] = 60.0


@dataclass
class _Case:
    """Streams of which one is thought to have ended workers.

    Attributes:
        streams: those that are still suspected.
        nodes: of the workers that died, in order.
        tried: those of them that may run now.
        since: when each was first seen on its present worker.
        until: when the one that is left, and parked, is tried again; None while it is not.
        parked: how often it was parked.
        alone: whether there was no other node that could have been used.
    """

    streams: list[str]
    nodes: list[str]
    tried: list[str] = field(default_factory=list)
    since: dict[str, float] = field(default_factory=dict)
    until: float | None = None
    parked: int = 0
    alone: bool = False

    @property
    def is_theirs(self) -> bool:
        """Whether one of the streams is at fault rather than a node: workers have died on more than one."""
        return len(set(self.nodes)) > 1 or (self.alone and len(self.nodes) > 1)

    def try_some(self) -> None:
        """Let half of them run where one of them is at fault, else all."""
        number = (len(self.streams) + 1) // 2 if self.is_theirs else len(self.streams)
        self.tried = self.streams[:number]

    def clear(self, stream: str) -> None:
        """Suspect a stream no more."""
        self.streams.remove(stream)
        self.since.pop(stream, None)
        if stream in self.tried:
            self.tried.remove(stream)
        if not self.tried:
            self.try_some()


class Suspects:
    """The cases of one fleet.

    Attributes:
        rule: the one that is in force; may be set at any time.
    """

    def __init__(self, rule: PoisonRule, clock: Callable[[], float]) -> None:
        """Begin without a suspicion; `clock` gives seconds that only grow."""
        self.rule = rule
        self._clock = clock
        self._cases: list[_Case] = []

    def worker_died(self, streams: Collection[str], node: str, nodes: int) -> tuple[list[str], bool]:
        """Note that a worker's process ended while its node went on.

        Args:
            streams: what it ran.
            node: where.
            nodes: how many nodes could be used.

        Returns:
            The streams that are parked for it, and whether the node may be at fault: not where workers with the same
            streams have died on another one too, or there is no other.
        """
        cases = [case for case in self._cases if not set(streams).isdisjoint(case.streams)]
        if streams and not cases:
            cases = [_Case(list(streams), [])]
            self._cases += cases
        parked = []
        for case in cases:
            case.streams = [stream for stream in case.streams if stream in streams]
            case.nodes.append(node)
            case.alone = nodes < 2
            case.since.clear()
            case.try_some()
            if len(case.streams) == 1 and case.is_theirs and len(case.nodes) >= self.rule.workers:
                self._park(case)
                parked += case.streams
        return parked, not any(case.is_theirs for case in cases)

    def _park(self, case: _Case) -> None:
        seconds = min(_MOST_PAUSE, self.rule.pause * 2.0**case.parked)
        case.until = self._clock() + seconds
        case.parked += 1

    def node_gone(self, node: str) -> None:
        """Take back what was thought for deaths on a node that has gone itself."""
        for case in self._cases:
            if node in case.nodes and case.until is None:
                case.nodes = [other for other in case.nodes if other != node]
                case.try_some()
        self._cases = [case for case in self._cases if case.nodes]

    def look(self, running: Mapping[str, bool]) -> list[str]:
        """Clear streams that have done no harm for long enough.

        Args:
            running: for each suspected stream whether its worker said that it runs there.

        Returns:
            Those that are parked no more, and are to be tried again.
        """
        now = self._clock()
        released = []
        for case in self._cases:
            for stream in list(case.tried):
                if not running.get(stream):
                    case.since.pop(stream, None)
                elif now - case.since.setdefault(stream, now) >= self.rule.steady:
                    case.clear(stream)
            if case.until is not None and now >= case.until:
                case.until = None
                released += case.streams
        self._cases = [case for case in self._cases if case.streams]
        return released

    def forget(self, streams: Iterable[str]) -> None:
        """Suspect streams no more: they were changed, or are not wanted."""
        for case in self._cases:
            for stream in set(streams) & set(case.streams):
                case.clear(stream)
                case.until = None
        self._cases = [case for case in self._cases if case.streams]

    @property
    def suspected(self) -> set[str]:
        """All that are suspected, whether they run or not."""
        return {stream for case in self._cases for stream in case.streams}

    @property
    def doubtful_nodes(self) -> set[str]:
        """Nodes that may be at fault as well as streams: elsewhere a next worker of these would tell."""
        return {node for case in self._cases if not case.is_theirs for node in case.nodes}

    @property
    def held(self) -> dict[str, str]:
        """Those that must not run now, and why, for people."""
        found: dict[str, str] = {}
        for case in self._cases:
            for stream in case.streams:
                if case.until is not None:
                    found[stream] = (
                        f"the last {len(case.nodes)} workers that ran it died; parked, tried again in "
                        f"{case.until - self._clock():.0f} s, or when it is changed"
                    )
                elif stream not in case.tried:
                    found[stream] = (
                        f"{len(case.nodes)} workers that ran it died; it waits while other streams of theirs are tried"
                    )
        return found

    @property
    def parked(self) -> dict[str, float]:
        """Those that are parked, and for how many seconds more."""
        now = self._clock()
        return {s: max(0.0, case.until - now) for case in self._cases if case.until is not None for s in case.streams}
