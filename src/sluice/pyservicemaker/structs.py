"""The C and C++ structs behind NVIDIA's specific user metas, which the contract's layout table does not carry.

C structs: nvds_tracker_meta.h and nvds_roi_meta.h of DeepStream 9.1. C++ structs (nvds_analytics_meta.h,
nvdspreprocess_meta.h) hold containers of the GNU C++ library, whose layout its stable ABI fixes
(https://gcc.gnu.org/onlinedocs/libstdc++/manual/abi.html, ``_GLIBCXX_USE_CXX11_ABI=1``). Only reading is offered: what
such containers own is allocated and freed by their maker.
"""

import ctypes
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

T = TypeVar("T")
C = TypeVar("C", bound="ctypes.Structure | ctypes._SimpleCData[Any]")
N = TypeVar("N", bound=np.generic)

_POINTER, _U32, _I32, _FLOAT = ctypes.c_size_t, ctypes.c_uint32, ctypes.c_int32, ctypes.c_float
MAX_LABEL = 128


class Reid(ctypes.Structure):
    """``NvDsObjReid``."""

    _fields_ = (("size", _U32), ("host", _POINTER), ("device", _POINTER))


class ConvexHull(ctypes.Structure):
    """``NvDsObjConvexHull``: pairs of x and y."""

    _fields_ = (("list", _POINTER), ("allocated", _U32), ("count", _U32))


class Box3d(ctypes.Structure):
    """``NvDsObj3DBbox``: centre, length, rotation and velocity, x, y and z of each."""

    _fields_ = (("numbers", _FLOAT * 12),)


class PastBatch(ctypes.Structure):
    """``NvDsTargetMiscDataBatch``."""

    _fields_ = (("list", _POINTER), ("allocated", _U32), ("filled", _U32), ("private", _POINTER))


class PastStream(ctypes.Structure):
    """``NvDsTargetMiscDataStream``."""

    _fields_ = (
        ("list", _POINTER),
        ("stream_id", _U32),
        ("surface_stream_id", ctypes.c_uint64),
        ("allocated", _U32),
        ("filled", _U32),
    )


class PastObject(ctypes.Structure):
    """``NvDsTargetMiscDataObject``."""

    _fields_ = (
        ("list", _POINTER),
        ("count", _U32),
        ("allocated", _U32),
        ("unique_id", ctypes.c_uint64),
        ("class_id", ctypes.c_uint16),
        ("label", ctypes.c_char * MAX_LABEL),
    )


class PastFrame(ctypes.Structure):
    """``NvDsTargetMiscDataFrame``; the box is an ``NvOSD_RectParams``, which begins with left, top, width, height."""

    _fields_ = (
        ("frame_number", _U32),
        ("_padding", _U32),
        ("box", _FLOAT * 4),
        ("_rest_of_box", ctypes.c_uint8 * 96),
        ("confidence", _FLOAT),
        ("age", _U32),
        ("state", _I32),
        ("visibility", _FLOAT),
        ("world_foot", _FLOAT * 2),
    )


class Vector(ctypes.Structure):
    """``std::vector``."""

    _fields_ = (("begin", _POINTER), ("end", _POINTER), ("capacity", _POINTER))


class String(ctypes.Structure):
    """``std::string``."""

    _fields_ = (("data", _POINTER), ("size", _POINTER), ("_local", ctypes.c_uint8 * 16))


class HashMap(ctypes.Structure):
    """``std::unordered_map``: all entries hang in one list, whatever their buckets."""

    _fields_ = (
        ("buckets", _POINTER),
        ("bucket_count", _POINTER),
        ("first", _POINTER),
        ("count", _POINTER),
        ("_policy", _POINTER * 3),
    )


class AnalyticsObject(ctypes.Structure):
    """``NvDsAnalyticsObjInfo``."""

    _fields_ = (
        ("roi_status", Vector),
        ("oc_status", Vector),
        ("lc_status", Vector),
        ("dir_status", String),
        ("unique_id", _U32),
        ("obj_status", String),
    )


class AnalyticsFrame(ctypes.Structure):
    """``NvDsAnalyticsFrameMeta``."""

    _fields_ = (
        ("oc_status", HashMap),
        ("obj_in_roi_cnt", HashMap),
        ("obj_lc_curr_cnt", HashMap),
        ("obj_lc_cum_cnt", HashMap),
        ("unique_id", _U32),
        ("obj_cnt", HashMap),
    )


class Roi(ctypes.Structure):
    """``NvDsRoiMeta``; it begins with an ``NvOSD_RectParams``."""

    _fields_ = (
        ("_rect", ctypes.c_uint64 * 14),
        ("polygon", _U32 * 16),
        ("converted_buffer", _POINTER),
        ("frame_meta", _POINTER),
        ("scale_and_offset", ctypes.c_double * 4),
        ("classifiers", _POINTER),
        ("user_metas", _POINTER),
        ("object_meta", _POINTER),
    )


class PreprocessTensor(ctypes.Structure):
    """``NvDsPreProcessTensorMeta``."""

    _fields_ = (
        ("data", _POINTER),
        ("bytes", ctypes.c_uint64),
        ("shape", Vector),
        ("data_type", _I32),
        ("name", String),
        ("gpu_id", _U32),
        ("private", _POINTER),
        ("meta_id", _U32),
        ("maintain_aspect_ratio", _I32),
    )


class PreprocessBatch(ctypes.Structure):
    """``GstNvDsPreProcessBatchMeta``."""

    _fields_ = (("target_ids", Vector), ("tensor", _POINTER), ("rois", Vector), ("private", _POINTER))


def array_at(address: int, shape: tuple[int, ...], dtype: type[N]) -> npt.NDArray[N]:
    """Return a copy of an array in host memory; an empty one where the pointer is NULL or the shape has a 0."""
    count = int(np.prod(shape))
    if not address or not count:
        return np.zeros(shape if address else (0,) * len(shape), dtype)
    data = ctypes.string_at(address, count * np.dtype(dtype).itemsize)
    return np.frombuffer(data, dtype).reshape(shape).copy()


def elements(address: int, count: int, kind: type[C]) -> list[C]:
    """Return views of the structs of a C array."""
    if not address:
        return []
    size = ctypes.sizeof(kind)
    found: list[Any] = [kind.from_address(address + i * size) for i in range(count)]
    return found


def vector(found: Any, kind: type[C]) -> list[C]:
    """Return views of the elements of a `Vector`."""
    size = ctypes.sizeof(kind)
    return elements(found.begin, (found.end - found.begin) // size, kind)


def string(found: Any) -> str:
    """Return the text of a `String`."""
    return ctypes.string_at(found.data, found.size).decode("utf-8", "replace")


def _entries(found: Any) -> Iterator[int]:
    """Yield the address of each entry of a `HashMap`, behind the pointer to the next one."""
    link = found.first
    for _ in range(found.count):
        yield link + ctypes.sizeof(_POINTER)
        link = _POINTER.from_address(link).value


def text_map(found: Any, read: Callable[[int], T], value: type[Any]) -> dict[str, T]:
    """Return a `HashMap` from strings to values of a C type."""
    size = ctypes.sizeof(String)
    return {
        string(String.from_address(entry)): read(value.from_address(entry + size).value) for entry in _entries(found)
    }


def number_map(found: Any) -> dict[int, int]:
    """Return a ``std::unordered_map<int, unsigned>``."""
    return {_I32.from_address(entry).value: _U32.from_address(entry + 4).value for entry in _entries(found)}
