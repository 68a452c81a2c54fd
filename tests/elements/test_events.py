"""The events, messages and queries NVIDIA's elements exchange: numbers, names and fields."""

import gi
import pytest

gi.require_version("Gst", "1.0")
from gi.repository import Gst

Gst.init(None)

from sluice.contract.structures import required_structure
from sluice.elements import events

CAPS = Gst.Caps.from_string("video/x-raw,format=NV12,width=640,height=360,framerate=30000/1001")


def time_segment() -> Gst.Segment:
    segment = Gst.Segment()
    segment.init(Gst.Format.TIME)
    segment.start = 5 * Gst.SECOND
    return segment


@pytest.mark.parametrize(
    ("event", "number", "name"),
    [
        (events.pad_added(3), 102430, "nv-pad-added-"),
        (events.pad_deleted(3), 0x1911E, "nv-pad-deleted-"),
        (events.stream_eos(3), 102942, "nv-stream-eos-"),
        (events.stream_segment(3, time_segment()), 103198, "nv-stream-segment-"),
        (events.stream_reset(3), 0x1941E, "nv-stream-reset-"),
        (events.stream_start(3, "camera"), 103710, "nv-stream-start-"),
        (events.update_caps(3, "camera", CAPS), 103966, "update-caps-"),
    ],
)
def test_stream_events_have_nvidia_s_numbers_and_names(event: Gst.Event, number: int, name: str) -> None:
    assert events.event_type(event) == number
    assert required_structure(event).get_name().startswith(name)
    assert events.parse_stream_event(event).source_id == 3


def test_every_stream_event_is_distinct_and_pads_keep_a_bounded_number() -> None:
    made = [events.pad_added(number) for number in range(1000)]
    assert len({events.identity(event) for event in made}) == 1000
    names = [required_structure(event).get_name() for event in made]
    assert len(set(names)) == 256
    assert len(set(names[:256])) == 256


def test_update_caps_carries_size_rate_and_the_caps() -> None:
    parsed = events.parse_stream_event(events.update_caps(2, "cam", CAPS))
    assert (parsed.width, parsed.height, parsed.framerate, parsed.stream_id) == (640, 360, (30000, 1001), "cam")
    assert parsed.caps.is_equal(CAPS)
    structure = required_structure(events.update_caps(2, "cam", CAPS))
    assert structure.get_uint("stream-id") == (True, 2)
    assert structure.get_string("stream-id-str") == "cam"
    assert structure.get_uint("width-val") == (True, 640)
    assert structure.get_uint("height-val") == (True, 360)


def test_stream_segment_carries_the_segment() -> None:
    parsed = events.parse_stream_event(events.stream_segment(1, time_segment()))
    assert parsed.segment.start == 5 * Gst.SECOND


def test_control_events_share_a_number_with_stream_events_but_not_a_type() -> None:
    event = events.control_event(events.ROI_UPDATE, stream_id="cam", roi__count=0)
    assert events.parse_stream_event(event) is None
    assert events.parse_control_event(event) == {"stream_id": "cam", "roi-count": 0}
    assert required_structure(event).get_uint("roi-count") == (True, 0)
    interval = events.control_event(events.INFER_INTERVAL_UPDATE, stream_id="cam", interval=4)
    assert events.event_type(interval) == (407 << 8 | 6)
    assert events.parse_control_event(interval)["interval"] == 4


def test_other_events_are_not_taken_for_ours() -> None:
    for event in (Gst.Event.new_eos(), Gst.Event.new_caps(CAPS), Gst.Event.new_flush_stop(True)):
        assert events.parse_stream_event(event) is None
        assert events.parse_control_event(event) is None


def test_stream_events_travel_as_sticky_events() -> None:
    received = []

    def on_event(_pad: Gst.Pad, _parent: Gst.Object, event: Gst.Event) -> bool:
        received.append(events.parse_stream_event(event))
        return True

    source, sink = Gst.Pad.new("src", Gst.PadDirection.SRC), Gst.Pad.new("sink", Gst.PadDirection.SINK)
    sink.set_event_function_full(on_event, None)
    sink.set_active(True)
    source.set_active(True)
    source.push_event(Gst.Event.new_stream_start("x"))
    source.push_event(events.pad_added(0))
    source.push_event(events.pad_added(1))
    source.link(sink)
    assert source.push_event(events.stream_eos(0))
    seen = [(e.kind, e.source_id) for e in received if e]
    assert seen == [(events.PAD_ADDED, 0), (events.PAD_ADDED, 1), (events.STREAM_EOS, 0)]


def test_custom_queries_are_answered_in_place() -> None:
    def on_query(_pad: Gst.Pad, _parent: Gst.Object, query: Gst.Query) -> bool:
        if required_structure(query).get_name() == "nv-batch-size":
            return events.answer(query, batch_size=16)
        return False

    source, sink = Gst.Pad.new("src", Gst.PadDirection.SRC), Gst.Pad.new("sink", Gst.PadDirection.SINK)
    source.set_query_function_full(on_query, None)
    source.set_active(True)
    sink.set_active(True)
    source.link(sink)
    assert events.ask_batch_size(sink) == 16
    assert events.ask_stream_count(sink) is None


def test_stream_eos_message_names_the_stream() -> None:
    event = events.stream_eos_message(Gst.Pipeline.new(None), 7)
    assert required_structure(event).get_name() == "stream-eos"
    structure = required_structure(event.parse_sink_message())
    assert structure.get_name() == "stream-eos"
    assert structure.get_uint("stream-id") == (True, 7)
