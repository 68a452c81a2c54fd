"""The base classes: order, references, waiters, failures, queries."""

import ast
import gc
import importlib
import inspect
import threading
import time
import weakref
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import gi
import pytest

gi.require_version("Gst", "1.0")
gi.require_version("GstBase", "1.0")
from gi.repository import Gst, GstBase

Gst.init(None)

from sluice.contract import gstref
from sluice.contract.structures import fields_of, required_structure
from sluice.elements import ELEMENTS, base, guard
from sluice.elements.base import InFlightElement, InPlaceElement, guarded, set_switch_interval
from sluice.elements.fifo import Entry, Fifo
from sluice.errors import ConfigurationError, SluiceError
from waiting import until

SECOND = Gst.SECOND
SOURCE = "videotestsrc num-buffers={} ! video/x-raw,format=GRAY8,width=16,height=16,framerate=25/1"


def templates() -> tuple[Gst.PadTemplate, Gst.PadTemplate]:
    any_caps = Gst.Caps.new_any()
    return (
        Gst.PadTemplate.new("sink", Gst.PadDirection.SINK, Gst.PadPresence.ALWAYS, any_caps),
        Gst.PadTemplate.new("src", Gst.PadDirection.SRC, Gst.PadPresence.ALWAYS, any_caps),
    )


class InFlight(InFlightElement):
    """Answers on a thread of its own; what it does is set from outside."""

    __gstmetadata__ = ("In flight", "Generic", "For tests", "Sluice")
    __gsttemplates__ = templates()

    def __init__(self) -> None:
        super().__init__()
        self.limit = 4
        self.answer: Callable[[int, Future[Any]], None] = lambda number, future: future.set_result(number)
        self.finished: list[Any] = []
        self.number = 0

    def in_flight(self) -> int:
        return self.limit

    def submit(self, buffer: Gst.Buffer, caps: Gst.Caps) -> "Future[Any]":
        future: Future[Any] = Future()
        number = self.number
        self.number += 1
        self.answer(number, future)
        return future

    def finish(self, buffer: Gst.Buffer, result: Any) -> bool:
        self.finished.append(result)
        return True


class InPlace(InPlaceElement):
    """Notes the references of every buffer before it looks at it."""

    __gstmetadata__ = ("In place", "Generic", "For tests", "Sluice")
    __gsttemplates__ = templates()

    def __init__(self) -> None:
        super().__init__()
        self.references: list[int] = []
        self.fail_at = -1

    def process(self, buffer: Gst.Buffer) -> bool:
        if len(self.references) == self.fail_at:
            error = ValueError("no")
            error.stream, error.frame = 2, 7  # type: ignore[attr-defined]
            raise error
        # A virtual function's wrapper borrows the buffer and holds no reference.
        self.references.append(gstref.refcount(gstref.address(buffer)))
        return True


Gst.Element.register(None, "testinflight", 0, InFlight)
Gst.Element.register(None, "testinplace", 0, InPlace)


def later(seconds: float) -> Callable[[int, "Future[Any]"], None]:
    """Return an answer that comes from another thread after a while."""

    def answer(number: int, future: "Future[Any]") -> None:
        timer = threading.Timer(seconds, lambda: future.cancelled() or future.set_result(number))
        timer.daemon = True
        timer.start()

    return answer


def wait(pipeline: Gst.Pipeline, seconds: float = 10) -> Gst.Message | None:
    kinds = Gst.MessageType.EOS | Gst.MessageType.ERROR
    return pipeline.get_bus().timed_pop_filtered(int(seconds * SECOND), kinds)


def run(pipeline: Gst.Pipeline) -> Gst.Message:
    pipeline.set_state(Gst.State.PLAYING)
    try:
        message = wait(pipeline)
        assert message is not None, "neither EOS nor an error within 10 s"
        return message
    finally:
        pipeline.set_state(Gst.State.NULL)


def test_buffers_arrive_downstream_with_one_reference() -> None:
    pipeline = Gst.parse_launch(SOURCE.format(500) + " ! testinflight ! testinplace name=place ! fakesink")
    assert run(pipeline).type == Gst.MessageType.EOS
    assert pipeline.get_by_name("place").references == [1] * 500


