"""Whether the model keeps up with the streams, and what to do where it does not."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

BUSY = 0.8
"""The share of the time from which on a model that computes is taken to be what holds the streams up."""
WINDOW = 10.0
"""Seconds over which it is looked whether the model keeps up."""
_DROPPED = 0.02  # of the frames; a few are dropped at every start
_HELPS = "a smaller model, an interval, a lower rate of the streams or more processes help"


def advice(busy: float, dropped: float, *, held_back: bool = False) -> str:
    """Return one line that says that the model is too slow and what helps; "" where it isn't.

    Frames that a rate leaves out are no reason for one; nor are files that are read as fast as the model takes them.

    Args:
        busy: seconds that the model computed in each second.
        dropped: share of the frames that gave way to newer ones in front of the model, 0 to 1.
        held_back: whether frames of a live stream wait in a queue that is never empty.
    """
    if busy < BUSY or not (dropped > _DROPPED or held_back):
        return ""
    if dropped > _DROPPED:
        what, helps = f"{dropped:.0%} of the frames are dropped", _HELPS
    else:
        what, helps = "frames wait for it", f"delivery=freshest keeps them young by dropping, {_HELPS}"
    return f"the model is too slow for the streams: it is busy {min(busy, 1):.0%} of the time and {what}; {helps}"


@dataclass(frozen=True)
class Pace:
    """What was counted up to one moment; two of them tell whether the model kept up in between.

    Attributes:
        at: the moment, in seconds of a clock that only goes forward.
        busy: seconds that the model has computed.
        frames: of each stream by its name, the frames that came and those of them that gave way to newer ones.
        crowded: the live streams of which more than one frame waits in front of the model.
    """

    at: float
    busy: float
    frames: Mapping[str, tuple[float, float]]
    crowded: AbstractSet[str]

    def advice_since(self, before: Pace) -> str:
        """Return what `advice` says of the time since an earlier moment."""
        seconds = self.at - before.at
        if seconds <= 0:
            return ""
        grown = [(now, before.frames.get(name, (0.0, 0.0))) for name, now in self.frames.items()]
        came, overtaken = (sum(max(0.0, now[i] - then[i]) for now, then in grown) for i in (0, 1))
        dropped = overtaken / came if came else 0.0
        return advice((self.busy - before.busy) / seconds, dropped, held_back=bool(self.crowded & before.crowded))
