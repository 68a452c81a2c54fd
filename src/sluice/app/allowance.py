"""How much one thing may say: some at once, then now and then; of what it may not, the newest is kept and counted."""

from __future__ import annotations

from typing import Generic, TypeVar

BURST = 6
"""Times that one thing may speak at once, and"""
REFILL = 120.0
"""seconds after which it may once more: what comes and goes all day shall not fill the disk."""
Said = TypeVar("Said")


class Allowance(Generic[Said]):
    """What one thing may say.

    Attributes:
        left_out: how much was neither said nor kept since it last spoke.
    """

    def __init__(self, now: float) -> None:
        """Allow the first burst; `now` in seconds of any clock that only goes forward."""
        self.left_out = 0
        self._held: Said | None = None
        self._left = float(BURST)
        self._counted = now

    def say(self, what: Said, now: float) -> bool:
        """Return whether it may be said now; else it is kept, in place of what was."""
        if self._held is None and self._take(now):
            return True
        self.left_out += self._held is not None
        self._held = what
        return False

    def due(self, now: float) -> tuple[Said, int] | None:
        """Return what was kept and may be said now, with how much before it was not, and forget it; None: nothing."""
        if self._held is None or not self._take(now):
            return None
        due = self._held, self.left_out
        self._held, self.left_out = None, 0
        return due

    def is_idle(self, now: float) -> bool:
        """Whether a new one would be the same."""
        return self._held is None and self._refilled(now) >= BURST

    def _refilled(self, now: float) -> float:
        return min(float(BURST), self._left + (now - self._counted) / REFILL)

    def _take(self, now: float) -> bool:
        self._left, self._counted = self._refilled(now), now
        allowed = self._left >= 1
        self._left -= allowed
        return allowed
