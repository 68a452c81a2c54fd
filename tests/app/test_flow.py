"""Counting at a pad in C."""

import gi
import pytest

gi.require_version("Gst", "1.0")
from gi.repository import Gst

from playing import reaches_its_end
from sluice.app.flow import PadFlow

Gst.init(None)


def run(launch: str, pad: str = "src", limit: int = 0) -> PadFlow:
    pipeline = Gst.parse_launch(launch)
    flow = PadFlow(pipeline.get_by_name("here").get_static_pad(pad), limit)
    pipeline.set_state(Gst.State.PLAYING)
    reaches_its_end(pipeline)
    pipeline.set_state(Gst.State.NULL)
    return flow


def test_buffers_times_and_the_end_are_counted() -> None:
    counts = run("videotestsrc num-buffers=10 ! video/x-raw,framerate=10/1 ! identity name=here ! fakesink").read()
    assert (counts.buffers, counts.corrupted, counts.disordered) == (10, 0, 0)
    assert (counts.first_pts, counts.last_end, counts.segment_start) == (0, Gst.SECOND, 0)
    assert counts.ended


@pytest.mark.parametrize("limit", [1, 4])
def test_a_limit_ends_the_flow_behind_so_many_buffers(limit: int) -> None:
    flow = run("videotestsrc name=here ! fakesink", limit=limit)
    assert flow.read().buffers == limit
    assert flow.read().ended


def test_a_limit_that_is_not_reached_changes_nothing() -> None:
    assert run("videotestsrc num-buffers=3 name=here ! fakesink", limit=10).read().buffers == 3


def test_nothing_yet() -> None:
    element = Gst.ElementFactory.make("identity")
    counts = PadFlow(element.get_static_pad("src")).read()
    assert (counts.buffers, counts.first_pts, counts.last_end, counts.segment_start) == (0, None, None, None)
    assert not counts.ended


def test_corrupted_and_disordered_buffers_are_told_apart() -> None:
    pad = Gst.Pad.new("src", Gst.PadDirection.SRC)
    pad.set_active(True)
    flow = PadFlow(pad)
    pad.push_event(Gst.Event.new_stream_start("x"))
    for pts, corrupted in ((5, False), (4, False), (9, True)):
        buffer = Gst.Buffer.new()
        buffer.pts = pts
        if corrupted:
            buffer.set_flags(Gst.BufferFlags.CORRUPTED)
        pad.push(buffer)
    counts = flow.read()
    assert (counts.buffers, counts.corrupted, counts.disordered) == (3, 1, 1)
    assert (counts.first_pts, counts.last_end) == (4, 9)


def test_the_counts_outlive_the_pad() -> None:
    pad = Gst.Pad.new("src", Gst.PadDirection.SRC)
    flow = PadFlow(pad)
    del pad
    assert flow.read().buffers == 0
