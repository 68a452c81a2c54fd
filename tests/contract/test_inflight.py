"""The queue of an element in C, without an element: what its pads' threads and the working thread see of each other."""

import gc
import threading

import gi
import pytest

gi.require_version("Gst", "1.0")
from gi.repository import Gst

from sluice.contract import gstref
from sluice.contract.inflight import (
    DROP,
    END,
    ENTRY,
    FAILED,
    FAILURE,
    ITEM,
    NOTE,
    NOTHING,
    PUSH,
    Call,
    Inflight,
    Line,
    Route,
    finish,
    is_wanted,
    work_on,
)
from waiting import until

Gst.init(None)


class Worker:
    """Notes what it is to work on."""

    def __init__(self) -> None:
        self.worked: list[tuple[Call, object]] = []

    def work(self, call: Call, model: object) -> None:
        self.worked.append((call, model))


class Element:
    """Two pads with a queue between them, and a pad behind that keeps what arrives."""

    def __init__(self) -> None:
        self.worker: Worker | None = Worker()
        self.slow: list[Gst.Buffer] = []
        self.arrived: list[tuple[int, int]] = []  # pts and reference count
        self.answer = Gst.FlowReturn.OK
        self.queue = Inflight(self.worker)
        self.sink, self.src = Gst.Pad.new("sink", Gst.PadDirection.SINK), Gst.Pad.new("src", Gst.PadDirection.SRC)
        self.peer = Gst.Pad.new("peer", Gst.PadDirection.SINK)
        self.sink.set_chain_function_full(self._chain, None)
        self.peer.set_chain_function_full(self._keep, None)
        self.queue.take_buffers_of(self.sink)
        self.src.link(self.peer)
        for pad in (self.sink, self.src, self.peer):
            pad.set_active(True)
        caps = Gst.Caps.from_string("video/x-raw")
        segment = Gst.Segment.new()
        segment.init(Gst.Format.TIME)
        for send in (self.sink.send_event, self.src.push_event):
            send(Gst.Event.new_stream_start("s"))
            send(Gst.Event.new_caps(caps))
            send(Gst.Event.new_segment(segment))
        self.queue.start()
        self.taken: list[tuple[int, int]] = []
        self.taker = threading.Thread(target=self._take, daemon=True)
        self.taker.start()

    def _chain(self, _pad: Gst.Pad, _parent: object, buffer: Gst.Buffer) -> Gst.FlowReturn:
        self.slow.append(buffer)
        return Gst.FlowReturn.OK

    def _keep(self, _pad: Gst.Pad, _parent: object, buffer: Gst.Buffer) -> Gst.FlowReturn:
        self.arrived.append((buffer.pts, gstref.refcount(gstref.buffer_address(buffer))))
        return self.answer

    def _take(self) -> None:
        while (found := self.queue.take(self.src))[0] != END:
            self.taken.append(found)

    def chain(self, pts: int) -> Gst.FlowReturn:
        buffer = Gst.Buffer.new()
        buffer.pts = pts
        return self.sink.chain(buffer)

    def end(self) -> None:
        self.queue.end(stopped=True)
        self.taker.join(10)
        assert not self.taker.is_alive()


@pytest.fixture
def element():
    made = Element()
    made.queue.set_limit(4)
    yield made
    made.end()


@pytest.fixture
def line(element):
    opened, route = Line(), Route()
    route.open(opened)
    element.queue.set_route(route)
    return opened


def test_buffers_are_announced_in_order_and_leave_in_order_whatever_is_done_first(element, line):
    element.queue.set_mark(7)
    for pts in (10, 20, 30):
        assert element.chain(pts) == Gst.FlowReturn.OK
    calls = [line.next(0) for _ in range(3)]
    assert [call.kind for call in calls] == [ITEM] * 3
    assert line.next(0).kind == NOTHING
    assert [(call.number, call.mark) for call in calls] == [(0, 7), (1, 7), (2, 7)]
    assert [gstref.wrap(call.buffer).pts for call in calls] == [10, 20, 30]
    for index in (2, 1, 0):
        finish(calls[index], DROP if index == 1 else PUSH)
    until(lambda: len(element.arrived) == 2)
    assert element.arrived == [(10, 1), (30, 1)]
    assert element.slow == []
    assert element.queue.drain()


