"""A worker of a fleet: one pipeline whose streams the controller chooses; a Ray actor, that works without Ray too."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from sluice.app.fleet.orders import Report, StreamOrder, WorkerOrder
from sluice.app.fleet.rollout import ModelCounts
from sluice.app.pipeline import Pipeline
from sluice.contract.structures import fields_of
from sluice.errors import SluiceError

_LOOK = 1.0  # seconds between two looks at whether the controller still speaks


class Worker:
    """One pipeline, under orders. Every method returns within some seconds."""

    def __init__(self, order: WorkerOrder, node: str = "", clock: Callable[[], float] = time.monotonic) -> None:
        """Load the model and start the pipeline, without streams yet.

        Args:
            order: how it is made.
            node: id of the node, for reports.
            clock: seconds that only grow.

        Raises:
            SluiceError: the model cannot be loaded, or an option cannot be used.
        """
        self._order = order
        self._node = node
        self._clock = clock
        self._epochs: dict[str, int] = {}
        self._sources: dict[str, StreamOrder] = {}
        self._changing = threading.Lock()
        self._heard = clock()
        self._failure = ""
        self._seen = self._refused = 0  # the events that were looked at; the last change of model that failed
        self._over = threading.Event()
        model = None if order.model == "none" else order.model
        self._pipeline = Pipeline([], service=True, model=model, **{"on_error": "skip", **order.options})
        self._job = self._pipeline.start()
        threading.Thread(target=self._wait, name="sluice-fleet-worker", daemon=True).start()
        threading.Thread(target=self._mind_orphanhood, name="sluice-fleet-orphan", daemon=True).start()

    def sync(self, orders: Sequence[StreamOrder]) -> dict[str, str]:
        """Run exactly these streams; one that runs with the same order goes on untouched.

        An order with a smaller epoch than the stream was seen with is an old one, and ignored.

        Returns:
            Why streams could not be added, by name.
        """
        self._heard = self._clock()
        wanted = {order.name: order for order in orders}
        refused: dict[str, str] = {}
        with self._changing:
            for name in [name for name in self._sources if name not in wanted]:
                self._remove(name)
            for order in wanted.values():
                try:
                    self._take(order)
                except SluiceError as error:
                    refused[order.name] = str(error)
        return refused

    def report(self, since: int = 0) -> Report:
        """Say how things are, with the events behind the one of that number."""
        self._heard = self._clock()
        events = tuple(self._pipeline.events.since(since))
        epochs = dict(self._epochs)  # in one step: a change may hold the lock for seconds, and an answer must not wait
        return Report(
            worker=self._order.name,
            node=self._node,
            pid=os.getpid(),
            epochs=epochs,
            streams=tuple(self._pipeline.streams),
            counts=self._counts(),
            events=events,
            last_event=max((event.number for event in events), default=since),
            failure=self._failure,
            made=self._order.made,
        )

    def swap_model(self, model: str) -> None:
        """Begin to change the model, between two batches; reports say how that ended.

        Raises:
            ConfigurationError: the worker was made without a model.
        """
        self._heard = self._clock()
        self._pipeline.swap_model(model)

    def stop(self) -> None:
        """End all streams and send what messages wait; returns within some seconds."""
        self._over.set()
        self._pipeline.stop()

    def _take(self, order: StreamOrder) -> None:
        known = self._sources.get(order.name)
        if known is not None and order.epoch <= self._epochs[order.name]:
            return
        if known is not None:
            self._remove(order.name)
        self._pipeline.add(order.source, name=order.name, policy=order.policy, members={"epoch": order.epoch})
        self._epochs[order.name] = order.epoch
        self._sources[order.name] = order

    def _remove(self, name: str) -> None:
        self._pipeline.remove(name)
        del self._sources[name], self._epochs[name]

    def _counts(self) -> ModelCounts:
        status = self._pipeline.model
        for event in self._pipeline.events.since(self._seen):
            self._seen = event.number
            if event.kind == "model-refused":
                self._refused = event.number
        stats: dict[str, Any] = {}
        for element in self._pipeline.elements:
            if element.get_factory().get_name() == "sluiceinfer":
                stats = fields_of(element.get_property("stats"))
        calls = int(stats.get("batches", 0))
        return ModelCounts(
            model=status["name"],
            frames=int(stats.get("inferred", 0)),
            errors=int(stats.get("errors", 0)),
            milliseconds=float(stats.get("model-ms-mean", 0.0)) * calls,
            calls=calls,
            refusal=status["reason"],
            refused=self._refused,
        )

    def _wait(self) -> None:
        try:
            self._job.wait()
        except SluiceError as error:
            self._failure = str(error)
        else:
            self._failure = "" if self._over.is_set() else "the pipeline ended"

    def _mind_orphanhood(self) -> None:
        """End the streams of a worker that nobody has spoken to for too long: they run elsewhere by then."""
        while not self._over.wait(_LOOK):
            if self._clock() - self._heard > self._order.orphan_seconds:
                with self._changing:
                    for name in list(self._sources):
                        self._remove(name)
