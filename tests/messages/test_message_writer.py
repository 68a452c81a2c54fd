"""The queue before a sink: order, both policies when it is full, failures, and the end."""

import errno
import threading

import pytest

from sluice.messages import Overflow, Writer
from waiting import until


class Gate:
    """A sink that waits until it is opened, and can be told to fail."""

    def __init__(self, *, opened=True):
        self.lines = []
        self.opened = threading.Event()
        self.entered = threading.Event()
        self.failing = False
        self.flushed = 0
        self.closed = False
        if opened:
            self.opened.set()

    def write(self, messages):
        self.entered.set()
        self.opened.wait(10)
        if self.failing:
            return [OSError(errno.ENOSPC, "No space left on device") for _ in messages]
        self.lines += messages
        return [None] * len(messages)

    def flush(self):
        self.flushed = len(self.lines)

    def close(self):
        self.closed = True


def writer(sink, capacity=100, overflow=Overflow.WAIT, errors=None):
    return Writer(sink, capacity=capacity, overflow=overflow, on_error=(errors if errors is not None else []).append)


def written(made):
    done = threading.Event()
    made.when_written(done.set)
    assert done.wait(10)


def test_messages_are_written_in_order_and_flushed_before_the_end_is_told():
    sink = Gate()
    made = writer(sink)
    lines = [b"%d" % n for n in range(1000)]
    for line in lines:
        made.put(line)
    written(made)
    assert sink.lines == lines
    assert sink.flushed == 1000
    assert (made.counters.queued, made.counters.written, made.counters.dropped) == (1000, 1000, 0)


def test_more_messages_at_once_than_there_is_room_for_wait_for_the_thread():
    sink = Gate()
    made = writer(sink, capacity=3)
    lines = [b"%d" % n for n in range(100)]
    made.put(*lines)
    written(made)
    assert sink.lines == lines
    assert (made.counters.queued, made.counters.written, made.counters.dropped) == (100, 100, 0)


def test_of_more_messages_at_once_than_there_is_room_for_the_oldest_are_dropped():
    sink = Gate(opened=False)
    made = writer(sink, capacity=3, overflow=Overflow.DROP_OLDEST)
    made.put(b"first")
    assert sink.entered.wait(10)
    made.put(*[b"%d" % n for n in range(10)])
    sink.opened.set()
    written(made)
    assert sink.lines == [b"first", b"7", b"8", b"9"]
    assert (made.counters.queued, made.counters.dropped) == (11, 7)


def test_closing_writes_what_waits():
    sink = Gate()
    made = writer(sink)
    for n in range(50):
        made.put(b"%d" % n)
    assert made.close(10) is True
    assert len(sink.lines) == sink.flushed == 50
    assert sink.closed


def test_a_full_queue_drops_the_oldest_and_counts_them():
    sink = Gate(opened=False)
    made = writer(sink, capacity=3, overflow=Overflow.DROP_OLDEST)
    made.put(b"first")
    assert sink.entered.wait(10)
    for n in range(10):
        made.put(b"%d" % n)
    assert made.counters.dropped == 7
    sink.opened.set()
    written(made)
    assert sink.lines == [b"first", b"7", b"8", b"9"]
    counters = made.counters
    assert counters.queued == counters.written + counters.dropped == 11


def test_a_full_queue_drops_the_newest_where_it_is_told_to():
    sink = Gate(opened=False)
    made = writer(sink, capacity=2, overflow=Overflow.DROP_NEWEST)
    made.put(b"first")
    assert sink.entered.wait(10)
    for n in range(10):
        made.put(b"%d" % n)
    assert made.counters.dropped == 8
    sink.opened.set()
    written(made)
    assert sink.lines == [b"first", b"0", b"1"]


def test_what_a_sink_raises_fails_all_it_was_given():
    sink, errors = Gate(), []
    sink.write = None
    made = writer(sink, errors=errors)
    made.put(b"x")
    written(made)
    assert made.counters.failed == 1
    assert len(errors) == 1


