"""What tracking costs: microseconds per frame with the plain library and batched, alone and in sluicetracker.

    python bench/tracker.py [STREAMS [FRAMES [OBJECTS]]]

The scene is made up: people who walk to the right, each at a speed of their own, in every stream. Detections are up to
3 pixels off, one in 20 is missing, and one in 10 is weak, so that every round of matching has something to do.
Times are processor time of the one thread that works, so that other load on the machine counts little.

library     each stream by the trackers library, on supervision.Detections, nothing of Sluice
batched     all streams in one pass (StreamTrackers.update); the library's ids, see tests/tracking
element     what sluicetracker does with a batch of one frame per stream, metadata read and written included: with the
            library, and batched
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
from sluice.tracking import Detected, Settings, StreamTrackers
from sluice.tracking.algorithms import make_tracker
from sluice.tracking.records import Implementation

WIDTH, HEIGHT = 1920, 1080


def scene(streams: int, objects: int, frames: int) -> Iterator[list[Detected]]:
    """Yield the detections of one frame of every stream."""
    random = np.random.default_rng(1)
    boxes = np.empty((streams, objects, 4), dtype=np.float32)
    boxes[..., 0] = random.uniform(0, WIDTH - 60, (streams, objects))
    boxes[..., 1] = random.uniform(0, HEIGHT - 120, (streams, objects))
    boxes[..., 2:] = 40, 100
    speed = random.uniform(-2, 2, (streams, objects)).astype(np.float32)
    for _ in range(frames):
        boxes[..., 0] = np.clip(boxes[..., 0] + speed, 0, WIDTH - 40)
        seen = random.random((streams, objects)) > 0.05
        shown = boxes + random.uniform(-3, 3, boxes.shape).astype(np.float32)
        weak = random.random((streams, objects)) < 0.1
        yield [_detected(shown[k][seen[k]], np.where(weak[k][seen[k]], 0.4, 0.9)) for k in range(streams)]


def _detected(boxes: np.ndarray, confidences: np.ndarray) -> Detected:
    ones = np.ones(len(boxes), dtype=np.int32)
    return Detected(boxes, confidences.astype(np.float32), ones, ones, ["person"] * len(boxes))


Run = Callable[[list[Detected]], float]


def library_alone(name: str, options: Mapping[str, object], streams: int) -> Run:
    """Return a function that gives one frame of every stream to the library and returns the seconds it took."""
    trackers = [make_tracker(name, options) for _ in range(streams)]

    def run(frames: list[Detected]) -> float:
        began = time.thread_time()
        for tracker, rows in zip(trackers, frames, strict=True):
            corners = np.concatenate([rows.boxes[:, :2], rows.boxes[:, :2] + rows.boxes[:, 2:]], axis=1)
            tracker.update(supervision.Detections(corners, confidence=rows.confidences, class_id=rows.class_ids))
        return time.thread_time() - began

    return run


def batched(name: str, options: Mapping[str, object], streams: int) -> Run:
    """Return the same for all streams in one pass."""
    trackers = StreamTrackers(Settings(name, options, implementation="batched"))
    of_streams = [trackers.of(stream) for stream in range(streams)]

    def run(frames: list[Detected]) -> float:
        began = time.thread_time()
        trackers.update([(tracker, rows, None) for tracker, rows in zip(of_streams, frames, strict=True)])
        return time.thread_time() - began

    return run


def element(name: str, options: Mapping[str, object], streams: int, implementation: Implementation) -> Run:
    """Return the same for what sluicetracker does with a buffer, metadata read and written included."""
    settings = Settings(name, options, implementation=implementation)
    policy = Policy(classes=frozenset(), keep_unconfirmed=False, show_ids=True)
    tracking = FrameTracking(StreamTrackers(settings), settings, policy, Counters())
    tracking.set_caps(batching.surface_caps(streams))
    info = GstVideo.VideoInfo.new_from_caps(
        Gst.Caps.from_string(f"video/x-raw,format=GRAY8,width={WIDTH},height={HEIGHT},framerate=25/1")
    )
    pixels = Gst.Buffer.new_allocate(None, info.size, None)

    def run(frames: list[Detected]) -> float:
        buffer = batching.make_batch([(pixels, info)] * streams, streams)
        with Lease() as lease:
            batch = BatchMeta.attach(buffer, streams, lease)
            places = np.zeros(streams, bulk.FRAME_ROW)
            places["pad_index"] = np.arange(streams)
            bulk.fill_frames(batch, places)
            for frame, rows in zip(batch.frames, frames, strict=True):
                bulk.write_objects(frame, rows.boxes, rows.confidences, rows.class_ids, rows.labels, unique_id=1)
        began = time.thread_time()
        tracking.track(buffer)
        return time.thread_time() - began

    return run


def main() -> None:
    """Print the table."""
    Gst.init(None)
    given = [int(argument) for argument in sys.argv[1:]]
    streams, frames, objects = (*given, *(64, 40, 20)[len(given) :])
    print(f"{streams} streams, {objects} objects each, {frames} frames; microseconds per frame (median)")
    print(f"{'algorithm':<22} {'library':>8} {'batched':>8} {'element, library':>17} {'element, batched':>17}")
    for name in ("sort", "bytetrack", "botsort", "ocsort"):
        options = {"enable_cmc": False} if name == "botsort" else {}
        runs = {
            "library": library_alone(name, options, streams),
            "batched": batched(name, options, streams),
            "element, library": element(name, options, streams, "library"),
            "element, batched": element(name, options, streams, "batched"),
        }
        times = {
            kind: np.median([run(detected) for detected in scene(streams, objects, frames)]) * 1e6 / streams
            for kind, run in runs.items()
        }
        label = f"{name} (no camera motion)" if options else name
        cells = [f"{times[kind]:.0f}" for kind in runs]
        print(f"{label:<22} {cells[0]:>8} {cells[1]:>8} {cells[2]:>17} {cells[3]:>17}")


if __name__ == "__main__":
    main()
