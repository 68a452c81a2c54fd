"""What a run makes of the messages on its bus."""

from types import SimpleNamespace
from typing import Any

import gi
import pytest

gi.require_version("Gst", "1.0")
from gi.repository import GLib, Gst

from sluice.app.allowance import BURST, REFILL
from sluice.app.hearing import Hearing, keep_what_is_heard
from sluice.app.remarks import Remarks
from sluice.app.streams.events import EventLog
from sluice.app.summary import Summary
from sluice.elements.guard import post_warning


class CountingPipeline:
    """Counts how often all ends are asked for their latency."""

    def __init__(self) -> None:
        self.asked = 0

    def recalculate_latency(self) -> bool:
        self.asked += 1
        return True


def test_the_latency_is_looked_at_once_however_many_elements_say_that_theirs_changed() -> None:
    pipeline = CountingPipeline()
    unused: Any = None
    graph: Any = SimpleNamespace(pipeline=pipeline)
    hearing = Hearing(graph, unused, unused, unused, unused, unused)
    for _ in range(200):
        assert not hearing.hear(Gst.Message.new_latency(None))
    assert pipeline.asked == 0
    hearing.heard_all()
    hearing.heard_all()
    assert pipeline.asked == 1
    hearing.hear(Gst.Message.new_latency(None))
    hearing.heard_all()
    assert pipeline.asked == 2


class RememberingTending:
    """Keeps which streams were said to have a fault."""

    def __init__(self) -> None:
        self.faults: list[Any] = []

    def fault(self, stream: Any, _message: Gst.Message) -> None:
        self.faults.append(stream)


@pytest.mark.parametrize("run_is_lost_first", [False, True])
def test_what_sources_complain_of_after_the_run_is_lost_is_no_fault_of_theirs(run_is_lost_first: bool) -> None:
    source, model = Gst.ElementFactory.make("fakesrc"), Gst.ElementFactory.make("fakesink")
    assert source is not None
    assert model is not None
    stream = SimpleNamespace(ending=False)
    places = {source: ("source", stream), model: ("", None)}
    branch = SimpleNamespace(bin=model)
    graph: Any = SimpleNamespace(
        place_of=lambda message, _streams: places[message.src], endings=SimpleNamespace(branches=[branch])
    )
    roster: Any = SimpleNamespace(all=lambda: [stream])
    tending: Any = RememberingTending()
    unused: Any = None
    hearing = Hearing(graph, roster, tending, Summary([]), unused, unused)
    order = [model, source] if run_is_lost_first else [source, model]
    for element in order:
        error = GLib.Error.new_literal(Gst.StreamError.quark(), "no more", int(Gst.StreamError.FAILED))
        hearing.hear(Gst.Message.new_error(element, error, ""))
    assert "no more" in str(hearing.fatal)
    assert tending.faults == ([] if run_is_lost_first else [stream])


def forwarded(message: Gst.Message) -> Gst.Message:
    structure = Gst.Structure.new_empty("GstBinForwarded")
    structure.set_value("message", message)
    return Gst.Message.new_element(None, structure)


def test_what_nobody_reads_does_not_get_onto_the_bus() -> None:
    bus = Gst.Bus()
    keep_what_is_heard(bus)
    error = GLib.Error.new_literal(Gst.StreamError.quark(), "no more", int(Gst.StreamError.FAILED))
    unread = (
        Gst.Message.new_state_changed(None, Gst.State.NULL, Gst.State.READY, Gst.State.PLAYING),
        Gst.Message.new_async_start(None),
        Gst.Message.new_redirect(None, "rtsp://elsewhere", None, None),  # of the extended types, numbered 6
        forwarded(Gst.Message.new_async_start(None)),
    )
    read = (
        Gst.Message.new_error(None, error, ""),
        Gst.Message.new_latency(None),
        Gst.Message.new_element(None, Gst.Structure.new_empty("model-updated")),
        Gst.Message.new_application(None, Gst.Structure.new_empty("sluice-wake")),
        forwarded(Gst.Message.new_eos(None)),
    )
    for message in (*unread, *read, *unread):
        bus.post(message)
    kept = []
    while (message := bus.pop()) is not None:
        kept.append(message.type)
    assert kept == [message.type for message in read]


