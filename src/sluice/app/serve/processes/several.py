"""A service's pipelines in several processes: what `sluice.app.serve.backend.Backend` describes."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence

from sluice.app.serve.journal import LOGGER
from sluice.app.serve.processes.crew import Crew
from sluice.app.serve.processes.engine import SharedEngine, ask_all
from sluice.app.serve.processes.numbers import SharedMonitor
from sluice.app.serve.processes.pictures import SharedPictures
from sluice.app.serve.processes.task import Recipe
from sluice.app.streams import EventLog
from sluice.metrics import Metrics

_log = logging.getLogger(LOGGER)


class SeveralProcesses:
    """Processes with a pipeline each.

    Attributes:
        engine: all pipelines as one.
        pictures: all their outputs as one.
    """

    def __init__(self, recipe: Recipe, hidden: Callable[[], tuple[str, ...]]) -> None:
        """Prepare them; `hidden` returns the values that appear in no log."""
        self._tiled = recipe.outputs.tiled
        self._crew = Crew(recipe, EventLog(time.time), hidden)
        self.engine = SharedEngine(self._crew)
        self.pictures = SharedPictures(self._crew)

    def start(self) -> Callable[[], None]:
        """Start all; return what waits for the end, and raises why it came.

        Raises:
            SluiceError: one cannot start.
        """
        self._crew.start()
        self.engine.started()
        _log.info("%d processes: %s", len(self._crew.pids), ", ".join(f"pid {pid}" for pid in self._crew.pids))
        if self._tiled:
            _log.warning("outputs.tiled: there is no view of all streams with several processes, none of which has all")
        return self._wait

    def metrics(self) -> Metrics:
        """Return what is measured."""
        return SharedMonitor(self._crew, self.engine).metrics

    def probe(self) -> object:
        """Ask every process something, and wait until all have answered."""
        return ask_all(self._crew, "streams", None)

    def pids(self) -> Sequence[int]:
        """Return the ids of the processes that work for this one."""
        return self._crew.pids

    def stop(self) -> None:
        """End all streams and finish all files."""
        self._crew.stop()

    def close(self) -> None:
        """Nothing is left to close: the outputs end with their processes."""

    def _wait(self) -> None:
        self._crew.over.wait()
        if self._crew.failure is not None:
            raise self._crew.failure
