"""How the C library allocates pictures, which decides how much memory many large streams take."""

from __future__ import annotations

import ctypes
import os

# Of glibc's malloc.h.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
PICTURE_BYTES = 1_000_000
"""From this size on a block is given back to the system when it is freed: a frame of 1080p has 3.1 MB, and what an HEVC
decoder notes beside it 1.5 MB."""
_TRIM_BYTES = 16 << 20


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
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    # Setting one of the two stops glibc from adapting the other, which begins at 128 KB.
    return bool(mallopt(_M_MMAP_THRESHOLD, PICTURE_BYTES)) and bool(mallopt(_M_TRIM_THRESHOLD, _TRIM_BYTES))
