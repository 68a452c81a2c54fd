"""What glibc's malloc is told, and when it gives back what is free.

That decides how much memory many large streams take, and how a process grows whose sources come and go all day.
"""

from __future__ import annotations

import ctypes
import functools
import os
import threading
import time
from collections.abc import Callable

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8  # of malloc.h
PICTURE_BYTES = 1_000_000
"""From this size on a block is given back to the system when it is freed: a frame of 1080p has 3.1 MB, and what an HEVC
decoder notes beside it 1.5 MB."""
_TRIM_BYTES = 16 << 20
_ARENAS = 2
_SELDOM = 10.0  # seconds between two times that memory is given back


@functools.cache
def _of_glibc(name: str) -> Callable[..., int] | None:
    """A function of glibc's; None with another C library."""
    return getattr(ctypes.CDLL(None), name, None)


def keep_pictures_apart() -> bool:
    """Have large frames allocated by themselves; return whether that could be asked for.

    glibc raises the size from which it does so to that of the largest block freed so far, after which frames lie among
    small blocks in the arena of each decoder's thread, whose holes are not given back: 55 MB with four streams. The
    price is that the system clears the memory of each such block anew, 0.13 ms per MB, which a decoder's pool of frames
    pays once. Left alone are other C libraries, and what the environment sets (``MALLOC_MMAP_THRESHOLD_``,
    ``GLIBC_TUNABLES``).
    """
    if "MALLOC_MMAP_THRESHOLD_" in os.environ or "glibc.malloc.mmap_threshold" in os.environ.get("GLIBC_TUNABLES", ""):
        return False
    mallopt = _of_glibc("mallopt")
    if mallopt is None:
        return False
    # Setting one of the two stops glibc from adapting the other, which begins at 128 KB.
    return bool(mallopt(_M_MMAP_THRESHOLD, PICTURE_BYTES)) and bool(mallopt(_M_TRIM_THRESHOLD, _TRIM_BYTES))


def keep_few_arenas() -> None:
    """Have the threads share a few of glibc's arenas, unless MALLOC_ARENA_MAX says how many.

    Each time a camera is opened, new threads take memory from whichever arena is free. With glibc's own limit, eight
    per core, each of them grows to what a camera needs at most: `bench/soak.py` grew by 70 MB an hour.
    """
    mallopt = _of_glibc("mallopt")
    if mallopt is not None and "MALLOC_ARENA_MAX" not in os.environ:
        mallopt(_M_ARENA_MAX, _ARENAS)


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
        function = _of_glibc("malloc_trim")
        if function is not None:
            function(0)
        return function is not None
