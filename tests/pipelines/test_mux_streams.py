"""sluicemux in pipelines: stalls, rates, removal, flush, ends, mixed formats, timestamps, many starts."""

import gc
import itertools
import threading
import time
import weakref
from collections import Counter
from collections.abc import Callable, Iterator

import gi
import pytest

gi.require_version("Gst", "1.0")
gi.require_version("GstApp", "1.0")
from gi.repository import Gst

Gst.init(None)

from playing import end_of, play, stopping
from sluice.contract import counters
from sluice.contract.metadata import BatchMeta
from sluice.contract.surface import SurfaceBatch
from sluice.elements import events, register
from waiting import PATIENCE, until

register("sluicemux")

MILLISECOND = Gst.MSECOND
Row = tuple[int, int, int]  # pad_index, frame_num, buf_pts


class Watch:
    """A pipeline with a mux named m; notes every batch and event that leaves it."""

    def __init__(self, line: str) -> None:
        self.pipeline = Gst.parse_launch(line)
        self.mux = self.pipeline.get_by_name("m")
        self.batches: list[list[Row]] = []
        self.pts: list[int] = []
        self.arrivals: list[tuple[float, int]] = []
        self.events: list[tuple[int, int | None]] = []
        self.sizes: list[list[tuple[int, int]]] = []
        self.caps: Gst.Caps | None = None
        kinds = Gst.PadProbeType.BUFFER | Gst.PadProbeType.EVENT_DOWNSTREAM
        self.mux.get_static_pad("src").add_probe(kinds, self._note)

    def _note(self, _pad: Gst.Pad, info: Gst.PadProbeInfo) -> Gst.PadProbeReturn:
        if info.type & Gst.PadProbeType.BUFFER:
            buffer = info.get_buffer()
            frames = BatchMeta.of(buffer).frames
            self.batches.append([(frame.pad_index, frame.frame_num, frame.buf_pts) for frame in frames])
            self.sizes.append([(surface.width, surface.height) for surface in SurfaceBatch.of(buffer)])
            self.pts.append(buffer.pts)
            self.arrivals += [(time.monotonic(), frame.pad_index) for frame in frames]
        else:
            event = info.get_event()
            if events.event_type(event) == Gst.EventType.CAPS:
                self.caps = event.parse_caps().copy()
            parsed = events.parse_stream_event(event)
            self.events.append((events.event_type(event), parsed.source_id if parsed else None))
        return Gst.PadProbeReturn.OK

    def frames(self) -> Counter[int]:
        return Counter(pad for batch in self.batches for pad, *_ in batch)

    def of(self, pad: int) -> list[Row]:
        return [row for batch in self.batches for row in batch if row[0] == pad]

    def stats(self, pad: int) -> dict[str, int]:
        stats = self.mux.get_property("stats")
        names = ("frames-in", "frames-out", "discarded", "late", "refused", "untimed")
        return {name: stats.get_value(f"sink_{pad}-{name}") for name in names}

    def play(self) -> None:
        self.pipeline.set_state(Gst.State.PLAYING)

    def end(self) -> Gst.Message:
        return end_of(self.pipeline)

    def run(self) -> None:
        play(self.pipeline)


@pytest.fixture
def watch() -> Iterator[Callable[[str], Watch]]:
    """Make watched pipelines, and stop them all at the end."""
    with stopping(Watch) as make:
        yield make


def source(pad: int, frames: int, rate: int = 30, caps: str = "format=I420,width=64,height=48", more: str = "") -> str:
    return f"videotestsrc num-buffers={frames} {more} ! video/x-raw,framerate={rate}/1,{caps} ! m.sink_{pad} "


def alive() -> tuple[int, int]:
    """Batches and frames of the whole process; earlier tests' sinks may keep some, so compare with what was before."""
    gc.collect()  # or what earlier tests left could go between the two looks
    return counters.live_batches(), counters.read().live_frames


