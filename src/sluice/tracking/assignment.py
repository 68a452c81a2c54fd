"""Which detection belongs to which track: overlaps and the best assignment, for all streams of a batch at once.

The assignment has the greatest sum of similarities, as that of ``scipy.optimize.linear_sum_assignment`` on each
stream's whole matrix, but is found from the pairs that overlap at all. Most are settled at once: a pair that is
worth more than the best others of its row and of its column together is part of every best assignment (exchange it
for those two, and the sum grows). What is left falls into connected components of a few rows, each given to scipy.
Among several assignments of the same sum, which happen with equal boxes only, another one may be chosen than scipy's.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sluice.contract.pairs import connected_components, overlapping, overlaps_in_groups, settle
from sluice.tracking.solver import linear_sum_assignment, sparse_assignment

Floats = npt.NDArray[np.float64]
Indices = npt.NDArray[np.intp]
Groups = npt.NDArray[np.int32]

# Pairs looked at in one go: bounds the memory in a crowd (about 100 bytes per pair).
_CHUNK = 1 << 18
_FARTHEST = 1e7  # pixels
# Cells of a matrix up to which a dense solver is the faster one.
_LARGEST_MATRIX = 1 << 20
# Beyond this the rest is mostly cycles, which only scipy resolves.
_ROUNDS = 4


@dataclass(frozen=True)
class Pairs:
    """Row, column and similarity (float32, above 0) of each pair, [P]."""

    rows: Indices
    columns: Indices
    values: npt.NDArray[np.float32]

    def keep(self, mask: npt.NDArray[np.bool_]) -> Pairs:
        """Return the pairs of a mask, bool [P]."""
        return Pairs(self.rows[mask], self.columns[mask], self.values[mask])


def same_group(a: Groups, b: Groups) -> Iterator[tuple[Indices, Indices]]:
    """Yield the indices of all pairs of the same group, in pieces of bounded size, in the order of the first.

    Args:
        a: group of each row, from 0.
        b: group of each column.
    """
    order = np.argsort(b, kind="stable")
    groups = 1 + max(a.max(initial=-1), b.max(initial=-1))
    counts = np.bincount(b, minlength=groups)
    begins = np.cumsum(counts) - counts
    for rows, places in _pieces(counts[a]):
        yield rows, order[places + begins[a[rows]]]


def _pieces(partners: Indices) -> Iterator[tuple[Indices, Indices]]:
    """Yield row and number of each of so many partners of each row, in pieces of bounded size."""
    ends = np.cumsum(partners)
    first = 0
    while first < len(partners):
        done = ends[first - 1] if first else 0
        last = max(first + 1, int(np.searchsorted(ends, done + _CHUNK, side="right")))
        number = partners[first:last]
        rows = np.repeat(np.arange(first, last), number)
        yield rows, np.arange(len(rows)) - np.repeat(ends[first:last] - number - done, number)
        first = last


def overlaps(a: Floats, a_groups: Groups, b: Floats, b_groups: Groups) -> Pairs:
    """Return the pairs of boxes of the same group whose intersection over union is above 0, and that value.

    Args:
        a: boxes x1, y1, x2, y2, float64 [A, 4].
        a_groups: int32 [A].
        b: float64 [B, 4].
        b_groups: int32 [B].
    """
    crowd = len(a) * len(b) > _CHUNK and int(np.bincount(b_groups)[a_groups[a_groups <= b_groups.max()]].sum()) > _CHUNK
    if not crowd:
        return Pairs(*overlaps_in_groups(a, a_groups, b, b_groups))
    found = [_overlapping(a, b, rows, columns) for rows, columns in _side_by_side(a, a_groups, b, b_groups)]
    if not found:
        return Pairs(np.empty(0, np.intp), np.empty(0, np.intp), np.empty(0, np.float32))
    rows, columns, values = map(
        np.concatenate, zip(*((part.rows, part.columns, part.values) for part in found), strict=True)
    )
    order = np.lexsort((columns, rows))
    return Pairs(rows[order], columns[order], values[order])


def _side_by_side(a: Floats, a_groups: Groups, b: Floats, b_groups: Groups) -> Iterator[tuple[Indices, Indices]]:
    """Yield what `same_group` does, without most of the pairs of boxes that have no column of pixels in common.

    In a crowd of thousands hardly any pair has one: their places from left to right say so before they are compared.
    """
    lefts, rights = (np.nan_to_num(side.clip(-_FARTHEST, _FARTHEST)) for side in (a[:, 0], a[:, 2]))
    begins = np.nan_to_num(b[:, 0].clip(-_FARTHEST, _FARTHEST))
    widest = np.zeros(1 + max(a_groups.max(initial=0), b_groups.max(initial=0)))
    np.maximum.at(widest, b_groups, np.nan_to_num(b[:, 2].clip(-_FARTHEST, _FARTHEST)) - begins)
    # One behind the other, so that places in different groups are farther apart than anything in one of them.
    keys = begins + b_groups * (8 * _FARTHEST)
    order = np.argsort(keys, kind="stable")
    keys, origin = keys[order], a_groups * (8 * _FARTHEST)
    first = np.searchsorted(keys, lefts - widest[a_groups] + origin - 1.0)
    number = np.maximum(np.searchsorted(keys, rights + origin + 1.0) - first, 0)
    for some, places in _pieces(number):
        yield some, order[places + first[some]]


def _overlapping(a: Floats, b: Floats, rows: Indices, columns: Indices) -> Pairs:
    some, values = overlapping(a, b, rows, columns)
    return Pairs(rows[some], columns[some], values)


def assign(pairs: Pairs, rows: int, columns: int) -> Pairs:
    """Return the pairs of the assignment with the greatest sum; each row and column is in one of them at most.

    Args:
        pairs: those that may be chosen; all others are worth 0.
        rows: how many rows there are.
        columns: how many columns there are.
    """
    values = pairs.values.astype(np.float64)
    taken, left = settle(pairs.rows, pairs.columns, values, (rows, columns), _ROUNDS)
    if len(left):
        taken = np.concatenate(
            [taken, left[_solve(pairs.rows[left], pairs.columns[left], values[left], rows, columns)]]
        )
    return Pairs(pairs.rows[taken], pairs.columns[taken], pairs.values[taken])


def _solve(rows: Indices, columns: Indices, values: Floats, n_rows: int, n_columns: int) -> Indices:
    """Return the pairs of the best assignment, component by component."""
    solve = linear_sum_assignment()
    row_nodes, a = _numbered(rows, n_rows)
    column_nodes, b = _numbered(columns, n_columns)
    size = row_nodes + column_nodes
    number, component = connected_components(a, b + row_nodes, size)
    heights, row_place = _places(component[:row_nodes], number)
    widths, column_place = _places(component[row_nodes:], number)
    large = (heights * widths > _LARGEST_MATRIX)[component[a]]
    if large.any():
        parts = [
            part[solve_part(rows[part], columns[part], values[part], n_rows, n_columns)]
            for part, solve_part in ((np.flatnonzero(large), _solve_sparse), (np.flatnonzero(~large), _solve))
            if len(part)
        ]
        return np.concatenate(parts)
    # The matrices of all components behind one another, each with the pair that a cell stands for.
    begins = np.cumsum(heights * widths) - heights * widths
    of_pair = component[a]
    cells = begins[of_pair] + row_place[a] * widths[of_pair] + column_place[b]
    worth = np.zeros(int((heights * widths).sum()))
    pair = np.full(len(worth), -1, np.intp)
    worth[cells], pair[cells] = values, np.arange(len(values))
    chosen = []
    for first, height, width in zip(begins.tolist(), heights.tolist(), widths.tolist(), strict=True):
        matrix = worth[first : first + height * width].reshape(height, width)
        picked_rows, picked_columns = solve(matrix, maximize=True)
        chosen.append(first + picked_rows * width + picked_columns)
    picked: Indices = pair[np.concatenate(chosen)]
    return picked[picked >= 0]


def _solve_sparse(rows: Indices, columns: Indices, values: Floats, n_rows: int, n_columns: int) -> Indices:
    """Return the pairs of the best assignment, by a solver that knows only the pairs, for a crowd."""
    row_nodes, a = _numbered(rows, n_rows)
    column_nodes, b = _numbered(columns, n_columns)
    # It assigns every row; one that is better left alone gets a column of its own. Nothing is worth 0 to it.
    alone = np.arange(row_nodes)
    picked_rows, picked_columns = sparse_assignment()(
        np.concatenate([values, np.zeros(row_nodes)]) + 1.0,
        (np.concatenate([a, alone]), np.concatenate([b, alone + column_nodes])),
        (row_nodes, column_nodes + row_nodes),
    )
    chosen = picked_columns < column_nodes
    keys = a * column_nodes + b
    order = np.argsort(keys)
    wanted = picked_rows[chosen] * column_nodes + picked_columns[chosen]
    found: Indices = order[np.searchsorted(keys[order], wanted)]
    return found


def _numbered(keys: Indices, count: int) -> tuple[int, Indices]:
    """Return how many keys there are, and each key's number among them."""
    present = np.zeros(count, bool)
    present[keys] = True
    return int(present.sum()), (np.cumsum(present) - 1)[keys]


def _places(groups: Indices, count: int) -> tuple[Indices, Indices]:
    """Return the size of each group, and each member's place in its group."""
    sizes = np.bincount(groups, minlength=count)
    order = np.argsort(groups, kind="stable")
    places = np.empty(len(groups), np.intp)
    places[order] = np.arange(len(groups)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return sizes, places
