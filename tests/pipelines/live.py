"""What the tests of live streams share: models, quick policies and what they look at."""

from __future__ import annotations

from collections import defaultdict

import numpy as np

import sluice
from sluice.app.streams import RetryPolicy, StreamPolicy, StreamStatus
from sluice.models.frame import Frame
from waiting import until

QUICK = RetryPolicy(first=0.2, most=0.5, jitter=0.1)


class Box:
    """One box on every frame."""

    labels = ("thing",)

    def infer(self, frames: list[Frame]) -> list[sluice.Detections]:
        box = np.array([[4, 4, 20, 20]], np.float32)
        return [sluice.Detections(box, np.array([0.9], np.float32), np.array([0], np.int32)) for _ in frames]


class Colours:
    """Writes down the colour of every frame's middle by the frame's stream."""

    def __init__(self) -> None:
        self.seen: dict[int, set[int]] = defaultdict(set)

    def infer(self, frames: list[Frame]) -> list[None]:
        for frame in frames:
            middle = frame.rgb()[frame.height // 2, frame.width // 2]
            self.seen[frame.stream].add(int(middle.argmax()))
        return [None] * len(frames)


def quick(**values: object) -> StreamPolicy:
    """A policy that notices and tries again soon."""
    return StreamPolicy(**({"stall_seconds": 1.5, "connect_seconds": 15, "retry": QUICK, "transport": "tcp"} | values))  # type: ignore[arg-type]


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
