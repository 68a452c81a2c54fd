"""What ``sluiceinfer`` counts: batches for ``interval``, frames and calls for ``stats``, repeated warnings.

Plain Python, so that it is tested without GStreamer.
"""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass


class IntervalCounter:
    """Says which batches get inference, as nvinfer does: ``counter++ % (interval + 1) == 0``."""

    def __init__(self) -> None:
        self._count = 0

    def wants(self, interval: int) -> bool:
        """Count one batch; return whether it gets inference when ``interval`` batches are passed over each time."""
        count, self._count = self._count, self._count + 1
        return count % (interval + 1) == 0

    def reset(self) -> None:
        """Let the next batch get inference (at end of stream and at start)."""
        self._count = 0


@dataclass(frozen=True)
class Snapshot:
    """The counters at one moment; see the ``stats`` property."""

    batches: int = 0
    frames: int = 0
    inferred: int = 0
    skipped: int = 0
    errors: int = 0
    objects: int = 0
    cut: int = 0
    model_ms_total: float = 0.0
    model_ms_mean: float = 0.0
    model_ms_max: float = 0.0


class Stats:
    """Counters written by the element's threads and read by whoever asks for ``stats``."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._batches = self._frames = self._inferred = self._skipped = self._errors = self._objects = self._cut = 0
        self._calls = 0
        self._seconds = self._longest = 0.0

    def count_batch(
        self, frames: int, *, inferred: int = 0, skipped: int = 0, errors: int = 0, objects: int = 0, cut: int = 0
    ) -> None:
        """Count a batch that leaves, and how many of its frames the model saw, interval passed or an error hit.

        `objects` were attached, and `cut` is the number of detections that were too many to be.
        """
        with self._lock:
            self._batches += 1
            self._frames += frames
            self._inferred += inferred
            self._skipped += skipped
            self._errors += errors
            self._objects += objects
            self._cut += cut

    def count_call(self, seconds: float) -> None:
        """Count one call of the model that took so long."""
        with self._lock:
            self._calls += 1
            self._seconds += seconds
            self._longest = max(self._longest, seconds)

    def snapshot(self) -> Snapshot:
        """Return all counters as they were at one moment."""
        with self._lock:
            mean = self._seconds / self._calls if self._calls else 0.0
            return Snapshot(
                batches=self._batches,
                frames=self._frames,
                inferred=self._inferred,
                skipped=self._skipped,
                errors=self._errors,
                objects=self._objects,
                cut=self._cut,
                model_ms_total=self._seconds * 1e3,
                model_ms_mean=mean * 1e3,
                model_ms_max=self._longest * 1e3,
            )


class RateLimit:
    """Lets one event through per period and counts those it held back.

    Args:
        period: seconds between two events that pass.
        clock: returns seconds, monotonic.
    """

    def __init__(self, period: float = 5.0, clock: Callable[[], float] = time.monotonic) -> None:
        self._period = period
        self._clock = clock
        self._next = float("-inf")
        self._held_back = 0

    def passes(self) -> int | None:
        """Return how many events were held back since the last that passed, or None if this one is held back too."""
        now = self._clock()
        if now < self._next:
            self._held_back += 1
            return None
        self._next = now + self._period
        held_back, self._held_back = self._held_back, 0
        return held_back