class QuietGraph:
    """All messages come from the whole pipeline, or from the one stream it is made with."""

    def __init__(self, stream: Any = None) -> None:
        self.pipeline = Gst.Pipeline()
        self._place = None if stream is None else ("source", stream)

    def place_of(self, _message: Gst.Message, _streams: Any) -> Any:
        return self._place


class ReadingTending:
    """Takes every warning for one that a source's end will tell."""

    def warned(self, _stream: Any, _message: Gst.Message) -> bool:
        return True


def hearing_of(graph: Any, tending: Any = None) -> tuple[Hearing, EventLog]:
    events = EventLog(lambda: 0.0)
    roster: Any = SimpleNamespace(all=list)
    unused: Any = None
    return Hearing(graph, roster, tending, Summary([]), unused, events), events


def said(element: Gst.Element, text: str, make: Any = Gst.Message.new_warning) -> Gst.Message:
    return make(element, GLib.Error.new_literal(Gst.ResourceError.quark(), text, int(Gst.ResourceError.WRITE)), "")


def test_what_an_element_warns_of_and_what_is_well_again_are_events_without_credentials() -> None:
    hearing, events = hearing_of(QuietGraph())
    broker = Gst.ElementFactory.make("fakesink", "broker")
    assert broker is not None
    hearing.hear(said(broker, "amqp://me:secret@host/a: nothing answers"))
    hearing.hear(said(broker, "amqp://me:secret@host/a: it takes messages again", Gst.Message.new_info))
    assert [(event.kind, event.stream, event.text) for event in events.since()] == [
        ("element-warning", None, "fakesink: amqp://host/a: nothing answers"),
        ("element-info", None, "fakesink: amqp://host/a: it takes messages again"),
    ]
    assert events.since()[0].details["element"] == "fakesink"


def test_a_warning_that_names_no_element_is_an_event_too() -> None:
    hearing, events = hearing_of(QuietGraph())
    nobody: Any = None
    hearing.hear(said(nobody, "odd"))
    assert [event.text for event in events.since()] == ["the pipeline: odd"]


def test_what_an_element_tells_by_a_message_of_its_own_too_is_no_second_event() -> None:
    hearing, events = hearing_of(QuietGraph())
    model = Gst.ElementFactory.make("fakesink")
    assert model is not None
    posted = []
    bus = Gst.Bus()
    model.set_bus(bus)
    post_warning(model, "it was refused", told_as="model-updated")
    post_warning(model, "something else")
    while (message := bus.pop()) is not None:
        posted.append(message)
        hearing.hear(message)
    assert len(posted) == 2
    assert [event.text for event in events.since()] == ["fakesink: something else"]


def test_a_warning_that_says_why_a_source_ends_is_told_with_its_end() -> None:
    stream = SimpleNamespace(name="gate", summary=SimpleNamespace(warnings=[], damaged=False))
    hearing, events = hearing_of(QuietGraph(stream), ReadingTending())
    source = Gst.ElementFactory.make("fakesrc")
    assert source is not None
    hearing.hear(said(source, "could not read"))
    assert events.since() == []
    assert stream.summary.warnings == ["could not read"]


def test_an_element_that_warns_all_the_time_has_few_events_and_holds_back_no_other() -> None:
    now = [0.0]
    events = EventLog(lambda: 0.0)
    remarks = Remarks(events, lambda: now[0])
    flood, calm = Gst.ElementFactory.make("fakesink"), Gst.ElementFactory.make("fakesrc")
    assert flood is not None
    assert calm is not None
    for number in range(1000):
        remarks.note(said(flood, f"no {number}"), "gate")
    remarks.note(said(calm, "once"), "gate")
    remarks.look()
    texts = [event.text for event in events.since()]
    assert texts == [*(f"fakesink: no {number}" for number in range(BURST)), "fakesrc: once"]
    now[0] = REFILL + 1
    remarks.look()
    remarks.look()
    (event,) = events.since(len(texts))
    assert event.text.startswith("fakesink: no 999 (993 before this one are not told")
    assert (event.stream, event.details["left_out"]) == ("gate", 993)
