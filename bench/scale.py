"""What many cameras need, from what one machine was measured to do; and how fast a fleet's controller acts.

    python bench/scale.py                       # the tables of docs/scale.md
    python bench/scale.py --fps 25 --bitrate 8  # for other cameras
    python bench/scale.py --controller          # the controller on a cluster without processes

Plain arithmetic: every constant names its source. Nothing here was run with that many cameras.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# docs/gpu-results.md, one H200, H.264 1080p, 32 streams in one process, YOLO26n 640x640.
PIPELINE = 4000.0  # frames per second of the whole pipeline with tracker and messages
DECODERS = 5362.0  # frames per second of the decoders alone, all of them busy; H.265: 9076
# docs/gpu-results.md, processor time per batch of 32 frames: mux, model's thread, metadata, tracker and messages.
CORE_SECONDS = (0.5 + 3.4 + 0.1 + 7.6) / 1000 / 32
# docs/benchmarks.md, 1080p HEVC, yolox_nano 416x416 on ONNX Runtime, four streams: everything on the processor.
ALONE_CORE_SECONDS = 38.7 / 1000
# Messages of Sluice's own schema, measured on examples/data/pedestrians.mp4 with `sluice run --messages`,
# and 26 bytes for the epoch. The clip is a still scene: others are compressed less.
MESSAGE, PER_OBJECT, GZIP = 232, 123, 0.11  # bytes, bytes, share that is left after gzip -1 of a file of them
# Assumed, not measured.
FULL = 0.7  # how far anything is loaded: the rest is for peaks and for the streams of a lost node
NIC = 25_000.0 * FULL  # megabit per second of a node
PARTITION = 5.0  # megabytes per second that one partition of a broker is given
GPU_CORES, GPUS_PER_NODE, DAY = 16, 4, 86_400


@dataclass(frozen=True)
class Cameras:
    """Alike cameras: how many, frames per second worked on and sent, megabit per second, objects in a frame."""

    count: int
    fps: float
    sent_fps: float
    bitrate: float
    objects: float

    @property
    def frames(self) -> float:
        """Frames per second of all."""
        return self.count * self.fps


def needs(cameras: Cameras) -> dict[str, str]:
    """Return what they need, in words."""
    by_model = cameras.frames / (PIPELINE * FULL)
    by_decoder = cameras.count * cameras.sent_fps / (DECODERS * FULL)  # what is left out was decoded all the same
    gpus = math.ceil(max(by_model, by_decoder))
    nodes = math.ceil(gpus / GPUS_PER_NODE)
    ingress = cameras.count * cameras.bitrate
    message = MESSAGE + PER_OBJECT * cameras.objects
    megabytes = cameras.frames * message / 1e6
    return {
        "frames per second": f"{cameras.frames:,.0f}",
        "GPUs (for the network / for decoding alone)": f"{gpus} ({by_model:.1f} / {by_decoder:.1f})",
        f"nodes of {GPUS_PER_NODE} GPUs, and one to lose": f"{nodes} + 1",
        "cameras per GPU": f"{cameras.count / gpus:.0f}",
        "processor cores busy beside the GPUs": f"{cameras.frames * CORE_SECONDS:.1f}",
        "cores without any GPU": f"{math.ceil(cameras.frames * ALONE_CORE_SECONDS / FULL):,}",
        "video into the cluster": f"{ingress / 1000:,.1f} Gbit/s",
        "video into each node": f"{ingress / nodes / 1000:.1f} Gbit/s",
        "of what 25 GbE is given": f"{ingress / nodes / NIC:.0%}",
        "messages": f"{cameras.frames:,.0f} per second of {message / 1000:.1f} kB: {megabytes:.1f} MB/s",
        "partitions of a broker": f"{math.ceil(megabytes / PARTITION)}",
        "messages of a day": f"{megabytes * DAY / 1e6:.2f} TB, {megabytes * DAY * GZIP / 1e6:.2f} TB compressed",
    }


def table(columns: list[Cameras]) -> Iterator[str]:
    """The needs of each column, as Markdown."""
    found = [needs(cameras) for cameras in columns]
    yield "| | " + " | ".join(f"{cameras.count:,} cameras" for cameras in columns) + " |"
    yield "|---" * (len(columns) + 1) + "|"
    for row in found[0]:
        yield f"| {row} | " + " | ".join(one[row] for one in found) + " |"


def controller(streams: int, per_worker: int) -> dict[str, Any]:
    """Run a fleet's controller on the simulated cluster of its tests; processor seconds are those of this machine."""
    sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
    from app.fleet.simulated_cluster import Cluster
    from sluice.app.fleet.controller import Controller
    from sluice.app.fleet.schema import Fleet
    from sluice.app.streams.events import EventLog

    workers = math.ceil(streams / per_worker)
    cluster = Cluster(nodes=math.ceil(workers / 4) + 2, room=4)
    entries = [{"source": "test:ball?live=1", "name": f"cam-{i}"} for i in range(streams)]
    fleet = Fleet.model_validate({"streams": entries, "workers": {"streams": per_worker, "spare": 1}})
    kept = Controller(fleet, cluster, cluster.clock, EventLog(lambda: cluster.now))
    longest = 0.0

    def go(seconds: float) -> float:
        """Return the processor seconds per step."""
        nonlocal longest
        begun = time.process_time()
        for _ in range(int(seconds * 4)):
            before = time.process_time()
            kept.step()
            longest = max(longest, time.process_time() - before)
            cluster.pass_time(0.25)
        return (time.process_time() - begun) / int(seconds * 4)

    def placed() -> bool:
        return sum(len(w.streams) for w in cluster.workers if not w.dead and not w.cut_off) >= streams

    while not placed():
        go(0.25)
    all_placed = cluster.now
    steady = go(10)
    lost = next(worker.node for worker in cluster.workers if worker.streams)
    for worker in cluster.workers:  # cut off, and nobody says so
        worker.cut_off = worker.cut_off or worker.node == lost
    begun = cluster.now
    while not placed():
        go(0.25)
    before = time.process_time()
    kept.status()
    return {
        "streams": streams,
        "workers": workers,
        "all placed after": f"{all_placed:.1f} s",
        "a node that is cut off: its streams run elsewhere after": f"{cluster.now - begun:.1f} s",
        "processor time of a step": f"{steady * 1000:.1f} ms",
        "of the longest step": f"{longest * 1000:.0f} ms",
        "of a status": f"{(time.process_time() - before) * 1000:.0f} ms",
    }


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cameras", type=int, nargs="+", default=[100, 1000, 10_000])
    parser.add_argument("--fps", type=float, default=10.0, help="frames per second that are worked on")
    parser.add_argument("--camera-fps", type=float, help="frames per second that cameras send; default: the same")
    parser.add_argument("--bitrate", type=float, default=4.0, help="megabit per second of a camera")
    parser.add_argument("--objects", type=float, default=10.0, help="objects in a frame")
    parser.add_argument("--controller", action="store_true", help="run the controller instead")
    parser.add_argument("--per-worker", type=int, default=32, help="streams of a worker, for --controller")
    wanted = parser.parse_args()
    if wanted.controller:
        for count in wanted.cameras:
            print(", ".join(f"{key}: {value}" for key, value in controller(count, wanted.per_worker).items()))
        return
    sent = wanted.camera_fps or wanted.fps
    columns = [Cameras(count, wanted.fps, sent, wanted.bitrate, wanted.objects) for count in wanted.cameras]
    print("\n".join(table(columns)))


if __name__ == "__main__":
    main()
