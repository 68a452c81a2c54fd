"""Many cameras for long, some of which come and go: memory, open files, rates, reconnects.

Real RTSP servers on loopback, each a process of its own: one with the steady cameras, and one for each that flaps,
which is killed, frozen and started again all the time. Meanwhile streams are added and removed.

    python bench/soak.py --minutes 10
    python bench/soak.py --minutes 60 --json soak.json
    python bench/soak.py --cycles 500      # only adding and removing, as fast as it goes

Slopes are least squares over what was measured after the first fifth of the time.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import random
import sys
import threading
import time
from pathlib import Path

import numpy as np

import sluice
from sluice.app.streams import RetryPolicy, StreamPolicy

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from rtsp_server import Mount, RtspServer

PAGE = os.sysconf("SC_PAGE_SIZE")
POLICY = StreamPolicy(transport="tcp", stall_seconds=3, retry=RetryPolicy(first=0.5, most=2))
WARM_UP = 0.2


class Objects:
    """A model that finds as many objects as a street has."""

    labels = ("thing",)

    def infer(self, frames: list[sluice.Frame]) -> list[sluice.Detections]:
        boxes = np.array([[8 * i, 8, 8 * i + 6, 40] for i in range(10)], np.float32)
        return [sluice.Detections(boxes, np.full(10, 0.9, np.float32), np.zeros(10, np.int32)) for _ in frames]


def usage() -> dict[str, float]:
    """Memory in MiB, open files and threads of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return {
        "rss": pages * PAGE / 2**20,
        "fds": len(os.listdir("/proc/self/fd")),  # noqa: PTH208 - names only
        "threads": len(os.listdir("/proc/self/task")),  # noqa: PTH208
    }


def slopes(points: list[dict[str, float]]) -> dict[str, float]:
    """Growth per hour of what was measured, without the time in which everything is loaded."""
    late = [point for point in points if point["seconds"] >= WARM_UP * points[-1]["seconds"]]
    hours = np.array([point["seconds"] for point in late]) / 3600
    return {name: float(np.polyfit(hours, [point[name] for point in late], 1)[0]) for name in ("rss", "fds", "threads")}


def soak(minutes: float, cameras: int, flapping: int, every: float, show: float) -> dict[str, object]:
    """Run the cameras; print a line now and then, and return what was measured."""
    stop = threading.Event()
    steady = RtspServer([Mount(f"/{n}", width=320, height=240) for n in range(cameras - flapping)])
    shaky = [RtspServer([Mount(width=320, height=240)]) for _ in range(flapping)]
    points: list[dict[str, float]] = []
    with steady, sluice.Pipeline([], service=True, model=Objects(), policy=POLICY) as pipeline:
        pipeline.start()
        for n in range(cameras - flapping):
            pipeline.add(steady.url(f"/{n}"), name=f"steady-{n}")
        flaps = [threading.Thread(target=flap, args=(server, stop, every), daemon=True) for server in shaky]
        for number, (server, thread) in enumerate(zip(shaky, flaps, strict=True)):
            server.start()
            pipeline.add(server.url(), name=f"flapping-{number}")
            thread.start()
        begun, cycles = time.monotonic(), 0
        first = {}
        while (seconds := time.monotonic() - begun) < minutes * 60:
            name = pipeline.add("test:ball?live=1&size=64x48")
            stop.wait(2)
            pipeline.remove(name)
            cycles += 1
            if not first and seconds > WARM_UP * minutes * 60:
                first = {stream.name: stream for stream in pipeline.streams}
            if seconds >= len(points) * show:
                points.append({"seconds": seconds, **usage()})
                report(points[-1], pipeline, cycles)
        last = {stream.name: stream for stream in pipeline.streams}
        stop.set()
        for thread in flaps:
            thread.join(10)
        for server in shaky:
            server.kill()
    frames = [last[name].frames_in - first[name].frames_in for name in last if name.startswith("steady")]
    return {
        "minutes": minutes,
        "cameras": cameras,
        "added and removed": cycles,
        "reconnects": sum(stream.reconnects for stream in last.values()),
        "reconnects of steady cameras": sum(s.reconnects for n, s in last.items() if n.startswith("steady")),
        "fairness": min(frames) / max(frames),
        "first": points[0],
        "last": points[-1],
        "per hour": slopes(points),
    }


def flap(server: RtspServer, stop: threading.Event, every: float) -> None:
    """Kill a server and start it again, until told to stop."""
    while not stop.wait(random.uniform(0.5, 1.5) * every):
        if random.random() < 0.3:
            server.freeze()
            stop.wait(5)
            server.thaw()
        else:
            server.kill()
            stop.wait(random.uniform(0, 3))
            server.start()


def report(point: dict[str, float], pipeline: sluice.Pipeline, cycles: int) -> None:
    """Print one line."""
    streams = pipeline.streams
    rates = [stream.fps for stream in streams if stream.name.startswith("steady")]
    print(
        f"{point['seconds'] / 60:6.1f} min  {point['rss']:6.1f} MiB  {point['fds']:.0f} fds  "
        f"{point['threads']:.0f} threads  {min(rates):4.1f} to {max(rates):4.1f} frames/s  {cycles} added and removed  "
        f"{sum(stream.reconnects for stream in streams)} reconnects",
        flush=True,
    )


def add_and_remove(cycles: int) -> dict[str, object]:
    """Add and remove a stream again and again while another plays; return what was measured."""
    points: list[dict[str, float]] = []
    with sluice.Pipeline(["test:ball?live=1&size=64x48"], service=True, model=Objects()) as pipeline:
        pipeline.start()
        begun = time.monotonic()
        for cycle in range(cycles):
            name = pipeline.add("test:snow?live=1&size=64x48&fps=60")
            while next(stream for stream in pipeline.streams if stream.name == name).frames_out < 2:
                time.sleep(0.01)
            pipeline.remove(name)
            if cycle % max(1, cycles // 50) == 0:
                gc.collect()
                points.append({"seconds": time.monotonic() - begun, "cycle": cycle, **usage()})
        kept = pipeline.streams[0]
    late = points[len(points) // 2 :]
    grown = (late[-1]["rss"] - late[0]["rss"]) / (late[-1]["cycle"] - late[0]["cycle"]) * 1024
    return {
        "cycles": cycles,
        "seconds": time.monotonic() - begun,
        "first": points[0],
        "last": points[-1],
        "KiB per cycle in the second half": grown,
        "the other stream": f"{kept.frames_out} of {kept.frames_in} frames, {kept.fps:.1f} frames/s at the end",
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--cameras", type=int, default=8)
    parser.add_argument("--flapping", type=int, default=2)
    parser.add_argument("--every", type=float, default=15, help="seconds, on average, between a camera's failures")
    parser.add_argument("--show", type=float, default=15, help="seconds between lines")
    parser.add_argument("--cycles", type=int, help="only add and remove so many streams")
    parser.add_argument("--json", type=Path, help="where the numbers are written too")
    given = parser.parse_args()
    if given.cycles:
        found = add_and_remove(given.cycles)
    else:
        found = soak(given.minutes, given.cameras, given.flapping, given.every, given.show)
    print(json.dumps(found, indent=2))
    if given.json:
        given.json.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
