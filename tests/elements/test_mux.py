"""When batches leave and what is in them, without GStreamer; and sluicemux's pads, caps and refusals."""

import threading
import time
from collections.abc import Callable
from typing import Any

import gi
import pytest

gi.require_version("Gst", "1.0")
from gi.repository import Gst

Gst.init(None)

from sluice.contract.formats import FORMATS
from sluice.contract.structures import required_structure
from sluice.elements import register
from sluice.elements.batch_policy import Batcher, Settings, Step, Stream

register("sluicemux")


class Clock:
    """Time that a test moves."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def batcher(streams: int, **settings: Any) -> tuple[Batcher, list[Stream], Clock]:
    clock = Clock()
    made = Batcher(Settings(**settings), clock)
    made.start()
    return made, [made.add(number) for number in range(streams)], clock


def collect_now(queue: Batcher) -> Step | None:
    """Return the next step if there is one now, else None."""
    found: list[Step | None] = []
    thread = threading.Thread(target=lambda: found.append(queue.collect()), daemon=True)
    thread.start()
    thread.join(0.05)
    if not found:
        queue.stop()
        thread.join(5)
        return None
    return found[0]


def seconds_to_wait(queue: Batcher) -> float | None:
    with queue._changed:
        return queue._seconds_to_wait()


def frames(step: Step | None) -> list[Any]:
    assert step is not None
    return [(stream.number, frame) for stream, frame in step.frames]


def test_a_batch_is_full_with_one_frame_of_each_stream() -> None:
    queue, (a, b, c), _ = batcher(3, batch_size=8, timeout=-1)
    queue.put_frame(a, "a0")
    queue.put_frame(c, "c0")
    queue.put_frame(b, "b0")
    assert frames(collect_now(queue)) == [(0, "a0"), (1, "b0"), (2, "c0")]


def test_a_batch_never_holds_more_than_batch_size_and_turns_go_on() -> None:
    queue, streams, _ = batcher(5, batch_size=2, timeout=-1)
    for round_number in range(2):
        for stream in streams:
            queue.put_frame(stream, round_number)
    order = [frames(queue.collect()) for _ in range(5)]
    assert [number for batch in order for number, _ in batch] == [0, 1, 2, 3, 4, 0, 1, 2, 3, 4]


def test_without_timeout_a_batch_waits_for_the_missing_stream() -> None:
    queue, (a, _b), _ = batcher(2, batch_size=2, timeout=-1)
    queue.put_frame(a, "a0")
    assert collect_now(queue) is None


def test_the_oldest_frame_sets_the_deadline() -> None:
    queue, (a, _b), clock = batcher(2, batch_size=2, timeout=0.5)
    queue.put_frame(a, "a0")
    clock.now += 0.4
    queue.put_frame(a, "a1")
    clock.now += 0.1
    assert frames(queue.collect()) == [(0, "a0")]
    clock.now += 0.39
    assert seconds_to_wait(queue) == pytest.approx(0.01)
    clock.now += 0.02
    assert frames(queue.collect()) == [(0, "a1")]


def test_a_stream_that_ended_is_not_waited_for() -> None:
    queue, (a, b), _ = batcher(2, batch_size=2, timeout=-1)
    queue.put_event(b, "end")
    assert [(stream.number, event) for stream, event in queue.collect().events] == [(1, "end")]
    assert not queue.mark_ended(b)
    queue.put_frame(a, "a0")
    assert frames(collect_now(queue)) == [(0, "a0")]
    assert queue.mark_ended(a)


def test_events_wait_for_the_frames_before_them() -> None:
    queue, (a, b), _ = batcher(2, batch_size=2, timeout=-1)
    queue.put_frame(a, "a0")
    queue.put_event(a, "caps")
    queue.put_frame(a, "a1")
    queue.put_frame(b, "b0")
    queue.put_frame(b, "b1")
    steps = [queue.collect() for _ in range(3)]
    assert frames(steps[0]) == [(0, "a0"), (1, "b0")]
    assert steps[1].events == [(a, "caps")]
    assert frames(steps[2]) == [(0, "a1"), (1, "b1")]


def test_several_frames_of_one_stream_when_asked_for() -> None:
    queue, (a,), _ = batcher(1, batch_size=4, timeout=-1, max_same_source_frames=4)
    for number in range(4):
        queue.put_frame(a, number)
    assert frames(collect_now(queue)) == [(0, 0), (0, 1), (0, 2), (0, 3)]


def test_an_event_closes_a_batch_that_could_otherwise_never_be_full() -> None:
    queue, (a,), _ = batcher(1, batch_size=4, timeout=-1, max_same_source_frames=4)
    queue.put_frame(a, 0)
    queue.put_event(a, "end")
    assert frames(collect_now(queue)) == [(0, 0)]


def test_a_full_queue_blocks_until_something_leaves() -> None:
    queue, (a, b), _ = batcher(2, batch_size=2, timeout=-1, queue_size=2)
    queue.put_frame(a, 0)
    queue.put_frame(a, 1)
    done: list[bool] = []
    thread = threading.Thread(target=lambda: done.append(queue.put_frame(a, 2)), daemon=True)
    thread.start()
    time.sleep(0.03)
    assert done == []
    queue.put_frame(b, 0)
    queue.collect()
    thread.join(5)
    assert done == [True]


@pytest.mark.parametrize("action", ["flush", "remove", "stop"])
def test_a_blocked_stream_is_woken(action: str) -> None:
    queue, (a, _b), _ = batcher(2, batch_size=2, timeout=-1, queue_size=1)
    queue.put_frame(a, 0)
    done: list[bool] = []
    thread = threading.Thread(target=lambda: done.append(queue.put_frame(a, 1)), daemon=True)
    thread.start()
    time.sleep(0.03)
    actions: dict[str, Callable[[], Any]] = {
        "flush": lambda: queue.flush(a, keep=lambda event: True),
        "remove": lambda: queue.remove(a, "gone"),
        "stop": queue.stop,
    }
    actions[action]()
    thread.join(5)
    assert done == [False]
    assert a.counts.discarded == 1


def test_flush_clears_one_stream_and_keeps_what_it_must() -> None:
    queue, (a, b), _ = batcher(2, batch_size=2, timeout=-1)
    queue.put_event(a, "caps")
    queue.put_event(a, "segment")
    queue.put_frame(a, "a0")
    queue.put_frame(b, "b0")
    queue.flush(a, keep=lambda event: event == "caps")
    assert not queue.put_frame(a, "lost")
    queue.resume(a)
    queue.put_frame(a, "a1")
    assert queue.collect().events == [(a, "caps")]
    assert frames(queue.collect()) == [(0, "a1"), (1, "b0")]
    assert (a.counts.frames_in, a.counts.frames_out, a.counts.discarded) == (2, 1, 1)


def test_a_removed_stream_is_not_waited_for() -> None:
    queue, (a, b), _ = batcher(2, batch_size=2, timeout=-1)
    queue.put_frame(a, "a0")
    assert queue.remove(b, "gone") == 0
    assert queue.collect().events == [(b, "gone")]
    assert frames(collect_now(queue)) == [(0, "a0")]


def test_synchronised_inputs_wait_for_early_frames_and_discard_late_ones() -> None:
    clock, running = Clock(), [0.0]
    queue = Batcher(Settings(batch_size=4, timeout=0.1, sync_window=(0.1, 0.2)), clock, lambda: running[0])
    queue.start()
    a, b = queue.add(0), queue.add(1)
    queue.put_frame(a, "a", 1.0)
    queue.put_frame(b, "late", 0.5)
    queue.put_frame(b, "b", 1.0)
    running[0] = 1.05
    assert seconds_to_wait(queue) == pytest.approx(0.05)
    running[0] = 1.1
    assert frames(queue.collect()) == [(0, "a"), (1, "b")]
    assert b.counts.late == 1


def test_stop_ends_the_collector() -> None:
    queue, _, _ = batcher(1, batch_size=1)
    ended: list[Any] = []
    thread = threading.Thread(target=lambda: ended.append(queue.collect()), daemon=True)
    thread.start()
    queue.stop()
    thread.join(5)
    assert ended == [None]


# The element


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
    assert query.parse_nth_allocation_pool(0)[2] >= 4
