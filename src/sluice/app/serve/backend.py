"""What works for a service: a pipeline in its own process, or several processes with one each."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

from sluice.app.monitor import Monitor
from sluice.app.outputs import LiveOutputs, OutputOptions
from sluice.app.pipeline import Pipeline
from sluice.app.serve.engine import Engine, Pictures
from sluice.app.serve.loading import Loaded
from sluice.app.serve.names import located_model, located_vlm
from sluice.app.serve.processes.several import SeveralProcesses
from sluice.app.serve.processes.task import Recipe
from sluice.app.serve.state import State
from sluice.metrics import Metrics


class Backend(Protocol):
    """What has the streams.

    Attributes:
        engine: the streams, the model, and what happens.
        pictures: what is made of the streams.
    """

    @property
    def engine(self) -> Engine: ...

    @property
    def pictures(self) -> Pictures: ...

    def start(self) -> Callable[[], object]:
        """Load the model and begin; return what waits for the end, and raises why it came.

        Raises:
            SluiceError: it cannot start.
        """

    def metrics(self) -> Metrics:
        """Return what is measured, once it has started."""

    def probe(self) -> object:
        """Ask it something, and wait until it answers."""

    def pids(self) -> Sequence[int]:
        """Return the ids of other processes that work for this one."""

    def stop(self) -> None:
        """End all streams."""

    def close(self) -> None:
        """Finish all files, after the streams' end."""


class OneProcess:
    """A pipeline in this process, see `Backend`."""

    def __init__(self, options: dict[str, Any], outputs: OutputOptions, own: dict[str, OutputOptions]) -> None:
        """Make it; raises SluiceError as `sluice.Pipeline` and its outputs do."""
        self.pictures = LiveOutputs(outputs, own=own)
        self.engine = Pipeline([], service=True, branches=self.pictures, **options)

    def start(self) -> Callable[[], object]:
        """Load the model and begin."""
        return self.engine.start().wait

    def metrics(self) -> Metrics:
        """Return what is measured."""
        return Monitor(self.engine, self.pictures).metrics

    def probe(self) -> object:
        """Ask the pipeline something."""
        return self.engine.streams

    def pids(self) -> Sequence[int]:
        """There are none."""
        return ()

    def stop(self) -> None:
        """End all streams."""
        self.engine.stop()

    def close(self) -> None:
        """Finish all files."""
        self.pictures.close()


def make_backend(loaded: Loaded, kept: State, *, processes: int = 1, verbose: bool = False) -> Backend:
    """Return what works for a service.

    Raises:
        SluiceError: it cannot be made.
    """
    config, folder = loaded.config, loaded.file.path.parent.resolve()
    options = _pipeline_options(loaded, kept)
    outputs = _located(config.outputs, folder)
    own = {stream.name: _located(stream.outputs.of(config.outputs), folder) for stream in config.streams}
    if processes == 1:
        return OneProcess(options, outputs, own)
    return SeveralProcesses(Recipe(processes, options, outputs, own, verbose), lambda: loaded.secrets.hidden)


def _pipeline_options(loaded: Loaded, kept: State) -> dict[str, Any]:
    config, folder = loaded.config, loaded.file.path.parent.resolve()
    messages = config.messages
    if messages is not None and "://" not in messages and messages != "-":
        messages = str(folder / messages)
    thresholds = kept.thresholds or config.thresholds
    return {
        "model": kept.model or located_model(config.model.name, folder),
        "labels": None if config.model.labels is None else folder / config.model.labels,
        "runtime": config.model.runtime,
        "device": config.model.device,
        "model_options": config.model.options,
        "batch_size": config.model.batch_size,
        "interval": config.model.interval,
        "on_error": config.model.on_error,
        "tracker": config.tracker.name,
        "keep_unconfirmed": config.tracker.keep_unconfirmed,
        "analytics": None if config.analytics is None else folder / config.analytics,
        "messages": messages,
        "look_for": config.look_for,
        "index": None if config.index is None else folder / config.index,
        "index_model": None if config.index_model is None else located_model(config.index_model, folder),
        "vlm": None if config.vlm is None else located_vlm(config.vlm, folder),
        **thresholds.model_dump(),
    }


def _located(options: OutputOptions, folder: Path) -> OutputOptions:
    """Return the outputs with their folders, which start from the configuration file's."""
    changes = {
        name: dataclasses.replace(part, folder=folder / part.folder.expanduser())
        for name in ("record", "clips", "hls")
        if (part := getattr(options, name)) is not None
    }
    return dataclasses.replace(options, **changes)
