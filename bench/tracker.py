"""What tracking costs: microseconds per frame in the library alone, in StreamTracker, and in sluicetracker.

    python bench/tracker.py [FRAMES]

The scene is made up: N people who walk to the right, each at a speed of their own, seen on every frame.
"""

import sys
import time
from collections.abc import Callable, Iterator, Mapping

import gi
import numpy as np

gi.require_version("Gst", "1.0")
gi.require_version("GstVideo", "1.0")
import supervision
from gi.repository import Gst, GstVideo

from sluice.contract import batching, bulk
from sluice.contract.metadata import BatchMeta, Lease
from sluice.elements.tracker import Counters
from sluice.elements.tracker_frames import FrameTracking, Policy
from sluice.tracking import ALGORITHMS, Detected, Settings, StreamTracker, StreamTrackers, parse_options
from sluice.tracking.algorithms import make_tracker

WIDTH, HEIGHT = 1920, 1080


def scene(people: int, frames: int) -> Iterator[Detected]:
    """Yield the detections of each frame."""
    random = np.random.default_rng(1)
    boxes = np.empty((people, 4), dtype=np.float32)
    boxes[:, 0], boxes[:, 1] = random.uniform(0, WIDTH - 60, people), random.uniform(0, HEIGHT - 120, people)
    boxes[:, 2:] = 40, 100
    speed = random.uniform(-2, 2, people).astype(np.float32)
    ones = np.ones(people, dtype=np.int32)
    for _ in range(frames):
        boxes[:, 0] = np.clip(boxes[:, 0] + speed, 0, WIDTH - 40)
        yield Detected(boxes.copy(), np.full(people, 0.9, np.float32), ones, ones, ["person"] * people)


def library_alone(name: str, options: Mapping[str, object]) -> Callable[[Detected], float]:
    """Return a function that gives one frame to the library and returns the seconds it took."""
    tracker = make_tracker(name, options)

    def run(rows: Detected) -> float:
        began = time.perf_counter()
        corners = np.concatenate([rows.boxes[:, :2], rows.boxes[:, :2] + rows.boxes[:, 2:]], axis=1)
        tracker.update(supervision.Detections(corners, confidence=rows.confidences, class_id=rows.class_ids))
        return time.perf_counter() - began

    return run


def stream_tracker(name: str, options: Mapping[str, object]) -> Callable[[Detected], float]:
    """Return the same for `StreamTracker`."""
    tracker = StreamTracker(Settings(name, options))

    def run(rows: Detected) -> float:
        began = time.perf_counter()
        tracker.update(rows)
        return time.perf_counter() - began

    return run


def element(name: str, options: Mapping[str, object]) -> Callable[[Detected], float]:
    """Return the same for what sluicetracker does with a buffer, metadata read and written included."""
    settings = Settings(name, options)
    policy = Policy(classes=frozenset(), keep_unconfirmed=False, show_ids=True)
    tracking = FrameTracking(StreamTrackers(settings), settings, policy, Counters())
    tracking.set_caps(batching.surface_caps(1))
    info = GstVideo.VideoInfo.new_from_caps(
        Gst.Caps.from_string(f"video/x-raw,format=GRAY8,width={WIDTH},height={HEIGHT},framerate=25/1")
    )
    pixels = Gst.Buffer.new_allocate(None, info.size, None)

    def run(rows: Detected) -> float:
        buffer = batching.make_batch([(pixels, info)], 1)
        with Lease() as lease:
            batch = BatchMeta.attach(buffer, 1, lease)
            bulk.fill_frames(batch, np.zeros(1, bulk.FRAME_ROW))
            bulk.write_objects(batch.frames[0], rows.boxes, rows.confidences, rows.class_ids, rows.labels, unique_id=1)
        began = time.perf_counter()
        tracking.track(buffer)
        return time.perf_counter() - began

    return run


def main() -> None:
    """Print the table."""
    Gst.init(None)
    frames = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    print(f"{'algorithm':<10} {'objects':>7} {'library':>9} {'StreamTracker':>14} {'sluicetracker':>14}   µs per frame")
    for name, row in ALGORITHMS.items():
        options = parse_options(name, "enable_cmc=false" if row.pixels else "")
        for people in (10, 50):
            times = []
            for kind in (library_alone, stream_tracker, element):
                run = kind(name, options)
                times.append(np.median([run(rows) for rows in scene(people, frames)]) * 1e6)
            print(f"{name:<10} {people:>7} {times[0]:>9.0f} {times[1]:>14.0f} {times[2]:>14.0f}")


if __name__ == "__main__":
    main()
