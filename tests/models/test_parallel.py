"""Calls made at once by several threads."""

import threading
import time

import pytest

from sluice.models.parallel import Workers


def test_items_are_shared_out_and_come_back_in_order():
    both = threading.Barrier(2, timeout=10)

    def call(_number, items):
        both.wait()  # only two calls at the same time get past it
        return [item * 10 for item in items]

    workers = Workers(2)
    assert workers.begin(call, [1, 2, 3]).finish() == [10, 20, 30]
    workers.close(5)


@pytest.mark.parametrize(
    ("items", "step", "calls"),
    [(1, 1, [1]), (4, 1, [2, 2]), (5, 1, [3, 2]), (5, 4, [4, 1]), (9, 4, [8, 1]), (0, 1, [])],
)
def test_calls_are_as_few_as_there_are_threads_and_in_steps_of_a_fixed_batch(items, step, calls):
    seen = []

    def call(_number, part):
        seen.append(len(part))
        return part

    workers = Workers(2, step)
    assert workers.begin(call, range(items)).finish() == list(range(items))
    assert sorted(seen, reverse=True) == calls
    workers.close(5)


def test_the_caller_is_woken_when_all_is_ready_and_not_before():
    gates, woken = [threading.Event(), threading.Event()], threading.Semaphore(0)

    def call(_number, items):
        assert gates[items[0]].wait(10)
        return list(items)

    workers = Workers(2)
    begun = workers.begin(call, [0, 1])
    assert begun.notify(woken.release)
    gates[0].set()
    assert not woken.acquire(timeout=0.2)
    assert not begun.ready()
    gates[1].set()
    assert woken.acquire(timeout=10)
    assert begun.ready()
    assert begun.finish() == [0, 1]
    workers.close(5)


def test_what_a_call_raises_reaches_who_waits_and_the_threads_go_on():
    def call(_number, items):
        if 13 in items:
            raise ValueError("unlucky")
        return list(items)

    workers = Workers(1)
    with pytest.raises(ValueError, match="unlucky"):
        workers.begin(call, [13]).finish()
    assert workers.begin(call, [14]).finish() == [14]
    workers.close(5)


def test_what_a_call_raises_waits_for_the_others_which_still_read_their_items():
    gate, ended = threading.Event(), threading.Event()

    def call(_number, items):
        if items[0] == 13:
            gate.set()
            raise ValueError("unlucky")
        assert gate.wait(10)
        time.sleep(0.05)
        ended.set()
        return list(items)

    workers = Workers(2)
    with pytest.raises(ValueError, match="unlucky"):
        workers.begin(call, [13, 14]).finish()
    assert ended.is_set()
    workers.close(5)


def test_a_call_that_hangs_keeps_nobody_from_closing():
    gate = threading.Event()
    workers = Workers(1)
    workers.begin(lambda _, items: (gate.wait(60), list(items))[1], [1])
    workers.close(0.05)
    gate.set()


def test_the_last_reference_may_go_in_one_of_the_threads():
    workers = Workers(2)
    assert workers.begin(lambda _, items: [workers.end() for _ in items], [1]).finish() == [None]
    end = time.monotonic() + 10
    workers.join(end)
    assert time.monotonic() < end
