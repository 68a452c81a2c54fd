"""nvmsgconv's ``debug-payload-dir``: the messages of each frame in a file named after the time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timezone
from pathlib import Path

from sluice.errors import ConfigurationError
from sluice.messages.writer import Overflow, Writer

_WAITING_FRAMES = 1024
_MOST_SECONDS = 5.0


class PayloadFiles:
    """A sink that writes each message to a file of its own: ``<UTC time>.txt``, RFC 3339 with microseconds."""

    def __init__(self, folder: Path) -> None:
        """Write to a folder, which must exist.

        Raises:
            ConfigurationError: it does not.
        """
        if not folder.is_dir():
            raise ConfigurationError(f"debug-payload-dir {str(folder)!r} is no folder; make it first")
        self._folder = folder

    def write(self, messages: Sequence[bytes]) -> list[Exception | None]:
        """Write each message to a new file; return for each None, or why it did not get there."""
        return [self._write_one(message) for message in messages]

    def _write_one(self, message: bytes) -> Exception | None:
        time = datetime.now(timezone.utc).isoformat(timespec="microseconds").replace("+00:00", "Z")
        number = 0
        while True:
            path = self._folder / (f"{time}-{number}.txt" if number else f"{time}.txt")
            try:
                with path.open("xb") as file:
                    file.write(message)
            except FileExistsError:
                number += 1
            except OSError as error:
                return error
            else:
                return None

    def flush(self) -> None:
        """Nothing waits: each file is closed when it is written."""

    def close(self) -> None:
        """Nothing is held."""


class PayloadDump:
    """Writes frames' messages to files on a thread of its own; when more than 1024 frames wait, the oldest goes."""

    def __init__(self, folder: str, on_error: Callable[[Exception], None]) -> None:
        """Start writing; see `PayloadFiles`. ``on_error`` is called on the thread, once per series of failures."""
        self._writer = Writer(
            PayloadFiles(Path(folder).expanduser()),
            capacity=_WAITING_FRAMES,
            overflow=Overflow.DROP_OLDEST,
            on_error=on_error,
        )

    def put(self, messages: Sequence[bytes]) -> None:
        """Write one frame's messages, each followed by a space and a line end as nvmsgconv does."""
        self._writer.put(b"".join(message + b" \n" for message in messages))

    def close(self) -> None:
        """Write what waits, for at most five seconds."""
        self._writer.close(_MOST_SECONDS)
