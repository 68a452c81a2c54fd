"""What it costs to measure latencies and count objects: processor microseconds per batch and per frame.

    python bench/latency.py [--batches 20000]

The same batches are pushed through two pads, without any probe, with those of one element (its time, and the age of its
frames), and with a count of the objects beside them. Streams and objects per frame vary.
"""

import argparse
import time

import gi
import numpy as np

gi.require_version("Gst", "1.0")
from gi.repository import Gst

from sluice.contract import bulk
from sluice.contract._rows import FRAME_ROW
from sluice.contract.latency import LatencyMeter
from sluice.contract.metadata import BatchMeta, Lease
from sluice.contract.object_counts import ObjectCounter

AT_ONCE = 200  # batches that are made before they are pushed, so that making them is not measured


def batch(frames: int, objects: int, number: int) -> Gst.Buffer:
    """Return a batch of one frame per stream, each with so many objects of five classes."""
    buffer = Gst.Buffer.new()
    with Lease() as lease:
        meta = BatchMeta.attach(buffer, frames, lease)
        rows = np.zeros(frames, FRAME_ROW)
        rows["pad_index"] = rows["source_id"] = np.arange(frames)
        rows["frame_num"], rows["ntp_timestamp"] = number, time.time_ns()
        bulk.fill_frames(meta, rows)
        for frame in meta.frames:
            ids = np.arange(objects) % 5
            bulk.write_objects(frame, np.ones((objects, 4)), np.ones(objects), ids, unique_id=1)
    return buffer


def pads() -> tuple[Gst.Pad, Gst.Pad, Gst.Element]:
    """Return two linked pads, and the sink that the second is of; what is pushed into the first is let go there."""
    source, sink = Gst.Pad.new("src", Gst.PadDirection.SRC), Gst.ElementFactory.make("fakesink")
    sink.set_property("async", False)
    sink.set_state(Gst.State.PLAYING)
    entry = sink.get_static_pad("sink")
    source.link(entry)
    source.set_active(True)
    source.push_event(Gst.Event.new_stream_start("x"))
    segment = Gst.Segment()
    segment.init(Gst.Format.TIME)
    source.push_event(Gst.Event.new_segment(segment))
    return source, entry, sink


def cost(frames: int, objects: int, batches: int, what: str) -> float:
    """Return processor microseconds per batch."""
    source, entry, sink = pads()
    meter = LatencyMeter()
    if what != "nothing":
        meter.watch("x", source, entry)
    counter = ObjectCounter(entry) if what == "all" else None
    spent = 0.0
    for first in range(0, batches, AT_ONCE):
        made = [batch(frames, objects, number) for number in range(first, first + AT_ONCE)]
        began = time.process_time()
        for buffer in made:
            source.push(buffer)
        spent += time.process_time() - began
    sink.set_state(Gst.State.NULL)
    del counter
    return spent / batches * 1e6


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batches", type=int, default=20_000)
    batches = parser.parse_args().batches
    print("streams objects | µs per batch: latencies | and objects | per frame, both")
    for frames, objects in ((1, 0), (1, 20), (8, 20), (32, 20), (32, 100)):
        bare, measured, counted = (cost(frames, objects, batches, what) for what in ("nothing", "latency", "all"))
        both = counted - bare
        print(f"{frames:7} {objects:7} | {measured - bare:23.2f} | {both:11.2f} | {both / frames:.2f}")


main()
