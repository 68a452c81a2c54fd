"""Event messages on frames (``NvDsEventMsgMeta`` of nvdsmeta_schema.h), read into plain records.

Programs attach them, through pyds, NVIDIA's sample applications or `sluice.pyservicemaker`, for nvmsgconv with
``msg2p-newapi=0``. The structs are those of DeepStream 9, as native/event_msg.c writes them.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from sluice.contract.metadata import FrameMeta
from sluice.errors import ContractError

EVENT_MSG_META = 9
"""NVDS_EVENT_MSG_META: the user meta's data is an NvDsEventMsgMeta."""
CUSTOM_MSG_BLOB = 29
"""NVDS_CUSTOM_MSG_BLOB: the user meta's data is an NvDsCustomMsgInfo."""


class EventType(IntEnum):
    """NvDsEventType."""

    ENTRY = 0
    EXIT = 1
    MOVING = 2
    STOPPED = 3
    EMPTY = 4
    PARKED = 5
    RESET = 6


class ObjectType(IntEnum):
    """NvDsObjectType."""

    VEHICLE = 0
    PERSON = 1
    FACE = 2
    BAG = 3
    BICYCLE = 4
    ROADSIGN = 5
    VEHICLE_EXT = 6
    PERSON_EXT = 7
    FACE_EXT = 8
    THREE_D = 9
    DUMMY = 10
    PRODUCT = 11
    PRODUCT_EXT = 12
    CUSTOM = 257
    UNKNOWN = 258


_TEXTS = {
    "vehicle": ("type", "make", "model", "color", "region", "license"),
    "person": ("gender", "hair", "cap", "apparel"),
    "face": ("gender", "hair", "cap", "glasses", "facialhair", "name", "eyecolor"),
    "product": ("brand", "type", "shape"),
}
"""The texts of each kind of extMsg struct, in the order of its fields."""
_WITH_AGE = ("person", "face")

KINDS: dict[int, str] = {
    ObjectType.VEHICLE: "vehicle",
    ObjectType.VEHICLE_EXT: "vehicle",
    ObjectType.PERSON: "person",
    ObjectType.PERSON_EXT: "person",
    ObjectType.FACE: "face",
    ObjectType.FACE_EXT: "face",
    ObjectType.PRODUCT: "product",
    ObjectType.PRODUCT_EXT: "product",
}
"""What describes an object of each type; types that are not here have no description."""

MASKED = (ObjectType.VEHICLE_EXT, ObjectType.PERSON_EXT, ObjectType.FACE_EXT, ObjectType.PRODUCT_EXT)
"""Types whose description ends with polygons."""


@dataclass(frozen=True)
class Tracking3D:
    """What single-view 3D tracking tells: visibility 0 to 1, feet in the picture and in the world, convex hull."""

    visibility: float
    image_feet: tuple[float, float]
    world_feet: tuple[float, float]
    convex_hull: Sequence[int]


@dataclass(frozen=True)
class EventRecord:
    """An event message.

    Attributes:
        type: an `EventType`, or another number.
        object_type: an `ObjectType`, or another number.
        box: left, top, width, height in pixels, as float32 values.
        described: whether the message has a description (extMsgSize is not 0).
        description: its texts (None for NULL) and ``age``; None where extMsg is NULL.
        polygons: of the mask, x and y in turn.
        joints: x, y, z, confidence of each key point.
        pose_type: 0: 2D, 1: 2.5D, 2: 3D.
    """

    type: int = 0
    object_type: int = 0
    box: tuple[float, float, float, float] = (0.0, 0.0, 0.0, 0.0)
    location: tuple[float, float, float] = (0.0, 0.0, 0.0)
    coordinate: tuple[float, float, float] = (0.0, 0.0, 0.0)
    signature: Sequence[float] = ()
    sensor_id: int = 0
    module_id: int = 0
    place_id: int = 0
    component_id: int = 0
    frame_id: int = 0
    confidence: float = 0.0
    tracking_id: int = 0
    timestamp: str | None = None
    object_name: str | None = None
    sensor: str | None = None
    video_path: str | None = None
    described: bool = False
    description: dict[str, str | int | None] | None = None
    polygons: Sequence[Sequence[float]] = ()
    joints: Sequence[tuple[float, float, float, float]] = ()
    pose_type: int = 0
    embedding: Sequence[float] = ()
    tracking3d: Tracking3D | None = None
    visibility: float = 0.0

    @property
    def corners(self) -> tuple[float, float, float, float]:
        """Left, top, right, bottom; the sums are 32-bit floats, as nvmsgconv computes them."""
        left, top, width, height = self.box
        return (left, top, ctypes.c_float(left + width).value, ctypes.c_float(top + height).value)


