"""What a file of ``sluice fleet apply`` may hold; `sluice fleet schema` prints it as JSON Schema."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from typing import Annotated, Any

from pydantic import ConfigDict, Field, model_validator, with_config

from sluice.app.fleet.nodes import FlappingRule
from sluice.app.fleet.rollout import RolloutRule
from sluice.app.fleet.suspects import PoisonRule
from sluice.app.serve.schema import NAME_PATTERN, ModelEntry, StreamName, Strict, Thresholds, TrackerEntry
from sluice.app.streams import StreamPolicy

for _rule in (FlappingRule, PoisonRule, RolloutRule):
    with_config(ConfigDict(extra="forbid", allow_inf_nan=False))(_rule)


class FleetStream(Strict, allow_inf_nan=False):
    """One stream."""

    source: str
    """What is opened, from whatever node it runs on: rtsp://, http://, a file that every node has, test:ball?live=1."""
    name: StreamName
    """Its name in messages, status and metrics."""
    policy: StreamPolicy = StreamPolicy()
    """How it is treated."""


class Resources(Strict, allow_inf_nan=False):
    """What Ray sets aside for one worker. A node offers as many workers as it has room for."""

    cpus: Annotated[float, Field(gt=0)] = 1.0
    """Processor cores."""
    gpus: Annotated[float, Field(ge=0)] = 0.0
    """Share of a GPU."""
    decoders: Annotated[float, Field(ge=0)] = 0.0
    """Decoder sessions, where nodes declare them: ray start --resources '{"decoder": 32}'."""
    memory_mb: Annotated[int, Field(ge=0)] = 0
    """Megabytes of memory."""


class Workers(Strict, allow_inf_nan=False):
    """How workers are made."""

    streams: Annotated[int, Field(ge=1, le=1024)] = 8
    """Most streams of one worker: what one was measured to hold with this model."""
    resources: Resources = Resources()
    """What Ray sets aside for each."""
    spare: Annotated[int, Field(ge=0)] = 0
    """Workers beyond those that the streams need: the streams of a lost one run at once where a model is loaded."""
    most: Annotated[int, Field(ge=1)] = 10_000
    """Most workers."""


class Recovery(Strict, allow_inf_nan=False):
    """When a worker is given up."""

    heartbeat: Annotated[float, Field(ge=0.1, le=60)] = 1.0
    """Seconds between two questions to each worker."""
    lost_after: Annotated[float, Field(ge=0.5, le=300)] = 6.0
    """Seconds without an answer after which a worker's streams run elsewhere."""
    start_seconds: Annotated[float, Field(ge=1)] = 900.0
    """So long a worker may wait for room on a node and load its model, before another is tried."""
    stuck_after: Annotated[float, Field(ge=5)] = 60.0
    """Seconds after which a worker that answers, but whose playing streams give no frame, is ended."""
    orphan_seconds: Annotated[float, Field(ge=1)] = 600.0
    """So long a worker that hears nothing goes on with its streams."""
    flapping: FlappingRule = FlappingRule()
    """When a node is left alone for a while."""
    poison: PoisonRule = PoisonRule()
    """When a stream counts as one that ends its workers."""

    @model_validator(mode="after")
    def _in_order(self) -> Recovery:
        if self.lost_after <= self.heartbeat:
            raise ValueError("lost_after must be longer than heartbeat")
        return self


class Rollouts(Strict, allow_inf_nan=False):
    """How a new model is tried."""

    canary: tuple[StreamName, ...] = ()
    """Streams whose workers get it first; none: the first worker."""
    rule: RolloutRule = RolloutRule()
    """How it is judged."""


class Fleet(Strict, allow_inf_nan=False):
    """A fleet: its streams, what is done with them, and on what."""

    name: Annotated[str, Field(pattern=NAME_PATTERN)] = "sluice"
    """Of several fleets on one cluster."""
    address: str = "auto"
    """The Ray cluster: host:port, auto for the one this machine belongs to, local for one started here."""
    streams: tuple[FleetStream, ...] = ()
    """The streams."""
    model: ModelEntry = ModelEntry()
    """The model; its files must be on every node at the same path."""
    thresholds: Thresholds = Thresholds()
    """Which detections count."""
    tracker: TrackerEntry = TrackerEntry()
    """The tracker."""
    messages: str | None = None
    """The broker's URL, or a file of JSON lines on each node; {worker} in it is the worker's name. A relative path
    starts from where Ray was started."""
    workers: Workers = Workers()
    """How workers are made."""
    recovery: Recovery = Recovery()
    """When a worker is given up."""
    rollout: Rollouts = Rollouts()
    """How a new model is tried."""

    @model_validator(mode="after")
    def _distinct(self) -> Fleet:
        names = Counter(stream.name for stream in self.streams)
        twice = sorted(name for name, count in names.items() if count > 1)
        if twice:
            raise ValueError(f"streams have names of their own; more than one is called {', '.join(twice)}")
        if unknown := sorted(set(self.rollout.canary) - set(names)):
            raise ValueError(f"rollout.canary names streams that are not there: {', '.join(unknown)}")
        return self

    def pipeline_options(self, worker: str) -> dict[str, Any]:
        """Return the arguments of `sluice.Pipeline` for a worker, but for its streams and its model."""
        return {
            "labels": self.model.labels,
            "runtime": self.model.runtime,
            "device": self.model.device,
            "model_options": dict(self.model.options),
            "batch_size": self.model.batch_size or min(self.workers.streams, 16),
            "interval": self.model.interval,
            "on_error": self.model.on_error,
            "confidence": self.thresholds.confidence,
            "iou": self.thresholds.iou,
            "classes": self.thresholds.classes,
            "tracker": self.tracker.name,
            "keep_unconfirmed": self.tracker.keep_unconfirmed,
            "messages": None if self.messages is None else self.messages.replace("{worker}", worker),
        }

    def made(self) -> str:
        """Return what stands for all that a worker cannot change while it runs; its model is none of that."""
        fixed = [
            self.pipeline_options("{worker}"),
            self.workers.resources.model_dump(),
            self.recovery.orphan_seconds,
            self.model.name == "none",  # a pipeline without a model has no element that could take one
        ]
        return hashlib.sha256(json.dumps(fixed, default=str, sort_keys=True).encode()).hexdigest()[:16]

    def with_model(self, name: str) -> Fleet:
        """Return the same with another model."""
        return self.model_copy(update={"model": self.model.model_copy(update={"name": name})})

    def changed_since(self, before: Fleet) -> list[str]:
        """Return the names of the streams that came, went or changed."""
        old = {stream.name: stream for stream in before.streams}
        new = {stream.name: stream for stream in self.streams}
        return sorted(name for name in old.keys() | new.keys() if old.get(name) != new.get(name))
