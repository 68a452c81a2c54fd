"""All numbers of a pipeline at one moment; whoever has them hands them over in this form."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sluice.contract.latency import Latencies
from sluice.metrics.process import ProcessNumbers


@dataclass(frozen=True)
class StreamNumbers:
    """One stream.

    Attributes:
        name: of the stream, unique.
        number: the muxer's pad, by which latencies are told apart.
        state: what it is doing, in a word.
        frames_in, frames_out, dropped: frames decoded, seen behind the model, and left out by policy.
        fps: frames per second that came lately.
        reconnects: how often it was opened again.
        waiting: frames that wait in front of the batches.
        live: whether frames come at the pace of the outside world.
        overtaken: those of the dropped that gave way to newer ones in front of the model.
        last_frame_age: seconds since the last frame; None before the first.
        objects: by class.
    """

    name: str
    number: int
    state: str
    frames_in: int = 0
    frames_out: int = 0
    dropped: int = 0
    fps: float = 0.0
    reconnects: int = 0
    waiting: int = 0
    last_frame_age: float | None = None
    objects: Mapping[str, int] = field(default_factory=dict)
    live: bool = False
    overtaken: int = 0


@dataclass(frozen=True)
class ElementNumbers:
    """One element that all streams share.

    Attributes:
        name: of the element.
        batches, frames: that left it.
        in_flight: frames that are in it now.
    """

    name: str
    batches: int = 0
    frames: int = 0
    in_flight: int = 0


@dataclass(frozen=True)
class OutputNumbers:
    """One output of one stream.

    Attributes:
        stream: the stream's name.
        output: "record", "clips", "hls", "draw", "encode", ...
        frames, dropped, failures, files: what it did so far.
        active: whether it is at work.
    """

    stream: str
    output: str
    frames: int = 0
    dropped: int = 0
    failures: int = 0
    files: int = 0
    active: bool = True


@dataclass(frozen=True)
class Snapshot:
    """A pipeline at one moment.

    Attributes:
        streams: its streams.
        states: all states that a stream may be in.
        elements: its shared elements, in order.
        batch_size: the most frames of a batch; 0 where it is not known.
        latencies: what was measured, by element and the stream's number.
        last: the element whose frames' age is the latency from capture to message.
        model_seconds: mean and longest time of a call of the model.
        model_busy: seconds that all calls of the model took together.
        model: its counts: inferred, skipped, errors, objects.
        messages: by state: queued, sent, acknowledged, dropped, failed, ...
        spooled: messages that are on the disk now.
        outputs: of the streams.
        viewers: how many there are now, by stream and kind.
        events: how many things have happened.
        workers: what the other processes use that work for this one.
    """

    streams: tuple[StreamNumbers, ...] = ()
    states: tuple[str, ...] = ()
    elements: tuple[ElementNumbers, ...] = ()
    batch_size: int = 0
    latencies: tuple[Latencies, ...] = ()
    last: str = ""
    model_seconds: tuple[float, float] = (0.0, 0.0)
    model_busy: float = 0.0
    model: Mapping[str, int] = field(default_factory=dict)
    messages: Mapping[str, int] = field(default_factory=dict)
    spooled: int = 0
    outputs: tuple[OutputNumbers, ...] = ()
    viewers: Mapping[tuple[str, str], int] = field(default_factory=dict)
    events: int = 0
    workers: tuple[ProcessNumbers, ...] = ()
