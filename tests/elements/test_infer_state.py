"""The counters of sluiceinfer."""

import pytest

from sluice.elements.infer_state import IntervalCounter, RateLimit, Snapshot, Stats


@pytest.mark.parametrize(
    ("interval", "expected"),
    [(0, "111111"), (1, "101010"), (2, "100100"), (5, "100000")],
)
def test_interval_counts_batches_as_nvinfer_does(interval, expected):
    counter = IntervalCounter()
    assert "".join(str(int(counter.wants(interval))) for _ in expected) == expected


def test_a_new_interval_takes_effect_on_the_running_count():
    counter = IntervalCounter()
    assert [counter.wants(3) for _ in range(3)] == [True, False, False]
    assert [counter.wants(0) for _ in range(2)] == [True, True]
    counter.reset()
    assert counter.wants(1000)


def test_stats_of_nothing_are_zero():
    assert Stats().snapshot() == Snapshot()


def test_stats_add_up():
    stats = Stats()
    stats.count_batch(4, inferred=3, errors=1, objects=7)
    stats.count_batch(2, skipped=2)
    stats.count_call(0.010)
    stats.count_call(0.030)
    got = stats.snapshot()
    assert (got.batches, got.frames, got.inferred, got.skipped, got.errors, got.objects) == (2, 6, 3, 2, 1, 7)
    assert got.model_ms_mean == pytest.approx(20)
    assert got.model_ms_max == pytest.approx(30)


def test_a_rate_limit_tells_how_many_it_held_back():
    now = 0.0
    limit = RateLimit(5, lambda: now)
    assert limit.passes() == 0
    assert [limit.passes() for _ in range(3)] == [None] * 3
    now = 4.9
    assert limit.passes() is None
    now = 5.0
    assert limit.passes() == 4
    now = 20.0
    assert limit.passes() == 0
