"""The structs and C functions of native/collect*.c; every call releases the GIL."""

import ctypes
import functools
from typing import Any

from sluice.contract._native import library
from sluice.contract._pixels import RawFrameStruct

STOPPED, EVENT, BATCH = range(3)
"""What ``sluice_collector_run`` returns."""


class SettingsStruct(ctypes.Structure):
    """``CollectSettings`` of native/collect.h."""

    _fields_ = (
        ("timeout", ctypes.c_int64),
        ("early", ctypes.c_int64),
        ("late", ctypes.c_int64),
        ("batch_size", ctypes.c_uint32),
        ("max_same_source", ctypes.c_uint32),
        ("queue_size", ctypes.c_uint32),
        ("synchronised", ctypes.c_uint32),
        ("wall_clock", ctypes.c_uint32),
    )


class FormatStruct(ctypes.Structure):
    """``StreamFormat`` of native/collect.h."""

    _fields_ = (
        ("raw", RawFrameStruct),
        ("duration", ctypes.c_uint64),
        ("source_id", ctypes.c_uint32),
        ("width", ctypes.c_uint32),
        ("height", ctypes.c_uint32),
        ("pipeline_width", ctypes.c_uint32),
        ("pipeline_height", ctypes.c_uint32),
    )


class CountsStruct(ctypes.Structure):
    """``StreamCounts`` of native/collect.h."""

    _fields_ = tuple(
        (name, ctypes.c_uint64)
        for name in ("frames_in", "frames_out", "discarded", "late", "refused", "untimed", "replaced")
    )


class StepStruct(ctypes.Structure):
    """``Step`` of native/collect_batch.c."""

    _fields_ = (
        ("stream", ctypes.c_void_p),
        ("event", ctypes.c_void_p),
        ("batch", ctypes.c_void_p),
        ("flow", ctypes.c_int32),
    )


class OutputStruct(ctypes.Structure):
    """``Output`` of native/collect_batch.c."""

    _fields_ = (
        ("pad", ctypes.c_void_p),
        ("provider", ctypes.c_void_p),
        ("capacity", ctypes.c_uint32),
        ("meta_type", ctypes.c_int32),
        ("capture_type", ctypes.c_int32),
    )


@functools.cache
def functions() -> Any:
    """Return the C library with the types of the collector's functions declared. All addresses are plain numbers."""
    lib = library()
    pointer, boolean = ctypes.c_void_p, ctypes.c_int
    for name, result, arguments in (
        ("collector_new", pointer, []),
        ("collector_end", None, [pointer]),
        ("collector_configure", None, [pointer, pointer]),
        ("collector_hold_clock", None, [pointer, ctypes.c_int64, ctypes.c_int64]),
        ("collector_set_flow", None, [pointer, ctypes.c_int]),
        ("collector_start", None, [pointer]),
        ("collector_stop", None, [pointer]),
        ("collector_add", pointer, [pointer, ctypes.c_uint]),
        ("collector_all_ended", boolean, [pointer]),
        ("collector_wait_time", ctypes.c_int64, [pointer]),
        ("collector_batches", ctypes.c_uint64, [pointer]),
        ("collector_run", ctypes.c_int, [pointer, pointer, pointer, ctypes.c_char_p, ctypes.c_size_t]),
        ("stream_unref", None, [pointer]),
        ("stream_bind", None, [pointer, pointer]),
        ("stream_chain_on", None, [pointer]),
        ("stream_set_format", None, [pointer, pointer]),
        ("stream_renumber", None, [pointer]),
        ("stream_read_counts", None, [pointer, pointer]),
        ("stream_put", ctypes.c_int, [pointer, pointer, pointer]),
        ("stream_put_event", boolean, [pointer, pointer]),
        ("stream_remove", ctypes.c_int64, [pointer, pointer]),
        ("stream_flush", None, [pointer]),
        ("stream_resume", None, [pointer]),
        ("stream_mark_ended", boolean, [pointer, boolean]),
        ("stream_set_absent", None, [pointer]),
        ("stream_set_freshest", None, [pointer, boolean]),
        ("stream_set_capture", None, [pointer, ctypes.c_int]),
    ):
        function = getattr(lib, f"sluice_{name}")
        function.restype, function.argtypes = result, arguments
    return lib