class _Array(ctypes.Structure):
    """A pointer to numbers and how many; NvDsObjectSignature, NvDsEmbedding, NvDsConvexHull and GArray alike."""

    _fields_ = (("data", ctypes.c_void_p), ("count", ctypes.c_uint32))


class Joints(ctypes.Structure):
    """NvDsJoints."""

    _fields_ = (("joints", ctypes.c_void_p), ("num_joints", ctypes.c_int32), ("pose_type", ctypes.c_int32))


class EventMsgMeta(ctypes.Structure):
    """NvDsEventMsgMeta."""

    _fields_ = (
        ("type", ctypes.c_int32),
        ("objType", ctypes.c_int32),
        ("bbox", ctypes.c_float * 4),  # top, left, width, height
        ("location", ctypes.c_double * 3),
        ("coordinate", ctypes.c_double * 3),
        ("objSignature", _Array),
        ("objClassId", ctypes.c_int32),
        ("sensorId", ctypes.c_int32),
        ("moduleId", ctypes.c_int32),
        ("placeId", ctypes.c_int32),
        ("componentId", ctypes.c_int32),
        ("frameId", ctypes.c_int32),
        ("confidence", ctypes.c_double),
        ("trackingId", ctypes.c_uint64),
        ("ts", ctypes.c_char_p),
        ("objectId", ctypes.c_char_p),
        ("sensorStr", ctypes.c_char_p),
        ("entries", ctypes.c_uint8 * 13600),
        ("analytics", ctypes.c_uint8 * 80),  # count to segmentation
        ("otherAttrs", ctypes.c_char_p),
        ("videoPath", ctypes.c_char_p),
        ("extMsg", ctypes.c_void_p),
        ("extMsgSize", ctypes.c_uint32),
        ("pose", Joints),
        ("embedding", _Array),
        ("has3DTracking", ctypes.c_bool),
        ("ptWorldFeet", ctypes.c_float * 2),
        ("ptImgFeet", ctypes.c_float * 2),
        ("convexHull", _Array),
        ("bbox3d", ctypes.c_uint64 * 12),
        ("visibility", ctypes.c_float),
    )


class CustomMsgInfo(ctypes.Structure):
    """NvDsCustomMsgInfo."""

    _fields_ = (("message", ctypes.c_void_p), ("size", ctypes.c_uint32))


def _description_struct(kind: str) -> type[ctypes.Structure]:
    """NvDsVehicleObjectExt and its kin; without the last field they are NvDsVehicleObject and so on."""
    fields: list[tuple[str, Any]] = [(name, ctypes.c_char_p) for name in _TEXTS[kind]]
    if kind in _WITH_AGE:
        fields.append(("age", ctypes.c_uint32))
    fields.append(("mask", ctypes.c_void_p))  # GList of GArray of gdouble
    return type(f"{kind.title()}Object", (ctypes.Structure,), {"_fields_": fields})


DESCRIPTIONS = {kind: _description_struct(kind) for kind in _TEXTS}
"""The structs behind extMsg, by kind. ``mask`` is only there for the types in `MASKED`."""

_OFFSETS = {
    "objClassId": 88,
    "confidence": 112,
    "entries": 152,
    "videoPath": 13840,
    "extMsg": 13848,
    "visibility": 14032,
}
_SIZE = 14040