def test_the_sink_pads_thread_waits_for_room(element, line):
    element.queue.set_limit(1)
    element.chain(1)
    second = threading.Thread(target=element.chain, args=(2,), daemon=True)
    second.start()
    first = line.next(10)
    assert line.next(0.05).kind == NOTHING
    finish(first, PUSH)
    finish(line.next(10), PUSH)
    second.join(10)
    until(lambda: [pts for pts, _ in element.arrived] == [1, 2])


def test_without_an_open_line_buffers_go_through_the_pads_own_function(element):
    element.chain(1)
    route, line = Route(), Line()
    element.queue.set_route(route)
    element.chain(2)
    route.open(line)
    element.chain(3)
    route.open(None)
    element.chain(4)
    assert [buffer.pts for buffer in element.slow] == [1, 2, 4]
    assert len(line) == 1


def test_entries_of_python_keep_their_place(element, line):
    element.chain(1)
    assert element.queue.put(101, ready=True)
    assert element.queue.put(102, ready=False)
    element.chain(2)
    first, second = line.next(0), line.next(0)
    finish(second, PUSH)
    finish(first, PUSH)
    until(lambda: element.taken == [(ENTRY, 101)])
    assert [pts for pts, _ in element.arrived] == [1]
    element.queue.ready(102)
    until(lambda: [pts for pts, _ in element.arrived] == [1, 2])
    assert element.taken == [(ENTRY, 101), (ENTRY, 102)]


def test_a_failure_is_told_once_those_before_it_have_left(element, line):
    for pts in (1, 2):
        element.chain(pts)
    first, second = line.next(0), line.next(0)
    finish(second, FAILED)
    assert element.taken == []
    finish(first, PUSH)
    until(lambda: element.taken == [(FAILURE, 1)])
    assert [pts for pts, _ in element.arrived] == [1]


def test_what_downstream_returns_reaches_the_next_buffer(element, line):
    element.answer = Gst.FlowReturn.EOS
    for pts in (1, 2):
        element.chain(pts)
    for _ in range(2):
        finish(line.next(0), PUSH)
    until(lambda: element.queue.flow == Gst.FlowReturn.EOS and element.queue.discarded == 1)
    assert element.chain(3) == Gst.FlowReturn.EOS
    assert [pts for pts, _ in element.arrived] == [1]
    assert element.queue.discarded == 2


def test_a_flush_gives_up_the_buffers_and_the_working_thread_notices(element, line):
    for pts in (1, 2):
        element.chain(pts)
    begun = line.next(0)
    element.queue.end(stopped=False)
    assert element.chain(3) == Gst.FlowReturn.FLUSHING
    assert not is_wanted(begun)
    waiting = line.next(0)
    assert waiting.buffer == 0
    assert gstref.refcount(begun.buffer) == 1
    for call in (begun, waiting):
        finish(call, PUSH)
    element.queue.settle()
    element.queue.resume()
    element.chain(4)
    finish(line.next(0), PUSH)
    until(lambda: [pts for pts, _ in element.arrived] == [4])


def test_the_owner_of_an_item_works_on_it_as_long_as_it_is_there(element, line):
    element.chain(1)
    call = line.next(0)
    work_on(call, "model")
    assert element.worker.worked == [(call, "model")]
    finish(call, PUSH)
    element.chain(2)
    orphan = line.next(0)
    element.worker = None
    work_on(orphan, "model")
    until(lambda: element.queue.drain())
    assert [pts for pts, _ in element.arrived] == [1]


def test_a_line_gives_notes_and_wakes_who_waits():
    line = Line()
    assert line.next(0).kind == NOTHING
    threading.Timer(0.05, line.note, (5,)).start()
    call = line.next(10)
    assert (call.kind, call.value) == (NOTE, 5)
    assert line.next(0.001).kind == NOTHING


def test_buffers_that_nobody_takes_are_freed_with_the_line():
    element = Element()
    line, route = Line(), Route()
    route.open(line)
    element.queue.set_route(route)
    buffer = Gst.Buffer.new()
    address = gstref.steal(buffer)
    element.sink.chain(buffer)
    del buffer
    before = gstref.refcount(address)
    element.queue.set_route(None)
    element.end()
    del line, route
    gc.collect()
    assert gstref.refcount(address) < before
    assert gstref.refcount(address) == 1
    gstref.unref(address)
