"""What live outputs cost a stream, and whether viewers who come and go disturb it.

    python bench/outputs.py [--streams 4] [--viewers 500] [--seconds 10]

First the processor time per frame of 640x480 test streams that nobody views, drawn as pictures, encoded for RTSP, and
recorded. Then so many viewers of JPEG pictures come and go, eight at a time, while one stream is recorded: its rate,
what was lost, and what the process has of memory and open files before and after.
"""

import argparse
import tempfile
import threading
import time
from pathlib import Path

import gi

gi.require_version("Gst", "1.0")
from gi.repository import Gst

from sluice.app.outputs import LiveOutputs, OutputOptions, RecordOptions, RtspOptions
from sluice.app.sources import parse_sources
from sluice.metrics.process import read_process

AT_ONCE = 8
FPS = 25


def pipeline(outputs: LiveOutputs, streams: int) -> Gst.Pipeline:
    """Return test streams into the outputs' branches."""
    whole = Gst.Pipeline.new()
    for number in range(streams):
        source = Gst.parse_bin_from_description(
            f"videotestsrc is-live=true ! video/x-raw,format=I420,width=640,height=480,framerate={FPS}/1 ! identity",
            True,
        )
        branch = outputs(number, parse_sources(["test:?live=1"])[0], f"cam-{number}")
        whole.add(source)
        whole.add(branch.bin)
        source.link(branch.bin)
    return whole


def processor_per_frame(options: OutputOptions, streams: int, seconds: float, use: str) -> float:
    """Return processor milliseconds per frame of a stream, all of the process."""
    outputs = LiveOutputs(options)
    whole = pipeline(outputs, streams)
    whole.set_state(Gst.State.PLAYING)
    viewers = []
    for name in outputs.names():
        if use == "pictures":
            outputs.subscribe_mjpeg(name, lambda _: None)
        elif use == "rtsp":
            viewer = Gst.parse_launch(f"rtspsrc location={outputs.rtsp_url(name)} protocols=tcp ! fakesink")
            viewer.set_state(Gst.State.PLAYING)
            viewers.append(viewer)
    time.sleep(2)
    before, began = sum(counts["frames"] for counts in outputs.stats().values()), time.process_time()
    time.sleep(seconds)
    spent = time.process_time() - began
    frames = sum(counts["frames"] for counts in outputs.stats().values()) - before
    for viewer in viewers:
        viewer.set_state(Gst.State.NULL)
    whole.set_state(Gst.State.NULL)
    outputs.close()
    return spent / frames * 1e3


def come_and_go(count: int, folder: Path) -> None:
    """Let viewers come and go, and print what became of the stream."""
    outputs = LiveOutputs(OutputOptions(record=RecordOptions(folder)))
    whole = pipeline(outputs, 1)
    whole.set_state(Gst.State.PLAYING)
    time.sleep(3)
    before, counts, began = read_process(), outputs.stats()["cam-0"], time.perf_counter()
    left = threading.Semaphore(count)
    seen = [0] * AT_ONCE

    def view(number: int) -> None:
        while left.acquire(blocking=False):
            arrived = threading.Event()
            end = outputs.subscribe_mjpeg("cam-0", lambda _, arrived=arrived: arrived.set())
            seen[number] += arrived.wait(10)
            end()

    threads = [threading.Thread(target=view, args=(number,)) for number in range(AT_ONCE)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    took, now = time.perf_counter() - began, outputs.stats()["cam-0"]
    time.sleep(5)
    after = read_process()
    print(f"{count} viewers in {took:.1f} s, {sum(seen)} of them saw a picture")
    print(f"  frames/s of the stream {(now['frames'] - counts['frames']) / took:.2f} of {FPS}")
    print(f"  recorded {now['record-frames'] - counts['record-frames']}, lost {now['record-dropped']}, ", end="")
    print(f"drawing lost {now['draw-dropped'] - counts['draw-dropped']}")
    print(f"  memory {before.rss / 2**20:.1f} -> {after.rss / 2**20:.1f} MiB, files {before.fds} -> {after.fds}")
    whole.set_state(Gst.State.NULL)
    outputs.close()


def main() -> None:
    """Print both."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--streams", type=int, default=4)
    parser.add_argument("--viewers", type=int, default=500)
    parser.add_argument("--seconds", type=float, default=10)
    given = parser.parse_args()
    Gst.init(None)
    with tempfile.TemporaryDirectory() as folder:
        for use, options in (
            ("nobody", OutputOptions(rtsp=RtspOptions(port=0))),
            ("pictures", OutputOptions()),
            ("rtsp", OutputOptions(rtsp=RtspOptions(port=0))),
            ("record", OutputOptions(record=RecordOptions(Path(folder) / "r"))),
        ):
            spent = processor_per_frame(options, given.streams, given.seconds, use)
            print(f"{use:9} {spent:.2f} ms of processor time per frame of 640x480, test source included")
        come_and_go(given.viewers, Path(folder) / "v")


main()
