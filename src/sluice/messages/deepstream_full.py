"""DeepStream's full schema (payload-type 0): a JSON message per event or object, with its place, sensor and module."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from typing import Any

from sluice.messages.deepstream_config import Analytics, Configuration, Place, Sensor, Triple
from sluice.messages.deepstream_json import Rendered, encoded, pretty
from sluice.messages.deepstream_objects import SeenObject
from sluice.messages.deepstream_pose import joint_names, pose_axes
from sluice.messages.event_meta import KINDS, EventRecord, EventType, ObjectType

ATTRIBUTES = {
    "vehicle": {
        "type": "type",
        "make": "make",
        "model": "model",
        "color": "color",
        "licenseState": "region",
        "license": "license",
    },
    "person": {name: name for name in ("age", "gender", "hair", "cap", "apparel")},
    "face": {name: name for name in ("age", "gender", "hair", "cap", "glasses", "facialhair", "name", "eyecolor")},
    "product": {name: name for name in ("brand", "type", "shape")},
}
"""Member to field of the description, by kind."""

_SUB_FIELDS = {
    "aisle": ("id", "name", "level"),
    "parkingSpot": ("id", "type", "level"),
    "entrance": ("name", "lane", "level"),
    "place-sub-field": ("id", "name", "level"),
}
"""Members of what a place is told to be, for place-sub-field1 to 3."""

_EVENT_TYPES: dict[int, str] = {event.value: event.name.lower() for event in EventType}
_SPOTS: dict[int, str] = {
    EventType.MOVING: "aisle",
    EventType.STOPPED: "aisle",
    EventType.EMPTY: "parkingSpot",
    EventType.PARKED: "parkingSpot",
}


class FullSchema:
    """Makes messages of the full schema."""

    def __init__(self, configuration: Configuration, on_missing: Callable[[str], None]) -> None:
        """Tell places, sensors and modules from a configuration.

        Args:
            configuration: what the file says.
            on_missing: told the name of a group that a message needs and the file does not have; each time.
        """
        self._configuration = configuration
        self._on_missing = on_missing
        self._rendered: dict[tuple[str, int, str], Rendered] = {}

    def event(self, event: EventRecord) -> bytes:
        """Return the message of an event."""
        return self._message(
            event.timestamp,
            (event.place_id, event.sensor_id, event.module_id),
            _spot(event),
            _event_object(event),
            _EVENT_TYPES.get(event.type, ""),
            event.video_path or "",
        )

    def object(self, seen: SeenObject, source: int, timestamp: str, custom: Sequence[str] = ()) -> bytes:
        """Return the message of an object.

        Args:
            seen: the object.
            source: the frame's source id: the number of its sensor, place and module.
            timestamp: wall clock, UTC with milliseconds.
            custom: texts of the frame's custom message blobs.
        """
        more = {"customMessage": list(custom)} if custom else {}
        return self._message(timestamp, (source,) * 3, "place-sub-field", _seen_object(seen), "", "", more)

    def _message(
        self,
        timestamp: str | None,
        numbers: tuple[int, int, int],
        spot: str,
        item: dict[str, Any],
        event_type: str,
        video_path: str,
        more: dict[str, Any] | None = None,
    ) -> bytes:
        place, sensor, module = numbers
        return encoded(
            {
                "messageid": _random_uuid(),
                "mdsversion": "1.0",
                "@timestamp": timestamp,
                "place": self._known("place", place, spot),
                "sensor": self._known("sensor", sensor),
                "analyticsModule": self._known("analytics", module),
                "object": item,
                "event": {"id": _random_uuid(), "type": event_type},
                "videoPath": video_path,
                **(more or {}),
            }
        )

    def _known(self, kind: str, number: int, spot: str = "") -> Rendered | None:
        """Return what the configuration tells of a number, printed once for all, or None where it tells nothing."""
        key = (kind, number, spot)
        known = self._rendered.get(key)
        if known is None:
            found = self._configuration.table(kind).get(number)
            if found is None:
                self._on_missing(f"{kind}{number}")
                return None
            known = self._rendered[key] = Rendered(pretty(_members(found, spot), depth=1))
        return known


def _random_uuid() -> str:
    """Return a random UUID (RFC 9562, version 4), as `uuid.uuid4` makes them in twice the time."""
    digits = os.urandom(16).hex()
    variant = "89ab"[int(digits[16], 16) & 3]
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:]}"


def _members(found: Place | Sensor | Analytics, spot: str) -> dict[str, Any]:
    if isinstance(found, Place):
        return place_members(found, spot)
    if isinstance(found, Sensor):
        return sensor_members(found)
    return analytics_members(found)


def place_members(place: Place, spot: str) -> dict[str, Any]:
    """Return ``place``; ``spot`` says as what its sub fields are told, "" for not at all."""
    members: dict[str, Any] = {
        "id": place.id,
        "name": place.name,
        "type": place.type,
        "location": _location(place.location),
    }
    if spot:
        fields = dict(zip(_SUB_FIELDS[spot], place.sub_fields, strict=True))
        members[spot] = {**fields, "coordinate": _coordinate(place.coordinate)}
    return members


def sensor_members(sensor: Sensor) -> dict[str, Any]:
    """Return ``sensor``."""
    return {
        "id": sensor.id,
        "type": sensor.type,
        "description": sensor.description,
        "location": _location(sensor.location),
        "coordinate": _coordinate(sensor.coordinate),
    }


def analytics_members(module: Analytics) -> dict[str, Any]:
    """Return ``analyticsModule``."""
    return {
        "id": module.id,
        "description": module.description,
        "source": module.source,
        "version": module.version,
    }


def _location(value: Triple) -> dict[str, Any]:
    return dict(zip(("lat", "lon", "alt"), value, strict=True))


def _coordinate(value: Triple) -> dict[str, Any]:
    return dict(zip(("x", "y", "z"), value, strict=True))


def _spot(event: EventRecord) -> str:
    if event.type in (EventType.ENTRY, EventType.EXIT):
        return "aisle" if event.object_type == ObjectType.VEHICLE else "entrance"
    return _SPOTS.get(event.type, "")


def _head(number: int) -> dict[str, Any]:
    return {"id": str(number), "speed": 0.0, "direction": 0.0, "orientation": 0.0}


def _bbox(left: float, top: float, right: float, bottom: float) -> dict[str, Any]:
    return {
        "topleftx": _whole(left),
        "toplefty": _whole(top),
        "bottomrightx": _whole(right),
        "bottomrighty": _whole(bottom),
    }


def _whole(value: float) -> int | None:
    return int(value) if math.isfinite(value) else None


def _seen_object(seen: SeenObject) -> dict[str, Any]:
    described: dict[str, Any] = {"confidence": seen.confidence}
    for classifier in seen.classifiers:
        # Of several labels the one visited last stays, which is the one that was added first.
        if classifier.type and classifier.labels:
            described[classifier.type] = classifier.labels[-1]
    return {
        **_head(seen.id),
        seen.label: described,
        "bbox": _bbox(*seen.corners),
        "location": {},
        "coordinate": {},
    }


def _event_object(event: EventRecord) -> dict[str, Any]:
    members = _head(event.tracking_id)
    kind = KINDS.get(event.object_type)
    if kind is not None:
        members[kind] = _description(kind, event)
    elif event.object_type == ObjectType.UNKNOWN and event.object_name:
        members[event.object_name] = {}
    members["bbox"] = _bbox(*event.corners)
    if event.polygons and kind != "product":
        members["maskoutline"] = [list(polygon) for polygon in event.polygons]
    if event.signature:
        members["signature"] = list(event.signature)
    members["location"] = _location(event.location)
    members["coordinate"] = _coordinate(event.coordinate)
    members["pose"] = _pose(event)
    if event.embedding:
        members["embedding"] = {
            "embedding_length": len(event.embedding),
            "embedding_vector": list(event.embedding),
        }
    if event.tracking3d is not None:
        tracked = event.tracking3d
        members["SV3DT"] = {
            "visibility": tracked.visibility,
            # nvmsgconv puts both places here and leaves the second array empty; readers expect it.
            "footLocation2D": [*tracked.image_feet, *tracked.world_feet],
            "footLocation3D": [],
            "convexHull": [float(value) for value in tracked.convex_hull],
        }
    return members


def _description(kind: str, event: EventRecord) -> dict[str, Any]:
    attributes = ATTRIBUTES[kind]
    if not event.described:
        blank: dict[str, Any] = {member: 0 if member == "age" else "" for member in attributes}
        return blank if kind == "product" else {**blank, "confidence": 1.0}
    if event.description is None:
        return {}
    told: dict[str, Any] = {member: event.description[name] for member, name in attributes.items()}
    return told if kind == "product" else {**told, "confidence": event.confidence}


def _pose(event: EventRecord) -> dict[str, Any]:
    axes = ("x", "y", "z")[: pose_axes(event.pose_type)]
    joints = zip(joint_names(event.pose_type), event.joints, strict=False)
    return {
        name: {**{axis: _whole(value) for axis, value in zip(axes, joint, strict=False)}, "confidence": joint[3]}
        for name, joint in joints
        if joint[3] > 0
    }
