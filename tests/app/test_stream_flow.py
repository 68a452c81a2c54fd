"""The end of a stream's source: times go on over restarts and jumps, rates are kept, EOS stays."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import gi
import numpy as np
import pytest

gi.require_version("Gst", "1.0")
from gi.repository import Gst

from sluice.app.flow import StreamFlow

Gst.init(None)
MS = Gst.MSECOND
NTP = Gst.Caps.from_string("timestamp/x-ntp")


class Source:
    """A source pad whose buffers and segments go by way of a flow into a list."""

    def __init__(self, flow: StreamFlow, *, retimed: bool, start: int = 0) -> None:
        self.out: list[int] = []
        self.segments: list[int] = []
        self.ended = False
        self.pad = Gst.Pad.new("src", Gst.PadDirection.SRC)
        self.sink = Gst.Pad.new("sink", Gst.PadDirection.SINK)
        self.sink.set_chain_function_full(self._chain, None)
        self.sink.set_event_function_full(self._event, None)
        self.pad.set_active(True)
        self.sink.set_active(True)
        self.pad.link(self.sink)
        flow.watch(self.pad, retimed=retimed)
        segment = Gst.Segment()
        segment.init(Gst.Format.TIME)
        segment.start = segment.time = start
        self.pad.push_event(Gst.Event.new_stream_start("s"))
        self.pad.push_event(Gst.Event.new_segment(segment))

    def _chain(self, _pad: Any, _parent: Any, buffer: Gst.Buffer) -> Gst.FlowReturn:
        self.out.append(buffer.pts)
        return Gst.FlowReturn.OK

    def _event(self, _pad: Any, _parent: Any, event: Gst.Event) -> bool:
        if event.type == Gst.EventType.SEGMENT:
            self.segments.append(event.parse_segment().start)
        self.ended |= event.type == Gst.EventType.EOS
        return True

    def push(
        self, times: Iterable[int], *, duration: int = 40, ntp: Iterable[int] | None = None, bad: bool = False
    ) -> None:
        """Push frames with these times in milliseconds."""
        stamps: Iterator[int | None] = iter(ntp) if ntp is not None else iter(lambda: None, 0)
        for time in times:
            buffer = Gst.Buffer.new_allocate(None, 1, None)
            buffer.pts, buffer.duration = time * MS, 40 * MS
            stamp = next(stamps)
            if stamp is not None:
                buffer.add_reference_timestamp_meta(NTP, stamp * MS, Gst.CLOCK_TIME_NONE)
            if bad:
                buffer.set_flags(Gst.BufferFlags.CORRUPTED)
            assert self.pad.push(buffer) == Gst.FlowReturn.OK

    def came(self) -> list[float]:
        """What came out, in milliseconds."""
        return [round(time / MS, 3) for time in self.out]


def test_the_first_source_of_a_file_is_left_as_it_is() -> None:
    source = Source(StreamFlow(False), retimed=False, start=1000 * MS)
    source.push([1000, 1040, 1030])
    assert source.came() == [1000, 1040, 1030]
    assert source.segments == [1000 * MS]


def test_eos_is_noted_and_goes_no_further() -> None:
    flow = StreamFlow(False)
    source = Source(flow, retimed=False)
    source.push([0])
    assert not flow.read().ended
    source.pad.push_event(Gst.Event.new_eos())
    assert flow.read().ended
    assert not source.ended
    Source(flow, retimed=True)
    assert not flow.read().ended


def test_a_second_source_goes_on_where_the_first_ended() -> None:
    flow = StreamFlow(False)
    Source(flow, retimed=False, start=500 * MS).push([500, 540])
    second = Source(flow, retimed=True, start=500 * MS)
    second.push([500, 540, 580])
    assert second.came() == [580, 620, 660]
    assert second.segments == [0]
    third = Source(flow, retimed=True)
    third.push([0, 40])
    assert third.came() == [700, 740]


def test_what_still_comes_from_the_source_before_is_dropped() -> None:
    flow = StreamFlow(False)
    first = Source(flow, retimed=True)
    first.push([0])
    second = Source(flow, retimed=True)
    first.push([40])
    second.push([0])
    flow.leave()
    second.push([40])
    assert (first.came(), second.came()) == ([0], [40])
    assert flow.read().arrived == 2


def test_a_live_source_keeps_its_running_times_where_they_go_forward() -> None:
    flow = StreamFlow(True)
    Source(flow, retimed=True).push([100, 140])
    second = Source(flow, retimed=True)
    second.push([5000, 5040])
    assert second.came() == [5000, 5040]


@pytest.mark.parametrize(
    ("times", "jump"), [([100_000, 100_040, 0, 40], -100.04), ([100_000, 100_040, 190_000, 190_040], 89.96)]
)
def test_times_that_jump_are_told_and_continued(times: list[int], jump: float) -> None:
    flow = StreamFlow(True)
    source = Source(flow, retimed=True)
    source.push(times)
    assert source.came() == [100_000, 100_040, 100_080, 100_120]
    assert flow.read().jumps == 1
    assert flow.read().last_jump == pytest.approx(jump, abs=0.3)


def test_frames_that_come_late_after_a_pause_are_no_jump() -> None:
    flow = StreamFlow(True)
    source = Source(flow, retimed=True)
    source.push(range(0, 4000, 40))  # faster than they play, as after a pause of the network
    assert source.came() == list(range(0, 4000, 40))
    assert flow.read().jumps == 0


def test_a_jump_of_the_sender_s_clock_is_told_and_times_stay() -> None:
    flow = StreamFlow(True)
    source = Source(flow, retimed=True)
    source.push([0, 40, 80, 120], ntp=[1_000_000, 1_000_040, 4_600_080, 4_600_120])
    assert source.came() == [0, 40, 80, 120]
    found = flow.read()
    assert (found.jumps, found.captured) == (1, 4)
    assert found.last_jump == pytest.approx(3600.04, abs=0.3)


def test_times_are_strictly_increasing_whatever_comes() -> None:
    random = np.random.default_rng(1)
    flow, out = StreamFlow(True), list[int]()
    for _ in range(5):
        source = Source(flow, retimed=True)
        source.push(np.abs(np.cumsum(random.integers(-60, 120, 50))).tolist())
        out += source.out
    assert len(out) == 250
    assert np.all(np.diff(out) > 0)


def test_a_time_that_comes_twice_is_one_that_was_lost() -> None:
    source = Source(StreamFlow(True), retimed=True)
    source.push([0, 40, 40, 120])
    assert source.came() == [0, 40, 80, 120]


@pytest.mark.parametrize(
    ("fps", "rate", "expected"),
    [(30, 10, 10), (25, 10, 10), (30, 30, 30), (29.97, 30, 29.97), (10, 25, 10), (60, 7, 7)],
)
def test_a_target_rate_is_kept_and_what_it_costs_is_counted(fps: float, rate: float, expected: float) -> None:
    flow = StreamFlow(False)
    flow.set_rate(rate)
    source = Source(flow, retimed=False)
    count = round(fps * 20)
    source.push([round(1000 * n / fps) for n in range(count)])
    assert len(source.out) == pytest.approx(expected * 20, abs=2)
    assert flow.read().skipped == count - len(source.out)


def test_damaged_frames_before_the_first_whole_one_of_a_camera_are_left_out() -> None:
    flow = StreamFlow(True)
    source = Source(flow, retimed=True)
    source.push([0, 40], bad=True)
    source.push([80])
    source.push([120], bad=True)  # later ones may be what there is to see
    assert source.came() == [80, 120]
    assert flow.read().skipped == 2
    file = Source(StreamFlow(False), retimed=False)
    file.push([0], bad=True)
    assert file.came() == [0]
