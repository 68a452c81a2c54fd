"""What the tests of live streams share: waiting for something to be so, and quick policies."""

from __future__ import annotations

import time
from collections.abc import Callable

import sluice
from sluice.app.streams import RetryPolicy, StreamPolicy, StreamStatus

PATIENCE = 30.0  # seconds; the machine may be busy
QUICK = RetryPolicy(first=0.2, most=0.5, jitter=0.1)


def quick(**values: object) -> StreamPolicy:
    """A policy that notices and tries again soon."""
    return StreamPolicy(**({"stall_seconds": 1.5, "connect_seconds": 15, "retry": QUICK, "transport": "tcp"} | values))  # type: ignore[arg-type]


def until(happens: Callable[[], object], what: str, seconds: float = PATIENCE) -> None:
    """Wait until something is so, or fail."""
    deadline = time.monotonic() + seconds
    while not happens():
        assert time.monotonic() < deadline, f"in {seconds:g} s it did not happen: {what}"
        time.sleep(0.02)


def status(pipeline: sluice.Pipeline, name: str) -> StreamStatus:
    """The stream of that name."""
    return next(stream for stream in pipeline.streams if stream.name == name)


def plays(pipeline: sluice.Pipeline, name: str, frames: int = 1) -> None:
    """Wait until so many more frames of a stream have come out."""
    before = status(pipeline, name).frames_out
    until(lambda: status(pipeline, name).frames_out >= before + frames, f"{name} plays {status(pipeline, name)}")


def happened(pipeline: sluice.Pipeline, kind: str, stream: str | None = None, after: int = 0) -> bool:
    """Whether there is an event of that kind."""
    return any(event.kind == kind and event.stream == stream for event in pipeline.events.since(after))
