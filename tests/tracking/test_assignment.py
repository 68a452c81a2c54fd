"""The assignment found from overlapping pairs is the best one on each stream's whole matrix."""

import numpy as np
import pytest
import supervision
from scipy.optimize import linear_sum_assignment

from sluice.tracking import assignment
from sluice.tracking.assignment import Pairs, assign, overlaps


def crowd(random, count, spread):
    corner = random.uniform(0, spread, (count, 2))
    return np.concatenate([corner, corner + random.uniform(10, 80, (count, 2))], axis=1)


def streams(random, number, most, spread=200):
    """Return boxes and groups of rows and columns of some streams, mixed up."""
    sides = []
    for _ in range(2):
        counts = random.integers(0, most, number)
        groups = random.permutation(np.repeat(np.arange(number), counts)).astype(np.int32)
        sides.append((crowd(random, len(groups), spread), groups))
    return sides


@pytest.mark.parametrize("seed", range(40))
def test_the_assignment_is_that_of_scipy_on_each_matrix(seed):
    random = np.random.default_rng(seed)
    (a, a_groups), (b, b_groups) = streams(random, 5, 30)
    best = assign(overlaps(a, a_groups, b, b_groups), len(a), len(b))
    expected = set()
    for group in range(5):
        rows, columns = np.flatnonzero(a_groups == group), np.flatnonzero(b_groups == group)
        matrix = supervision.box_iou_batch(a[rows], b[columns])
        for row, column in zip(*linear_sum_assignment(matrix, maximize=True), strict=True):
            if matrix[row, column] > 0:
                expected.add((int(rows[row]), int(columns[column])))
    assert set(zip(best.rows.tolist(), best.columns.tolist(), strict=True)) == expected
    assert len(expected) > 10


def test_overlaps_are_those_of_the_library_and_do_not_depend_on_the_pieces(monkeypatch):
    random = np.random.default_rng(3)
    (a, a_groups), (b, b_groups) = streams(random, 3, 40)
    pairs = overlaps(a, a_groups, b, b_groups)
    matrix = supervision.box_iou_batch(a, b) * (a_groups[:, None] == b_groups)
    assert len(pairs.rows) == np.count_nonzero(matrix)
    assert (matrix[pairs.rows, pairs.columns] == pairs.values).all()
    monkeypatch.setattr(assignment, "_CHUNK", 7)
    pieces = overlaps(a, a_groups, b, b_groups)
    for name in ("rows", "columns", "values"):
        assert (getattr(pieces, name) == getattr(pairs, name)).all()


def test_equal_values_and_rings_are_solved():
    # Three rows and three columns in a ring of equal values: no pair is worth more than its rivals together.
    rows, columns = np.array([0, 0, 1, 1, 2, 2]), np.array([0, 1, 1, 2, 2, 0])
    best = assign(Pairs(rows, columns, np.full(6, 0.5, np.float32)), 3, 3)
    assert sorted(best.rows.tolist()) == sorted(best.columns.tolist()) == [0, 1, 2]


def test_nothing_gives_nothing():
    none, groups = np.empty((0, 4)), np.empty(0, np.int32)
    assert len(assign(overlaps(none, groups, none, groups), 0, 0).rows) == 0
    one = np.array([[0.0, 0.0, 5.0, 5.0]])
    for empty in (one * 0, one + 100):
        assert len(overlaps(one, np.zeros(1, np.int32), empty, np.zeros(1, np.int32)).rows) == 0


def test_a_crowd_of_thousands_in_one_stream_takes_bounded_memory():
    import tracemalloc

    boxes = crowd(np.random.default_rng(0), 4000, 20_000)
    groups = np.zeros(4000, np.int32)
    tracemalloc.start()
    best = assign(overlaps(boxes, groups, boxes, groups), 4000, 4000)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (best.rows == best.columns).all()
    assert len(best.rows) == 4000
    assert peak < 100_000_000, "the whole matrix of 16 million pairs would take several times as much"


def test_a_crowd_has_the_pairs_of_all_its_boxes_in_the_same_order(monkeypatch):
    random = np.random.default_rng(5)
    (a, a_groups), (b, b_groups) = streams(random, 3, 300, spread=2000)
    a[3], b[4], b[5] = [-1e5, 0, 1e5, 900], [-np.inf, 0, np.inf, 900], [np.nan] * 4
    with np.errstate(invalid="ignore"):
        expected = overlaps(a, a_groups, b, b_groups)
        monkeypatch.setattr(assignment, "_CHUNK", 50)
        found = overlaps(a, a_groups, b, b_groups)
    for name in ("rows", "columns", "values"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))
    assert len(found.rows) > 20


@pytest.mark.parametrize("seed", range(5))
def test_the_solver_for_crowds_finds_the_assignment_of_the_dense_one(monkeypatch, seed):
    random = np.random.default_rng(seed)
    (a, a_groups), (b, b_groups) = streams(random, 3, 60)
    pairs = overlaps(a, a_groups, b, b_groups)
    expected = assign(pairs, len(a), len(b))
    monkeypatch.setattr(assignment, "_LARGEST_MATRIX", 20)
    found = assign(pairs, len(a), len(b))
    both = [set(zip(one.rows.tolist(), one.columns.tolist(), strict=True)) for one in (expected, found)]
    assert both[0] == both[1]
    assert len(both[0]) > 10
