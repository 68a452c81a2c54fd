"""Where messages go in the end: a file or the standard output, one message per line."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from sluice.errors import ConfigurationError


class Sink(Protocol):
    """What a `Writer` writes to, on its own thread."""

    def write(self, messages: Sequence[bytes]) -> list[Exception | None]:
        """Write whole messages in their order; return for each None, or why it did not get there.

        Of one that did not, nothing is left behind where that can be helped.
        """

    def flush(self) -> None:
        """Return once everything written is where it stays: on the disk, for a file. Raises when that fails."""

    def close(self) -> None:
        """Let go of what the sink holds."""


class LineSink:
    """Writes each message and its line end to a file descriptor at once, so that a reader sees whole lines."""

    def __init__(self, descriptor: int, *, owned: bool) -> None:
        """Write to a descriptor; ``owned`` ones are closed by `close`."""
        self._descriptor = descriptor
        self._owned = owned
        self._regular = stat.S_ISREG(os.fstat(descriptor).st_mode)

    @property
    def size(self) -> int:
        """Bytes in the file now."""
        return os.fstat(self._descriptor).st_size

    def write(self, messages: Sequence[bytes]) -> list[Exception | None]:
        """Write each message at once; return for each None, or why it did not get there."""
        return [self.write_one(message) for message in messages]

    def write_one(self, message: bytes) -> OSError | None:
        """Write one message; return why it did not get there."""
        line = memoryview(message + b"\n")
        written = 0
        try:
            while written < len(line):
                written += os.write(self._descriptor, line[written:])
        except OSError as error:
            # A full disk takes a part of the line; cut it off, so that the next line begins at a line's start.
            if self._regular and written:
                os.ftruncate(self._descriptor, os.lseek(self._descriptor, -written, os.SEEK_CUR))
            return error
        return None

    def flush(self) -> None:
        """Return once a file's lines are on the disk; pipes and terminals have theirs already."""
        if self._regular:
            os.fsync(self._descriptor)

    def close(self) -> None:
        """Close the descriptor if it is owned."""
        if self._owned:
            os.close(self._descriptor)


class RotatingSink:
    """A `LineSink` that begins a new file before one grows too large: m.jsonl is then m.jsonl.1, that m.jsonl.2, …"""

    def __init__(self, path: Path, *, append: bool, size: int, count: int) -> None:
        """Open the file.

        Args:
            path: of the file written to.
            append: keep what it holds.
            size: the most bytes of one file; a longer message has a file of its own.
            count: how many older files are kept.

        Raises:
            OSError: it cannot be opened.
        """
        self._path, self._most, self._count = path, size, count
        self._sink = LineSink(_open_file(path, append=append), owned=True)

    def write(self, messages: Sequence[bytes]) -> list[Exception | None]:
        """Write each message, into a new file where the present one would grow too large; answer as `LineSink`."""
        return [self._write_one(message) for message in messages]

    def _write_one(self, message: bytes) -> Exception | None:
        try:
            size = self._sink.size
            if size and size + len(message) + 1 > self._most:
                self._rotate()
        except OSError as error:
            return error
        return self._sink.write_one(message)

    def _rotate(self) -> None:
        self._sink.flush()
        for number in range(self._count, 0, -1):
            newer = Path(f"{self._path}.{number - 1}") if number > 1 else self._path
            with suppress(FileNotFoundError):
                newer.replace(f"{self._path}.{number}")
        new = LineSink(_open_file(self._path, append=False), owned=True)
        self._sink.close()
        self._sink = new

    def flush(self) -> None:
        """Return once the present file is on the disk; older ones are since they were put aside."""
        self._sink.flush()

    def close(self) -> None:
        """Close the present file."""
        self._sink.close()


class PipeSink:
    """A `LineSink` on a named pipe, which is opened with the first message: that waits until somebody reads.

    The writer's thread waits, and not the start of a pipeline; the video goes on until the writer's queue is full.
    """

    def __init__(self, path: Path) -> None:
        """Write to the pipe at a path."""
        self._path = path
        self._sink: LineSink | None = None

    def write(self, messages: Sequence[bytes]) -> list[Exception | None]:
        """Write each message, the first once somebody reads; answer as `LineSink` does."""
        if self._sink is None:
            try:
                self._sink = LineSink(os.open(self._path, os.O_WRONLY | os.O_CLOEXEC), owned=True)
            except OSError as error:
                return [error for _ in messages]
        return self._sink.write(messages)

    def flush(self) -> None:
        """Nothing to do: what was written is with the reader."""

    def close(self) -> None:
        """Close the pipe if it was opened."""
        if self._sink is not None:
            self._sink.close()


def _open_file(path: Path, *, append: bool) -> int:
    flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | (os.O_APPEND if append else os.O_TRUNC)
    return os.open(path, flags, 0o666)


def open_sink(
    proto: str, location: str, *, append: bool = False, rotate_size: int = 0, rotate_count: int = 5
) -> LineSink | RotatingSink | PipeSink:
    """Open a sink by nvmsgbroker-like words.

    Args:
        proto: "stdout", "file", or "" to tell from ``location``.
        location: the file's path or file:// URL; "" or "-" means the standard output.
        append: keep what the file holds; otherwise the file starts empty.
        rotate_size: bytes after which a new file is begun; 0: never.
        rotate_count: how many older files are kept.

    Raises:
        ConfigurationError: the two do not fit together, or the file cannot be opened for writing, with the reason.
    """
    to_stdout = location in ("", "-")
    proto = proto or ("stdout" if to_stdout else "file")
    if proto == "stdout":
        if not to_stdout:
            raise ConfigurationError(f"proto is stdout, but location is {location!r}; use proto=file or no location")
        return LineSink(1, owned=False)
    if to_stdout:
        raise ConfigurationError("proto is file, but location names no file; set location=messages.jsonl or the like")
    path = Path(location.removeprefix("file://")).expanduser()
    if path.is_fifo():
        return PipeSink(path)
    try:
        if rotate_size:
            return RotatingSink(path, append=append, size=rotate_size, count=rotate_count)
        return LineSink(_open_file(path, append=append), owned=True)
    except OSError as error:
        raise ConfigurationError(f"location {location!r} cannot be written: {error.strerror}") from error
