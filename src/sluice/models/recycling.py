"""Memory for whole pictures that a program is given: used again once nobody holds an array that lies in it."""

from __future__ import annotations

import math
import weakref
from collections import deque

import numpy as np
import numpy.typing as npt

LARGE = 1_000_000
"""From this size on, in bytes, new memory comes from the system (`sluice.app.allocation`), which clears it first: of a
1080p frame in RGB, 6.2 MB, that takes longer than the conversion."""
MOST = 4
"""Blocks that wait to be used again: a batch of four frames' pictures."""

# No lock: what a block's last array ends may be anything, the collection of garbage inside a lock too.
_free: deque[npt.NDArray[np.uint8]] = deque(maxlen=MOST)


def recycled(shape: tuple[int, ...]) -> npt.NDArray[np.uint8]:
    """uint8 of a shape that holds anything, in memory that was a picture's before where there is some."""
    size = math.prod(shape)
    if size < LARGE:
        return np.empty(shape, np.uint8)
    block = _taken(size)
    # Views of an array name as their base the first that owns its memory, or has it of something else than an array: so
    # that `whole` lives as long as any view of it.
    whole = np.frombuffer(block.data, np.uint8)
    weakref.finalize(whole, _free.append, block).atexit = False
    return whole.reshape(shape)


def _taken(size: int) -> npt.NDArray[np.uint8]:
    for _ in range(MOST):
        try:
            block = _free.popleft()
        except IndexError:
            break
        if block.size == size:
            return block
        _free.append(block)
    return np.empty(size, np.uint8)
