"""Times of frames in elements and since capture, measured in C."""

from __future__ import annotations

import gc
import importlib.util
import os
import subprocess
import sys
import time

import gi
import numpy as np
import pytest

gi.require_version("Gst", "1.0")
from gi.repository import Gst

from sluice.contract import bulk
from sluice.contract._rows import FRAME_ROW
from sluice.contract.latency import BOUNDS, LatencyMeter, component_latencies
from sluice.contract.metadata import BatchMeta, Lease
from sluice.contract.object_counts import ObjectCounter
from sluice.elements import events

Gst.init(None)
MS = 1_000_000


class Line:
    """Three pads in a row: what is pushed enters an element at one and leaves it at another when told to."""

    def __init__(self) -> None:
        self.source = Gst.Pad.new("src", Gst.PadDirection.SRC)
        self.sink = Gst.Pad.new("sink", Gst.PadDirection.SINK)
        self.sink.set_chain_function_full(lambda *_: Gst.FlowReturn.OK, None)
        self.sink.set_event_function_full(lambda *_: True, None)
        assert self.source.link(self.sink) == Gst.PadLinkReturn.OK
        self.sink.set_active(True)
        self.source.set_active(True)
        self.source.push_event(Gst.Event.new_stream_start("x"))
        segment = Gst.Segment()
        segment.init(Gst.Format.TIME)
        self.source.push_event(Gst.Event.new_segment(segment))

    def push(self, *frames: tuple[int, int, int]) -> None:
        """Push a batch of frames: stream, number, ntp_timestamp."""
        self.source.push(batch(*frames))


def batch(*frames: tuple[int, int, int]) -> Gst.Buffer:
    buffer = Gst.Buffer.new()
    with Lease() as lease:
        meta = BatchMeta.attach(buffer, len(frames), lease)
        rows = np.zeros(len(frames), FRAME_ROW)
        rows["pad_index"] = rows["source_id"] = [stream for stream, _, _ in frames]
        rows["frame_num"] = [number for _, number, _ in frames]
        rows["ntp_timestamp"] = [ntp for _, _, ntp in frames]
        bulk.fill_frames(meta, rows)
    return buffer


def now() -> int:
    return time.time_ns()


@pytest.fixture
def lines() -> tuple[LatencyMeter, Line, Line]:
    meter, entry, exit = LatencyMeter(), Line(), Line()
    meter.watch("element", entry.sink, exit.source)
    return meter, entry, exit


def test_the_time_in_an_element_is_that_between_its_pads(lines: tuple[LatencyMeter, Line, Line]) -> None:
    meter, entry, exit = lines
    for number in range(3):
        entry.push((7, number, 0), (8, number, 0))
        time.sleep(0.02)
        exit.push((7, number, 0), (8, number, 0))
    found = meter.read()
    assert [(item.element, item.stream) for item in found] == [("element", 7), ("element", 8)]
    for item in found:
        assert item.age is None  # the frames tell no time
        assert item.inside is not None
        assert item.inside.count == item.inside.recent == 3
        assert item.inside.p50 >= 0.018
        assert item.inside.p50 <= item.inside.p95 <= item.inside.p99 <= item.inside.longest
        assert item.inside.sum >= 0.06
        assert sum(item.inside.buckets) == 3
        assert sum(item.inside.buckets[: BOUNDS.index(0.01) + 1]) == 0
    assert meter.batches("element") == (3, 6)


def test_many_frames_may_be_in_flight_and_leave_together(lines: tuple[LatencyMeter, Line, Line]) -> None:
    meter, entry, exit = lines
    for number in range(40):
        entry.push((0, number, 0))
    for number in range(40):
        exit.push((0, number, 0))
    assert meter.read()[0].inside.count == 40


def test_frames_that_never_entered_are_not_measured(lines: tuple[LatencyMeter, Line, Line]) -> None:
    meter, entry, exit = lines
    entry.push((0, 1, 0))
    exit.push((0, 2, 0))
    assert meter.read() == []
    exit.push((0, 1, 0))
    exit.push((0, 1, 0))  # nor twice
    assert meter.read()[0].inside.count == 1


