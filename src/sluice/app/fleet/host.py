"""The actor that keeps a fleet: the controller on a thread of its own, and what people ask of it."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from sluice.app.fleet.controller import Controller
from sluice.app.fleet.fence import first_epoch, next_generation
from sluice.app.fleet.keeping import Kept, Store
from sluice.app.fleet.ray_cluster import RayCluster, in_background
from sluice.app.fleet.schema import Fleet
from sluice.app.streams.events import EventLog

_STEP = 0.25  # seconds between two steps of the controller
_ENDING = 15.0
_MOST_EVENTS = 20_000  # that are kept: some for each of thousands of streams
_log = logging.getLogger(__name__)
T = TypeVar("T")


class Host:
    """Keeps one fleet for as long as the cluster lives; a Ray actor that is restarted where it is lost."""

    def __init__(self, fleet: str, store: Store) -> None:
        """Take the fleet over that was kept, if there is one.

        Args:
            fleet: its name.
            store: where what is wanted is kept beyond this process.
        """
        self._name = fleet
        self._store = store
        self._log = EventLog(time.time, _MOST_EVENTS)
        self._cluster = RayCluster(fleet)
        self._changing, self._keeping = threading.Lock(), threading.Lock()
        self._over = threading.Event()
        found = store.read() or Kept(Fleet(name=fleet))
        self._generation = next_generation(found.generation, time.time())
        self._controller = Controller(
            found.fleet,
            self._cluster,
            time.monotonic,
            self._log,
            first_epoch=first_epoch(self._generation),
            drained=found.drained,
        )
        self._kept: Kept | None = None
        self._keep()
        self._thread = threading.Thread(target=self._run, name="sluice-fleet", daemon=True)
        self._thread.start()

    def apply(self, fleet: Fleet) -> None:
        """Want this from now on. Raises ConfigurationError as `Controller.apply`."""
        self._with(lambda controller: controller.apply(fleet))
        self._keep()

    def drain(self, node: str, drained: bool = True) -> tuple[int, int]:
        """Use a node no more, or again; see `Controller.drain`."""
        told = self._with(lambda controller: controller.drain(node, drained))
        self._keep()
        return told

    def roll_out(self, model: str, canary: Sequence[str] = ()) -> None:
        """Try a model. Raises ConfigurationError as `Controller.roll_out`."""
        self._with(lambda controller: controller.roll_out(model, canary))

    def status(self) -> dict[str, Any]:
        """How the fleet is, as JSON takes it."""
        found = self._with(lambda controller: controller.status())
        return {**found, "host": {"pid": os.getpid(), "generation": self._generation}}

    def events(self, since: int = 0, generation: int = 0) -> dict[str, Any]:
        """What happened behind the event of that number, as JSON takes it.

        Args:
            since: number of an event; 0: all that are kept.
            generation: of the host that gave the number; one that was started anew begins with 1 again.
        """
        events = self._log.since(since if generation == self._generation else 0)
        return {
            "generation": self._generation,
            "events": [
                {"number": e.number, "time": e.time, "kind": e.kind, "stream": e.stream, "text": e.text} for e in events
            ],
        }

    def end(self) -> None:
        """Stop every worker, and forget the fleet; waits some seconds for them."""
        self._with(lambda controller: controller.end())
        deadline = time.monotonic() + _ENDING
        while self.status()["workers"] and time.monotonic() < deadline:
            time.sleep(_STEP)
        self._over.set()
        self._cluster.close()
        for handle in self._cluster.find_workers().values():
            handle.kill()
        self._store.forget(self._generation)

    def _with(self, work: Callable[[Controller], T]) -> T:
        with self._changing:
            return work(self._controller)

    def _now(self) -> Kept:
        return self._with(lambda controller: Kept(controller.fleet, tuple(controller.drained), self._generation))

    def _keep(self) -> None:
        """Keep what is wanted now; waits while Ray's head is away."""
        with self._keeping:
            now = self._now()
            if not self._over.is_set() and now != self._kept:
                self._store.write(now)
                self._kept = now

    def _run(self) -> None:
        while not self._over.wait(_STEP):
            try:
                self._with(lambda controller: controller.step())
            except Exception:
                _log.exception("the fleet %s: a step failed", self._name)
            if not self._keeping.locked() and self._now() != self._kept:  # a model was promoted
                in_background(self._keep)
