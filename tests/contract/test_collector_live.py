"""Streams whose source is away, whose newest frames are wanted, and whose capture time is told."""

from __future__ import annotations

from typing import Any

import gi
import pytest

gi.require_version("Gst", "1.0")
from gi.repository import Gst

Gst.init(None)

from sluice.contract.capture import CAPTURE_TIME, capture_time_from
from sluice.contract.collector import UNLIMITED, Collector, Settings, Step, Stream
from sluice.contract.formats import FrameFormat
from sluice.contract.metadata import BatchMeta, Lease
from sluice.contract.user_meta import find

CAPS = Gst.Caps.from_string("video/x-raw,format=GRAY8,width=16,height=16,framerate=25/1")
NTP_TO_UNIX = 2_208_988_800


@pytest.fixture
def collector() -> Collector:
    """One that waits for full batches for ever, and whose time stands still."""
    made = Collector()
    made.hold_clock(0)
    made.configure(Settings(batch_size=8, timeout=UNLIMITED))
    made.start()
    return made


def add(collector: Collector, number: int) -> Stream:
    stream = collector.add(number)
    stream.set_format(FrameFormat.from_caps(CAPS), source_id=number, size=(16, 16), duration=40 * Gst.MSECOND)
    return stream


def put(stream: Stream, captured: int | None = None) -> None:
    """Put a frame, perhaps with its sender's time in milliseconds since 1970."""
    buffer = Gst.Buffer.new_allocate(None, 256, None)
    buffer.pts = 0
    if captured is not None:
        caps = Gst.Caps.from_string("timestamp/x-ntp")
        buffer.add_reference_timestamp_meta(
            caps, captured * Gst.MSECOND + NTP_TO_UNIX * Gst.SECOND, Gst.CLOCK_TIME_NONE
        )
    assert stream.put(buffer) == Gst.FlowReturn.OK


def numbers(step: Step | None) -> list[tuple[int, int]]:
    assert step is not None
    assert step.batch is not None
    return [(frame.pad_index, frame.frame_num) for frame in BatchMeta.of(step.batch).frames]


def run(collector: Collector) -> Any:
    return collector.run(8)


def test_a_stream_whose_source_is_away_is_not_waited_for_until_it_has_a_frame(collector: Collector) -> None:
    here, away = add(collector, 0), add(collector, 1)
    put(here)
    assert collector.wait_time() is None
    away.set_absent()
    assert numbers(run(collector)) == [(0, 0)]
    put(away)
    assert collector.wait_time() is None  # now it counts again, and the other is waited for
    put(here)
    assert sorted(numbers(run(collector))) == [(0, 1), (1, 0)]


def test_an_absent_stream_has_not_ended(collector: Collector) -> None:
    here, away = add(collector, 0), add(collector, 1)
    away.set_absent()
    assert not here.mark_ended()
    assert away.mark_ended()


def test_a_frame_that_waits_gives_way_to_a_newer_one_and_is_counted(collector: Collector) -> None:
    camera, other = add(collector, 0), add(collector, 1)
    camera.set_freshest(True)
    for _ in range(5):
        put(camera)  # would block at the fifth if none gave way
    put(other)
    assert numbers(run(collector)) == [(0, 4), (1, 0)]  # the batch before was on its way so long: the newest counts
    counts = camera.counts()
    assert (counts.frames_in, counts.frames_out, counts.replaced, counts.discarded) == (5, 1, 4, 0)


def test_a_newer_frame_hurries_the_batch_rather_than_replace_one_that_could_leave(collector: Collector) -> None:
    camera, slower = add(collector, 0), add(collector, 1)
    camera.set_freshest(True)
    put(camera)
    assert collector.wait_time() is None  # the slower one is waited for
    put(camera)
    assert collector.wait_time() == 0
    assert slower.counts().frames_in == 0


def test_without_that_wish_nothing_gives_way(collector: Collector) -> None:
    file, other = add(collector, 0), add(collector, 1)
    for _ in range(4):
        put(file)
    put(other)
    assert numbers(run(collector)) == [(0, 0), (1, 0)]
    assert file.counts().replaced == 0


def test_the_sender_s_time_is_told_and_0_until_it_is_known(collector: Collector) -> None:
    camera, local, file = (add(collector, number) for number in range(3))
    camera.set_capture("rtcp")
    local.set_capture("arrival")
    for captured in (None, 1_700_000_000_500):
        put(camera, captured)
        put(local, captured)
        put(file, captured)
    seen = []
    for _ in range(2):
        step = run(collector)
        with Lease() as lease:
            frames = BatchMeta.of(step.batch, lease).frames
            seen.append([(frame.ntp_timestamp, capture_time_from(frame)) for frame in frames])
            assert [len(find(frame, CAPTURE_TIME)) for frame in frames] == [len(seen) - 1, 1, 0]
    assert seen[0][0] == (0, None)
    assert seen[1][0] == (1_700_000_000_500_000_000, "rtcp")
    for camera_frame, local_frame, file_frame in seen:
        assert camera_frame[1] in (None, "rtcp")
        assert local_frame[0] > 1_700_000_001_000_000_000
        assert local_frame[1] == "arrival"
        assert file_frame[0] > 1_700_000_001_000_000_000
        assert file_frame[1] is None


def test_what_a_frame_brings_along_of_another_mux_is_not_believed(collector: Collector) -> None:
    """A frame of a demuxer carries what its first mux said; the second says its own, or nothing."""
    from sluice.contract import gstref
    from sluice.elements.demux_frames import finish, split

    first = add(collector, 0)
    first.set_capture("rtcp")
    put(first, 1_700_000_000_000)
    step = run(collector)
    (part,) = split(gstref.address(step.batch), lambda _number: True, lambda _number: None)
    step = None
    second = Collector()
    second.hold_clock(0)
    second.configure(Settings(batch_size=1, timeout=UNLIMITED))
    second.start()
    stream = add(second, 5)
    assert stream.put(gstref.take(finish(part))) == Gst.FlowReturn.OK
    found = run(second)
    with Lease() as lease:
        (frame,) = BatchMeta.of(found.batch, lease).frames
        assert frame.pad_index == 5
        assert capture_time_from(frame) is None