def test_the_age_counts_from_the_capture(lines: tuple[LatencyMeter, Line, Line]) -> None:
    meter, _, exit = lines
    for number in range(10):
        exit.push((0, number, now() - 250 * MS))
    age = meter.read()[0].age
    assert age.count == 10
    assert 0.25 * 15 / 16 <= age.p50 < 0.6
    assert age.longest >= 0.25
    assert age.buckets[BOUNDS.index(0.5)] + sum(age.buckets[BOUNDS.index(0.5) + 1 :]) == 10


def test_a_clock_that_is_ahead_gives_no_negative_age(lines: tuple[LatencyMeter, Line, Line]) -> None:
    meter, _, exit = lines
    exit.push((0, 0, now() + 1000 * MS))
    assert meter.read()[0].age.longest == 0.0
    exit.push((0, 1, now() + 3600 * 1000 * MS))  # that is no time at all
    assert meter.read()[0].age.count == 1


def test_quantiles_are_right_to_a_sixteenth(lines: tuple[LatencyMeter, Line, Line]) -> None:
    meter, _, exit = lines
    for number in range(100):
        exit.push((0, number, now() - (number + 1) * 100 * MS))
    age = meter.read()[0].age
    for quantile, seconds in ((age.p50, 5.0), (age.p95, 9.5), (age.p99, 9.9)):
        assert abs(quantile - seconds) <= seconds / 16 + 0.1


def test_a_stream_is_forgotten_with_its_pad_or_when_told(lines: tuple[LatencyMeter, Line, Line]) -> None:
    meter, _, exit = lines
    for stream in (1, 2, 3):
        exit.push((stream, 0, now()))
    exit.source.push_event(events.pad_deleted(2))
    assert [item.stream for item in meter.read()] == [1, 3]
    meter.forget(3)
    assert [item.stream for item in meter.read()] == [1]


def test_memory_is_bounded_however_many_streams_come(lines: tuple[LatencyMeter, Line, Line]) -> None:
    meter, entry, exit = lines
    for stream in range(0, 5000, 50):
        frames = [(number, 0, 0) for number in range(stream, stream + 50)]
        entry.push(*frames)
        exit.push(*frames)
    assert len(meter.read()) == 4096


def test_buffers_without_metadata_pass(lines: tuple[LatencyMeter, Line, Line]) -> None:
    meter, entry, _ = lines
    assert entry.source.push(Gst.Buffer.new()) == Gst.FlowReturn.OK
    assert meter.read() == []


def test_pads_may_go_before_the_meter_and_after_it() -> None:
    meter, line = LatencyMeter(), Line()
    meter.watch("x", None, line.source)
    line.push((0, 0, now()))
    del line
    gc.collect()
    assert meter.read()[0].age.count == 1
    later = Line()
    meter.watch("y", None, later.source)
    del meter
    gc.collect()
    later.push((0, 0, now()))


def test_objects_are_counted_by_class_and_others_together() -> None:
    line = Line()
    counter = ObjectCounter(line.source)

    def push(stream: int, class_ids: list[int], names: dict[int, str]) -> None:
        buffer = batch((stream, 0, 0))
        with Lease() as lease:
            frame = BatchMeta.of(buffer, lease).frames[0]
            boxes = [[0, 0, 10, 10]] * len(class_ids)
            labels = [names.get(class_id) for class_id in class_ids]
            bulk.write_objects(frame, boxes, [0.5] * len(class_ids), class_ids, labels, unique_id=1)
        line.source.push(buffer)

    push(4, [0, 1, 0], {0: "person", 1: "car"})
    push(4, [1], {1: "car"})
    push(5, [2], {})
    assert counter.read() == {(4, "person"): 2, (4, "car"): 2, (5, "2"): 1}
    push(6, list(range(50)), {})
    assert counter.read()[6, "other"] == 50 - 32
    line.source.push_event(events.pad_deleted(6))
    assert (6, "other") not in counter.read()


