"""DeepStream's protobuf schema (payload-type 2): package ``nv``, message ``Frame``, one per frame.

The messages' types are built here from a table, so that no compiler of protobuf is needed. Fields that nvmsgconv never
writes (gaze, lip activity, speed, direction, coordinates) are left out; a reader that knows them finds them empty.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from sluice.errors import ConfigurationError
from sluice.messages.deepstream_full import ATTRIBUTES
from sluice.messages.deepstream_minimal import VERSION, type_name
from sluice.messages.deepstream_objects import SeenObject
from sluice.messages.deepstream_pose import joint_names, pose_axes, pose_name
from sluice.messages.event_meta import KINDS, EventRecord, ObjectType

_FIELDS: dict[str, tuple[tuple[int, str, str], ...]] = {
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
}
_NESTED: dict[str, tuple[str, tuple[tuple[int, str, str], ...]]] = {
    "Object": ("InfoEntry", ((1, "key", "string"), (2, "value", "string"))),
    "Pose": ("Keypoint", ((1, "name", "string"), (2, "coordinates", "repeated float"))),
}


@dataclass(frozen=True)
class Types:
    """The classes of protobuf messages."""

    frame: Any
    object: Any


@functools.cache
def types() -> Types:
    """Return the message classes.

    Raises:
        ConfigurationError: the package protobuf is not installed.
    """
    try:
        from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, timestamp_pb2
    except ImportError as error:
        raise ConfigurationError(
            "payload-type 2 needs the package protobuf; install it with: pip install protobuf"
        ) from error
    file = descriptor_pb2.FileDescriptorProto(name="sluice/nv.proto", package="nv", syntax="proto3")
    file.dependency.append(timestamp_pb2.DESCRIPTOR.name)
    for name, fields in _FIELDS.items():
        message = file.message_type.add(name=name)
        _add_fields(message, fields)
        if name in _NESTED:
            nested_name, nested_fields = _NESTED[name]
            nested = message.nested_type.add(name=nested_name)
            _add_fields(nested, nested_fields)
            nested.options.map_entry = nested_name.endswith("Entry")
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(timestamp_pb2.DESCRIPTOR.serialized_pb)
    pool.Add(file)
    classes = [message_factory.GetMessageClass(pool.FindMessageTypeByName(name)) for name in ("nv.Frame", "nv.Object")]
    return Types(*classes)


def _add_fields(message: Any, fields: Iterable[tuple[int, str, str]]) -> None:
    kinds = {"string": 9, "float": 2, "message": 11}  # FieldDescriptorProto.Type
    for number, name, kind in fields:
        label = 3 if kind.startswith("repeated ") else 1  # FieldDescriptorProto.Label
        kind = kind.removeprefix("repeated ")
        field = message.field.add(name=name, number=number, label=label)
        field.type = kinds.get(kind, kinds["message"])
        if kind.startswith("."):
            field.type_name = kind


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
    frame = types().frame(version=VERSION, id=str(number), sensorId=sensor)
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
