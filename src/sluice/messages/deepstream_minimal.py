"""DeepStream's minimal schema (payload-type 1): one JSON message per frame, with a line of text for each object.

What nvmsgconv's lines are like, oddities included, is kept, since readers split them at ``|``: an empty field before a
face's eye colour, one after the key points, and 3-D tracking that follows without a ``|``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from sluice.messages.deepstream_json import encoded
from sluice.messages.deepstream_objects import SeenObject
from sluice.messages.deepstream_pose import joint_names, pose_axes, pose_name
from sluice.messages.event_meta import KINDS, EventRecord, ObjectType, Tracking3D

VERSION = "4.0"

_TYPE_NAMES: dict[int, str] = {
    ObjectType.VEHICLE: "Vehicle",
    ObjectType.PERSON: "Person",
    ObjectType.FACE: "Face",
    ObjectType.BAG: "Bag",
    ObjectType.BICYCLE: "Bicycle",
    ObjectType.ROADSIGN: "RoadSign",
    ObjectType.CUSTOM: "Custom",
    ObjectType.PRODUCT: "Product",
}

_FIELDS = {
    "vehicle": ("type", "make", "model", "color", "license", "region"),
    "person": ("gender", "age", "hair", "cap", "apparel"),
    "face": ("gender", "age", "hair", "cap", "glasses", "facialhair", "name", "", "eyecolor"),
    "product": ("brand", "type", "shape"),
}
"""Fields of a description in the order of the line; "" is an empty one."""

_NO_DESCRIPTION = "|#||||||"


def type_name(event: EventRecord) -> str:
    """Return what the minimal schema and protobuf call an event's object."""
    if event.object_type == ObjectType.UNKNOWN:
        return event.object_name or "Unknown"
    return _TYPE_NAMES.get(event.object_type, "Unknown")


def event_message(events: Sequence[EventRecord], frame_id: int, timestamp: str | None, sensor: str) -> bytes:
    """Return the message of a frame's events.

    Args:
        events: the events in list order.
        frame_id: number of the frame.
        timestamp: time of the first event.
        sensor: id of its sensor.
    """
    masks = [_masks(event) for event in events if event.polygons]
    more: dict[str, Any] = {"masks": masks} if masks else {}
    return _message(frame_id, timestamp, sensor, [_event_line(event) for event in events], more)


def object_message(
    objects: Iterable[SeenObject], frame_number: int, timestamp: str, sensor: str, custom: Sequence[str] = ()
) -> bytes:
    """Return the message of a frame and its objects, which may be none.

    Args:
        objects: the objects in list order.
        frame_number: number of the frame.
        timestamp: wall clock, UTC with milliseconds.
        sensor: id of the frame's sensor.
        custom: texts of the frame's custom message blobs.
    """
    more: dict[str, Any] = {"customMessage": list(custom)} if custom else {}
    return _message(frame_number, timestamp, sensor, [_object_line(seen) for seen in objects], more)


def _message(number: int, timestamp: str | None, sensor: str, lines: list[str], more: dict[str, Any]) -> bytes:
    return encoded(
        {
            "version": VERSION,
            "id": str(number),
            "@timestamp": timestamp,
            "sensorId": sensor,
            "objects": lines,
            **more,
        }
    )


def _object_line(seen: SeenObject) -> str:
    left, top, right, bottom = seen.corners
    line = f"{seen.id}|{left:g}|{top:g}|{right:g}|{bottom:g}|{seen.label}"
    if seen.classifiers:
        labels = "".join([f"{label}|" for classifier in seen.classifiers for label in classifier.labels])
        line += f"|#|{labels}{seen.confidence:g}"
    return line


def _event_line(event: EventRecord) -> str:
    if event.object_type == ObjectType.DUMMY:
        return ""
    left, top, right, bottom = event.corners
    line = f"{event.tracking_id}|{left:g}|{top:g}|{right:g}|{bottom:g}|{type_name(event)}"
    line += (_description(event) if event.described else _NO_DESCRIPTION) + f"|{event.confidence:g}"
    if event.embedding:
        line += "|#|embedding|" + ",".join([f"{value:g}" for value in event.embedding]) + "|"
    if event.tracking3d is not None:
        line += _tracking(event.tracking3d)
    return line


def _description(event: EventRecord) -> str:
    kind = KINDS.get(event.object_type)
    if kind is None or event.description is None:
        return ""
    told = event.description
    values = [told.get(name) for name in _FIELDS[kind]]
    text = "|#|" + "|".join(["" if value is None else str(value) for value in values])
    return text + _pose(event) if kind == "person" else text


def _pose(event: EventRecord) -> str:
    name = pose_name(event.pose_type)
    if not event.joints or name is None:
        return ""
    axes = pose_axes(event.pose_type)
    joints = [
        ",".join([joint_name, *(f"{value:f}" for value in (*joint[:axes], joint[3]))]) + "|"
        for joint_name, joint in zip(joint_names(event.pose_type), event.joints, strict=False)
    ]
    return f"|#|{name}|" + "".join(joints)


def _tracking(tracked: Tracking3D) -> str:
    feet = [",".join([f"{value:f}" for value in place]) for place in (tracked.image_feet, tracked.world_feet)]
    hull = ",".join(map(str, tracked.convex_hull))
    return f"#|SV3DT|{tracked.visibility:f}|{feet[0]}|{feet[1]}|{hull}|"


def _masks(event: EventRecord) -> str:
    polygons = "|#|".join(["|".join([f"{value:g}" for value in polygon]) for polygon in event.polygons])
    return f"{event.tracking_id}|{len(event.polygons)}|{polygons}"
