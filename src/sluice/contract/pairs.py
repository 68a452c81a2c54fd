"""Pairs of boxes: which overlap, and which are part of every best assignment; done in C, see native/pairs.c.

Boxes are x1, y1, x2, y2, float64 ``[N, 4]``; numbers of rows, columns and pairs are int64.
"""

import ctypes
import functools
from typing import Any

import numpy as np
import numpy.typing as npt

from sluice.contract._native import library
from sluice.contract._rows import pointer

Boxes = npt.NDArray[np.float64]
Numbers = npt.NDArray[np.int64]
Groups = npt.NDArray[np.int32]
Shares = npt.NDArray[np.float32]

_SHORT = 1 << 14
"""Pairs that are looked at in well under the interpreter's switch interval: those calls keep the GIL."""
_USUAL = 4
"""Boxes that a box overlaps, for which there is room at first."""


@functools.cache
def _function(name: str, short: bool) -> Any:
    function = getattr(ctypes.PyDLL(library()._name) if short else library(), f"sluice_{name}")
    pointers, number = ctypes.c_void_p, ctypes.c_int64
    function.restype = number
    function.argtypes = {
        "overlapping": [pointers] * 4 + [number] + [pointers] * 2,
        "overlaps": [*[pointers, pointers, number] * 2, number, *[pointers] * 3, number],
        "connected_components": [*[pointers] * 2, *[number] * 2, pointers],
        "settle": [pointers] * 3 + [number] * 4 + [pointers] * 3,
    }[name]
    return function


def overlapping(a: Boxes, b: Boxes, rows: Numbers, columns: Numbers) -> tuple[Numbers, Shares]:
    """Return which pairs of boxes overlap, by their places, and the intersection over union of those.

    Args:
        a: boxes.
        b: boxes.
        rows: of each pair, which of a, [P].
        columns: of each pair, which of b, [P].
    """
    a, b, rows, columns = _plain(a, b, np.float64) + _plain(rows, columns, np.int64)
    places, values = np.empty(len(rows), np.int64), np.empty(len(rows), np.float32)
    call = _function("overlapping", len(rows) <= _SHORT)
    count = call(*map(pointer, (a, b, rows, columns)), len(rows), pointer(places), pointer(values))
    return places[:count], values[:count]


def overlaps_in_groups(a: Boxes, a_groups: Groups, b: Boxes, b_groups: Groups) -> tuple[Numbers, Numbers, Shares]:
    """Return row, column and intersection over union of the pairs of the same group that overlap, in the order of a.

    Args:
        a: boxes.
        a_groups: the group of each, int32 [A], from 0.
        b: boxes.
        b_groups: int32 [B].
    """
    a, b = _plain(a, b, np.float64)
    a_groups, b_groups = _plain(a_groups, b_groups, np.int32)
    groups = 1 + int(max(a_groups.max(initial=-1), b_groups.max(initial=-1)))
    call = _function("overlaps", len(a) * len(b) <= _SHORT * groups)
    room = _USUAL * max(len(a), len(b))
    while True:
        rows, columns, values = np.empty(room, np.int64), np.empty(room, np.int64), np.empty(room, np.float32)
        found = call(
            pointer(a), pointer(a_groups), len(a), pointer(b), pointer(b_groups), len(b), groups,
            pointer(rows), pointer(columns), pointer(values), room,
        )  # fmt: skip
        if found <= room:
            return rows[:found], columns[:found], values[:found]
        room = found


def settle(
    rows: Numbers, columns: Numbers, values: npt.NDArray[np.float64], shape: tuple[int, int], rounds: int
) -> tuple[Numbers, Numbers]:
    """Take the pairs that are worth more than the best others of their row and of their column together.

    Args:
        rows: the row of each pair, [P], below the first of `shape`.
        columns: the column of each, below the second.
        values: what each is worth; without a pair, a row is worth 0.
        shape: how many rows and columns there are.
        rounds: how many times at most that is done with the pairs that are left.

    Returns:
        Which pairs were taken, round by round, and which are still open; the others have a row or column that is taken.
    """
    count = len(rows)
    rows, columns = _plain(rows, columns, np.int64)
    values = np.ascontiguousarray(values, np.float64)
    taken, left, n_left = np.empty(count, np.int64), np.empty(count, np.int64), ctypes.c_int64()
    found = _function("settle", count + sum(shape) <= _SHORT)(
        pointer(rows), pointer(columns), pointer(values), count, *shape, rounds,
        pointer(taken), pointer(left), ctypes.byref(n_left),
    )  # fmt: skip
    return taken[:found], left[: n_left.value]


def connected_components(a: Numbers, b: Numbers, size: int) -> tuple[int, Numbers]:
    """Find the parts of a graph that hang together.

    Args:
        a, b: the two nodes of each edge.
        size: how many nodes there are.

    Returns:
        how many parts there are, and the number of each node's part, in the order of the parts' first nodes.
    """
    a, b = _plain(a, b, np.int64)
    parts = np.empty(size, np.int64)
    call = _function("connected_components", len(a) + size <= _SHORT)
    return call(pointer(a), pointer(b), len(a), size, pointer(parts)), parts


def _plain(first: npt.NDArray[Any], second: npt.NDArray[Any], dtype: Any) -> tuple[Any, Any]:
    """Return two arrays as C reads them."""
    return np.ascontiguousarray(first, dtype), np.ascontiguousarray(second, dtype)