@pytest.mark.parametrize("limit", [1, 2, 8])
def test_everything_leaves_in_the_order_it_came(limit: int) -> None:
    """Buffers, caps, custom events, gaps and EOS, whatever the answers' own order."""
    element = Gst.ElementFactory.make("testinflight")
    element.limit = limit
    element.answer = lambda number, future: later(0.02 if number % 2 else 0.001)(number, future)
    left: list[Any] = []
    source, sink = harness(element, left)
    sent: list[Any] = []
    for number in range(12):
        if number % 4 == 0:
            caps = Gst.Caps.from_string(f"video/x-raw,width={number + 1}")
            sent.append(("caps", number + 1))
            source.push_event(Gst.Event.new_caps(caps))
            source.push_event(segment_event())
        if number % 3 == 0:
            sent.append("gap")
            source.push_event(Gst.Event.new_gap(number, 1))
        sent.append(number)
        assert source.push(timed(number)) == Gst.FlowReturn.OK
    sent.append("eos")
    source.push_event(Gst.Event.new_eos())
    until(lambda: left and left[-1] == "eos")
    element.set_state(Gst.State.NULL)
    assert left == sent
    assert sink is not None


def segment_event() -> Gst.Event:
    segment = Gst.Segment()
    segment.init(Gst.Format.TIME)
    return Gst.Event.new_segment(segment)


def timed(number: int) -> Gst.Buffer:
    buffer = Gst.Buffer.new_allocate(None, 4, None)
    buffer.pts = number
    return buffer


def harness(element: Gst.Element, left: list[Any], flow: list[Gst.FlowReturn] | None = None) -> tuple[Gst.Pad, Gst.Pad]:
    """Put pads before and behind an element and set it playing; ``left`` collects what comes out."""

    def chain(_pad: Gst.Pad, _parent: Any, buffer: Gst.Buffer) -> Gst.FlowReturn:
        left.append(buffer.pts)
        return flow[0] if flow else Gst.FlowReturn.OK

    def on_event(_pad: Gst.Pad, _parent: Any, event: Gst.Event) -> bool:
        if event.type == Gst.EventType.CAPS:
            left.append(("caps", required_structure(event.parse_caps(), 0).get_int("width")[1]))
        elif event.type in (Gst.EventType.GAP, Gst.EventType.EOS, Gst.EventType.FLUSH_START, Gst.EventType.FLUSH_STOP):
            left.append(event.type.value_nick)
        return True

    source, sink = Gst.Pad.new("source", Gst.PadDirection.SRC), Gst.Pad.new_from_template(templates()[0], "sink")
    sink.set_chain_function_full(chain, None)
    sink.set_event_function_full(on_event, None)
    source.link(element.get_static_pad("sink"))
    element.get_static_pad("src").link(sink)
    sink.set_active(True)
    element.set_state(Gst.State.PLAYING)
    source.set_active(True)
    source.push_event(Gst.Event.new_stream_start("test"))
    return source, sink


def started(element: Gst.Element, left: list[Any], flow: list[Gst.FlowReturn] | None = None) -> tuple[Gst.Pad, Gst.Pad]:
    source, sink = harness(element, left, flow)
    source.push_event(Gst.Event.new_caps(Gst.Caps.from_string("video/x-raw,width=1,framerate=25/1")))
    source.push_event(segment_event())
    until(lambda: left)
    left.clear()
    return source, sink


def test_a_buffer_leaves_without_another_one_coming() -> None:
    element, left = Gst.ElementFactory.make("testinflight"), []
    element.answer = later(0.05)
    source, _sink = started(element, left)
    source.push(timed(1))
    until(lambda: left == [1])
    element.set_state(Gst.State.NULL)


def test_the_limit_holds() -> None:
    element, left = Gst.ElementFactory.make("testinflight"), []
    futures: list[Future[Any]] = []
    element.limit = 2
    element.answer = lambda number, future: futures.append(future)
    source, _sink = started(element, left)
    pushed: list[int] = []

    def push_all() -> None:
        for number in range(4):
            source.push(timed(number))
            pushed.append(number)

    thread = threading.Thread(target=push_all, daemon=True)
    thread.start()
    until(lambda: len(pushed) == 2)
    time.sleep(0.05)
    assert len(futures) == 2
    futures[1].set_result(1)
    time.sleep(0.05)
    assert left == []  # the second is ready, the first is not
    futures[0].set_result(0)
    until(lambda: len(futures) == 4 and left == [0, 1])
    for future in futures[2:]:
        future.set_result(None)
    until(lambda: left == [0, 1, 2, 3])
    thread.join(5)
    element.set_state(Gst.State.NULL)


