"""When batches leave, what is in them, and what becomes of frames and events: the collector without elements."""

import gc
import itertools
import random
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gi
import pytest
from leftovers import nothing_is_left

gi.require_version("Gst", "1.0")
from gi.repository import Gst

Gst.init(None)

from sluice.contract import gstref
from sluice.contract.batching import original_buffer
from sluice.contract.collector import UNLIMITED, Collector, Settings, Step, Stream
from sluice.contract.formats import FrameFormat
from sluice.contract.metadata import BatchMeta
from sluice.contract.structures import required_structure
from sluice.errors import ContractError
from waiting import PATIENCE, until

MILLISECOND = Gst.MSECOND
LEAST_STEP = 100 * Gst.USECOND  # of native/collect_batch.c
CAPS = Gst.Caps.from_string("video/x-raw,format=GRAY8,width=16,height=16,framerate=25/1")
FORMAT = FrameFormat.from_caps(CAPS)
BEGIN = 100 * Gst.SECOND
CAPACITY = 32


class Feed:
    """A collector whose time a test moves, with streams of grey frames."""

    def __init__(self, streams: int, **settings: Any) -> None:
        self.collector = Collector()
        self.now, self.running_time = BEGIN, -1
        self.collector.hold_clock(self.now)
        self.collector.configure(Settings(**settings))
        self.collector.start()
        self.streams = [self.add(number) for number in range(streams)]

    def add(self, number: int) -> Stream:
        stream = self.collector.add(number)
        stream.set_format(FORMAT, source_id=number, size=(16, 16), duration=40 * MILLISECOND)
        return stream

    def move(self, by: int = 0, running_time: int = -1) -> None:
        self.now += by
        self.collector.hold_clock(self.now, running_time)

    def step(self) -> Step:
        step = self.collector.run(CAPACITY)
        assert step is not None
        return step

    def step_within(self, seconds: float) -> Step | None:
        """Return the next step if there is one in that time, else None."""
        found: list[Step | None] = []
        thread = threading.Thread(target=lambda: found.append(self.collector.run(CAPACITY)), daemon=True)
        thread.start()
        thread.join(seconds)
        if not found:
            self.collector.stop()
            thread.join(PATIENCE)
            return None
        return found[0]

    def batch(self) -> list[tuple[int, int]]:
        return frames(self.step_within(PATIENCE))


def frame(pts: int = 0, size: int = 256) -> Gst.Buffer:
    buffer = Gst.Buffer.new_allocate(None, size, None)
    buffer.pts = pts
    return buffer


def put(stream: Stream, pts: int = 0) -> Gst.FlowReturn:
    return Gst.FlowReturn(stream.put(frame(pts)))


def frames(step: Step | None) -> list[tuple[int, int]]:
    """Return (stream's number, frame's number) of each frame of a batch."""
    assert step is not None
    assert step.batch is not None
    return [(item.pad_index, item.frame_num) for item in BatchMeta.of(step.batch).frames]


def event(name: str = "event") -> Gst.Event:
    return Gst.Event.new_custom(Gst.EventType.CUSTOM_DOWNSTREAM, Gst.Structure.new_empty(name))


def name_of(step: Step | None) -> tuple[int | None, str]:
    assert step is not None
    assert step.event is not None
    return step.stream, required_structure(step.event).get_name()


@pytest.fixture(autouse=True)
def _nothing_is_left():
    with nothing_is_left("live_batches", "live_frames"):
        yield


def test_a_batch_is_full_with_one_frame_of_each_stream() -> None:
    feed = Feed(3, batch_size=8, timeout=UNLIMITED)
    for number in (0, 2, 1):
        put(feed.streams[number])
    assert feed.batch() == [(0, 0), (1, 0), (2, 0)]


def test_a_batch_never_holds_more_than_batch_size_and_turns_go_on() -> None:
    feed = Feed(5, batch_size=2, timeout=UNLIMITED)
    for _ in range(2):
        for stream in feed.streams:
            put(stream)
    order = [frames(feed.step()) for _ in range(5)]
    assert [number for batch in order for number, _ in batch] == [0, 1, 2, 3, 4, 0, 1, 2, 3, 4]


