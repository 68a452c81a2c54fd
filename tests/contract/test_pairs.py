"""Pairs of boxes in C: what overlaps, and which pairs every best assignment has."""

import itertools
import math

import numpy as np
import pytest

from sluice.contract.pairs import overlapping, overlaps_in_groups, settle

NOTHING = np.empty((0, 4))


def boxes(random, count, side=60):
    corner = random.uniform(0, 100, (count, 2))
    return np.concatenate([corner, corner + random.uniform(1, side, (count, 2))], axis=1)


def share(a, b):
    """Intersection over union in double precision, then rounded once; None without any."""
    width, height = min(a[2], b[2]) - max(a[0], b[0]), min(a[3], b[3]) - max(a[1], b[1])
    if width <= 0 or height <= 0:
        return None
    areas = [(box[2] - box[0]) * (box[3] - box[1]) for box in (a, b)]
    return np.float32(width * height / (areas[0] + areas[1] - width * height))


@pytest.mark.parametrize("side", [60, 4000])  # of the larger ones each overlaps each: more than there is room for
def test_overlaps_are_those_of_the_same_group_in_order(side):
    random = np.random.default_rng(0)
    a, b = boxes(random, 70, side), boxes(random, 90, side)
    a_groups, b_groups = (random.integers(0, 4, len(some)).astype(np.int32) for some in (a, b))
    a_groups[a_groups == 2] = 7  # there are groups of which only one side has any
    wanted = [
        (i, j, share(a[i], b[j]))
        for i, j in itertools.product(range(len(a)), range(len(b)))
        if a_groups[i] == b_groups[j] and share(a[i], b[j]) is not None
    ]
    found = overlaps_in_groups(a, a_groups, b, b_groups)
    assert list(zip(*(part.tolist() for part in found), strict=True)) == [(i, j, float(v)) for i, j, v in wanted]
    assert len(wanted) > 100


def test_overlaps_of_pairs_that_are_named():
    a, b = np.array([[0, 0, 10, 10], [20, 20, 30, 30]], float), np.array([[5, 5, 15, 15], [10, 0, 20, 10]], float)
    places, values = overlapping(a, b, np.array([0, 0, 1, 0]), np.array([1, 0, 0, 0]))
    assert places.tolist() == [1, 3], "boxes that touch do not overlap"
    assert values.tolist() == [np.float32(25 / 175)] * 2


def test_boxes_of_records_are_read_where_they_lie():
    records = np.zeros(2, [("number", np.int32), ("box", np.float64, 4)])
    records["box"] = [[0, 0, 10, 10], [5, 5, 15, 15]]
    same = np.arange(2)
    assert overlapping(records["box"], records["box"], same, same[::-1])[0].tolist() == [0, 1]


@pytest.mark.parametrize("place", range(4))
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_is_no_number_overlaps_nothing_it_should_not(place, value):
    box, other = np.array([[0, 0, 10, 10.0]]), np.array([[0, 0, 10, 10.0]])
    box[0, place] = value
    for a, b in ((box, other), (other, box)):
        places, values = overlapping(a, b, np.array([0]), np.array([0]))
        if math.isnan(value):
            assert not len(places)
        assert not (values > 0).any()


def test_nothing_overlaps_nothing():
    some, none, groups = np.array([[0, 0, 1, 1.0]]), np.empty(0, np.int64), np.zeros(1, np.int32)
    assert [len(part) for part in overlapping(NOTHING, some, none, none)] == [0, 0]
    for a, a_groups, b, b_groups in (
        (NOTHING, groups[:0], some, groups),
        (some, groups, NOTHING, groups[:0]),
        (NOTHING, groups[:0], NOTHING, groups[:0]),
    ):
        assert [len(part) for part in overlaps_in_groups(a, a_groups, b, b_groups)] == [0, 0, 0]
    assert [len(part) for part in settle(none, none, np.empty(0), (3, 0), 4)] == [0, 0]


def reference(rows, columns, values, rounds):
    """What `settle` does, pair by pair."""
    taken, left = [], list(range(len(rows)))
    for _ in range(rounds):

        def others(i, keys, left=left):
            return max((values[j] for j in left if j != i and keys[j] == keys[i]), default=0)

        sure = [
            i
            for i in left
            if values[i] >= max(others(i, rows), others(i, columns))
            and values[i] > others(i, rows) + others(i, columns)
        ]
        if not sure:
            break
        taken += sure
        gone = {rows[i] for i in sure}, {columns[i] for i in sure}
        left = [i for i in left if rows[i] not in gone[0] and columns[i] not in gone[1]]
    return taken, left


@pytest.mark.parametrize("rounds", [1, 4])
@pytest.mark.parametrize("seed", range(20))
def test_settled_are_the_pairs_worth_more_than_the_best_others_together(seed, rounds):
    random = np.random.default_rng(seed)
    rows, columns = np.nonzero(random.random((12, 15)) < 0.2)
    values = random.integers(1, 9, len(rows)) / 8  # some are equal
    taken, left = settle(rows, columns, values, (12, 15), rounds)
    assert (taken.tolist(), left.tolist()) == reference(rows.tolist(), columns.tolist(), values.tolist(), rounds)


def test_of_two_pairs_of_the_same_worth_none_is_sure():
    taken, left = settle(np.array([0, 0, 1]), np.array([0, 1, 2]), np.array([0.5, 0.5, 0.1]), (2, 3), 4)
    assert (taken.tolist(), left.tolist()) == ([2], [0, 1])
