"""Processor time of what is done with a frame's metadata."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import gi

gi.require_version("Gst", "1.0")
from gi.repository import Gst

from sluice.contract.metadata import BatchMeta, FrameMeta, Lease


def median_seconds(make: Callable[[FrameMeta], object], buffer: Gst.Buffer, times: int) -> float:
    """Do something with the only frame of a buffer so many times; return this thread's median processor time."""
    taken = []
    with Lease() as lease:
        (frame,) = BatchMeta.of(buffer, lease).frames  # type: ignore[union-attr]
        for _ in range(times):
            start = time.thread_time()
            make(frame)
            taken.append(time.thread_time() - start)
    return statistics.median(taken)
