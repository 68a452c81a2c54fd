"""The main job on one machine beside the loop that people write by hand, and what it costs.

Both decode a clip, run the same YOLOX network on ONNX Runtime, and track: `sluice.Pipeline` with `sluicetracker`, and a
loop of OpenCV, ONNX Runtime, NMS and the ByteTrack of trackers. Each runs in a process of its own; frames
per second are those of the whole run but its first second of loading, and memory is the process's peak resident set.

    python bench/pipeline.py CLIP.mp4 yolox_nano_416x416.onnx --streams 1 4
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any


def sluice_job(clip: str, model: str, streams: int) -> tuple[int, float]:
    """Frames, and seconds from the first frame to the end."""
    import sluice

    with sluice.Pipeline([clip] * streams, model=model, tracker="bytetrack") as pipeline:
        frames, begun = 0, 0.0
        for _ in pipeline:
            begun = begun or time.perf_counter()
            frames += 1
    return frames, time.perf_counter() - begun


def hand_written_loop(clip: str, model: str, streams: int) -> tuple[int, float]:
    """The loop of tutorials: one stream after the other, one picture at a time."""
    import cv2
    import numpy as np
    import onnxruntime
    import supervision
    import trackers

    session = onnxruntime.InferenceSession(model)
    name, size = session.get_inputs()[0].name, session.get_inputs()[0].shape[2]
    grids = [(np.stack(np.meshgrid(*[np.arange(size // s)] * 2), -1).reshape(-1, 2), s) for s in (8, 16, 32)]
    cells = np.concatenate([grid for grid, _ in grids])
    strides = np.concatenate([np.full((len(grid), 1), s) for grid, s in grids])
    frames, begun = 0, time.perf_counter()
    for _ in range(streams):
        tracker, capture = trackers.ByteTrackTracker(), cv2.VideoCapture(clip)
        while True:
            read, picture = capture.read()
            if not read:
                break
            scale = size / max(picture.shape[:2])
            small = cv2.resize(picture, None, fx=scale, fy=scale)
            padded = np.full((size, size, 3), 114, np.uint8)
            padded[: small.shape[0], : small.shape[1]] = small
            (output,) = session.run(None, {name: padded.transpose(2, 0, 1)[None].astype(np.float32)})
            rows = output[0]
            scores = rows[:, 4:5] * rows[:, 5:]
            best, classes = scores.max(1), scores.argmax(1)
            keep = best > 0.25
            centres = (rows[keep, :2] + cells[keep]) * strides[keep] / scale
            half = np.exp(rows[keep, 2:4]) * strides[keep] / scale / 2
            found = supervision.Detections(
                xyxy=np.hstack([centres - half, centres + half]), confidence=best[keep], class_id=classes[keep]
            )
            tracker.update(found.with_nms(0.45))
            frames += 1
    return frames, time.perf_counter() - begun


JOBS = {"sluice": sluice_job, "loop": hand_written_loop}


def measure(what: str, clip: str, model: str, streams: int) -> dict[str, Any]:
    """One job in a process of its own."""
    command = [sys.executable, __file__, clip, model, "--streams", str(streams), "--only", what]
    return dict(json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout))


def main() -> None:
    """Measure both forms at every number of streams and print a line each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("clip", type=Path)
    parser.add_argument("model", type=Path)
    parser.add_argument("--streams", type=int, nargs="+", default=[1, 4])
    parser.add_argument("--only", choices=sorted(JOBS))
    arguments = parser.parse_args()
    clip, model = str(arguments.clip), str(arguments.model)
    if arguments.only:
        frames, seconds = JOBS[arguments.only](clip, model, arguments.streams[0])
        used = resource.getrusage(resource.RUSAGE_SELF)
        result = {
            "what": arguments.only,
            "streams": arguments.streams[0],
            "frames": frames,
            "frames_per_second": round(frames / seconds, 1),
            "cpu_seconds_per_1000_frames": round((used.ru_utime + used.ru_stime) * 1000 / frames, 2),
            "peak_memory_mb": round(used.ru_maxrss / 1024),
        }
        print(json.dumps(result))
        return
    for streams in arguments.streams:
        for what in JOBS:
            print(json.dumps(measure(what, clip, model, streams)), flush=True)


if __name__ == "__main__":
    main()
