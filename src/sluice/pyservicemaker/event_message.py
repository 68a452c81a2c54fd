"""``EventMessageUserMetadata``: what nvmsgconv makes messages of when ``msg2p-newapi`` is 0."""

import ctypes
import functools
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from sluice.contract._native import library
from sluice.contract._views import c_text
from sluice.contract.metadata import ObjectMeta
from sluice.pyservicemaker.base import Session, meta_types, refuse
from sluice.pyservicemaker.objects import ObjectMetadata
from sluice.pyservicemaker.structs import Box3d
from sluice.pyservicemaker.user import UserMetadata, acquired_user_meta

if TYPE_CHECKING:
    from sluice.pyservicemaker.frames import FrameMetadata

# NvDsEventType and NvDsObjectType of nvdsmeta_schema.h.
_ENTRY, _MOVING = 0, 2
_VEHICLE, _PERSON, _FACE, _BAG, _UNKNOWN = 0, 1, 2, 3, 258

_CLASSES = {"car": 0, "person": 2}
"""Class ids where no labels are given: those of NVIDIA's sample detector."""

_KINDS = {
    "car": (_MOVING, _VEHICLE),
    "person": (_ENTRY, _PERSON),
    "face": (_ENTRY, _FACE),
    "bag": (_ENTRY, _BAG),
    "bg": (_ENTRY, _BAG),
}
"""Label to (event, object type)."""

_VEHICLE_COMPONENTS = {4: "vehicle_type", 5: "vehicle_color", 6: "vehicle_make"}
"""Component ids of NVIDIA's sample classifiers to what they tell of a vehicle."""


class _Message(ctypes.Structure):
    """``SluiceEventMessage`` of native/event_msg.c."""

    _fields_ = (
        ("type", ctypes.c_int32),
        ("object_type", ctypes.c_int32),
        ("class_id", ctypes.c_int32),
        ("source_id", ctypes.c_int32),
        ("frame_number", ctypes.c_int32),
        ("has_box3d", ctypes.c_int32),
        ("box", ctypes.c_float * 4),
        ("box3d", ctypes.c_float * 12),
        ("confidence", ctypes.c_double),
        ("tracking_id", ctypes.c_uint64),
        ("timestamp", ctypes.c_char_p),
        ("label", ctypes.c_char_p),
        ("sensor", ctypes.c_char_p),
        ("vehicle_type", ctypes.c_char_p),
        ("vehicle_make", ctypes.c_char_p),
        ("vehicle_color", ctypes.c_char_p),
    )


@dataclass(frozen=True)
class _Functions:
    new: Any
    set: Any
    copy: int
    release: int


@functools.cache
def _functions() -> _Functions:
    lib = library()
    lib.sluice_event_message_new.restype, lib.sluice_event_message_new.argtypes = ctypes.c_void_p, []
    lib.sluice_event_message_set.restype = None
    lib.sluice_event_message_set.argtypes = [ctypes.c_void_p, ctypes.POINTER(_Message)]
    copy, release = (
        ctypes.cast(getattr(lib, f"sluice_event_message_{name}"), ctypes.c_void_p).value or 0
        for name in ("copy", "release")
    )
    return _Functions(lib.sluice_event_message_new, lib.sluice_event_message_set, copy, release)


class EventMessageUserMetadata(UserMetadata):
    """An event message about one object; append it to the object's frame."""

    __slots__ = ()
    _type_name = "NVDS_EVENT_MSG_META"

    def generate(
        self,
        object_meta: ObjectMetadata,
        frame_meta: "FrameMetadata",
        sensor: str = "N/A",
        uri: str = "N/A",
        labels: Sequence[str] = (),
    ) -> None:
        """Fill the message from an object and its frame.

        The box is in pixels of the source: scaled back where the mux scaled, as it is otherwise. Sensor, place and
        module get the frame's ``source_id``. An object of the class "car" is a moving vehicle, described by the
        classifiers with component ids 4 (type), 5 (colour) and 6 (make); "person", "face" and "bag" (or "bg") enter.
        Any other is of the unknown type and named by its label, where NVIDIA's package calls it a vehicle.

        Args:
            object_meta: the object.
            frame_meta: its frame.
            sensor: name of the sensor.
            uri: of the source; with ``ipc://`` the time is the frame's ``buffer_pts``, otherwise it is now.
            labels: the detector's labels by class id; without any, class 0 is "car" and class 2 "person".
        """
        from sluice.pyservicemaker.frames import FrameMetadata

        if not isinstance(object_meta, ObjectMetadata):
            refuse("generate", object_meta, "an ObjectMetadata")
        if not isinstance(frame_meta, FrameMetadata):
            refuse("generate", frame_meta, "a FrameMetadata")
        said = _Message(
            class_id=object_meta.class_id,
            source_id=frame_meta.source_id,
            frame_number=frame_meta.frame_number,
            confidence=object_meta.confidence,
            tracking_id=object_meta.object_id,
            timestamp=_timestamp(frame_meta.buffer_pts if uri.startswith("ipc://") else None),
            label=c_text(object_meta.label),
            sensor=c_text(sensor),
        )
        said.box[:] = _source_box(object_meta._need(), frame_meta)
        said.type, said.object_type = _kind(object_meta.class_id, labels)
        if said.object_type == _VEHICLE:
            _describe_vehicle(said, object_meta)
        _add_box3d(said, object_meta)
        _functions().set(self._need().data, ctypes.byref(said))


def acquire_event_message(session: Session) -> EventMessageUserMetadata:
    """Return an empty event message from the batch's pool.

    Raises:
        ApiError: the buffer carries no batch metadata.
    """
    message = acquired_user_meta(EventMessageUserMetadata, session)
    view, functions = message._need(), _functions()
    view.data, view.copy_func, view.release_func = functions.new(), functions.copy, functions.release
    return message


def _kind(class_id: int, labels: Sequence[str]) -> tuple[int, int]:
    """Return (event, object type) of a class."""
    classes = {label: i for i, label in enumerate(labels)} if labels else _CLASSES
    return next((kind for name, kind in _KINDS.items() if classes.get(name) == class_id), (_ENTRY, _UNKNOWN))


def _timestamp(ns: int | None) -> bytes:
    """Return a time in ns since 1970, or now, as UTC with milliseconds (RFC 3339)."""
    now = datetime.now(timezone.utc)
    moment = now if ns is None else datetime.fromtimestamp(ns // 1_000_000 / 1000, timezone.utc)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z").encode()


def _source_box(item: ObjectMeta, frame: "FrameMetadata") -> tuple[float, float, float, float]:
    """Return top, left, width, height in pixels of the source."""
    left, top, width, height = item.box
    across = frame.source_width / frame.pipeline_width if frame.pipeline_width else 1
    down = frame.source_height / frame.pipeline_height if frame.pipeline_height else 1
    return (top * down, left * across, width * across, height * down)


def _describe_vehicle(said: _Message, object_meta: ObjectMetadata) -> None:
    for classifier in object_meta.classifier_items:
        field = _VEHICLE_COMPONENTS.get(classifier.unique_component_id)
        if field is not None and classifier.n_labels:
            setattr(said, field, classifier.get_n_label(0).encode())


def _add_box3d(said: _Message, object_meta: ObjectMetadata) -> None:
    for user in object_meta.user_meta_items(meta_types(object_meta._need())["NVDS_OBJ_3D_META"]):
        if user._data():
            said.has_box3d = 1
            said.box3d[:] = list(Box3d.from_address(user._data()).numbers)
