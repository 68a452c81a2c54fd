"""Keeping a process small whose sources are opened and closed all day."""

from __future__ import annotations

import ctypes
import functools
import os
import threading
import time
from collections.abc import Callable

_SELDOM = 10.0  # seconds between two times
_M_ARENA_MAX = -8  # of malloc.h
_ARENAS = 2


@functools.cache
def _trim() -> Callable[[int], int] | None:
    """glibc's malloc_trim; None with another C library."""
    return getattr(ctypes.CDLL(None), "malloc_trim", None)


def keep_few_arenas() -> None:
    """Have the threads share a few of glibc's arenas, unless MALLOC_ARENA_MAX says how many.

    Each time a camera is opened, new threads take memory from whichever arena is free. With glibc's own limit, eight
    per core, each of them grows to what a camera needs at most: `bench/soak.py` grew by 70 MB an hour.
    """
    function = getattr(ctypes.CDLL(None), "mallopt", None)
    if function is not None and "MALLOC_ARENA_MAX" not in os.environ:
        function(_M_ARENA_MAX, _ARENAS)


class Trimmer:
    """glibc keeps what was freed for the threads that had it; those of a closed source's decoder are gone.

    Without this a service whose cameras come and go grows for hours, by some hundred megabytes, before it stays.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Measure the time between two trims by a clock of seconds."""
        self._clock = clock
        self._lock = threading.Lock()
        self._next = 0.0

    def trim(self) -> bool:
        """Give back what is free, unless that was done just now; return whether it was done. Takes milliseconds."""
        with self._lock:
            if self._clock() < self._next:
                return False
            self._next = self._clock() + _SELDOM
        function = _trim()
        if function is not None:
            function(0)
        return function is not None
