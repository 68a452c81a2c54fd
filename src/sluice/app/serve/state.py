"""What was changed by the API, kept for the next start of the service."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from sluice.app.serve.schema import StreamEntry, Thresholds
from sluice.app.streams import StreamPolicy
from sluice.errors import ConfigurationError


class State(BaseModel):
    """Changes against the configuration file.

    Attributes:
        version: of this form.
        added: streams that the file does not have, with their sources as they were given: references stay such.
        removed: names of the file's streams that were taken out.
        policies: policies of the file's streams that were changed.
        model: the model that was swapped to.
        thresholds: as they were set.
    """

    model_config = ConfigDict(extra="forbid")

    version: int = 1
    added: list[StreamEntry] = []
    removed: list[str] = []
    policies: dict[str, StreamPolicy] = {}
    model: str | None = None
    thresholds: Thresholds | None = None

    def streams(self, configured: tuple[StreamEntry, ...]) -> list[StreamEntry]:
        """Return the streams to begin with: those of the file as changed, then the others."""
        kept = [
            stream.model_copy(update={"policy": self.policies.get(stream.name, stream.policy)})
            for stream in configured
            if stream.name not in self.removed
        ]
        names = {stream.name for stream in kept}
        return kept + [stream for stream in self.added if stream.name not in names]


class StateFile:
    """The file of a `State`, readable by its owner only: sources may hold passwords."""

    def __init__(self, path: Path | None) -> None:
        """Keep the state in this file; None keeps nothing."""
        self.path = path

    def read(self) -> State:
        """Return what was kept; an empty state where nothing was.

        Raises:
            ConfigurationError: the file is damaged or cannot be read.
        """
        if self.path is None or not self.path.exists():
            return State()
        try:
            return State.model_validate_json(self.path.read_bytes())
        except OSError as error:
            raise ConfigurationError(f"the state {str(self.path)!r} cannot be read: {error.strerror}") from error
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            place = ".".join(map(str, first["loc"])) or "the file"
            raise ConfigurationError(
                f"the state {str(self.path)!r} is no state of this version of sluice serve ({place}: {first['msg']}); "
                "move it away to start with the streams of the configuration alone"
            ) from error

    def write(self, state: State) -> None:
        """Replace the file as a whole: after a crash there is the old or the new one.

        Raises:
            OSError: it cannot be written; the old one stays.
        """
        if self.path is None:
            return
        descriptor, name = tempfile.mkstemp(prefix=f".{self.path.name}.", dir=self.path.parent)  # mode 0600
        try:
            with os.fdopen(descriptor, "wb") as file:
                # Streams that the API adds have the outputs of all.
                text = state.model_dump_json(indent=2, exclude={"added": {"__all__": {"outputs"}}})
                file.write(text.encode() + b"\n")
                file.flush()
                os.fsync(file.fileno())
            os.replace(name, self.path)  # noqa: PTH105 - of two names in one directory
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(name)  # noqa: PTH108
            raise
        directory = os.open(self.path.parent, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)
