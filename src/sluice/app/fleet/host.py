"""The actor that keeps a fleet: the controller on a thread of its own, and what people ask of it."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from sluice.app.fleet.controller import Controller
from sluice.app.fleet.ray_cluster import RayCluster
from sluice.app.fleet.schema import Fleet
from sluice.app.streams.events import EventLog

_STEP = 0.25  # seconds between two steps of the controller
_ENDING = 15.0
_log = logging.getLogger(__name__)
T = TypeVar("T")


class Host:
    """Keeps one fleet for as long as the cluster lives; a Ray actor that is restarted where it is lost."""

    def __init__(self, fleet: str, keep: Callable[[Fleet], None], kept: Callable[[], Fleet | None]) -> None:
        """Take the fleet over that was kept, if there is one.

        Args:
            fleet: its name.
            keep: keeps what is wanted beyond this process.
            kept: what was kept.
        """
        self._name = fleet
        self._keep = keep
        self._log = EventLog(time.time)
        self._cluster = RayCluster(fleet)
        self._changing = threading.Lock()
        self._over = threading.Event()
        self._controller = Controller(kept() or Fleet(name=fleet), self._cluster, time.monotonic, self._log)
        self._thread = threading.Thread(target=self._run, name="sluice-fleet", daemon=True)
        self._thread.start()

    def apply(self, fleet: Fleet) -> None:
        """Want this from now on."""
        self._keep(fleet)
        self._with(lambda controller: controller.apply(fleet))

    def drain(self, node: str, drained: bool = True) -> None:
        """Use a node no more, or again. Raises ConfigurationError for an unknown one."""
        self._with(lambda controller: controller.drain(node, drained))

    def roll_out(self, model: str, canary: Sequence[str] = ()) -> None:
        """Try a model. Raises ConfigurationError as `Controller.roll_out`."""
        self._with(lambda controller: controller.roll_out(model, canary))

    def status(self) -> dict[str, Any]:
        """How the fleet is, as JSON takes it."""
        return self._with(lambda controller: controller.status())

    def events(self, since: int = 0) -> list[dict[str, Any]]:
        """What happened behind the event of that number, as JSON takes it."""
        return [
            {"number": e.number, "time": e.time, "kind": e.kind, "stream": e.stream, "text": e.text}
            for e in self._log.since(since)
        ]

    def end(self) -> None:
        """Stop every worker; waits some seconds for them."""
        self.apply(Fleet(name=self._name))
        deadline = time.monotonic() + _ENDING
        while self.status()["workers"] and time.monotonic() < deadline:
            time.sleep(_STEP)
        self._over.set()
        self._cluster.close()

    def _with(self, work: Callable[[Controller], T]) -> T:
        with self._changing:
            return work(self._controller)

    def _run(self) -> None:
        while not self._over.wait(_STEP):
            try:
                self._with(lambda controller: controller.step())
            except Exception:
                _log.exception("the fleet %s: a step failed", self._name)
