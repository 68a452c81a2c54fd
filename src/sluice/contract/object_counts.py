"""How many objects of each class have passed a pad, per stream: counted in C, read when asked for."""

import ctypes
import functools
import weakref

import gi

gi.require_version("Gst", "1.0")
from gi.repository import Gst

from sluice.contract import gstref
from sluice.contract._native import library
from sluice.contract.provider import provider

_LABEL = 64


class _Row(ctypes.Structure):
    """``SluiceObjectCount`` of native/object_counts.c."""

    _fields_ = (
        ("count", ctypes.c_uint64),
        ("stream", ctypes.c_uint),
        ("class_id", ctypes.c_int),
        ("label", ctypes.c_char * _LABEL),
    )


@functools.cache
def _functions() -> ctypes.CDLL:
    functions = library()
    functions.sluice_objects_watch.restype = ctypes.c_void_p
    functions.sluice_objects_watch.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p]
    functions.sluice_objects_release.argtypes = [ctypes.c_void_p]
    functions.sluice_objects_read.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint]
    return functions


class ObjectCounter:
    """Counts at one pad. Of a stream 32 classes are counted apart, all others together; streams go with their pads."""

    def __init__(self, pad: Gst.Pad) -> None:
        """Count what passes the pad, for as long as it lives."""
        owner = provider()
        kind = owner.layout.enum("GstNvDsMetaType")["NVDS_BATCH_GST_META"]
        self._address: int = _functions().sluice_objects_watch(ctypes.addressof(owner.block), kind, gstref.address(pad))
        weakref.finalize(self, _functions().sluice_objects_release, self._address).atexit = False

    def read(self) -> dict[tuple[int, str], int]:
        """Return counts by the stream's number and the class's label: its number without one, "other" for the rest."""
        capacity = 64
        while True:
            rows = (_Row * capacity)()
            count = _functions().sluice_objects_read(self._address, rows, capacity)
            if count <= capacity:
                break
            capacity = 2 * count
        found: dict[tuple[int, str], int] = {}
        for row in rows[:count]:
            label = row.label.decode(errors="replace") or str(row.class_id)
            found[row.stream, label] = found.get((row.stream, label), 0) + row.count
        return found
