"""Epochs: how a reader of messages tells a stream's new worker from its old one.

A worker that is cut off goes on with its streams for a while, since nobody can tell it that they run elsewhere. So
every message carries the epoch of the placement that it comes from; epochs only grow, and of a stream only messages of
the highest epoch seen count.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_EPOCHS = 20  # bits: about a million placements before the generation's second is used up


class Fence:
    """Lets the messages of each stream's newest placement pass."""

    def __init__(self) -> None:
        """Begin with no stream known."""
        self._epochs: dict[str, int] = {}
        self.refused = 0
        """Messages that came from an old worker."""

    def passes(self, message: Mapping[str, Any]) -> bool:
        """Return whether a message counts.

        Args:
            message: of Sluice's own schema, with ``name`` and ``epoch`` as a fleet's messages have them; a message
                without them comes from no fleet and passes.
        """
        name, epoch = message.get("name"), message.get("epoch")
        if not isinstance(name, str) or not isinstance(epoch, int):
            return True
        if epoch < self._epochs.get(name, 0):
            self.refused += 1
            return False
        self._epochs[name] = epoch
        return True


def next_generation(kept: int, now: float) -> int:
    """Return the number of a new controller, higher than those before it.

    Args:
        kept: the number of the last one, 0 if that is not known.
        now: seconds since 1970. They serve where what was kept is lost with the cluster; where it is there, a clock
            that goes wrong does no harm.
    """
    return max(kept + 1, int(now))


def first_epoch(generation: int) -> int:
    """Return the first epoch of a controller; below 2**53, which is what every reader of JSON can tell apart."""
    return generation << _EPOCHS
