"""What sluiceinfer costs: microseconds per batch with a model that does nothing, and frames/s with one that spins.

    python bench/infer.py [--seconds 3]

Printed alone and beside three busy Python threads. The time that sluiceinfer adds is the difference between the same
launch line with it and without it, each run as fast as it goes; the goal is under 150 µs per batch.
"""

import argparse
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import gi

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


def line(streams: int, infer: str, frames: int) -> str:
    """A launch line of so many test sources through the mux (none for one stream) and, when given, sluiceinfer."""
    source = f"videotestsrc pattern=black num-buffers={frames} ! {FRAME}"
    if streams == 1:
        return f"{source} ! {infer} fakesink"
    sources = " ".join(f"{source} ! m.sink_{i}" for i in range(streams))
    return f"sluicemux name=m batch-size={streams} ! {infer} fakesink {sources}"


def run(text: str) -> float:
    """Run a launch line to its end and return the seconds from the first frame possible to EOS."""
    pipeline = Gst.parse_launch(text)
    began = time.perf_counter()
    pipeline.set_state(Gst.State.PLAYING)
    message = pipeline.get_bus().timed_pop_filtered(300 * Gst.SECOND, Gst.MessageType.EOS | Gst.MessageType.ERROR)
    seconds = time.perf_counter() - began
    pipeline.set_state(Gst.State.NULL)
    if message is None or message.type == Gst.MessageType.ERROR:
        sys.exit(f"{text}: {message.parse_error() if message else 'no end'}")
    return seconds


@contextmanager
def busy_threads(count: int) -> Iterator[None]:
    """Run threads that do nothing but Python arithmetic."""
    stop = threading.Event()

    def spin() -> None:
        number = 0
        while not stop.is_set():
            number = (number * 3 + 1) % 1_000_003

    threads = [threading.Thread(target=spin, daemon=True) for _ in range(count)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def measure(seconds: float) -> None:
    """Print one table."""
    model = f"sluiceinfer model={Path(__file__).resolve()}"
    for streams in (1, 4, 8):
        frames = 500
        without = run(line(streams, "", frames))
        frames = max(100, int(frames * seconds / max(without, 1e-3) / 4))
        without = min(run(line(streams, "", frames)) for _ in range(2))
        added = min(run(line(streams, f"{model}:Nothing !", frames)) for _ in range(2)) - without
        alone, more = without / frames * 1e6, added / frames * 1e6
        print(f"  {streams} stream(s): {alone:7.1f} us a batch without sluiceinfer, {more:+.1f} us with it")
    frames = int(500 * seconds)
    took = run(line(8, f"{model}:Spinning !", frames))
    print(f"  8 streams, a model that spins {SPIN_SECONDS * 1e3:g} ms a batch: {8 * frames / took:.0f} frames/s")


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
