"""Processor time for the largest results that are attached: boxes and key points near the limits, in one 1080p frame.

    python bench/limits.py [--frames 5] [--kind people]

What `sluiceinfer` attaches at most is in `sluice.models.limits`. Printed are the milliseconds for attaching a result,
for reading and drawing it, and for a message about it in each schema.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import cv2
import gi
from of_a_frame import median_seconds

gi.require_version("Gst", "1.0")
import numpy as np
from gi.repository import Gst

from sluice.contract import bulk
from sluice.contract.formats import plane_shapes
from sluice.contract.metadata import BatchMeta, FrameMeta, Lease
from sluice.drawing.canvas import Canvas
from sluice.drawing.collect import Selection, collect
from sluice.drawing.painter import Painter
from sluice.elements.msgconv_frames import SluiceMessages
from sluice.messages import Per
from sluice.messages.deepstream import DeepStreamMessages, PayloadType, Settings
from sluice.messages.deepstream_config import Configuration, Place, Sensor
from sluice.models.attach import attach_detections
from sluice.models.detections import Detections

SIZE = 1920, 1080
KINDS = {"boxes": (10_000, 0), "faces": (10_000, 5), "people": (2_941, 17), "meshes": (104, 478), "empty": (0, 0)}
"""Objects, and key points of each."""


def result(objects: int, points: int) -> Detections:
    """Objects all over the frame, each with key points in its box."""
    rng = np.random.default_rng(1)
    corners = rng.uniform((0, 0), (1800, 960), (objects, 2)).astype(np.float32)
    keypoints = None
    if points:
        inside = rng.uniform(0, 100, (objects, points, 2)).astype(np.float32) + corners[:, None]
        keypoints = np.concatenate([inside, np.full((objects, points, 1), 0.9, np.float32)], axis=2)
    return Detections(
        xyxy=np.concatenate([corners, corners + 100], axis=1),
        scores=rng.uniform(0.3, 1, objects).astype(np.float32),
        class_ids=np.zeros(objects, np.int32),
        keypoints=keypoints,
    )


def attached(found: Detections) -> tuple[Gst.Buffer, float]:
    """A buffer with a batch of one frame and a result, and the processor time of attaching that."""
    buffer = Gst.Buffer.new()
    with Lease() as lease:
        batch = BatchMeta.attach(buffer, 1, lease)
        rows = np.zeros(1, bulk.FRAME_ROW)
        rows["source_width"], rows["source_height"] = SIZE
        bulk.fill_frames(batch, rows)
        (frame,) = batch.frames
        start = time.thread_time()
        attach_detections(frame, found, ["person"], 1, SIZE)
        return buffer, time.thread_time() - start


def drawing(pixel_format: str) -> Callable[[FrameMeta], object]:
    """What draws a frame's metadata."""
    shapes = plane_shapes(pixel_format, *SIZE)
    planes = [np.full((s.height, s.width, s.bytes_per_pixel), 100, np.uint8) for s in shapes]
    painter, selection = Painter(), Selection(masks=True, keypoints=True)
    return lambda frame: painter.draw(Canvas(pixel_format, planes, *SIZE), collect(frame, selection))


def makers() -> dict[str, Callable[[FrameMeta], object]]:
    """Everything that is measured on an attached result, by name."""
    configuration = Configuration({0: Sensor("CAM_0", "Camera")}, {0: Place("PLACE_0")}, {})
    ours = SluiceMessages(Per.FRAME, empty_frames=True)
    made: dict[str, Callable[[FrameMeta], object]] = {
        "read": lambda frame: collect(frame, Selection(masks=True, keypoints=True)),
        "read and draw I420": drawing("I420"),
        "read and draw RGBA": drawing("RGBA"),
        "message sluice": lambda frame: ours.messages(frame, SIZE),
    }
    for kind in (PayloadType.FULL, PayloadType.MINIMAL, PayloadType.PROTOBUF):
        schema = DeepStreamMessages(Settings(kind, new_api=True), configuration, print)
        made[f"message {kind.name.lower()}"] = schema.messages
    return made


def main() -> None:
    """Print a line per kind of result and per thing done with it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--frames", type=int, default=5)
    parser.add_argument("--kind", choices=KINDS, action="append")
    arguments = parser.parse_args()
    cv2.setNumThreads(1)
    Gst.init(None)
    for kind in arguments.kind or KINDS:
        found = result(*KINDS[kind])
        buffer, _ = attached(found)
        attaching = statistics.median(attached(found)[1] for _ in range(arguments.frames)) * 1e3
        print(f"{kind}: {KINDS[kind][0]} objects of {KINDS[kind][1]} key points: attach {attaching:.1f} ms", flush=True)
        for name, make in makers().items():
            print(f"    {name}: {median_seconds(make, buffer, arguments.frames) * 1e3:.1f} ms", flush=True)


if __name__ == "__main__":
    main()
