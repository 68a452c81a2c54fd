"""Where messages go in the end: a file or the standard output, one message per line."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Protocol

from sluice.errors import ConfigurationError


class Sink(Protocol):
    """What a `Writer` writes to, on its own thread. Methods raise OSError when the message did not get there."""

    def write(self, message: bytes) -> None:
        """Write one whole message, or raise and leave nothing of it behind where that can be helped."""

    def flush(self) -> None:
        """Return once everything written is where it stays: on the disk, for a file."""

    def close(self) -> None:
        """Let go of what the sink holds."""


class LineSink:
    """Writes each message and its line end to a file descriptor at once, so that a reader sees whole lines."""

    def __init__(self, descriptor: int, *, owned: bool) -> None:
        """Write to a descriptor; ``owned`` ones are closed by `close`."""
        self._descriptor = descriptor
        self._owned = owned
        self._regular = stat.S_ISREG(os.fstat(descriptor).st_mode)

    def write(self, message: bytes) -> None:
        line = memoryview(message + b"\n")
        written = 0
        try:
            while written < len(line):
                written += os.write(self._descriptor, line[written:])
        except OSError:
            # A full disk takes a part of the line; cut it off, so that the next line begins at a line's start.
            if self._regular and written:
                os.ftruncate(self._descriptor, os.lseek(self._descriptor, -written, os.SEEK_CUR))
            raise

    def flush(self) -> None:
        if self._regular:
            os.fsync(self._descriptor)

    def close(self) -> None:
        if self._owned:
            os.close(self._descriptor)


def open_sink(proto: str, location: str, *, append: bool = False) -> LineSink:
    """Open a sink by nvmsgbroker-like words.

    Args:
        proto: "stdout", "file", or "" to tell from ``location``.
        location: the file's path; "" or "-" means the standard output.
        append: keep what the file holds; otherwise the file starts empty.

    Raises:
        ConfigurationError: the two do not fit together, or the file cannot be opened for writing, with the reason.
    """
    to_stdout = location in ("", "-")
    proto = proto or ("stdout" if to_stdout else "file")
    if proto not in ("stdout", "file"):
        raise ConfigurationError(f"proto {proto!r} is not known; stdout and file are")
    if proto == "stdout":
        if not to_stdout:
            raise ConfigurationError(f"proto is stdout, but location is {location!r}; use proto=file or no location")
        return LineSink(1, owned=False)
    if to_stdout:
        raise ConfigurationError("proto is file, but location names no file; set location=messages.jsonl or the like")
    flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | (os.O_APPEND if append else os.O_TRUNC)
    try:
        return LineSink(os.open(Path(location).expanduser(), flags, 0o666), owned=True)
    except OSError as error:
        raise ConfigurationError(f"location {location!r} cannot be written: {error.strerror}") from error
