"""nvinfer and sluiceinfer in turn: the same engine, the same clip, the same muxer, on a machine with DeepStream.

This program has not been run: nobody has measured the two side by side yet, and no document compares them.

    python3 bench/nvinfer_compare.py CLIP.h264 config_infer_primary.txt --streams 8 --frames 3000 --out compare.json

Both elements are given the configuration file, whose ``model-engine-file`` must exist. The rate counts from the 100th
frame of every stream to the end of the first, frames counted in C before the muxer. Then both are run once more on
``--compared`` frames of one stream, and every object of one is looked for among those of the other: the same class and
component, and an overlap of at least 0.9.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

import gi

gi.require_version("Gst", "1.0")
import numpy as np
from gi.repository import Gst

STEADY = 100
ALIKE = 0.9
"""Least overlap of boxes that are taken for the same."""


def launch(arguments: argparse.Namespace, element: str, streams: int) -> str:
    """Launch text with one of the two elements."""
    codec = "h265" if arguments.clip.suffix in (".h265", ".hevc") else "h264"
    caps = f"video/x-{codec},stream-format=byte-stream,framerate=30/1"
    mux = f"nvstreammux name=mux batch-size={streams} width={arguments.width} height={arguments.height} "
    mux += f"batched-push-timeout=40000 ! {element} name=infer config-file-path={arguments.config} "
    mux += f"batch-size={streams} ! fakesink name=end sync=false"
    source = f"multifilesrc location={arguments.clip} loop=true caps={caps} ! {codec}parse ! nvv4l2decoder"
    return " ".join([mux, *(f"{source} ! queue name=in{i} ! mux.sink_{i}" for i in range(streams))])


def play(text: str, streams: int, frames: int) -> tuple[Gst.Pipeline, list[Any]]:
    """Start a pipeline whose streams end after so many frames."""
    from sluice.app.flow import PadFlow

    pipeline = Gst.parse_launch(text)
    flows = [PadFlow(pipeline.get_by_name(f"in{i}").get_static_pad("src"), frames) for i in range(streams)]
    pipeline.set_state(Gst.State.PLAYING)
    return pipeline, flows


def check(pipeline: Gst.Pipeline) -> None:
    """End the program with an error of the bus."""
    message = pipeline.get_bus().pop_filtered(Gst.MessageType.ERROR)
    if message is not None:
        sys.exit(f"the pipeline stopped: {message.parse_error()}")


def rate(arguments: argparse.Namespace, element: str) -> dict[str, Any]:
    """Frames per second of one element."""
    pipeline, flows = play(launch(arguments, element, arguments.streams), arguments.streams, arguments.frames)
    begun: tuple[float, int] | None = None
    while True:
        time.sleep(0.02)
        check(pipeline)
        counts, now = [flow.read().buffers for flow in flows], time.monotonic()
        if begun is None and min(counts) >= STEADY:
            begun = now, sum(counts)
        if max(counts) >= arguments.frames:
            break
    pipeline.set_state(Gst.State.NULL)
    if begun is None:
        return {"element": element, "failed": "a stream ended before another had begun"}
    seconds, passed = now - begun[0], sum(counts) - begun[1]
    return {"element": element, "frames": passed, "seconds": seconds, "frames_per_second": passed / seconds}


def objects(arguments: argparse.Namespace, element: str) -> dict[int, np.ndarray]:
    """The objects of each frame of one stream, as rows of `sluice.contract.bulk_objects`."""
    from sluice.contract.bulk_objects import read_batch
    from sluice.contract.metadata import BatchMeta, Lease

    found: dict[int, np.ndarray] = {}

    def passed(_pad: Gst.Pad, info: Gst.PadProbeInfo) -> Gst.PadProbeReturn:
        with Lease() as lease:
            frames, rows = read_batch(BatchMeta.of(info.get_buffer(), lease))
        parts = np.split(rows.rows, np.cumsum(frames["objects"])[:-1])
        found.update(zip(frames["frame_num"].tolist(), parts, strict=True))
        return Gst.PadProbeReturn.OK

    pipeline, _ = play(launch(arguments, element, 1), 1, arguments.compared)
    pipeline.get_by_name("infer").get_static_pad("src").add_probe(Gst.PadProbeType.BUFFER, passed)
    while len(found) < arguments.compared - 10:
        time.sleep(0.05)
        check(pipeline)
    pipeline.set_state(Gst.State.NULL)
    return found


def alike(one: np.ndarray, other: np.ndarray) -> int:
    """How many objects of one frame are among another's."""
    count, left = 0, list(other)
    for item in one:
        for index, candidate in enumerate(left):
            same = item["class_id"] == candidate["class_id"]
            if same and overlap(item["box"], candidate["box"]) >= ALIKE:
                del left[index]
                count += 1
                break
    return count


def overlap(one: np.ndarray, other: np.ndarray) -> float:
    """Intersection over union of two boxes left, top, width, height."""
    size = np.minimum(one[:2] + one[2:], other[:2] + other[2:]) - np.maximum(one[:2], other[:2])
    shared = float(np.prod(np.maximum(size, 0)))
    return shared / max(float(np.prod(one[2:]) + np.prod(other[2:])) - shared, 1e-9)


def main() -> None:
    """Run both elements and write one JSON file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("clip", type=Path)
    parser.add_argument("config", type=Path)
    parser.add_argument("--streams", type=int, default=8)
    parser.add_argument("--frames", type=int, default=3000)
    parser.add_argument("--compared", type=int, default=300)
    parser.add_argument("--width", type=int, default=1920)
    parser.add_argument("--height", type=int, default=1080)
    parser.add_argument("--out", type=Path, default=Path("compare.json"))
    arguments = parser.parse_args()
    Gst.init(None)
    import sluice.elements

    sluice.elements.register_all()
    for name in ("nvinfer", "nvstreammux", "nvv4l2decoder"):
        if Gst.ElementFactory.find(name) is None:
            sys.exit(f"there is no element {name}: this program is for a machine with DeepStream")
    runs = [rate(arguments, element) for element in ("nvinfer", "sluiceinfer", "nvinfer", "sluiceinfer")]
    theirs, ours = objects(arguments, "nvinfer"), objects(arguments, "sluiceinfer")
    frames = sorted(theirs.keys() & ours.keys())
    compared = {
        "frames": len(frames),
        "nvinfer": sum(len(theirs[frame]) for frame in frames),
        "sluiceinfer": sum(len(ours[frame]) for frame in frames),
        "alike": sum(alike(theirs[frame], ours[frame]) for frame in frames),
    }
    arguments.out.write_text(json.dumps({"runs": runs, "objects": compared}, indent=1))
    print(json.dumps({"runs": runs, "objects": compared}, indent=1))


if __name__ == "__main__":
    main()
