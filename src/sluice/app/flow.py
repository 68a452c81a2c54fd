"""Counting what passes a pad, in C: no Python runs per buffer."""

import ctypes
import functools
from dataclasses import dataclass

import gi

gi.require_version("Gst", "1.0")
from gi.repository import Gst

from sluice.contract import gstref
from sluice.contract._native import library

_NONE = 2**64 - 1  # GST_CLOCK_TIME_NONE


class _Counts(ctypes.Structure):
    """``SluiceFlowCounts`` of native/pad_flow.c."""

    _fields_ = tuple(
        (name, ctypes.c_uint64)
        for name in ("buffers", "corrupted", "disordered", "first_pts", "last_end", "segment_start", "ended")
    )


@functools.cache
def _functions() -> ctypes.CDLL:
    functions = library()
    functions.sluice_flow_watch.restype = ctypes.c_void_p
    functions.sluice_flow_watch.argtypes = [ctypes.c_void_p, ctypes.c_uint64]
    functions.sluice_flow_read.argtypes = [ctypes.c_void_p, ctypes.POINTER(_Counts)]
    functions.sluice_flow_release.argtypes = [ctypes.c_void_p]
    return functions


@dataclass(frozen=True)
class FlowCounts:
    """What passed a pad so far; times in nanoseconds, None before there is one.

    Attributes:
        buffers: buffers that passed.
        corrupted: of them, those the decoder flagged as damaged.
        disordered: of them, those whose timestamp is missing or not larger than the one before.
        first_pts: smallest timestamp.
        last_end: largest timestamp plus duration.
        segment_start: start of the first segment: earlier frames are decoded but not shown.
        ended: whether EOS has passed.
    """

    buffers: int
    corrupted: int
    disordered: int
    first_pts: int | None
    last_end: int | None
    segment_start: int | None
    ended: bool


class PadFlow:
    """Counts the buffers of one pad from now on, for as long as the pad lives."""

    def __init__(self, pad: Gst.Pad, limit: int = 0) -> None:
        """Start counting. With a limit, EOS follows that many buffers and later ones are dropped (source pads only)."""
        self._functions = _functions()
        self._flow = self._functions.sluice_flow_watch(gstref.address(pad), limit)

    def __del__(self) -> None:
        self._functions.sluice_flow_release(self._flow)

    def read(self) -> FlowCounts:
        """Return the counts as they are now."""
        raw = _Counts()
        self._functions.sluice_flow_read(self._flow, ctypes.byref(raw))
        first, last, segment = (None if t == _NONE else t for t in (raw.first_pts, raw.last_end, raw.segment_start))
        return FlowCounts(raw.buffers, raw.corrupted, raw.disordered, first, last, segment, bool(raw.ended))