def test_streams_take_turns_by_number_however_they_were_added() -> None:
    feed = Feed(0, batch_size=8, timeout=UNLIMITED)
    for number in (5, 0, 3):
        put(feed.add(number))
    assert feed.batch() == [(0, 0), (3, 0), (5, 0)]


def test_without_timeout_a_batch_waits_for_the_missing_stream() -> None:
    feed = Feed(2, batch_size=2, timeout=UNLIMITED)
    put(feed.streams[0])
    assert feed.collector.wait_time() is None
    assert feed.step_within(0.05) is None


def test_the_oldest_frame_sets_the_deadline() -> None:
    feed = Feed(2, batch_size=2, timeout=500 * MILLISECOND)
    put(feed.streams[0])
    feed.move(400 * MILLISECOND)
    put(feed.streams[0])
    feed.move(100 * MILLISECOND)
    assert frames(feed.step()) == [(0, 0)]
    feed.move(390 * MILLISECOND)
    assert feed.collector.wait_time() == 10 * MILLISECOND
    feed.move(20 * MILLISECOND)
    assert frames(feed.step()) == [(0, 1)]


def test_a_waiting_collector_keeps_the_deadline() -> None:
    feed = Feed(2, batch_size=2, timeout=20 * MILLISECOND)
    found: list[Step | None] = []
    thread = threading.Thread(target=lambda: found.append(feed.collector.run(CAPACITY)), daemon=True)
    thread.start()
    put(feed.streams[0])
    time.sleep(0.005)
    feed.move(20 * MILLISECOND)
    thread.join(PATIENCE)
    assert frames(found[0]) == [(0, 0)]


def test_a_stream_that_ended_is_not_waited_for() -> None:
    feed = Feed(2, batch_size=2, timeout=UNLIMITED)
    a, b = feed.streams
    b.put_event(event("end"))
    assert name_of(feed.step()) == (b.address, "end")
    assert not b.mark_ended()
    put(a)
    assert feed.batch() == [(0, 0)]
    assert not feed.collector.all_ended()
    assert a.mark_ended()
    assert feed.collector.all_ended()
    assert not b.mark_ended(False)


def test_events_wait_for_the_frames_before_them() -> None:
    feed = Feed(2, batch_size=2, timeout=UNLIMITED)
    a, b = feed.streams
    put(a)
    a.put_event(event("caps"))
    for stream in (a, b, b):
        put(stream)
    assert frames(feed.step()) == [(0, 0), (1, 0)]
    assert name_of(feed.step()) == (a.address, "caps")
    assert frames(feed.step()) == [(0, 1), (1, 1)]


def test_several_frames_of_one_stream_when_asked_for() -> None:
    feed = Feed(1, batch_size=4, timeout=UNLIMITED, max_same_source_frames=4)
    for _ in range(4):
        put(feed.streams[0])
    assert feed.batch() == [(0, 0), (0, 1), (0, 2), (0, 3)]


def test_an_event_closes_a_batch_that_could_otherwise_never_be_full() -> None:
    feed = Feed(1, batch_size=4, timeout=UNLIMITED, max_same_source_frames=4)
    put(feed.streams[0])
    feed.streams[0].put_event(event("end"))
    assert feed.batch() == [(0, 0)]


def blocked(stream: Stream) -> tuple[threading.Thread, list[Gst.FlowReturn]]:
    """Put a frame from a thread of its own, for which there is no room, and wait until it is waited for."""
    begun, done = threading.Event(), list[Gst.FlowReturn]()
    thread = threading.Thread(target=lambda: (begun.set(), done.append(put(stream))), daemon=True)
    thread.start()
    assert begun.wait(PATIENCE)
    until(lambda: all(sleeps(thread) for _ in range(3)), "the thread waits")
    assert done == []
    return thread, done