@pytest.mark.parametrize("batch_size", [1, 2, 3, 8])
def test_every_frame_leaves_once_and_in_order(watch: Callable[[str], Watch], batch_size: int) -> None:
    lengths, before = [10, 50, 23], alive()
    line = f"sluicemux name=m batch-size={batch_size} ! fakesink " + "".join(
        source(pad, length) for pad, length in enumerate(lengths)
    )
    seen = watch(line)
    seen.run()
    for pad, length in enumerate(lengths):
        assert [number for _, number, _ in seen.of(pad)] == list(range(length))
        assert [pts for *_, pts in seen.of(pad)] == [Gst.SECOND * number // 30 for number in range(length)]
    assert max(len(batch) for batch in seen.batches) <= batch_size
    assert seen.pts == sorted(set(seen.pts))
    until(lambda: alive() == before, "the release of every batch and frame")


def test_a_half_full_batch_loses_nothing_at_the_end(watch: Callable[[str], Watch]) -> None:
    seen = watch(
        "sluicemux name=m batch-size=8 max-same-source-frames=8 batched-push-timeout=-1 ! fakesink " + source(0, 13)
    )
    seen.run()
    assert [len(batch) for batch in seen.batches] == [8, 5]


def test_files_do_not_wait_for_the_timeout(watch: Callable[[str], Watch]) -> None:
    """Two streams in batches of 8 with a timeout of 10 s: batches are full with one frame of each."""
    seen = watch(
        "sluicemux name=m batch-size=8 batched-push-timeout=10000000 ! fakesink " + source(0, 40) + source(1, 40)
    )
    begin = time.monotonic()
    seen.run()
    assert time.monotonic() - begin < 5
    assert [sorted(pad for pad, *_ in batch) for batch in seen.batches] == [[0, 1]] * 40


def test_events_come_in_their_places(watch: Callable[[str], Watch]) -> None:
    seen = watch("sluicemux name=m batch-size=2 ! fakesink " + source(0, 3) + source(1, 5))
    seen.run()
    kinds = [kind for kind, _ in seen.events]
    for once in (Gst.EventType.STREAM_START, Gst.EventType.CAPS, Gst.EventType.SEGMENT, Gst.EventType.EOS):
        assert kinds.count(int(once)) == 1
    assert kinds[0] == Gst.EventType.STREAM_START
    assert kinds[-1] == Gst.EventType.EOS
    for pad in (0, 1):
        own = [kind for kind, source_id in seen.events if source_id == pad]
        assert own == [
            events.PAD_ADDED,
            events.STREAM_START,
            events.UPDATE_CAPS,
            events.STREAM_SEGMENT,
            events.STREAM_EOS,
        ]


def test_the_end_of_a_stream_is_a_message_on_the_bus(watch: Callable[[str], Watch]) -> None:
    line = "sluicemux name=m batch-size=2 batched-push-timeout=-1 ! fakesink "  # neither goes on alone
    seen = watch(line + source(0, 3) + source(1, 5))
    seen.play()
    ended = []
    while True:
        kinds = Gst.MessageType.EOS | Gst.MessageType.ELEMENT
        message = seen.pipeline.get_bus().timed_pop_filtered(10 * Gst.SECOND, kinds)
        if message.type == Gst.MessageType.EOS:
            break
        ended.append((message.get_structure().get_name(), message.get_structure().get_uint("stream-id")[1]))
    assert ended == [("stream-eos", 0), ("stream-eos", 1)]


def test_drop_pipeline_eos_keeps_the_end_back(watch: Callable[[str], Watch]) -> None:
    seen = watch("sluicemux name=m batch-size=1 drop-pipeline-eos=true ! fakesink " + source(0, 3))
    seen.play()
    until(lambda: (events.STREAM_EOS, 0) in seen.events)
    assert seen.pipeline.get_bus().timed_pop_filtered(200 * MILLISECOND, Gst.MessageType.EOS) is None


@pytest.mark.parametrize("live", [True, False])
def test_a_stalled_stream_does_not_hold_up_the_other(watch: Callable[[str], Watch], live: bool) -> None:
    """While one of two 25 fps streams stands still, the other keeps at least 0.95 of its rate.

    A busy machine may hold it up for some of the seconds that are looked at; a mux that waits does in all of them.
    """
    pace = "is-live=true" if live else ""
    clock = "" if live else "! identity sync=true"
    one = (
        "videotestsrc {pace} ! video/x-raw,format=GRAY8,width=16,height=16,framerate=25/1 {clock} ! "
        "identity name=i{pad} ! queue ! m.sink_{pad} "
    )
    seen = watch(
        "sluicemux name=m batch-size=2 ! fakesink sync=false "
        + "".join(one.format(pace=pace, clock=clock, pad=pad) for pad in (0, 1))
    )
    stalled = threading.Event()

    def stall(_pad: Gst.Pad, _info: Gst.PadProbeInfo) -> Gst.PadProbeReturn:
        while stalled.is_set():
            time.sleep(0.01)
        return Gst.PadProbeReturn.OK

    seen.pipeline.get_by_name("i1").get_static_pad("src").add_probe(Gst.PadProbeType.BUFFER, stall)
    seen.play()
    until(lambda: seen.frames()[0] > 5 and seen.frames()[1] > 5)
    stalled.set()
    time.sleep(0.2)
    before = seen.frames()[1]

    def keeps_its_rate() -> bool:
        begin, first = time.monotonic(), seen.frames()[0]
        time.sleep(2)
        return seen.frames()[0] - first >= 0.95 * 25 * (time.monotonic() - begin) - 1

    until(keeps_its_rate, "two seconds in which the other keeps its rate")
    other = seen.frames()[1] - before
    stalled.clear()
    assert other == 0
    until(lambda: seen.frames()[1] > before + 3)


def test_streams_of_5_to_60_fps_keep_their_rates(watch: Callable[[str], Watch]) -> None:
    rates = [5, 10, 25, 60]

    def in_their_time() -> bool:
        seen = watch(
            "sluicemux name=m batch-size=8 ! fakesink sync=false "
            + "".join(
                source(pad, 2 * rate, rate, "format=GRAY8,width=16,height=16", "is-live=true")
                for pad, rate in enumerate(rates)
            )
        )
        begin = time.monotonic()
        seen.run()
        elapsed = time.monotonic() - begin
        assert [seen.frames()[pad] for pad in range(4)] == [2 * rate for rate in rates]
        assert all(seen.stats(pad)["discarded"] == 0 for pad in range(4))
        return elapsed < 3.5

    # A busy machine may hold up a run or two; a mux that waits does it in every one.
    until(in_their_time, "live sources of 2 s that are not held up")


def test_synchronised_inputs_discard_what_comes_late(watch: Callable[[str], Watch]) -> None:
    """One of two live streams stands still for 1.5 s, then brings what it has missed."""
    seen = watch(
        "sluicemux name=m batch-size=2 sync-inputs=true batched-push-timeout=300000 ! fakesink sync=false "
        + "".join(
            f"videotestsrc is-live=true num-buffers=75 ! video/x-raw,format=GRAY8,width=16,height=16,framerate=50/1 ! "
            f"identity name=i{pad} ! m.sink_{pad} "
            for pad in (0, 1)
        )
    )
    passed = []

    def stall(_pad: Gst.Pad, _info: Gst.PadProbeInfo) -> Gst.PadProbeReturn:
        passed.append(True)
        if len(passed) == 20:
            time.sleep(1.5)
        return Gst.PadProbeReturn.OK

    seen.pipeline.get_by_name("i1").get_static_pad("src").add_probe(Gst.PadProbeType.BUFFER, stall)
    seen.run()
    for pad in (0, 1):
        stats = seen.stats(pad)
        assert stats["frames-in"] == stats["frames-out"] + stats["discarded"] == 75
        assert stats["late"] == stats["discarded"]
    assert seen.stats(1)["late"] >= 10
    assert seen.stats(0)["late"] < seen.stats(1)["late"]


def add_source(seen: Watch, pad_name: str) -> tuple[Gst.Bin, Gst.Pad]:
    made = Gst.parse_bin_from_description(
        "videotestsrc is-live=true ! capsfilter caps=video/x-raw,format=GRAY8,width=16,height=16,framerate=50/1", True
    )
    seen.pipeline.add(made)
    pad = seen.mux.request_pad_simple(pad_name)
    made.get_static_pad("src").link(pad)
    made.sync_state_with_parent()
    return made, pad


def remove_source(seen: Watch, made: Gst.Bin, pad: Gst.Pad) -> float:
    """Stop, unlink and release a source; return how many seconds the release took."""
    made.set_state(Gst.State.NULL)
    made.get_static_pad("src").unlink(pad)
    begin = time.monotonic()
    seen.mux.release_request_pad(pad)
    took = time.monotonic() - begin
    seen.pipeline.remove(made)
    return took


def test_a_hundred_pads_are_added_and_removed_while_playing(watch: Callable[[str], Watch]) -> None:
    seen = watch(
        "sluicemux name=m batch-size=4 ! fakesink sync=false "
        "videotestsrc is-live=true ! video/x-raw,format=GRAY8,width=16,height=16,framerate=50/1 ! m.sink_0"
    )
    seen.play()
    until(lambda: seen.frames()[0] > 2)

    def neither_waits() -> bool:
        """Whether each release takes less than 0.1 s, and the stream that stays keeps 0.9 of its rate."""
        begin, before = time.monotonic(), seen.frames()[0]
        worst = 0.0
        for _ in range(100):
            made, pad = add_source(seen, "sink_%u")
            time.sleep(0.005)
            worst = max(worst, remove_source(seen, made, pad))
        return worst < 0.1 and seen.frames()[0] - before >= 0.9 * 50 * (time.monotonic() - begin) - 2

    # A busy machine may hold up a round or two; a mux that waits does it in every one.
    until(neither_waits, "a hundred pads that hold up neither their release nor the stream that stays")
    added = [pad for kind, pad in seen.events if kind == events.PAD_ADDED and pad != 0]
    deleted = [pad for kind, pad in seen.events if kind == events.PAD_DELETED]
    until(lambda: len([kind for kind, _ in seen.events if kind == events.PAD_DELETED]) == len(added))
    assert set(deleted) <= {1}
    assert seen.pipeline.get_bus().pop_filtered(Gst.MessageType.ERROR) is None


def test_a_pad_is_released_while_its_source_waits_for_room(watch: Callable[[str], Watch]) -> None:
    """The other stream delivers nothing and there is no timeout, so the queue is full; its frames are counted."""
    seen = watch("sluicemux name=m batch-size=2 batched-push-timeout=-1 ! fakesink async=false sync=false")
    other = seen.mux.request_pad_simple("sink_1")
    seen.play()
    made, pad = add_source(seen, "sink_0")
    until(lambda: seen.stats(0)["frames-in"] == 2)
    time.sleep(0.05)
    releasing = threading.Thread(target=seen.mux.release_request_pad, args=(pad,))
    releasing.start()
    releasing.join(PATIENCE)
    assert not releasing.is_alive()  # there is no room, nor will there be any
    assert seen.batches == []
    assert seen.mux.get_property("stats").get_value("released-discarded") == 2
    made.set_state(Gst.State.NULL)
    seen.pipeline.remove(made)
    seen.mux.release_request_pad(other)


class Feed:
    """An appsrc of small grey frames before one pad of a mux."""

    def __init__(self, seen: Watch, pad: int, extra: str = "format=time") -> None:
        self.source = seen.pipeline.get_by_name(f"a{pad}")
        self.number = 0

    def push(self, size: tuple[int, int] = (16, 16), pts: int | None = 0) -> None:
        width, height = size
        buffer = Gst.Buffer.new_allocate(None, (width + 3) // 4 * 4 * height, None)
        if pts is not None:
            buffer.pts = self.number * 40 * MILLISECOND
        self.number += 1
        assert self.source.emit("push-buffer", buffer) == Gst.FlowReturn.OK

    def caps(self, size: tuple[int, int], rate: int = 25, format: str = "GRAY8") -> None:
        text = f"video/x-raw,format={format},width={size[0]},height={size[1]},framerate={rate}/1"
        self.source.set_property("caps", Gst.Caps.from_string(text))

    def end(self) -> None:
        self.source.emit("end-of-stream")


def fed(watch: Callable[[str], Watch], pads: int, properties: str = "") -> tuple[Watch, list[Feed]]:
    line = f"sluicemux name=m {properties} ! fakesink async=false sync=false " + "".join(
        f"appsrc name=a{pad} format=time ! m.sink_{pad} " for pad in range(pads)
    )
    seen = watch(line)
    feeds = [Feed(seen, pad) for pad in range(pads)]
    for feed in feeds:
        feed.caps((16, 16))
    seen.play()
    return seen, feeds


def test_the_size_and_format_of_one_stream_may_change(watch: Callable[[str], Watch]) -> None:
    seen, (a, b) = fed(watch, 2, "batch-size=2 batched-push-timeout=-1")
    for size in ((16, 16), (33, 17), (64, 48)):
        a.caps(size)
        for _ in range(2):
            a.push(size)
            b.push()
    a.end()
    b.end()
    assert seen.end().type == Gst.MessageType.EOS
    by_pad = {0: [], 1: []}
    for batch, sizes in zip(seen.batches, seen.sizes, strict=True):
        for (pad, *_), size in zip(batch, sizes, strict=True):
            by_pad[pad].append(size)
    assert by_pad[0] == [(16, 16)] * 2 + [(33, 17)] * 2 + [(64, 48)] * 2
    assert by_pad[1] == [(16, 16)] * 6
    assert [pad for kind, pad in seen.events if kind == events.UPDATE_CAPS].count(0) == 3


def test_flush_clears_one_pad_only(watch: Callable[[str], Watch]) -> None:
    seen, (a, b) = fed(watch, 2, "batch-size=2 batched-push-timeout=-1")
    a.push()
    a.push()
    until(lambda: seen.stats(0)["frames-in"] == 2)
    pad = seen.mux.get_static_pad("sink_0").get_peer()
    pad.push_event(Gst.Event.new_flush_start())
    pad.push_event(Gst.Event.new_flush_stop(True))
    assert seen.stats(0)["discarded"] == 2
    assert Gst.EventType.FLUSH_START not in [kind for kind, _ in seen.events]
    b.push()
    time.sleep(0.05)
    assert seen.batches == []
    segment = Gst.Segment()
    segment.init(Gst.Format.TIME)
    pad.push_event(Gst.Event.new_segment(segment))
    buffer = Gst.Buffer.new_allocate(None, 256, None)
    buffer.pts = 80 * MILLISECOND
    pad.push(buffer)
    until(lambda: seen.batches)
    assert sorted(seen.batches[0]) == [(0, 2, 80 * MILLISECOND), (1, 0, 0)]


@pytest.mark.parametrize("tail", ["", "sluicedemux name=d d.src_0 !"])
def test_running_times_go_on_over_a_seek(watch: Callable[[str], Watch], tail: str) -> None:
    """Sinks behind are not flushed: what has running times of before would be late there, and leave at once."""
    register("sluicedemux")
    seen = watch(
        f"sluicemux name=m batch-size=1 ! {tail} fakesink name=sink sync=true "
        "videotestsrc ! video/x-raw,format=GRAY8,width=16,height=16,framerate=100/1 ! m.sink_0"
    )
    times: list[int] = []

    def note(pad: Gst.Pad, info: Gst.PadProbeInfo) -> Gst.PadProbeReturn:
        segment = pad.get_sticky_event(Gst.EventType.SEGMENT, 0).parse_segment()
        times.append(segment.to_running_time(Gst.Format.TIME, info.get_buffer().pts))
        return Gst.PadProbeReturn.OK

    seen.pipeline.get_by_name("sink").get_static_pad("sink").add_probe(Gst.PadProbeType.BUFFER, note)
    seen.play()
    until(lambda: len(times) > 20)
    assert seen.pipeline.seek_simple(Gst.Format.TIME, Gst.SeekFlags.FLUSH, 10 * Gst.SECOND)
    before = len(times)
    until(lambda: len(times) > before + 20)
    assert seen.of(0)[-1][2] > 10 * Gst.SECOND
    steps = [later - earlier for earlier, later in itertools.pairwise(times)]
    assert set(steps) == {10 * MILLISECOND}


def test_frames_without_timestamps_are_counted_from_the_rate_and_flagged(watch: Callable[[str], Watch]) -> None:
    seen, (a,) = fed(watch, 1, "batch-size=1")
    for _ in range(4):
        a.push(pts=None)
    a.end()
    kinds = Gst.MessageType.EOS | Gst.MessageType.WARNING | Gst.MessageType.ERROR
    warnings = []
    while (message := seen.pipeline.get_bus().timed_pop_filtered(10 * Gst.SECOND, kinds)).type != Gst.MessageType.EOS:
        warnings.append(message.parse_warning()[0].message)
    assert [pts for *_, pts in seen.of(0)] == [number * 40 * MILLISECOND for number in range(4)]
    assert seen.stats(0)["untimed"] == 4
    assert len(warnings) == 1
    assert "sink_0" in warnings[0]


def test_data_after_the_end_of_a_stream_is_taken_again(watch: Callable[[str], Watch]) -> None:
    seen, (a, b) = fed(watch, 2, "batch-size=2 batched-push-timeout=20000")
    a.push()
    a.end()
    until(lambda: (events.STREAM_EOS, 0) in seen.events)
    pad = seen.mux.get_static_pad("sink_0").get_peer()
    caps = pad.get_current_caps()
    pad.push_event(Gst.Event.new_stream_start("again"))
    pad.push_event(Gst.Event.new_caps(caps))
    segment = Gst.Segment()
    segment.init(Gst.Format.TIME)
    pad.push_event(Gst.Event.new_segment(segment))
    buffer = Gst.Buffer.new_allocate(None, 256, None)
    buffer.pts = 0
    assert pad.push(buffer) == Gst.FlowReturn.OK
    until(lambda: len(seen.of(0)) == 2)
    b.push()
    until(lambda: len(seen.of(1)) == 1)


def test_mixed_sizes_and_formats_share_a_batch(watch: Callable[[str], Watch]) -> None:
    formats = ["I420", "NV12", "RGB", "BGR", "RGBA", "BGRA", "BGRx", "GRAY8", "YUY2"]
    before = counters.copies()
    seen = watch(
        "sluicemux name=m batch-size=9 batched-push-timeout=5000000 ! fakesink "
        + "".join(
            source(pad, 5, caps=f"format={name},width={31 + pad},height={17 + 2 * pad}")
            for pad, name in enumerate(formats)
        )
    )
    seen.run()
    assert seen.frames() == dict.fromkeys(range(9), 5)
    for batch, sizes in zip(seen.batches, seen.sizes, strict=True):
        assert [(31 + pad, 17 + 2 * pad) for pad, *_ in batch] == sizes
    assert counters.copies() == before


@pytest.mark.parametrize("padding", [False, True])
def test_width_and_height_scale_every_frame(watch: Callable[[str], Watch], padding: bool) -> None:
    before = counters.copies()
    seen = watch(
        f"sluicemux name=m batch-size=2 width=128 height=64 enable-padding={str(padding).lower()} ! fakesink "
        + source(0, 4)
        + source(1, 4, caps="format=RGB,width=128,height=64")
    )
    seen.run()
    assert {size for sizes in seen.sizes for size in sizes} == {(128, 64)}
    # Only the frames of another size are copied.
    assert counters.copies() - before == 4


def test_queries_from_downstream(watch: Callable[[str], Watch]) -> None:
    seen = watch(
        "sluicemux name=m batch-size=5 batched-push-timeout=70000 ! fakesink name=k "
        + source(0, -1, more="is-live=true")
        + source(3, -1, more="is-live=true")
    )
    seen.play()
    sink = seen.pipeline.get_by_name("k").get_static_pad("sink")
    assert events.ask_batch_size(sink) == 5
    assert events.ask_stream_count(sink) == 2
    until(lambda: seen.batches)
    query = Gst.Query.new_latency()
    assert sink.peer_query(query)
    live, least, _ = query.parse_latency()
    assert live
    assert least >= 70 * MILLISECOND


@pytest.mark.parametrize("answer", [Gst.FlowReturn.EOS, Gst.FlowReturn.ERROR])
def test_what_downstream_returns_reaches_every_source(watch: Callable[[str], Watch], answer: Gst.FlowReturn) -> None:
    seen, (a, _b) = fed(watch, 2, "batch-size=2 batched-push-timeout=10000")
    sink = seen.mux.get_static_pad("src").get_peer()
    sink.set_chain_function_full(lambda pad, parent, buffer: answer, None)
    a.push()
    until(lambda: seen.mux.flow == answer)
    for pad in (0, 1):
        buffer = Gst.Buffer.new_allocate(None, 256, None)
        assert seen.mux.get_static_pad(f"sink_{pad}").chain(buffer) == answer


def test_nothing_is_left_when_stopped_in_the_middle(watch: Callable[[str], Watch]) -> None:
    before = alive()
    seen = watch("sluicemux name=m batch-size=2 ! fakesink sync=false " + source(0, -1) + source(1, -1))
    for _ in range(5):
        seen.play()
        until(lambda: len(seen.batches) > 5)
        begin = time.monotonic()
        seen.pipeline.set_state(Gst.State.NULL)
        assert time.monotonic() - begin < 2
        seen.batches.clear()
    until(lambda: alive() == before)


def test_two_pipelines_start_and_stop_interleaved(watch: Callable[[str], Watch]) -> None:
    line = "sluicemux name=m batch-size=2 ! fakesink sync=false " + source(0, -1) + source(1, -1)
    one, other = watch(line), watch(line)
    for _ in range(50):
        one.play()
        until(lambda: one.batches)
        other.play()
        one.batches.clear()
        until(lambda: other.batches)
        one.pipeline.set_state(Gst.State.NULL)
        other.batches.clear()
        until(lambda: other.batches)
        other.pipeline.set_state(Gst.State.NULL)
        one.batches.clear()
        other.batches.clear()
        for each in (one, other):
            assert each.pipeline.get_bus().pop_filtered(Gst.MessageType.ERROR) is None


def test_the_mux_is_finalised_after_use() -> None:
    gone = []
    for _ in range(20):
        pipeline = Gst.parse_launch("sluicemux name=m batch-size=2 ! fakesink " + source(0, 2) + source(1, 3))
        gone.append(weakref.ref(pipeline.get_by_name("m")))
        pipeline.set_state(Gst.State.PLAYING)
        message = pipeline.get_bus().timed_pop_filtered(10 * Gst.SECOND, Gst.MessageType.EOS)
        pipeline.set_state(Gst.State.NULL)
        assert message is not None
        del pipeline, message
    until(lambda: gc.collect() >= 0 and [ref() for ref in gone] == [None] * 20)


def test_system_memory_leaves_as_nvmm_batches_of_one_format_when_told_to(watch: Callable[[str], Watch]) -> None:
    """And a second mux takes those as NvBufSurfaces, without a look at the pixels."""
    seen = watch(
        "sluicemux name=first nvbuf-memory-type=6 batch-size=1 gpu-id=0 ! sluicemux name=m batch-size=2 ! fakesink "
        "videotestsrc num-buffers=5 ! video/x-raw,format=NV12,width=64,height=48,framerate=30/1 ! first.sink_0"
    )
    seen.run()
    assert seen.sizes == [[(64, 48)]] * 5
    assert seen.caps is not None
    assert seen.caps.get_features(0).contains("memory:NVMM")
    assert seen.caps.is_subset(Gst.Caps.from_string("video/x-raw(ANY), format=NV12, width=64, height=48, batch-size=2"))


def test_other_formats_do_not_fit_into_nvmm_batches(watch: Callable[[str], Watch]) -> None:
    seen = watch(
        "sluicemux name=m batch-size=2 nvbuf-memory-type=6 ! fakesink "
        + source(0, 5, caps="format=NV12,width=64,height=48")
        + source(1, 5, caps="format=RGBA,width=64,height=48")
    )
    seen.play()
    message = seen.end()
    assert message.type == Gst.MessageType.ERROR
    text = message.parse_error()[0].message
    assert all(word in text for word in ("sink_0", "sink_1", "NV12", "RGBA", "videoconvert"))