def _check_layout() -> None:
    """Check that ctypes lays the struct out as C does.

    Raises:
        ContractError: it does not, on some unknown platform.
    """
    found = {name: getattr(EventMsgMeta, name).offset for name in _OFFSETS}
    if found != _OFFSETS or ctypes.sizeof(EventMsgMeta) != _SIZE:
        raise ContractError(f"NvDsEventMsgMeta has {ctypes.sizeof(EventMsgMeta)} bytes here, with {found}, not {_SIZE}")


_check_layout()


def read_events(frame: FrameMeta, component_id: int = 0) -> list[EventRecord]:
    """Return the event messages of a frame in list order, which is the reverse of the order they were attached in.

    Args:
        frame: the frame, under a valid lease.
        component_id: only messages with this component id; 0 for all.
    """
    metas = [
        EventMsgMeta.from_address(user.data)
        for user in frame.user_metas
        if user.meta_type == EVENT_MSG_META and user.data
    ]
    return [_event(meta) for meta in metas if component_id in (0, meta.componentId)]


def read_blobs(frame: FrameMeta) -> list[str]:
    """Return the texts of a frame's custom message blobs in list order, the last attached first."""
    blobs = [
        CustomMsgInfo.from_address(user.data)
        for user in frame.user_metas
        if user.meta_type == CUSTOM_MSG_BLOB and user.data
    ]
    return [_blob(blob) for blob in blobs if blob.message]


def _blob(blob: CustomMsgInfo) -> str:
    return ctypes.string_at(blob.message, blob.size).partition(b"\0")[0].decode("utf-8", "replace")


def _event(meta: EventMsgMeta) -> EventRecord:
    top, left, width, height = meta.bbox
    kind = KINDS.get(meta.objType) if meta.extMsgSize else None
    described = DESCRIPTIONS[kind].from_address(meta.extMsg) if kind and meta.extMsg else None
    return EventRecord(
        type=meta.type,
        object_type=meta.objType,
        box=(left, top, width, height),
        location=tuple(meta.location),
        coordinate=tuple(meta.coordinate),
        signature=_numbers(meta.objSignature, ctypes.c_double),
        sensor_id=meta.sensorId,
        module_id=meta.moduleId,
        place_id=meta.placeId,
        component_id=meta.componentId,
        frame_id=meta.frameId,
        confidence=meta.confidence,
        tracking_id=meta.trackingId,
        timestamp=_text(meta.ts),
        object_name=_text(meta.objectId),
        sensor=_text(meta.sensorStr),
        video_path=_text(meta.videoPath),
        described=bool(meta.extMsgSize),
        description=_description(kind, described) if kind and described is not None else None,
        polygons=list(_polygons(described.mask)) if described is not None and meta.objType in MASKED else (),
        joints=_joints(meta.pose),
        pose_type=meta.pose.pose_type,
        embedding=_numbers(meta.embedding, ctypes.c_float),
        tracking3d=_tracking3d(meta) if meta.has3DTracking else None,
        visibility=meta.visibility,
    )


def _description(kind: str, struct: Any) -> dict[str, str | int | None]:
    values: dict[str, str | int | None] = {name: _text(getattr(struct, name)) for name in _TEXTS[kind]}
    if kind in _WITH_AGE:
        values["age"] = struct.age
    return values


def _tracking3d(meta: EventMsgMeta) -> Tracking3D:
    return Tracking3D(
        visibility=meta.visibility,
        image_feet=(meta.ptImgFeet[0], meta.ptImgFeet[1]),
        world_feet=(meta.ptWorldFeet[0], meta.ptWorldFeet[1]),
        convex_hull=_numbers(meta.convexHull, ctypes.c_int32),
    )


def _joints(pose: Joints) -> list[tuple[float, float, float, float]]:
    if not pose.joints or pose.num_joints <= 0:
        return []
    return [tuple(row) for row in ((ctypes.c_float * 4) * pose.num_joints).from_address(pose.joints)]


def _polygons(link: int | None) -> Iterator[list[float]]:
    while link:
        data, link = (ctypes.c_size_t * 2).from_address(link)
        if data:
            yield _numbers(_Array.from_address(data), ctypes.c_double)


def _numbers(array: _Array, kind: Any) -> list[Any]:
    return list((kind * array.count).from_address(array.data)) if array.data and array.count else []


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode("utf-8", "replace")