def sleeps(thread: threading.Thread) -> bool:
    """Whether a thread has nothing to do in a hundredth of a second, be the machine as busy as it may."""
    time.sleep(0.01)
    state = Path(f"/proc/self/task/{thread.native_id}/stat").read_text().rpartition(")")[2].split()[0]
    return state == "S"


def test_a_full_queue_blocks_until_something_leaves() -> None:
    feed = Feed(2, batch_size=2, timeout=UNLIMITED, queue_size=2)
    a, b = feed.streams
    put(a)
    put(a)
    thread, done = blocked(a)
    put(b)
    feed.step()
    thread.join(PATIENCE)
    assert done == [Gst.FlowReturn.OK]


@pytest.mark.parametrize("action", ["flush", "remove", "stop"])
def test_a_blocked_stream_is_woken(action: str) -> None:
    feed = Feed(2, batch_size=2, timeout=UNLIMITED, queue_size=1)
    a = feed.streams[0]
    put(a)
    thread, done = blocked(a)
    actions: dict[str, Callable[[], Any]] = {"flush": a.flush, "remove": a.remove, "stop": feed.collector.stop}
    actions[action]()
    thread.join(PATIENCE)
    assert done == [Gst.FlowReturn.FLUSHING]
    assert a.counts().discarded == 1


def test_more_room_wakes_a_blocked_stream() -> None:
    feed = Feed(2, batch_size=2, timeout=UNLIMITED, queue_size=1)
    put(feed.streams[0])
    thread, done = blocked(feed.streams[0])
    feed.collector.configure(Settings(batch_size=2, timeout=UNLIMITED, queue_size=2))
    thread.join(PATIENCE)
    assert done == [Gst.FlowReturn.OK]


def test_flush_clears_one_stream_and_keeps_what_describes_the_next_frames() -> None:
    feed = Feed(2, batch_size=2, timeout=UNLIMITED)
    a, b = feed.streams
    a.put_event(Gst.Event.new_caps(CAPS))
    a.put_event(event("lost"))
    put(a)
    put(b)
    a.flush()
    assert put(a) == Gst.FlowReturn.FLUSHING
    assert not a.put_event(event("refused"))
    a.resume()
    put(a)
    step = feed.step()
    assert (step.stream, step.event.type) == (a.address, Gst.EventType.CAPS)
    assert frames(feed.step()) == [(0, 2), (1, 0)]
    counts = a.counts()
    assert (counts.frames_in, counts.frames_out, counts.discarded) == (2, 1, 1)


def segment_from(start: int, base: int = 0) -> Gst.Event:
    segment = Gst.Segment()
    segment.init(Gst.Format.TIME)
    segment.start = segment.time = start
    segment.base = base
    return Gst.Event.new_segment(segment)


def test_times_go_on_after_a_flush_that_sets_a_stream_back() -> None:
    feed = Feed(1, batch_size=1)
    (a,) = feed.streams
    for pts in (0, 40 * MILLISECOND):
        put(a, pts)
        assert feed.step().batch.pts == pts
    a.flush()
    a.resume()
    a.put_event(segment_from(10 * Gst.SECOND))
    for pts in (0, 40 * MILLISECOND):
        put(a, 10 * Gst.SECOND + pts)
    assert feed.step().event.parse_segment().base == 0
    moved = feed.step().event
    assert moved.parse_segment().to_running_time(Gst.Format.TIME, 10 * Gst.SECOND) == 80 * MILLISECOND
    assert [feed.step().batch.pts for _ in range(2)] == [80 * MILLISECOND, 120 * MILLISECOND]
    a.put_event(segment_from(0, base=80 * MILLISECOND))
    put(a)
    assert feed.step().event.parse_segment().base == 80 * MILLISECOND
    moved = feed.step().event
    assert moved.parse_segment().base == feed.step().batch.pts == 160 * MILLISECOND


def test_a_flush_that_sets_no_time_back_changes_none() -> None:
    feed = Feed(1, batch_size=1)
    (a,) = feed.streams
    put(a)
    assert feed.step().batch.pts == 0
    a.flush()
    a.resume()
    put(a, 5 * Gst.SECOND)
    assert feed.step().batch.pts == 5 * Gst.SECOND


