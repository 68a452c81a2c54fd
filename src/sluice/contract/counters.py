"""Counts of what happened to pixels in this process, kept in C and safe to read from any thread.

They make "zero copy" something a test can assert, and name a model that hoards tensors.
"""

from dataclasses import dataclass

from sluice.contract._pixels import functions


@dataclass(frozen=True)
class Counters:
    """One reading of the counters.

    Attributes:
        host_maps: raw frames mapped for the processor, so far.
        copies: frames whose pixels were copied, so far (scattered planes, scaling, writing to a shared frame).
        live_tensors: exported DLPack tensors whose deleter has not run yet.
        live_batches: batch memories, with their copies, that still exist.
        live_frames: frames held by those.
        host_frames: surfaces, or parts of them, brought from GPU memory into the host's, so far; not among `copies`.
        host_bytes: bytes of their pixels.
    """

    host_maps: int
    copies: int
    live_tensors: int
    live_batches: int
    live_frames: int
    host_frames: int
    host_bytes: int


def read() -> Counters:
    """Return all counters now."""
    return Counters(*(functions().counter(which) for which in range(7)))


def host_maps() -> int:
    """Return how many raw frames have been mapped for the processor."""
    return read().host_maps


def copies() -> int:
    """Return how many frames have had their pixels copied."""
    return read().copies


def live_tensors() -> int:
    """Return how many exported tensors are alive: a number that only grows names a model that hoards them."""
    return read().live_tensors


def live_batches() -> int:
    """Return how many batch memories exist."""
    return read().live_batches


def host_frames() -> int:
    """Return how many surfaces, or parts of them, were brought from GPU memory into the host's."""
    return read().host_frames
