"""sluicemux's properties, pads, caps and refusals."""

from typing import Any

import gi
import pytest

gi.require_version("Gst", "1.0")
from gi.repository import Gst

Gst.init(None)

from sluice.contract.formats import FORMATS
from sluice.contract.structures import required_structure
from sluice.elements import register

register("sluicemux")


def mux(**properties: Any) -> Gst.Element:
    element = Gst.ElementFactory.make("sluicemux")
    for name, value in properties.items():
        element.set_property(name.replace("_", "-"), value)
    return element


def first_error(pipeline: Gst.Pipeline) -> str:
    pipeline.set_state(Gst.State.PLAYING)
    message = pipeline.get_bus().timed_pop_filtered(10 * Gst.SECOND, Gst.MessageType.ERROR | Gst.MessageType.EOS)
    pipeline.set_state(Gst.State.NULL)
    assert message.type == Gst.MessageType.ERROR
    return str(message.parse_error()[0].message)


def test_defaults_are_those_of_the_new_nvstreammux() -> None:
    element = mux()
    assert element.get_property("batched-push-timeout") == 33000
    assert element.get_property("batch-size") == 0
    assert element.get_property("max-same-source-frames") == 1
    assert element.get_property("attach-sys-ts") is True
    for name in ("sync-inputs", "drop-pipeline-eos", "enable-padding", "frame-num-reset-on-eos", "live-source"):
        assert element.get_property(name) is False


@pytest.mark.parametrize(
    ("properties", "words"),
    [
        ("", ["batch-size", "not set"]),
        ("batch-size=1 width=640", ["width=640", "height=0"]),
        ("batch-size=1 sync-inputs=true batched-push-timeout=-1", ["sync-inputs", "batched-push-timeout"]),
    ],
)
def test_wrong_properties_are_refused_by_name(properties: str, words: list[str]) -> None:
    error = first_error(Gst.parse_launch(f"videotestsrc ! m.sink_0 sluicemux name=m {properties} ! fakesink"))
    assert all(word in error for word in words)


def test_a_raw_format_that_cannot_be_batched_is_refused_with_the_converter() -> None:
    line = (
        "videotestsrc num-buffers=1 ! video/x-raw,format=Y444 ! identity ! m.sink_0 sluicemux name=m batch-size=1 ! "
        "fakesink"
    )
    error = first_error(Gst.parse_launch(line))
    assert "Y444" in error
    assert "videoconvert ! video/x-raw,format=I420" in error


def test_a_converter_before_the_mux_picks_a_format_that_can_be_batched() -> None:
    line = (
        "videotestsrc num-buffers=2 ! video/x-raw,format=Y444 ! videoconvert ! m.sink_0 "
        "sluicemux name=m batch-size=1 ! fakesink"
    )
    pipeline = Gst.parse_launch(line)
    pipeline.set_state(Gst.State.PAUSED)
    assert pipeline.get_state(5 * Gst.SECOND)[0] == Gst.StateChangeReturn.SUCCESS
    caps = pipeline.get_by_name("m").get_static_pad("sink_0").get_current_caps()
    pipeline.set_state(Gst.State.NULL)
    assert required_structure(caps, 0).get_string("format") in FORMATS


def test_pads_are_numbered_and_unique() -> None:
    element = mux(batch_size=4)
    assert element.request_pad_simple("sink_%u").get_name() == "sink_0"
    assert element.request_pad_simple("sink_7").get_name() == "sink_7"
    assert element.request_pad_simple("sink_%u").get_name() == "sink_1"
    assert element.request_pad_simple("sink_7") is None
    element.release_request_pad(element.get_static_pad("sink_0"))
    assert element.request_pad_simple("sink_%u").get_name() == "sink_0"


def test_pads_are_finalised_after_release() -> None:
    import gc
    import weakref

    element = mux(batch_size=4)
    gone = []
    for _ in range(20):
        pad = element.request_pad_simple("sink_%u")
        gone.append(weakref.ref(pad))
        element.release_request_pad(pad)
        del pad
    gc.collect()
    assert [ref() for ref in gone] == [None] * 20


def test_allocation_takes_strides_and_says_how_many_buffers_are_held() -> None:
    element = mux(batch_size=2)
    pad = element.request_pad_simple("sink_0")
    source = Gst.Pad.new("source", Gst.PadDirection.SRC)
    source.link(pad)
    source.set_active(True)
    caps = Gst.Caps.from_string("video/x-raw,format=I420,width=64,height=48")
    query = Gst.Query.new_allocation(caps, True)
    assert source.peer_query(query)
    apis = [query.parse_nth_allocation_meta(index)[0].name for index in range(query.get_n_allocation_metas())]
    assert apis == ["GstVideoMetaAPI"]
    assert query.parse_nth_allocation_pool(0)[1] == 64 * 48 * 3 // 2
    assert query.parse_nth_allocation_pool(0)[2] == 3  # two that wait, one in a batch


def warning_within(element: Gst.Element, seconds: float) -> str | None:
    """The first warning of an element that plays alone."""
    pipeline, sink = Gst.Pipeline(), Gst.ElementFactory.make("fakesink")
    pipeline.add(element)
    pipeline.add(sink)
    element.link(sink)
    pipeline.set_state(Gst.State.PLAYING)
    message = pipeline.get_bus().timed_pop_filtered(int(seconds * Gst.SECOND), Gst.MessageType.WARNING)
    pipeline.set_state(Gst.State.NULL)
    return None if message is None else str(message.parse_warning()[0].message)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sluice.elements.mux_unlinked.PATIENCE", 0.2)


@pytest.mark.usefixtures("impatient")
def test_a_mux_without_streams_says_so() -> None:
    said = warning_within(mux(batch_size=1), 10)
    assert said is not None
    assert "has no stream" in said
    assert "sink_%u" in said


@pytest.mark.usefixtures("impatient")
def test_a_mux_whose_streams_were_all_removed_before_the_start_says_so() -> None:
    element = mux(batch_size=1)
    element.release_request_pad(element.request_pad_simple("sink_0"))
    assert "has no stream" in (warning_within(element, 10) or "")


@pytest.mark.usefixtures("impatient")
def test_a_mux_with_a_stream_or_for_streams_that_come_later_says_nothing() -> None:
    linked = mux(batch_size=1)
    linked.request_pad_simple("sink_0")
    assert warning_within(linked, 1) is None
    assert warning_within(mux(batch_size=1, drop_pipeline_eos=True), 1) is None


def test_a_stream_that_comes_in_time_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sluice.elements.mux_unlinked.PATIENCE", 2.0)  # far longer than the next lines take
    element = mux(batch_size=1)
    pipeline, sink = Gst.Pipeline(), Gst.ElementFactory.make("fakesink")
    pipeline.add(element)
    pipeline.add(sink)
    element.link(sink)
    pipeline.set_state(Gst.State.PLAYING)
    element.request_pad_simple("sink_0")
    said = pipeline.get_bus().timed_pop_filtered(3 * Gst.SECOND, Gst.MessageType.WARNING)
    pipeline.set_state(Gst.State.NULL)
    assert said is None