def test_a_removed_stream_is_not_waited_for() -> None:
    feed = Feed(2, batch_size=2, timeout=UNLIMITED)
    a, b = feed.streams
    put(a)
    assert b.remove() == (0, True)
    assert put(b) == Gst.FlowReturn.FLUSHING
    step = feed.step()
    assert (step.stream, step.event) == (b.address, None)
    assert feed.batch() == [(0, 0)]


def test_removing_a_stream_says_how_many_frames_it_had() -> None:
    feed = Feed(1, batch_size=1)
    feed.collector.stop()
    assert feed.streams[0].remove() == (0, False)
    feed = Feed(2, batch_size=2)
    put(feed.streams[0])
    assert feed.streams[0].remove() == (1, True)


WINDOW = (100 * MILLISECOND, 200 * MILLISECOND)


def test_synchronised_inputs_wait_for_early_frames_and_discard_late_ones() -> None:
    feed = Feed(2, batch_size=4, timeout=100 * MILLISECOND, sync_window=WINDOW)
    feed.move(running_time=0)
    a, b = feed.streams
    put(a, 1000 * MILLISECOND)
    put(b, 500 * MILLISECOND)
    put(b, 1000 * MILLISECOND)
    feed.move(running_time=1050 * MILLISECOND)
    assert feed.collector.wait_time() == 50 * MILLISECOND
    feed.move(running_time=1100 * MILLISECOND)
    assert frames(feed.step()) == [(0, 0), (1, 1)]
    assert b.counts().late == b.counts().discarded == 1


def test_an_event_behind_nothing_but_late_frames_is_delivered() -> None:
    feed = Feed(1, batch_size=1, sync_window=WINDOW)
    put(feed.streams[0])
    feed.streams[0].put_event(event("end"))
    feed.move(running_time=Gst.SECOND)
    assert name_of(feed.step_within(PATIENCE)) == (feed.streams[0].address, "end")
    assert feed.streams[0].counts().late == 1


def test_stop_ends_the_collecting_thread() -> None:
    feed = Feed(1, batch_size=1)
    ended: list[Step | None] = []
    thread = threading.Thread(target=lambda: ended.append(feed.collector.run(CAPACITY)), daemon=True)
    thread.start()
    feed.collector.stop()
    thread.join(PATIENCE)
    assert ended == [None]
    assert put(feed.streams[0]) == Gst.FlowReturn.FLUSHING


def test_a_start_begins_anew() -> None:
    feed = Feed(1, batch_size=1)
    stream = feed.streams[0]
    put(stream)
    put(stream)
    feed.step()
    stream.mark_ended()
    feed.collector.stop()
    assert (stream.counts().discarded, feed.collector.batches()) == (1, 1)
    feed.collector.start()
    assert set(vars(stream.counts()).values()) == {0}
    assert feed.collector.batches() == 0
    assert not feed.collector.all_ended()
    assert put(stream) == Gst.FlowReturn.NOT_NEGOTIATED


def test_what_downstream_returned_is_what_streams_get() -> None:
    feed = Feed(2, batch_size=2)
    a, b = feed.streams
    put(a)
    feed.collector.set_flow(Gst.FlowReturn.EOS)
    assert put(b) == Gst.FlowReturn.EOS
    feed.move(Gst.SECOND)
    feed.collector.stop()
    assert (b.counts().frames_in, b.counts().refused) == (0, 1)


def test_frames_that_waited_when_downstream_refused_are_counted() -> None:
    feed = Feed(1, batch_size=1)
    put(feed.streams[0])
    feed.collector.set_flow(Gst.FlowReturn.ERROR)
    assert feed.step_within(0.05) is None
    counts = feed.streams[0].counts()
    assert (counts.frames_in, counts.frames_out, counts.refused, counts.discarded) == (1, 0, 1, 0)


