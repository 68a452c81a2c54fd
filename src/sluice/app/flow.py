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


class _StreamCounts(ctypes.Structure):
    """``SluiceStreamCounts`` of native/stream_flow.c."""

    _fields_ = (
        ("arrived", ctypes.c_uint64),
        ("skipped", ctypes.c_uint64),
        ("last_arrival", ctypes.c_uint64),
        ("last_end", ctypes.c_uint64),
        ("jumps", ctypes.c_uint64),
        ("last_jump", ctypes.c_int64),
        ("captured", ctypes.c_uint64),
        ("ended", ctypes.c_uint64),
    )


@functools.cache
def _functions() -> ctypes.CDLL:
    functions = library()
    functions.sluice_flow_watch.restype = ctypes.c_void_p
    functions.sluice_flow_watch.argtypes = [ctypes.c_void_p, ctypes.c_uint64]
    functions.sluice_flow_read.argtypes = [ctypes.c_void_p, ctypes.POINTER(_Counts)]
    functions.sluice_flow_release.argtypes = [ctypes.c_void_p]
    functions.sluice_stream_flow_new.restype = ctypes.c_void_p
    functions.sluice_stream_flow_new.argtypes = [ctypes.c_int]
    functions.sluice_stream_flow_unref.argtypes = [ctypes.c_void_p]
    functions.sluice_stream_flow_watch.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int]
    functions.sluice_stream_flow_leave.argtypes = [ctypes.c_void_p]
    functions.sluice_stream_flow_set_rate.argtypes = [ctypes.c_void_p, ctypes.c_uint64]
    functions.sluice_stream_flow_read.argtypes = [ctypes.c_void_p, ctypes.POINTER(_StreamCounts)]
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


@dataclass(frozen=True)
class StreamCounts:
    """What came from all sources that a stream has had.

    Attributes:
        arrived: frames.
        skipped: of them, those left out: above the target rate, or damaged and before a live source's first whole one.
        last_arrival: when the last one came, in seconds of the monotonic clock; None before it.
        jumps: how often the stream's times, or its sender's clock, jumped.
        last_jump: by how many seconds the last time.
        captured: frames of the present source that carried their sender's time.
        ended: whether the present source has ended.
    """

    arrived: int
    skipped: int
    last_arrival: float | None
    jumps: int
    last_jump: float
    captured: int
    ended: bool


class StreamFlow:
    """The end of a stream's source, over every restart of it: see native/stream_flow.c.

    Frames of any but the present source are dropped, EOS is only noted, and where asked for times go on over restarts.
    """

    def __init__(self, live: bool) -> None:
        """Begin a stream whose source is live or not."""
        self._functions = _functions()
        self._flow = self._functions.sluice_stream_flow_new(live)

    def __del__(self) -> None:
        self._functions.sluice_stream_flow_unref(self._flow)

    def watch(self, pad: Gst.Pad, *, retimed: bool) -> None:
        """Take a source pad as the end of the stream's present source.

        Args:
            pad: the pad, behind which everything is one stream to the mux.
            retimed: whether frames leave with running times that only go forward, over all sources; else as they come.
        """
        self._functions.sluice_stream_flow_watch(self._flow, gstref.address(pad), retimed)

    def leave(self) -> None:
        """Let nothing more of the present source through."""
        self._functions.sluice_stream_flow_leave(self._flow)

    def set_rate(self, fps: float | None) -> None:
        """Let at most so many frames per second through; None: all."""
        self._functions.sluice_stream_flow_set_rate(self._flow, 0 if fps is None else round(1e9 / fps))

    def read(self) -> StreamCounts:
        """Return the counts as they are now."""
        raw = _StreamCounts()
        self._functions.sluice_stream_flow_read(self._flow, ctypes.byref(raw))
        last = raw.last_arrival / 1e9 if raw.last_arrival else None
        return StreamCounts(
            raw.arrived, raw.skipped, last, raw.jumps, raw.last_jump / 1e9, raw.captured, bool(raw.ended)
        )
