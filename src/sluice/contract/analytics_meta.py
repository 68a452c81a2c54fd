"""What analytics found, as the user metas that nvdsanalytics writes: one per frame, and one per object concerned.

Their data are C++ structs (``nvds_analytics_meta.h``), made, copied and freed by native/analytics.c without the GIL.
"""

import ctypes
import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sluice.contract._infer_rows import hook, meta_type_of
from sluice.contract._locked import call
from sluice.contract._native import library
from sluice.contract._views import c_text
from sluice.contract.metadata import FrameMeta, ObjectMeta

FRAME_META = "NVDS_FRAME_META_NVDSANALYTICS"
OBJECT_META = "NVDS_OBJ_META_NVDSANALYTICS"


@dataclass(frozen=True)
class FrameAnalytics:
    """``NvDsAnalyticsFrameMeta``.

    Attributes:
        overcrowded: region to whether it is overcrowded (``ocStatus``).
        in_region: region to the number of objects in it (``objInROIcnt``).
        crossings: line to the crossings in this frame (``objLCCurrCnt``).
        total_crossings: line to the crossings so far (``objLCCumCnt``).
        classes: class id to the number of objects in this frame (``objCnt``).
    """

    overcrowded: Mapping[str, bool] = field(default_factory=dict)
    in_region: Mapping[str, int] = field(default_factory=dict)
    crossings: Mapping[str, int] = field(default_factory=dict)
    total_crossings: Mapping[str, int] = field(default_factory=dict)
    classes: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True)
class ObjectAnalytics:
    """``NvDsAnalyticsObjInfo``.

    Attributes:
        regions: the regions the object is in (``roiStatus``).
        crowds: the regions that are counted for overcrowding and that it is in (``ocStatus``).
        lines: the lines it crosses in this frame (``lcStatus``).
        direction: ``" DIR:North "``, or empty (``dirStatus``).
        status: all of it as one text (``objStatus``).
    """

    regions: Sequence[str] = ()
    crowds: Sequence[str] = ()
    lines: Sequence[str] = ()
    direction: str = ""
    status: str = ""

    def __bool__(self) -> bool:
        return bool(self.regions or self.crowds or self.lines or self.direction)


class _Named(ctypes.Structure):
    """SluiceNamed of native/analytics.c."""

    _fields_ = (("key", ctypes.c_char_p), ("value", ctypes.c_uint64))


@functools.cache
def _new(kind: str) -> Any:
    function = getattr(library(), f"sluice_analytics_{kind}_new")
    pointer = ctypes.c_void_p
    middle = [pointer, ctypes.c_uint] if kind == "frame" else [ctypes.c_char_p] * 2
    function.restype, function.argtypes = pointer, [pointer, pointer, *middle, ctypes.c_uint]
    return function


def attach_frame_analytics(frame: FrameMeta, found: FrameAnalytics, *, unique_id: int) -> None:
    """Put on a frame what was found about it.

    Raises:
        StaleBufferError: the frame's lease has ended.
    """
    maps: list[Mapping[str, Any]] = [found.overcrowded, found.in_region, found.crossings, found.total_crossings]
    rows = [_Named(c_text(name), int(value)) for entries in maps for name, value in entries.items()]
    classes = [number for pair in found.classes.items() for number in pair]
    address = frame.address
    data = _new("frame")(
        (_Named * max(1, len(rows)))(*rows),
        (ctypes.c_uint * 4)(*map(len, maps)),
        (ctypes.c_int32 * max(1, len(classes)))(*classes),
        len(found.classes),
        unique_id,
    )
    _attach(frame, address, "NVDS_FRAME_META", FRAME_META, data, "frame")


def attach_object_analytics(obj: ObjectMeta, found: ObjectAnalytics, *, unique_id: int) -> None:
    """Put on an object what was found about it.

    Raises:
        StaleBufferError: the object's lease has ended.
    """
    lists = [found.regions, found.crowds, found.lines]
    texts = [c_text(text) for entries in lists for text in entries]
    address = obj.address
    data = _new("object")(
        (ctypes.c_char_p * max(1, len(texts)))(*texts),
        (ctypes.c_uint * 3)(*map(len, lists)),
        c_text(found.direction),
        c_text(found.status),
        unique_id,
    )
    _attach(obj, address, "NVDS_OBJ_META", OBJECT_META, data, "object")


def _attach(owner: FrameMeta | ObjectMeta, address: int, level: str, meta_type: str, data: int, kind: str) -> None:
    provider = owner.provider
    call(
        "sluice_attach_network_data",
        True,
        provider.block,
        address,
        provider.layout.enum("NvDsMetaType")[level],
        meta_type_of(provider, meta_type),
        data,
        hook(f"analytics_{kind}_copy"),
        hook(f"analytics_{kind}_release"),
    )
