"""What the controller and a worker tell each other; plain data, which crosses processes and machines."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sluice.app.fleet.rollout import ModelCounts
from sluice.app.streams.events import Event
from sluice.app.streams.policy import StreamPolicy
from sluice.app.streams.states import StreamStatus


@dataclass(frozen=True)
class StreamOrder:
    """A stream that a worker shall run.

    Attributes:
        name: unique within the fleet.
        source: what is opened, credentials included: never show it.
        policy: how it is treated.
        epoch: of this placement; written into the stream's messages.
    """

    name: str
    source: str = field(repr=False)
    policy: StreamPolicy
    epoch: int


@dataclass(frozen=True)
class WorkerOrder:
    """How a worker's pipeline is made.

    Attributes:
        name: the worker's.
        model: the model's name, "none" for none.
        options: other arguments of `sluice.Pipeline`.
        orphan_seconds: so long a worker that hears nothing of the controller goes on with its streams.
        made: stands for all that a worker cannot change while it runs; equal for workers that are made alike.
    """

    name: str
    model: str
    options: Mapping[str, Any] = field(default_factory=dict)
    orphan_seconds: float = 600.0
    made: str = ""


@dataclass(frozen=True)
class Report:
    """How a worker is.

    Attributes:
        worker: its name.
        node: id of the node it runs on.
        pid: its process there.
        epochs: of the streams that it runs, by name.
        streams: what each is doing.
        counts: what its model did since it started.
        events: what happened since the last report that was asked for.
        last_event: the number to ask from next time.
        failure: why its pipeline ended, "" while it runs.
        made: as its order said.
    """

    worker: str
    node: str
    pid: int
    epochs: Mapping[str, int]
    streams: tuple[StreamStatus, ...]
    counts: ModelCounts
    events: tuple[Event, ...] = ()
    last_event: int = 0
    failure: str = ""
    made: str = ""
