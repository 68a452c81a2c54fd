"""How much processor time making messages takes, per frame and per object, for each schema, on one core.

    python bench/messages.py [--objects 20] [--frames 300]

"plain" makes messages of frames and objects, "frames" of objects that have two classifier results each, "events" of
event messages that describe a vehicle each. Goal: 30 µs per object.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import gi
from of_a_frame import median_seconds

gi.require_version("Gst", "1.0")
import numpy as np
from gi.repository import Gst

from sluice.contract import bulk
from sluice.contract.metadata import BatchMeta, FrameMeta, Lease
from sluice.elements.msgconv_frames import SluiceMessages
from sluice.messages import Per, attach_payloads
from sluice.messages.deepstream import DeepStreamMessages, PayloadType, Settings
from sluice.messages.deepstream_config import Analytics, Configuration, Place, Sensor
from sluice.pyservicemaker import Buffer

CONFIGURATION = Configuration({0: Sensor("CAM_0", "Camera")}, {0: Place("PLACE_0")}, {0: Analytics("A", version="1.0")})


def filled_buffer(objects: int, *, classifiers: bool, events: bool) -> Gst.Buffer:
    """A buffer with a batch of one frame and its objects."""
    buffer = Gst.Buffer.new()
    with Lease() as lease:
        batch = BatchMeta.attach(buffer, 1, lease)
        rows = np.zeros(1, bulk.FRAME_ROW)
        rows["source_width"], rows["source_height"] = 1920, 1080
        bulk.fill_frames(batch, rows)
        (frame,) = batch.frames
        boxes = np.random.default_rng(1).uniform(1, 900, (objects, 4)).astype(np.float32)
        ids = np.arange(objects, dtype=np.int32)
        bulk.write_objects(frame, boxes, np.full(objects, 0.87), ids, ["car"] * objects, unique_id=1)
        for number, item in enumerate(frame.objects):
            item.object_id = number
            if classifiers:
                item.add_classifier(4, "vehicletype").add_label("sedan", probability=0.75)
                item.add_classifier(5, "color").add_label("red", probability=0.5)
    if events:
        add_events(buffer)
    return buffer


def add_events(buffer: Gst.Buffer) -> None:
    """Attach an event message about each object."""
    batch = Buffer(buffer).batch_meta
    for frame in batch.frame_items:
        for item in list(frame.object_items):
            message = batch.acquire_event_message_meta()
            message.generate(item, frame, sensor="CAM_0", labels=["car"])
            frame.append(message)


def deepstream(kind: PayloadType, *, new_api: bool) -> Callable[[FrameMeta], list[bytes]]:
    return DeepStreamMessages(Settings(kind, new_api=new_api), CONFIGURATION, print).messages


def main() -> None:
    """Print the times of every schema."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--objects", type=int, default=20)
    parser.add_argument("--frames", type=int, default=300)
    arguments = parser.parse_args()
    Gst.init(None)
    ours = SluiceMessages(Per.FRAME, empty_frames=True)
    kinds = (PayloadType.FULL, PayloadType.MINIMAL, PayloadType.PROTOBUF)
    makers = {"frames": {kind.name.lower(): deepstream(kind, new_api=True) for kind in kinds}}
    makers["frames"]["sluice"] = lambda frame: ours.messages(frame, (1920, 1080))
    makers["plain"] = makers["frames"]
    makers["events"] = {kind.name.lower(): deepstream(kind, new_api=False) for kind in kinds}
    for source, schemas in makers.items():
        buffer = filled_buffer(arguments.objects, classifiers=source == "frames", events=source == "events")
        for schema, make in schemas.items():
            found = median_seconds(make, buffer, arguments.frames) * 1e6
            print(f"{source:7} {schema:9} {found:8.1f} µs per frame {found / arguments.objects:6.2f} µs per object")
    empty = filled_buffer(0, classifiers=False, events=False)
    messages = [b"x" * 500] * 20
    attaching = median_seconds(lambda frame: attach_payloads(frame, messages), empty, 50) * 1e6 / len(messages)
    print(f"attaching a message: {attaching:.2f} µs")


if __name__ == "__main__":
    main()