def test_stop_does_not_wait_for_an_answer_that_never_comes() -> None:
    element, left = Gst.ElementFactory.make("testinflight"), []
    futures: list[Future[Any]] = []
    element.limit = 1
    element.answer = lambda number, future: futures.append(future)
    source, _sink = started(element, left)
    flows: list[Gst.FlowReturn] = []
    threads = [threading.Thread(target=lambda: flows.append(source.push(timed(0))), daemon=True) for _ in range(1)]
    threads[0].start()
    threads[0].join(5)
    blocked = threading.Thread(target=lambda: flows.append(source.push(timed(1))), daemon=True)
    blocked.start()
    time.sleep(0.05)
    assert blocked.is_alive()
    begin = time.monotonic()
    element.set_state(Gst.State.NULL)
    assert time.monotonic() - begin < 2
    blocked.join(5)
    assert flows == [Gst.FlowReturn.OK, Gst.FlowReturn.FLUSHING]
    assert futures[0].cancelled()


def test_flush_wakes_and_clears_and_the_stream_goes_on() -> None:
    element, left = Gst.ElementFactory.make("testinflight"), []
    futures: list[Future[Any]] = []
    element.limit = 1
    element.answer = lambda number, future: futures.append(future)
    source, _sink = started(element, left)
    source.push(timed(0))
    flows: list[Gst.FlowReturn] = []
    blocked = threading.Thread(target=lambda: flows.append(source.push(timed(1))), daemon=True)
    blocked.start()
    time.sleep(0.05)
    source.push_event(Gst.Event.new_flush_start())
    blocked.join(5)
    assert flows == [Gst.FlowReturn.FLUSHING]
    source.push_event(Gst.Event.new_flush_stop(True))
    source.push_event(segment_event())
    element.answer = lambda number, future: future.set_result(number)
    source.push(timed(2))
    until(lambda: left == ["flush-start", "flush-stop", 2])
    element.set_state(Gst.State.NULL)


@pytest.mark.parametrize("answer", [Gst.FlowReturn.EOS, Gst.FlowReturn.NOT_LINKED, Gst.FlowReturn.ERROR])
def test_what_downstream_returns_reaches_upstream(answer: Gst.FlowReturn) -> None:
    element, left, flow = Gst.ElementFactory.make("testinflight"), [], [Gst.FlowReturn.OK]
    source, _sink = started(element, left, flow)
    flow[0] = answer
    source.push(timed(0))
    until(lambda: left == [0] and element.flow == answer)
    assert source.push(timed(1)) == answer
    flow[0] = Gst.FlowReturn.OK
    source.push_event(Gst.Event.new_flush_start())
    source.push_event(Gst.Event.new_flush_stop(True))
    source.push_event(segment_event())
    assert source.push(timed(2)) == Gst.FlowReturn.OK
    until(lambda: left[-1] == 2)
    assert element.discarded >= 1
    element.set_state(Gst.State.NULL)


