"""What sluiceinfer costs: microseconds per batch with a model that does nothing, and frames/s with one that spins.

    python bench/infer.py [--seconds 3]

Printed alone and beside three busy Python threads. The time that sluiceinfer adds is the difference between the same
launch line with it and without it, each run as fast as it goes; the goal is under 150 µs per batch.
"""

import argparse
import sys
import time
from pathlib import Path

import gi
from busy import busy_threads

gi.require_version("Gst", "1.0")
from gi.repository import Gst

from sluice.elements import register

FRAME = "video/x-raw,format=I420,width=64,height=48,framerate=1000/1"
SPIN_SECONDS = 0.001


class Nothing:
    """Looks at no pixel and finds nothing."""

    def infer(self, frames: list) -> list:
        return [None for _ in frames]


class Spinning:
    """Holds the GIL for a millisecond per call, as a model written in Python does."""

    def infer(self, frames: list) -> list:
        end = time.perf_counter() + SPIN_SECONDS
        while time.perf_counter() < end:
            pass
        return [None for _ in frames]


def line(streams: int, infer: str) -> str:
    """A launch line of so many test sources through the mux (none for one stream) and, when given, sluiceinfer."""
    source = f"videotestsrc pattern=black ! {FRAME}"
    if streams == 1:
        return f"{source} ! {infer} fakesink name=end"
    sources = " ".join(f"{source} ! m.sink_{i}" for i in range(streams))
    return f"sluicemux name=m batch-size={streams} ! {infer} fakesink name=end {sources}"


def run(text: str, seconds: float) -> tuple[float, float]:
    """Run a launch line for a while; return wall and processor microseconds per batch that reached the sink."""
    pipeline = Gst.parse_launch(text)
    sink = pipeline.get_by_name("end")
    pipeline.set_state(Gst.State.PLAYING)
    if pipeline.get_state(30 * Gst.SECOND)[0] != Gst.StateChangeReturn.SUCCESS:
        sys.exit(f"{text}: {pipeline.get_bus().pop_filtered(Gst.MessageType.ERROR).parse_error()}")

    def now() -> tuple[float, float, int]:
        return time.perf_counter(), time.process_time(), sink.get_property("stats").get_uint64("rendered").value

    before = now()
    time.sleep(seconds)
    wall, processor, batches = (after - first for after, first in zip(now(), before, strict=True))
    pipeline.set_state(Gst.State.NULL)
    return wall / batches * 1e6, processor / batches * 1e6


def measure(seconds: float) -> None:
    """Print one table. The processor time is that of the whole process, so it means little beside busy threads."""
    model = f"sluiceinfer model={Path(__file__).resolve()}"
    for streams in (1, 4, 8):
        wall, processor = run(line(streams, ""), seconds)
        wall_with, processor_with = run(line(streams, f"{model}:Nothing !"), seconds)
        print(
            f"  batches of {streams}: {wall:6.1f} us each without sluiceinfer, {wall_with - wall:+7.1f} us with it "
            f"(processor time {processor_with - processor:+.1f} us)"
        )
    wall, _ = run(line(8, f"{model}:Spinning !"), seconds)
    print(f"  batches of 8, a model that spins {SPIN_SECONDS * 1e3:g} ms for each: {8e6 / wall:.0f} frames/s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=3.0, help="about how long each measurement takes")
    seconds = parser.parse_args().seconds
    for name in ("sluicemux", "sluiceinfer"):
        register(name)
    print("alone:")
    measure(seconds)
    print("beside three busy Python threads:")
    with busy_threads(3):
        measure(seconds)


if __name__ == "__main__":
    main()
