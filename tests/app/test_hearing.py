"""What a run makes of the messages on its bus."""

from types import SimpleNamespace
from typing import Any

import gi
import pytest

gi.require_version("Gst", "1.0")
from gi.repository import GLib, Gst

from sluice.app.hearing import Hearing, keep_what_is_heard
from sluice.app.summary import Summary


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
