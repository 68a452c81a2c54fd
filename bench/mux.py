"""What sluicemux costs: frames/s and processor microseconds per frame, for streams of tiny frames.

    python bench/mux.py [--streams 8] [--seconds 3]

Each stream is a test source as fast as it goes, so that most of the time is the mux's. Measured alone, and beside
threads that do nothing but Python arithmetic: each time a streaming thread needs the interpreter it waits for them. The
sources' own cost is printed from the same sources without a mux.
"""

import argparse
import time

import gi
from busy import busy_threads

gi.require_version("Gst", "1.0")
from gi.repository import Gst

from sluice.contract.structures import fields_of
from sluice.elements import register
from sluice.elements.base import set_switch_interval

SOURCE = "videotestsrc pattern=black ! video/x-raw,format=GRAY8,width=16,height=16,framerate=1000/1"


def muxed(streams: int) -> tuple[str, list[str]]:
    """Return a launch line of so many sources through a mux, and the pads whose frames count."""
    sources = " ".join(f"{SOURCE} ! identity ! m.sink_{number}" for number in range(streams))
    return f"sluicemux name=m batch-size={streams} ! fakesink name=end {sources}", ["m"]


def bare(streams: int) -> tuple[str, list[str]]:
    """Return a launch line of the same sources without a mux."""
    ends = [f"end{number}" for number in range(streams)]
    return " ".join(f"{SOURCE} ! identity ! fakesink name={end}" for end in ends), ends


def frames(pipeline: Gst.Pipeline, ends: list[str]) -> int:
    """Return how many frames have come through so far."""
    total = 0
    for name in ends:
        stats = pipeline.get_by_name(name).get_property("stats")
        if name == "m":
            total += sum(count for name, count in fields_of(stats).items() if name.endswith("-frames-out"))
        else:
            total += stats.get_value("rendered")
    return total


def run(line: str, ends: list[str], seconds: float) -> tuple[float, float]:
    """Run a launch line for a while; return frames/s and the whole process's processor microseconds per frame."""
    pipeline = Gst.parse_launch(line)
    pipeline.set_state(Gst.State.PLAYING)
    pipeline.get_state(30 * Gst.SECOND)
    time.sleep(0.5)

    def now() -> tuple[float, float, int]:
        return time.perf_counter(), time.process_time(), frames(pipeline, ends)

    before = now()
    time.sleep(seconds)
    wall, processor, count = (after - first for after, first in zip(now(), before, strict=True))
    pipeline.set_state(Gst.State.NULL)
    return count / wall, processor / count * 1e6


def main() -> None:
    """Measure and print one line per case."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--streams", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=3)
    options = parser.parse_args()
    Gst.init(None)
    register("sluicemux")
    set_switch_interval()
    for name, made in (("sources alone", bare), ("sluicemux", muxed)):
        for busy in (0, 1):
            with busy_threads(busy):
                rate, processor = run(*made(options.streams), options.seconds)
            # The process's time is the busy thread's too.
            cost = "" if busy else f", {processor:.1f} us of processor time per frame"
            print(f"{name}, {options.streams} streams, {busy} busy Python threads: {rate:.0f} frames/s{cost}")


if __name__ == "__main__":
    main()
