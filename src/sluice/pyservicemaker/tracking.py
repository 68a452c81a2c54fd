"""What a tracker tells of an object beside its box.

Each class is made from a `UserMetadata`, and is falsy where that is of another type.
"""

import ctypes
from collections.abc import Sequence
from typing import Any

from sluice.pyservicemaker.base import refuse
from sluice.pyservicemaker.structs import Box3d, ConvexHull, PastBatch, PastFrame, PastObject, PastStream, elements
from sluice.pyservicemaker.user import UserMetadata

_PARTS = ("centre", "len", "rot", "vel")


class _TrackerMetadata(UserMetadata):
    """User metadata of a tracker, made in Python from the general kind."""

    __slots__ = ()

    def __init__(self, user_meta: UserMetadata, /) -> None:
        """Read a user meta as this kind.

        Raises:
            TypeError: not a `UserMetadata`.
        """
        if not isinstance(user_meta, UserMetadata):
            refuse(type(self).__name__, user_meta, "a UserMetadata")
        self._view = user_meta._view if user_meta._is(type(self)) else None
        self._session = user_meta._session

    def _floats(self, count: int) -> Sequence[float]:
        data = self._data()
        return list((ctypes.c_float * count).from_address(data)) if data else [0.0] * count


class ObjectVisibilityUserMetadata(_TrackerMetadata):
    """How much of an object can be seen."""

    __slots__ = ()
    _shown = ("visibility",)
    _type_name = "NVDS_OBJ_VISIBILITY"

    @property
    def visibility(self) -> float:
        """0 hidden to 1 fully visible."""
        return self._floats(1)[0]


class ObjectImageFootLocationUserMetadata(_TrackerMetadata):
    """Where an object stands, in the picture."""

    __slots__ = ()
    _shown = ("image_foot_location",)
    _type_name = "NVDS_OBJ_IMAGE_FOOT_LOCATION"

    @property
    def image_foot_location(self) -> dict[str, float]:
        """``x`` and ``y`` in pixels of the surface."""
        return dict(zip("xy", self._floats(2), strict=True))


class ObjectWorldFootLocationUserMetadata(_TrackerMetadata):
    """Where an object stands, in the world."""

    __slots__ = ()
    _shown = ("world_foot_location",)
    _type_name = "NVDS_OBJ_WORLD_FOOT_LOCATION"

    @property
    def world_foot_location(self) -> dict[str, float]:
        """``x`` and ``y`` in the units of the camera's calibration."""
        return dict(zip("xy", self._floats(2), strict=True))


class ObjectConvexHullUserMetadata(_TrackerMetadata):
    """The outline of an object's projection."""

    __slots__ = ()
    _shown = ("convex_hull",)
    _type_name = "NVDS_OBJ_IMAGE_CONVEX_HULL"

    @property
    def convex_hull(self) -> list[tuple[int, int]]:
        """Corners (x, y) in pixels of the surface."""
        data = self._data()
        if not data:
            return []
        hull = ConvexHull.from_address(data)
        numbers = [number.value for number in elements(hull.list, 2 * hull.count, ctypes.c_int32)]
        return list(zip(numbers[::2], numbers[1::2], strict=True))


class Object3DBBoxUserMetadata(_TrackerMetadata):
    """An object's box in the world."""

    __slots__ = ()
    _shown = ("bbox_3d",)
    _type_name = "NVDS_OBJ_3D_META"

    @property
    def bbox_3d(self) -> dict[str, float]:
        """``x_centre``, ``y_centre``, ``z_centre``, then ``…_len``, ``…_rot``, ``…_vel``."""
        names = [f"{axis}_{part}" for part in _PARTS for axis in "xyz"]
        return dict(zip(names, self._floats(ctypes.sizeof(Box3d) // 4), strict=True))


class TrackerPastFrameUserMetadata(_TrackerMetadata):
    """What a tracker knew of earlier frames when it told of an object for the first time; on a batch."""

    __slots__ = ()
    _type_name = "NVDS_TRACKER_PAST_FRAME_META"

    @property
    def past_frame_data(self) -> list[dict[str, Any]]:
        """One dict per stream (``stream_id``, ``surface_stream_id``, ``objects``), with one per object (``unique_id``,
        ``class_id``, ``label``, ``frames``), with one per frame (``frame_num``, ``left``, ``top``, ``width``,
        ``height``, ``confidence``, ``age``, ``tracker_state``, ``visibility``, ``world_foot``)."""
        data = self._data()
        if not data:
            return []
        batch = PastBatch.from_address(data)
        return [_past_stream(stream) for stream in elements(batch.list, batch.filled, PastStream)]


def _past_stream(stream: PastStream) -> dict[str, Any]:
    return {
        "stream_id": stream.stream_id,
        "surface_stream_id": stream.surface_stream_id,
        "objects": [_past_object(item) for item in elements(stream.list, stream.filled, PastObject)],
    }


def _past_object(item: PastObject) -> dict[str, Any]:
    return {
        "unique_id": item.unique_id,
        "class_id": item.class_id,
        "label": item.label.decode("utf-8", "replace"),
        "frames": [_past_frame(frame) for frame in elements(item.list, item.count, PastFrame)],
    }


def _past_frame(frame: PastFrame) -> dict[str, Any]:
    return {
        "frame_num": frame.frame_number,
        **dict(zip(("left", "top", "width", "height"), frame.box, strict=True)),
        "confidence": frame.confidence,
        "age": frame.age,
        "tracker_state": frame.state,
        "visibility": frame.visibility,
        "world_foot": tuple(frame.world_foot),
    }