def failing(where: str) -> Gst.Pipeline:
    pipeline = Gst.parse_launch(SOURCE.format(20) + " ! testinflight name=e ! fakesink")
    element = pipeline.get_by_name("e")

    def answer(number: int, future: "Future[Any]") -> None:
        if number == 7 and where == "submit":
            raise ValueError("seven")
        if number == 7 and where == "future":
            try:
                raise ValueError("seven")
            except ValueError as error:
                future.set_exception(error)
        elif number == 7 and where == "exit":
            raise SystemExit(3)
        else:
            future.set_result(number)

    if where == "finish":
        element.finish = lambda buffer, result: element.finished.append(1 // (7 - result)) or True
    element.answer = answer
    return pipeline


@pytest.mark.parametrize(
    ("where", "text"),
    [
        ("submit", "ValueError: seven"),
        ("future", "ValueError: seven"),
        ("finish", "ZeroDivisionError"),
        ("exit", "SystemExit: 3"),
    ],
)
def test_an_exception_is_an_element_error_with_its_traceback(where: str, text: str) -> None:
    pipeline = failing(where)
    message = run(pipeline)
    assert message.type == Gst.MessageType.ERROR
    error, debug = message.parse_error()
    assert message.src == pipeline.get_by_name("e")
    assert text in error.message
    assert "Traceback" in debug
    assert __file__ in debug
    # The task fails at frame 7; the sink pad's thread, which runs ahead of it, while some before it are in flight.
    finished = len(pipeline.get_by_name("e").finished)
    assert finished == 7 if where in ("future", "finish") else finished <= 7


def test_an_error_names_stream_and_frame() -> None:
    pipeline = Gst.parse_launch(SOURCE.format(20) + " ! testinplace name=e ! fakesink")
    pipeline.get_by_name("e").fail_at = 3
    message = run(pipeline)
    assert message.type == Gst.MessageType.ERROR
    error, debug = message.parse_error()
    assert error.message == "stream 2, frame 7: ValueError: no"
    assert "in process" in debug
    details = message.parse_error_details()
    assert details.get_int("stream") == (True, 2)
    assert details.get_int64("frame") == (True, 7)
    assert details.get_string("exception") == "ValueError"


@pytest.mark.parametrize(("given", "status"), [((143,), (True, 143)), ((), (False, 0)), (("enough",), (False, 0))])
def test_an_interruption_is_told_with_the_status_that_it_was_given(given: tuple, status: tuple) -> None:
    element, bus = Gst.ElementFactory.make("identity"), Gst.Bus()
    element.set_bus(bus)
    guard.post_error(element, KeyboardInterrupt(*given))
    details = bus.pop().parse_error_details()
    assert details.get_string("exception") == "KeyboardInterrupt"
    assert details.get_int("status") == status


def test_a_failed_start_fails_the_state_change() -> None:
    pipeline = Gst.parse_launch("fakesrc ! testinflight name=e ! fakesink")
    element = pipeline.get_by_name("e")
    stopped: list[int] = []

    def start() -> None:
        raise ConfigurationError("model=x.onnx: no such file")

    element.start, element.stop = start, lambda: stopped.append(1)
    assert pipeline.set_state(Gst.State.PLAYING) == Gst.StateChangeReturn.FAILURE
    message = wait(pipeline)
    error, _ = message.parse_error()
    assert error.message == "model=x.onnx: no such file"
    assert error.matches(Gst.LibraryError.quark(), int(Gst.LibraryError.SETTINGS))
    assert stopped == [1]
    pipeline.set_state(Gst.State.NULL)


@pytest.mark.parametrize("name", ["testinflight", "testinplace"])
def test_qos_stops_at_the_element(name: str) -> None:
    seen: list[Gst.EventType] = []

    def probe(_pad: Gst.Pad, info: Gst.PadProbeInfo) -> Gst.PadProbeReturn:
        seen.append(info.get_event().type)
        return Gst.PadProbeReturn.OK

    pipeline = Gst.parse_launch(f"fakesrc name=s ! {name} name=e ! fakesink name=k")
    pipeline.get_by_name("s").get_static_pad("src").add_probe(Gst.PadProbeType.EVENT_UPSTREAM, probe)
    pipeline.set_state(Gst.State.PAUSED)
    pipeline.get_state(5 * SECOND)
    sink = pipeline.get_by_name("k").get_static_pad("sink")
    sink.push_event(Gst.Event.new_qos(Gst.QOSType.UNDERFLOW, 1.0, 5, 5))
    assert Gst.EventType.QOS not in seen
    pipeline.get_by_name("e").passes_qos = lambda: True
    sink.push_event(Gst.Event.new_qos(Gst.QOSType.UNDERFLOW, 1.0, 5, 5))
    assert Gst.EventType.QOS in seen
    pipeline.set_state(Gst.State.NULL)


def test_a_slow_element_before_a_synchronised_sink_loses_no_frame() -> None:
    line = (
        "videotestsrc num-buffers=20 ! video/x-raw,format=GRAY8,width=16,height=16,framerate=100/1 ! "
        "testinflight name=e ! testinplace name=p ! fakesink sync=true qos=true"
    )
    pipeline = Gst.parse_launch(line)
    pipeline.get_by_name("e").limit = 1
    pipeline.get_by_name("e").answer = later(0.03)
    assert run(pipeline).type == Gst.MessageType.EOS
    assert len(pipeline.get_by_name("p").references) == 20


def test_latency_counts_what_is_in_flight() -> None:
    pipeline = Gst.parse_launch(
        "videotestsrc is-live=true ! video/x-raw,format=GRAY8,width=16,height=16,framerate=25/1 ! "
        "testinflight name=e ! fakesink name=k"
    )
    pipeline.set_state(Gst.State.PLAYING)
    pipeline.get_state(5 * SECOND)
    query = Gst.Query.new_latency()
    assert pipeline.get_by_name("k").get_static_pad("sink").peer_query(query)
    live, least, _most = query.parse_latency()
    pipeline.set_state(Gst.State.NULL)
    assert live
    assert least >= 4 * SECOND // 25


def test_allocation_asks_for_as_many_more_buffers_as_are_in_flight() -> None:
    element, left = Gst.ElementFactory.make("testinflight"), []
    source, sink = started(element, left)

    def on_query(_pad: Gst.Pad, _parent: Any, query: Gst.Query) -> bool:
        query.add_allocation_pool(None, 4, 2, 3)
        return True

    sink.set_query_function_full(on_query, None)
    query = Gst.Query.new_allocation(Gst.Caps.from_string("video/x-raw,width=1"), True)
    assert source.peer_query(query)
    assert list(query.parse_nth_allocation_pool(0))[1:] == [4, 6, 7]
    element.set_state(Gst.State.NULL)


@pytest.mark.parametrize("name", ["testinflight", "testinplace"])
def test_nothing_that_passes_is_leaked(name: str) -> None:
    element, left = Gst.ElementFactory.make(name), []
    source, sink = started(element, left)
    buffer = timed(5)
    custom = Gst.Event.new_custom(Gst.EventType.CUSTOM_DOWNSTREAM, Gst.Structure.new_empty("down"))
    upstream = Gst.Event.new_custom(Gst.EventType.CUSTOM_UPSTREAM, Gst.Structure.new_empty("up"))
    qos = Gst.Event.new_qos(Gst.QOSType.UNDERFLOW, 1.0, 5, 5)
    addresses = [gstref.ref(gstref.address(item)) for item in (buffer, custom, upstream, qos)]
    source.push_event(custom)
    source.push(buffer)
    sink.push_event(upstream)
    sink.push_event(qos)
    del buffer, custom, upstream, qos
    # The reference taken above is the last.
    until(lambda: left == [5] and [gstref.refcount(address) for address in addresses] == [1] * 4)
    for address in addresses:
        gstref.unref(address)
    element.set_state(Gst.State.NULL)


def test_elements_are_finalised_after_use() -> None:
    gone = []
    for _ in range(20):
        pipeline = Gst.parse_launch(SOURCE.format(3) + " ! testinflight name=a ! testinplace name=b ! fakesink")
        gone += [weakref.ref(pipeline.get_by_name(name)) for name in "ab"]
        assert run(pipeline).type == Gst.MessageType.EOS
        del pipeline
    # The last task's thread lets go of its element a moment after the stop.
    until(lambda: gc.collect() >= 0 and [ref() for ref in gone] == [None] * 40)


def test_the_switch_interval_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLUICE_SWITCH_INTERVAL", "0.001")
    assert set_switch_interval() == pytest.approx(0.001)
    monkeypatch.delenv("SLUICE_SWITCH_INTERVAL")
    assert set_switch_interval() == pytest.approx(0.0002)
    for wrong in ("fast", "0", "-1"):
        monkeypatch.setenv("SLUICE_SWITCH_INTERVAL", wrong)
        with pytest.raises(ConfigurationError, match="SLUICE_SWITCH_INTERVAL"):
            set_switch_interval()


def test_guarded_returns_the_failure_value() -> None:
    @guarded("failed")
    def broken() -> str:
        raise SluiceError("broken")

    assert broken() == "failed"


class TestFifo:
    """The queue alone."""

    def test_refuses_before_start_and_after_stop(self) -> None:
        fifo = Fifo(lambda: 1)
        assert fifo.take() is None
        fifo.start()
        assert fifo.put(Entry(event="e"))
        fifo.stop()
        assert not fifo.reserve()
        assert not fifo.put(Entry(event="e"))
        assert fifo.take() is None

    def test_an_answer_after_the_flush_is_of_no_consequence(self) -> None:
        fifo = Fifo(lambda: 1)
        fifo.start()
        assert fifo.reserve()
        fifo.flush()
        entry = Entry(buffer="b")
        entry.pending = Future()
        assert not fifo.put(entry)
        assert entry.pending.cancelled()

    def test_drain_waits_for_the_entry_that_was_taken(self) -> None:
        fifo = Fifo(lambda: 1)
        fifo.start()
        fifo.put(Entry(event="e"))
        assert fifo.take().event == "e"
        drained: list[bool] = []
        thread = threading.Thread(target=lambda: drained.append(fifo.drain()), daemon=True)
        thread.start()
        time.sleep(0.02)
        assert drained == []
        threading.Thread(target=fifo.take, daemon=True).start()
        thread.join(5)
        assert drained == [True]
        fifo.stop()


# Functions that GStreamer calls: virtual functions by their prefix, pad functions by how they are handed over.
_HANDED_OVER = (
    "set_chain_function_full",
    "set_chain_list_function_full",
    "set_event_function_full",
    "set_query_function_full",
    "set_activatemode_function_full",
    "set_activate_function_full",
    "set_getrange_function_full",
    "set_link_function_full",
    "start_task",
    "add_probe",
)


MODULES = sorted(f"sluice.elements.{path.stem}" for path in Path(base.__file__).parent.glob("*.py"))


def test_every_function_that_gstreamer_calls_is_guarded() -> None:
    # PyGObject makes these two itself for GObject.Property; they run on the thread of whoever sets the property.
    properties = ("do_get_property", "do_set_property")
    unguarded = []
    for target in ELEMENTS.values():
        module, _, class_name = target.partition(":")
        element = getattr(importlib.import_module(module), class_name)
        for cls in element.__mro__:
            if cls.__module__.startswith("sluice."):
                unguarded += [
                    f"{cls.__qualname__}.{name}"
                    for name, member in vars(cls).items()
                    if name.startswith("do_") and name not in properties and not getattr(member, "is_guarded", False)
                ]
    assert unguarded == []


@pytest.mark.parametrize("name", MODULES)
def test_pad_functions_are_static_and_guarded(name: str) -> None:
    """What is handed to GStreamer is a module-level function with a guard: a bound method would keep its element."""
    module = importlib.import_module(name)
    wrong = []
    for node in ast.walk(ast.parse(inspect.getsource(module))):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _HANDED_OVER):
            continue
        callback = node.args[1] if node.func.attr == "add_probe" else node.args[0]
        function = getattr(module, callback.id, None) if isinstance(callback, ast.Name) else None
        if not getattr(function, "is_guarded", False) and not isinstance(callback, ast.Constant):
            wrong.append(f"line {node.lineno}: {ast.unparse(node)}")
    assert wrong == []