DEEPSTREAM = """
import gi
gi.require_version("Gst", "1.0")
from gi.repository import Gst
import sluice
from sluice.app.gst import add_chain, make_element
from sluice.contract.latency import LatencyMeter, component_latencies
from sluice.contract.metadata import BatchMeta
Gst.init(None)
pipeline = Gst.Pipeline.new()
mux = make_element("sluicemux", batch_size=2, batched_push_timeout=-1)  # only full batches
infer, queue, sink = make_element("sluiceinfer", model="none"), make_element("queue"), make_element("fakesink")
add_chain(pipeline, mux, infer, queue, sink)
for number in range(2):
    test = "videotestsrc num-buffers=5 ! video/x-raw,format=I420,framerate=10/1 ! identity"
    source = Gst.parse_bin_from_description(test, True)
    pipeline.add(source)
    source.get_static_pad("src").link(mux.request_pad_simple(f"sink_{number}"))
meter = LatencyMeter()
for element in (mux, infer):
    meter.watch_element(element)
found = []
def look(_pad, info):
    copy = info.get_buffer().copy()  # a copied batch keeps them
    found.append(component_latencies(BatchMeta.of(copy)))
    return Gst.PadProbeReturn.OK
sink.get_static_pad("sink").add_probe(Gst.PadProbeType.BUFFER, look)
pipeline.set_state(Gst.State.PLAYING)
pipeline.get_bus().timed_pop_filtered(20 * Gst.SECOND, Gst.MessageType.EOS | Gst.MessageType.ERROR)
pipeline.set_state(Gst.State.NULL)
for one in found[0]:
    print(one.name, one.source_id, one.pad_index, one.frame_num, 0 < one.entered <= one.left)
print(len(found))
"""


@pytest.mark.parametrize("variable", ["NVDS_ENABLE_LATENCY_MEASUREMENT", None])
def test_batches_carry_deepstreams_records_only_when_asked_for(variable: str | None) -> None:
    environment = {key: value for key, value in os.environ.items() if not key.startswith("NVDS_")}
    if variable is not None:
        environment[variable] = "0"  # any value counts, as in DeepStream
    done = subprocess.run(
        [sys.executable, "-c", DEEPSTREAM], env=environment, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    if variable is None:
        assert lines == ["5"]
        return
    # A copy of a batch may turn its lists around.
    assert sorted(lines[:-1]) == [
        "nvstreammux-sluicemux 0 0 0 True",
        "nvstreammux-sluicemux 1 1 0 True",
        "sluiceinfer 0 0 0 True",
    ]
    assert lines[-1] == "5"


NVIDIAS_READER = """
import ctypes
from sluice.contract import gstref
from sluice.contract.provider import provider
read = provider()._gst.nvds_measure_buffer_latency
read.restype, read.argtypes = ctypes.c_uint, [ctypes.c_void_p, ctypes.c_void_p]
class Info(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint) for name in ("source_id", "frame_num")]
    _fields_ += [(name, ctypes.c_double) for name in ("entered", "latency")]
def look(_pad, info):
    found = (Info * 8)()
    count = read(gstref.address(info.get_buffer()), found)
    for one in found[:count]:
        print("frame", one.source_id, one.frame_num, flush=True)
    return Gst.PadProbeReturn.OK
sink.get_static_pad("sink").add_probe(Gst.PadProbeType.BUFFER, look)
"""


@pytest.mark.skipif(
    importlib.util.find_spec("nvidia") is None or importlib.util.find_spec("nvidia.deepstream_videodecode") is None,
    reason="nvidia-deepstream-videodecode-cu13 is not installed",
)
def test_nvidias_own_library_reads_the_records() -> None:
    switches = ("NVDS_ENABLE_LATENCY_MEASUREMENT", "NVDS_ENABLE_COMPONENT_LATENCY_MEASUREMENT")
    environment = {**os.environ, "SLUICE_PROVIDER": "nvidia", **dict.fromkeys(switches, "1")}
    start = "pipeline.set_state(Gst.State.PLAYING)"
    code = DEEPSTREAM.replace(start, NVIDIAS_READER + start)
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    frames = sorted(line for line in done.stdout.splitlines() if line.startswith("frame "))
    assert frames == sorted(f"frame {stream} {number}" for stream in (0, 1) for number in range(5))
    assert done.stdout.count("Comp name = nvstreammux-sluicemux source_id = ") == 10
    assert done.stdout.count("Comp name = sluiceinfer in_system_timestamp = ") >= 5


def test_a_batch_without_records_has_none() -> None:
    assert component_latencies(BatchMeta.of(batch((0, 0, 0)))) == []
