"""Which nodes may be used: one that fails again and again is left alone for a while."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field


@dataclass(frozen=True)
class FlappingRule:
    """When a node counts as flapping.

    Attributes:
        losses: so many losses of the node or of a worker on it ...
        within: ... in so many seconds ...
        quarantine: ... and no stream is placed there for so many seconds.
    """

    losses: Annotated[int, Field(ge=1)] = 3
    within: Annotated[float, Field(gt=0)] = 120.0
    quarantine: Annotated[float, Field(ge=0)] = 300.0


class NodeHealth:
    """Losses per node, and what follows from them.

    Attributes:
        rule: the one that is in force; may be set at any time.
    """

    def __init__(self, rule: FlappingRule, clock: Callable[[], float]) -> None:
        """Begin with nodes that never failed; `clock` gives seconds that only grow."""
        self.rule = rule
        self._clock = clock
        self._losses: dict[str, deque[float]] = {}
        self._until: dict[str, float] = {}
        self._drained: set[str] = set()

    def lost(self, node: str) -> bool:
        """Note a loss; return whether the node is quarantined by it."""
        now = self._clock()
        losses = self._losses.setdefault(node, deque())
        losses.append(now)
        while now - losses[0] > self.rule.within:
            losses.popleft()
        if len(losses) < self.rule.losses:
            return False
        losses.clear()
        self._until[node] = now + self.rule.quarantine
        return True

    def drain(self, node: str, drained: bool = True) -> None:
        """Use a node no more, until it is undrained."""
        (self._drained.add if drained else self._drained.discard)(node)

    def usable(self, node: str) -> bool:
        """Whether streams may be on a node."""
        return node not in self._drained and self.quarantined(node) <= 0

    def quarantined(self, node: str) -> float:
        """Return for how many seconds more a node is quarantined; 0 where it is not."""
        return max(0.0, self._until.get(node, 0.0) - self._clock())

    @property
    def drained(self) -> frozenset[str]:
        """The nodes that are drained."""
        return frozenset(self._drained)
