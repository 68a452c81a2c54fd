"""How long frames are in each element, and how old they are there: measured in C as they pass, read when asked for.

`native/latency.c` has what is measured. Memory is bounded: a distribution has a fixed size, streams are forgotten with
their pads, and of more than 4096 streams the rest is not measured. With NVDS_ENABLE_LATENCY_MEASUREMENT in the
environment, batches also carry the latency metadata that DeepStream's elements attach: see `component_latencies`.
"""

import ctypes
import functools
import weakref
from dataclasses import dataclass

import gi

gi.require_version("Gst", "1.0")
from gi.repository import Gst

from sluice.contract import gstref
from sluice.contract._native import library
from sluice.contract.metadata import BatchMeta
from sluice.contract.provider import provider

BOUNDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0)
"""Upper bounds of the buckets of a `Distribution`, in seconds; one more has what is longer."""
_LATENCY_META = 11  # NVDS_LATENCY_MEASUREMENT_META


class _DistributionStruct(ctypes.Structure):
    """``SluiceDistribution`` of native/latency.h."""

    _fields_ = (
        *((name, ctypes.c_uint64) for name in ("count", "sum", "longest", "recent", "p50", "p95", "p99")),
        ("buckets", ctypes.c_uint64 * (len(BOUNDS) + 1)),
    )


class _Row(ctypes.Structure):
    """``SluiceLatencyRow`` of native/latency.c."""

    _fields_ = (
        *((name, ctypes.c_uint) for name in ("point", "stream", "kind", "reserved")),
        ("value", _DistributionStruct),
    )


class _CompStruct(ctypes.Structure):
    """``NvDsMetaCompLatency``, but for its parts."""

    _fields_ = (
        ("component_name", ctypes.c_char * 64),
        *((name, ctypes.c_double) for name in ("in_system_timestamp", "out_system_timestamp")),
        *((name, ctypes.c_uint) for name in ("source_id", "frame_num", "pad_index")),
    )


@functools.cache
def _functions() -> ctypes.CDLL:
    functions = library()
    functions.sluice_latency_new.restype = ctypes.c_void_p
    functions.sluice_latency_new.argtypes = [ctypes.c_void_p, ctypes.c_int]
    functions.sluice_latency_release.argtypes = [ctypes.c_void_p]
    pads = [ctypes.c_void_p] * 2
    functions.sluice_latency_watch.argtypes = [ctypes.c_void_p, ctypes.c_char_p, *pads, ctypes.c_int]
    functions.sluice_latency_forget.argtypes = [ctypes.c_void_p, ctypes.c_uint]
    functions.sluice_latency_read.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint]
    counts = [ctypes.POINTER(ctypes.c_uint64)] * 2
    functions.sluice_latency_read_batches.argtypes = [ctypes.c_void_p, ctypes.c_uint, *counts]
    return functions


@dataclass(frozen=True)
class Distribution:
    """Times in seconds.

    Attributes:
        count: how many there were.
        sum: of all.
        longest: of all.
        recent: how many there were in the last half to whole minute, which the quantiles are of.
        p50, p95, p99: half, 95 and 99 in a hundred were not longer; right to a sixteenth.
        buckets: how many were not longer than each of `BOUNDS` and longer than the one before, and the rest.
    """

    count: int
    sum: float
    longest: float
    recent: int
    p50: float
    p95: float
    p99: float
    buckets: tuple[int, ...]


@dataclass(frozen=True)
class Latencies:
    """What was measured of one stream at one element.

    Attributes:
        element: its name.
        stream: the number of the stream (``pad_index``).
        inside: from entering to leaving it; None for the muxer, before which frames carry no metadata.
        age: from capture to leaving it; None where the frames tell no time. Capture is what the sender reported, else
            the arrival at the muxer.
    """

    element: str
    stream: int
    inside: Distribution | None
    age: Distribution | None


class LatencyMeter:
    """Measures at any number of elements."""

    def __init__(self) -> None:
        """Make a meter that measures nothing yet."""
        owner = provider()
        kind = owner.layout.enum("GstNvDsMetaType")["NVDS_BATCH_GST_META"]
        self._names: list[str] = []
        self._address: int = _functions().sluice_latency_new(ctypes.addressof(owner.block), kind)
        weakref.finalize(self, _functions().sluice_latency_release, self._address).atexit = False

    def watch(self, name: str, entry: Gst.Pad | None, exit: Gst.Pad, *, muxer: bool = False) -> None:
        """Measure from one pad to another, for as long as they live; without `entry` only how old frames are.

        Args:
            name: the element's.
            entry: where batches come in.
            exit: where they leave, or where they come to their end.
            muxer: whether the element makes the batches.
        """
        into = None if entry is None else gstref.address(entry)
        _functions().sluice_latency_watch(self._address, name.encode(), into, gstref.address(exit), muxer)
        self._names.append(name)

    def watch_element(self, element: Gst.Element, name: str | None = None) -> None:
        """Measure at an element with batches on its pads ``sink`` and ``src``, or on one of them."""
        entry, exit = element.get_static_pad("sink"), element.get_static_pad("src")
        self.watch(name or element.get_name(), None if exit is None else entry, exit or entry, muxer=entry is None)

    def forget(self, stream: int) -> None:
        """Forget a stream."""
        _functions().sluice_latency_forget(self._address, stream)

    def read(self) -> list[Latencies]:
        """Return what was measured so far, by element and stream."""
        capacity = 64
        while True:
            rows = (_Row * capacity)()
            count = _functions().sluice_latency_read(self._address, rows, capacity)
            if count <= capacity:
                break
            capacity = 2 * count
        found: dict[tuple[int, int], list[Distribution | None]] = {}
        for row in rows[:count]:
            found.setdefault((row.point, row.stream), [None, None])[row.kind] = _distribution(row.value)
        return [
            Latencies(self._names[point], stream, inside, age)
            for (point, stream), (inside, age) in sorted(found.items(), key=lambda item: item[0])
        ]

    def batches(self, name: str) -> tuple[int, int]:
        """Return how many batches have left an element, and how many frames were in them."""
        batches, frames = ctypes.c_uint64(), ctypes.c_uint64()
        number = self._names.index(name)
        _functions().sluice_latency_read_batches(self._address, number, ctypes.byref(batches), ctypes.byref(frames))
        return batches.value, frames.value


def _distribution(raw: _DistributionStruct) -> Distribution:
    seconds = {name: getattr(raw, name) / 1e9 for name in ("sum", "longest", "p50", "p95", "p99")}
    return Distribution(count=raw.count, recent=raw.recent, buckets=tuple(raw.buckets), **seconds)


@dataclass(frozen=True)
class ComponentLatency:
    """``NvDsMetaCompLatency``: one element's record on a batch; times in milliseconds since 1970.

    Attributes:
        name: the element's; the muxer's with "nvstreammux-" before it.
        entered, left: when the batch did; 0 while it has not left.
        source_id, frame_num, pad_index: of the muxer's only, which has one per frame.
    """

    name: str
    entered: float
    left: float
    source_id: int
    frame_num: int
    pad_index: int


def component_latencies(batch: BatchMeta) -> list[ComponentLatency]:
    """Return the latency records on a batch, of our elements or NVIDIA's, in their order."""
    found = []
    for user in batch.user_metas:
        if user.meta_type == _LATENCY_META and user.data:
            raw = _CompStruct.from_address(user.data)
            name = raw.component_name.decode(errors="replace")
            times = (raw.in_system_timestamp, raw.out_system_timestamp)
            found.append(ComponentLatency(name, *times, raw.source_id, raw.frame_num, raw.pad_index))
    return found