def test_the_walk_finds_an_unguarded_function() -> None:
    class Bare(GstBase.BaseTransform):
        def do_transform_ip(self, buffer: Gst.Buffer) -> Gst.FlowReturn:
            return Gst.FlowReturn.OK

    assert not getattr(Bare.do_transform_ip, "is_guarded", False)
    assert InPlaceElement.do_transform_ip.is_guarded


def test_a_traceback_survives_the_interpreters_own_fault_in_formatting_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_error: BaseException) -> list[str]:
        raise SystemError("AST constructor recursion depth mismatch")

    monkeypatch.setattr("traceback.format_exception", broken)
    try:
        raise ValueError("the fault of the model")
    except ValueError as error:
        trace = guard.format_trace(error)
    assert "ValueError: the fault of the model" in trace
    assert Path(__file__).name in trace


@pytest.mark.parametrize("text", ["caf\udce9.onnx", "a\0b"])
def test_texts_that_no_message_can_hold_are_posted_readably(text: str) -> None:
    element, bus = Gst.Bin(), Gst.Bus()
    element.set_bus(bus)
    try:
        raise ValueError(text)
    except ValueError as error:
        guard.post_error(element, error)
    message = bus.pop_filtered(Gst.MessageType.ERROR)
    assert message is not None
    assert message.parse_error()[0].message in (r"ValueError: caf\udce9.onnx", r"ValueError: a\x00b")


class Störung(Exception):
    """With a name that is no word of GStreamer's, attributes that mean something else, and no text."""

    stream = "a file"
    frame = 2**80

    def __str__(self) -> str:
        raise AttributeError("unset")


def test_any_exception_can_be_posted() -> None:
    element, bus = Gst.Bin(), Gst.Bus()
    element.set_bus(bus)
    guard.post_error(element, Störung())
    message = bus.pop_filtered(Gst.MessageType.ERROR)
    assert message is not None
    assert message.parse_error()[0].message == "Störung: (its text could not be made: AttributeError)"
    details = fields_of(message.parse_error_details())
    assert details["exception"] == "Störung"
    assert not {"stream", "frame"} & set(details)


def test_an_element_that_is_being_collected_posts_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    posted = []
    monkeypatch.setattr(guard, "post_error", lambda element, error: posted.append(str(error)))

    @guarded(failure=False)
    def callback(parent: Gst.Element) -> bool:
        return bool(parent.of_the_subclass)

    element = Gst.Bin()
    element.of_another = True
    assert callback(element) is False
    assert len(posted) == 1
    vars(element).clear()
    assert callback(element) is False
    assert len(posted) == 1
