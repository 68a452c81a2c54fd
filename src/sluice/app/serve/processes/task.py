"""What the processes of a service are made of, and what each is given at its start."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sluice.app.outputs import OutputOptions
from sluice.errors import ConfigurationError
from sluice.messages.brokers import is_url, spool_of_process

THRESHOLDS = ("confidence", "iou", "classes")


@dataclass(frozen=True)
class Setup:
    """What the API changes of the pipelines as a whole.

    Attributes:
        model: the name of the model.
        thresholds: which detections count, as `sluice.Pipeline` has them.
    """

    model: str
    thresholds: Mapping[str, Any]

    @staticmethod
    def of(options: Mapping[str, Any]) -> Setup:
        """Take it out of a pipeline's options."""
        return Setup(str(options["model"]), {name: options.get(name) for name in THRESHOLDS})


@dataclass(frozen=True)
class Task:
    """What one process is to do.

    Attributes:
        pipeline: the arguments of `sluice.Pipeline`.
        outputs: what is made of the streams.
        own: what is made of single streams in place of that.
        hidden: values that appear in no log.
        verbose: log what is no news.
    """

    pipeline: Mapping[str, Any]
    outputs: OutputOptions
    own: Mapping[str, OutputOptions]
    hidden: Sequence[str]
    verbose: bool


@dataclass(frozen=True)
class Recipe:
    """What all processes of a service are made of.

    Attributes:
        count: how many there are.
        pipeline: the arguments of `sluice.Pipeline`, with the setup that the service begins with.
        outputs: what is made of the streams.
        own: what is made of single streams in place of that.
        verbose: log what is no news.
    """

    count: int
    pipeline: Mapping[str, Any]
    outputs: OutputOptions
    own: Mapping[str, OutputOptions]
    verbose: bool = False

    @property
    def lines(self) -> str | None:
        """The file or "-" where the processes' messages come together; None: each sends its own, or there are none."""
        messages = self.pipeline["messages"]
        return None if messages is None or is_url(str(messages)) else str(messages)

    def check(self) -> None:
        """Raise ConfigurationError where a process could not have what it needs, such as a port."""
        for number in range(self.count):
            self.task(number, Setup.of(self.pipeline), (), None)

    def task(self, number: int, setup: Setup, hidden: Sequence[str], messages: str | None) -> Task:
        """Return what a process is to do.

        Args:
            number: of the process, from 0.
            setup: model and thresholds.
            hidden: values that appear in no log.
            messages: where its messages go in place of the file where all come together.

        Raises:
            ConfigurationError: its RTSP server would have a port that there is none of.
        """
        options = {**self.pipeline, "model": setup.model, **setup.thresholds}
        if messages is not None:
            options["messages"] = messages
        elif options["messages"] is not None and self.lines is None:
            options["spool"] = spool_of_process(str(options["messages"]), number)
        own = {name: _of_process(outputs, number) for name, outputs in self.own.items()}
        return Task(options, _of_process(self.outputs, number), own, tuple(hidden), self.verbose)


def _of_process(outputs: OutputOptions, number: int) -> OutputOptions:
    """Return outputs with a port of their own, and without the view of all streams, which no process has."""
    rtsp = outputs.rtsp
    if rtsp is not None and rtsp.port:
        try:
            rtsp = dataclasses.replace(rtsp, port=rtsp.port + number)
        except ConfigurationError as error:
            raise ConfigurationError(
                f"outputs.rtsp.port is {rtsp.port}, and that of process {number} would be {rtsp.port + number}: {error}"
            ) from None
    return dataclasses.replace(outputs, rtsp=rtsp, tiled=False)