def test_frames_that_make_no_batch_are_refused_by_name_and_end_the_flow() -> None:
    feed = Feed(1, batch_size=1)
    feed.streams[0].put(frame(size=10))
    with pytest.raises(ContractError, match="frame 0 of the batch has 10 bytes"):
        feed.collector.run(CAPACITY)
    assert put(feed.streams[0]) == Gst.FlowReturn.ERROR


def test_a_pushed_batch_is_the_only_holder_of_itself_and_its_frames() -> None:
    feed = Feed(1, batch_size=1)
    source, sink = Gst.Pad.new("src", Gst.PadDirection.SRC), Gst.Pad.new("sink", Gst.PadDirection.SINK)
    seen: list[tuple[int, int]] = []

    def chain(pad: Gst.Pad, parent: Any, batch: Gst.Buffer) -> Gst.FlowReturn:
        held = original_buffer(batch, 0)  # by this wrapper and by the batch
        seen.append((gstref.refcount(gstref.address(batch)), gstref.refcount(gstref.address(held))))
        return Gst.FlowReturn.OK if len(seen) < 3 else Gst.FlowReturn.EOS

    sink.set_chain_function_full(chain, None)
    source.link(sink)
    for pad in (sink, source):
        pad.set_active(True)
    segment = Gst.Segment()
    segment.init(Gst.Format.TIME)
    source.push_event(Gst.Event.new_stream_start("s"))
    source.push_event(Gst.Event.new_segment(segment))
    for _ in range(4):
        put(feed.streams[0])
    step = feed.collector.run(CAPACITY, source)
    assert step is not None
    assert (step.flow, step.batch, step.event) == (Gst.FlowReturn.EOS, None, None)
    assert seen == [(1, 2)] * 3
    assert put(feed.streams[0]) == Gst.FlowReturn.EOS


def test_rows_of_metadata_and_the_batchs_time() -> None:
    feed = Feed(1, batch_size=2, max_same_source_frames=2)
    stream = feed.streams[0]
    stream.set_format(FORMAT, source_id=7, size=(64, 48), pipeline_size=(16, 16), duration=MILLISECOND)
    segment = Gst.Segment()
    segment.init(Gst.Format.TIME)
    segment.start = Gst.SECOND
    segment.base = 5 * Gst.SECOND
    stream.put_event(Gst.Event.new_segment(segment))
    feed.step()
    before = time.time_ns()
    put(stream, Gst.SECOND + 3)
    put(stream, 5)  # outside of the segment: its running time is that of the frame before
    after = time.time_ns()
    step = feed.step()
    assert step.batch is not None
    assert step.batch.pts == 5 * Gst.SECOND + 3
    first, second = BatchMeta.of(step.batch).frames
    assert (first.buf_pts, second.buf_pts) == (Gst.SECOND + 3, 5)
    assert before <= first.ntp_timestamp <= second.ntp_timestamp <= after
    assert (first.pad_index, first.source_id, first.batch_id, second.batch_id) == (0, 7, 0, 1)
    assert (first.source_width, first.source_height, first.pipeline_width, first.pipeline_height) == (64, 48, 16, 16)
    # A batch's time never goes back, nor stays.
    segment.base = 0
    stream.put_event(Gst.Event.new_segment(segment))
    feed.step()
    put(stream, Gst.SECOND)
    feed.move(Gst.SECOND)
    assert feed.step().batch.pts == 5 * Gst.SECOND + 3 + LEAST_STEP


def test_the_senders_time_is_taken_where_wanted() -> None:
    feed = Feed(1, batch_size=3, max_same_source_frames=3, wall_clock=False)
    since_1900 = (2_208_988_800 + 1_700_000_000) * Gst.SECOND
    for stamp in (since_1900, 5, None):
        buffer = frame()
        if stamp is not None:
            caps = Gst.Caps.from_string("timestamp/x-ntp")
            buffer.add_reference_timestamp_meta(caps, stamp, Gst.CLOCK_TIME_NONE)
        feed.streams[0].put(buffer)
    stamps = [item.ntp_timestamp for item in BatchMeta.of(feed.step().batch).frames]
    assert stamps == [1_700_000_000 * Gst.SECOND, 0, 0]


