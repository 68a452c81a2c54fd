"""A frame's metadata as a JSON object, and back."""

from __future__ import annotations

import base64
import ctypes
import functools
from collections import Counter
from typing import Any

from sluice.contract import infer_meta, user_meta
from sluice.contract.metadata import FrameMeta, ObjectMeta, UserMeta
from sluice.recording.fields import (
    LOOKS,
    OBJECT,
    TEXT,
    pack,
    read_classifiers,
    read_display,
    read_fields,
    unpack,
    write_classifiers,
    write_display,
    write_fields,
)

FORMAT = "sluice-metadata/1"
"""Name and version of the format, which the first line of a file tells."""

Owner = FrameMeta | ObjectMeta

_START_USER_META = 0x2001  # NVDS_START_USER_META: types from here on are this plus the quark of a descriptor


def read_frame(frame: FrameMeta, size: tuple[int, int], left_out: Counter[int]) -> dict[str, Any]:
    """Return all of a frame's metadata that can be written.

    Args:
        frame: the frame, under a valid lease.
        size: width and height of its surface in pixels.
        left_out: counts, by meta type, the user metas that cannot be written, as only their makers can read them.
    """
    objects = frame.objects[::-1]
    places = {obj.address: place for place, obj in enumerate(objects)}
    found: dict[str, Any] = {
        # These two first: the reader finds a frame by them without reading the rest.
        "stream": frame.pad_index,
        "frame": frame.frame_num,
        "pts": frame.buf_pts,
        "size": list(size),
        "inferred": frame.infer_done,
        "misc": frame.misc,
        "objects": [_read_object(obj, places, left_out) for obj in objects],
    }
    if displays := [read_display(display) for display in reversed(frame.display_metas)]:
        found["displays"] = displays
    return {**found, **_read_results(frame, left_out)}


def apply_frame(frame: FrameMeta, found: dict[str, Any]) -> None:
    """Add to a frame what `read_frame` returned for it."""
    objects: list[ObjectMeta] = []
    for values in found["objects"]:
        obj = frame.add_object()
        objects.append(obj)
        _write_object(obj, values)
    for obj, values in zip(objects, found["objects"], strict=True):
        if "parent" in values:
            obj.parent = objects[values["parent"]]
    for values in found.get("displays", ()):
        write_display(frame.add_display(), values)
    _write_results(frame, found)
    frame.misc = tuple(found["misc"])
    frame.infer_done = found["inferred"]


def _read_object(obj: ObjectMeta, places: dict[int, int], left_out: Counter[int]) -> dict[str, Any]:
    found = read_fields(obj, OBJECT)
    found["looks"] = read_fields(obj.rect, LOOKS)
    found["text"] = read_fields(obj.text, TEXT)
    parent = obj.parent
    if parent is not None and parent.address in places:
        found["parent"] = places[parent.address]
    mask = obj.mask
    if mask is not None:
        found["mask"] = pack(mask)
    if classifiers := read_classifiers(obj):
        found["classifiers"] = classifiers
    return {**found, **_read_results(obj, left_out)}


def _write_object(obj: ObjectMeta, found: dict[str, Any]) -> None:
    write_fields(obj, OBJECT, found)
    write_fields(obj.rect, LOOKS, found["looks"])
    write_fields(obj.text, TEXT, found["text"])
    if "mask" in found:
        obj.mask = unpack(found["mask"])
    write_classifiers(obj, found.get("classifiers", []))
    _write_results(obj, found)


def _read_results(owner: Owner, left_out: Counter[int]) -> dict[str, Any]:
    """What networks and programs attached to a frame or an object, the first attached first."""
    users = owner.user_metas[::-1]
    if not users:
        return {}
    left_out.update(user.meta_type for user in users if not _is_readable(owner, user))
    found: dict[str, Any] = {
        "keypoints": [
            {"component": item.component, "points": pack(item.points)} for item in infer_meta.keypoints(owner)[::-1]
        ],
        "embeddings": [
            {"component": item.component, "features": pack(item.features)}
            for item in infer_meta.embeddings(owner)[::-1]
        ],
        "segmentations": [_packed_map(item) for item in infer_meta.segmentations(owner)[::-1]],
        "user": [_read_user(user) for user in users if _payload_kind(user) is not None],
    }
    return {name: values for name, values in found.items() if values}


def _write_results(owner: Owner, found: dict[str, Any]) -> None:
    for item in found.get("keypoints", ()):
        infer_meta.attach_keypoints(owner, unpack(item["points"]), unique_id=item["component"])
    for item in found.get("embeddings", ()):
        infer_meta.attach_embeddings(owner, unpack(item["features"]), unique_id=item["component"] or 0)
    for item in found.get("segmentations", ()):
        infer_meta.attach_segmentation(
            owner,
            unpack(item["map"]),
            unpack(item["probabilities"]) if "probabilities" in item else None,
            classes=item["classes"],
            unique_id=item["component"],
        )
    for item in found.get("user", ()):
        if "text" in item:
            user_meta.attach_text(owner, item["type"], item["text"])
        else:
            user_meta.attach_bytes(owner, item["type"], base64.b64decode(item["bytes"]))


def _packed_map(item: infer_meta.SegmentationMap) -> dict[str, Any]:
    packed = {"component": item.component, "classes": item.classes, "map": pack(item.class_map)}
    return packed if item.probabilities is None else {**packed, "probabilities": pack(item.probabilities)}


def _payload_kind(user: UserMeta) -> user_meta.Kind | None:
    kind = user_meta.kind_of(user)
    return kind if kind in (user_meta.Kind.TEXT, user_meta.Kind.BYTES) else None


def _is_readable(owner: Owner, user: UserMeta) -> bool:
    provider = owner.provider
    types = provider.layout.enum("NvDsMetaType")
    known = {
        provider.user_meta_type(infer_meta.KEYPOINTS),
        types["NVDS_TRACKER_OBJ_REID_META"],
        types["NVDSINFER_SEGMENTATION_META"],
    }
    return _payload_kind(user) is not None or user.meta_type in known


def _read_user(user: UserMeta) -> dict[str, Any]:
    value = user_meta.payload(user)
    kept = {"text": value} if isinstance(value, str) else {"bytes": base64.b64encode(value).decode()}
    return {"type": type_name(user.meta_type), **kept}


@functools.cache
def _quark_text() -> Any:
    function = ctypes.CDLL("libglib-2.0.so.0").g_quark_to_string
    function.restype, function.argtypes = ctypes.c_char_p, [ctypes.c_uint32]
    return function


def type_name(meta_type: int) -> str | int:
    """Return the descriptor of a meta type, whose number another process does not share; fixed types as numbers."""
    text = _quark_text()(meta_type - _START_USER_META) if meta_type > _START_USER_META else None
    return meta_type if text is None else text.decode("utf-8", "replace")
