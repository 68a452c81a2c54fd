"""DeepStream's protobuf schema (payload-type 2): package ``nv``, message ``Frame``, one per frame.

Fields that nvmsgconv never writes (gaze, lip activity, speed, direction, coordinates) are left out of the table; a
reader that knows them finds them empty.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from typing import Any

from sluice.errors import ConfigurationError
from sluice.messages.deepstream_full import ATTRIBUTES
from sluice.messages.deepstream_minimal import VERSION, type_name
from sluice.messages.deepstream_objects import SeenObject
from sluice.messages.deepstream_pose import joint_names, pose_axes, pose_name
from sluice.messages.event_meta import KINDS, EventRecord, ObjectType
from sluice.protobuf import Fields, message_classes

_MESSAGES: dict[str, Fields] = {
    "Frame": (
        (1, "version", "string"),
        (2, "id", "string"),
        (3, "timestamp", ".google.protobuf.Timestamp"),
        (4, "sensorId", "string"),
        (5, "objects", "repeated .nv.Object"),
    ),
    "Object": (
        (1, "id", "string"),
        (2, "bbox", ".nv.Bbox"),
        (3, "type", "string"),
        (4, "confidence", "float"),
        (5, "info", "repeated .nv.Object.InfoEntry"),
        (6, "embedding", ".nv.Embedding"),
        (7, "pose", ".nv.Pose"),
    ),
    "Bbox": ((1, "leftX", "float"), (2, "topY", "float"), (3, "rightX", "float"), (4, "bottomY", "float")),
    "Embedding": ((1, "vector", "repeated float"),),
    "Pose": ((1, "type", "string"), (2, "keypoints", "repeated .nv.Pose.Keypoint")),
    "Object.InfoEntry": ((1, "key", "string"), (2, "value", "string")),
    "Pose.Keypoint": ((1, "name", "string"), (2, "coordinates", "repeated float")),
}


@functools.cache
def frame_class() -> Any:
    """The class of the message ``Frame``.

    Raises:
        ConfigurationError: the package protobuf is not installed.
    """
    try:
        from google.protobuf import timestamp_pb2
    except ImportError as error:
        raise ConfigurationError(
            "payload-type 2 needs the package protobuf; install it with: pip install protobuf"
        ) from error
    return message_classes("nv", "proto3", _MESSAGES, [timestamp_pb2.DESCRIPTOR])["Frame"]


def event_message(events: Sequence[EventRecord], frame_id: int, timestamp: str | None, sensor: str) -> bytes:
    """Return the message of a frame's events; see `deepstream_minimal.event_message`.

    Raises:
        ValueError: the timestamp is not RFC 3339.
    """
    frame = _frame(frame_id, timestamp, sensor)
    for event in events:
        if event.object_type != ObjectType.DUMMY:
            _fill_event(frame.objects.add(), event)
    return _bytes(frame)


def object_message(objects: Iterable[SeenObject], frame_number: int, timestamp: str, sensor: str) -> bytes:
    """Return the message of a frame and its objects, which may be none; see `deepstream_minimal.object_message`."""
    frame = _frame(frame_number, timestamp, sensor)
    for seen in objects:
        item = frame.objects.add()
        item.id, item.type, item.confidence = str(seen.id), seen.label, seen.confidence
        _fill_box(item, seen.corners)
    return _bytes(frame)


def _frame(number: int, timestamp: str | None, sensor: str) -> Any:
    frame = frame_class()(version=VERSION, id=str(number), sensorId=sensor)
    if timestamp is not None:
        frame.timestamp.FromJsonString(timestamp)
    return frame


def _bytes(frame: Any) -> bytes:
    # Map entries in one order, so that the same frame gives the same bytes.
    return bytes(frame.SerializeToString(deterministic=True))


def _fill_box(item: Any, corners: tuple[float, float, float, float]) -> None:
    box = item.bbox
    box.SetInParent()
    box.leftX, box.topY, box.rightX, box.bottomY = corners


def _fill_event(item: Any, event: EventRecord) -> None:
    item.id, item.type, item.confidence = str(event.tracking_id), type_name(event), event.confidence
    _fill_box(item, event.corners)
    kind = KINDS.get(event.object_type)
    if kind is not None and event.description is not None:
        for key, name in ATTRIBUTES[kind].items():
            value = event.description[name]
            item.info[key] = "" if value is None else str(value)
    item.info["visibility"] = f"{event.visibility:f}"
    if event.tracking3d is not None:
        item.info["footLocation2D"] = ",".join([f"{value:f}" for value in event.tracking3d.image_feet])
        item.info["footLocation3D"] = ",".join([f"{value:f}" for value in event.tracking3d.world_feet])
        item.info["convexHull"] = ",".join(map(str, event.tracking3d.convex_hull))
    if event.embedding:
        item.embedding.vector.extend(event.embedding)
    if event.joints and pose_name(event.pose_type) is not None:
        _fill_pose(item.pose, event)


def _fill_pose(pose: Any, event: EventRecord) -> None:
    pose.type = pose_name(event.pose_type)
    axes = pose_axes(event.pose_type)
    for name, joint in zip(joint_names(event.pose_type), event.joints, strict=False):
        keypoint = pose.keypoints.add(name=name)
        keypoint.coordinates.extend((*joint[:axes], joint[3]))