def test_frames_without_timestamps_are_counted_from_the_rate() -> None:
    feed = Feed(1, batch_size=4, max_same_source_frames=4)
    for pts in (Gst.CLOCK_TIME_NONE, Gst.CLOCK_TIME_NONE, Gst.SECOND, Gst.CLOCK_TIME_NONE):
        put(feed.streams[0], pts)
    stamps = [item.buf_pts for item in BatchMeta.of(feed.step().batch).frames]
    assert stamps == [0, 40 * MILLISECOND, Gst.SECOND, Gst.SECOND + 40 * MILLISECOND]
    assert feed.streams[0].counts().untimed == 3


def test_frame_numbers_begin_again_when_told_to() -> None:
    feed = Feed(1, batch_size=1)
    put(feed.streams[0])
    feed.streams[0].renumber()
    put(feed.streams[0])
    assert [frames(feed.step()), frames(feed.step())] == [[(0, 0)], [(0, 0)]]


def test_a_pad_keeps_its_stream_and_puts_frames_without_python() -> None:
    feed = Feed(1, batch_size=1)
    pad = Gst.Pad.new("sink", Gst.PadDirection.SINK)
    feed.streams[0].bind(pad)
    feed.streams[0].take_frames_of(pad)
    pad.set_active(True)
    pad.send_event(Gst.Event.new_stream_start("s"))
    segment = Gst.Segment()
    segment.init(Gst.Format.TIME)
    pad.send_event(Gst.Event.new_segment(segment))
    assert pad.chain(frame()) == Gst.FlowReturn.OK
    assert frames(feed.step()) == [(0, 0)]
    feed.streams.clear()
    del feed
    gc.collect()
    assert pad.chain(frame()) == Gst.FlowReturn.FLUSHING


def test_eight_threads_put_flush_end_come_and_go() -> None:
    """Every frame that was taken in is accounted for, and each stream's frames leave in order."""
    collector = Collector()
    collector.configure(Settings(batch_size=8, timeout=MILLISECOND))
    collector.start()
    gone: list[Stream] = []
    last: dict[int, int] = {}  # frame number by source_id, which is another for each stream
    out_of_order: list[int] = []
    out = 0
    serial = itertools.count()
    stop = time.monotonic() + 1.0

    def feed_streams(number: int) -> None:
        chance = random.Random(number)
        while time.monotonic() < stop:
            stream = collector.add(number)
            stream.set_format(FORMAT, source_id=next(serial), size=(16, 16), duration=40 * MILLISECOND)
            for _ in range(chance.randrange(1, 60)):
                put(stream)
                if chance.random() < 0.05:
                    stream.flush()
                    stream.resume()
                if chance.random() < 0.1:
                    stream.put_event(event())
            if chance.random() < 0.5:
                stream.put_event(Gst.Event.new_eos())
                stream.mark_ended()
            stream.remove()
            gone.append(stream)

    threads = [threading.Thread(target=feed_streams, args=(number,), daemon=True) for number in range(8)]
    for thread in threads:
        thread.start()

    def collect() -> None:
        nonlocal out
        while (step := collector.run(CAPACITY)) is not None:
            for item in BatchMeta.of(step.batch).frames if step.batch else ():
                out += 1
                if item.frame_num <= last.get(item.source_id, -1):
                    out_of_order.append(item.source_id)
                last[item.source_id] = item.frame_num

    collecting = threading.Thread(target=collect, daemon=True)
    collecting.start()
    for thread in threads:
        thread.join(PATIENCE)
    collector.stop()
    collecting.join(PATIENCE)
    assert not collecting.is_alive()
    assert len(gone) >= 8
    assert not out_of_order
    counts = [stream.counts() for stream in gone]
    assert sum(one.frames_in for one in counts) == sum(one.frames_out + one.discarded for one in counts)
    assert sum(one.frames_out for one in counts) == out