def test_the_end_is_told_though_the_queue_overflows_after_it():
    sink = Gate(opened=False)
    made = writer(sink, capacity=1, overflow=Overflow.DROP_OLDEST)
    made.put(b"first")
    assert sink.entered.wait(10)
    done = threading.Event()
    made.when_written(done.set)
    for n in range(5):
        made.put(b"%d" % n)
    sink.opened.set()
    assert done.wait(10)
    written(made)
    assert sink.lines == [b"first", b"4"]


def test_a_full_queue_makes_the_giver_wait_and_loses_nothing():
    sink = Gate(opened=False)
    made = writer(sink, capacity=2)
    giver = threading.Thread(target=lambda: [made.put(b"%d" % n) for n in range(20)])
    giver.start()
    assert sink.entered.wait(10)
    giver.join(0.1)
    assert giver.is_alive()
    sink.opened.set()
    giver.join(10)
    written(made)
    assert sink.lines == [b"%d" % n for n in range(20)]


def test_release_lets_a_waiting_giver_go():
    sink = Gate(opened=False)
    made = writer(sink, capacity=1)
    made.put(b"0")
    assert sink.entered.wait(10)
    giver = threading.Thread(target=lambda: [made.put(b"%d" % n) for n in range(1, 5)])
    giver.start()
    made.release()
    giver.join(10)
    assert not giver.is_alive()
    made.resume()
    sink.opened.set()
    written(made)
    assert sink.lines == [b"0", b"4"]


def test_a_failing_sink_is_reported_once_until_it_works_again():
    sink, errors = Gate(), []
    made = writer(sink, errors=errors)
    for failing in (False, True, True, False, True):
        sink.failing = failing
        made.put(b"x")
        # Not `written`: its flush succeeds here, which would count as working again.
        while made.counters.written + made.counters.failed < made.counters.queued:
            threading.Event().wait(0.001)
    until(lambda: len(errors) == 2, "the report, which follows the count")
    assert [error.errno for error in errors] == [errno.ENOSPC, errno.ENOSPC]
    assert (made.counters.written, made.counters.failed) == (2, 3)


def test_a_hanging_sink_does_not_hold_up_the_stop():
    sink = Gate(opened=False)
    made = writer(sink)
    made.put(b"0")
    assert sink.entered.wait(10)
    for n in range(1, 5):
        made.put(b"%d" % n)
    assert made.close(0.05) is False
    assert made.counters.dropped == 4
    sink.opened.set()
    assert made.close(10) is True
    assert sink.lines == [b"0"]
    assert sink.closed


@pytest.mark.parametrize("overflow", Overflow)
def test_two_givers_lose_nothing_while_there_is_room(overflow):
    sink = Gate()
    made = writer(sink, capacity=1000, overflow=overflow)
    givers = [threading.Thread(target=lambda: [made.put(b"x") for _ in range(400)]) for _ in range(2)]
    for giver in givers:
        giver.start()
    for giver in givers:
        giver.join()
    assert made.close(10)
    assert len(sink.lines) == 800


def test_waiting_for_what_is_queued():
    sink = Gate(opened=False)
    made = writer(sink)
    made.put(b"1")
    waiting = threading.Thread(target=made.wait_written)
    waiting.start()
    waiting.join(0.2)
    assert waiting.is_alive()
    sink.opened.set()
    waiting.join(10)
    assert not waiting.is_alive()
    assert sink.lines == [b"1"]
    sink.failing = True
    made.put(b"2")
    made.wait_written()
    assert made.counters.failed == 1


def test_a_release_ends_the_wait_for_what_is_queued():
    sink = Gate(opened=False)
    made = writer(sink)
    made.put(b"1")
    waiting = threading.Thread(target=made.wait_written)
    waiting.start()
    made.release()
    waiting.join(10)
    assert not waiting.is_alive()
    sink.opened.set()
