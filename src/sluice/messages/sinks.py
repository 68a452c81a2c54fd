"""Where messages go in the end: a file or the standard output, one message per line."""

from __future__ import annotations

import bisect
import itertools
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Protocol

from sluice.errors import ConfigurationError
from sluice.messages.file_locks import claim, writing


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

    def __init__(self, descriptor: int, *, owned: bool, shared: bool = False) -> None:
        """Write to a descriptor.

        Args:
            descriptor: of anything that can be written; a shared file is open for reading and appending.
            owned: whether `close` closes it.
            shared: whether others may write lines to it too, and be killed over one.
        """
        self._descriptor = descriptor
        self._owned = owned
        self._regular = stat.S_ISREG(os.fstat(descriptor).st_mode)
        self._shared = shared and self._regular

    @property
    def size(self) -> int:
        """Bytes in the file now."""
        return os.fstat(self._descriptor).st_size

    def write(self, messages: Sequence[bytes]) -> list[Exception | None]:
        """Write each message at once, a file's in one go; return for each None, or why it did not get there."""
        together = self._write_together(messages) if self._regular and len(messages) > 1 else 0
        alone = [self.write_one(message) for message in messages[together:]]
        return [*itertools.repeat(None, together), *alone]

    def _write_together(self, messages: Sequence[bytes]) -> int:
        """Write messages in one go and return how many got there; of one that did in part nothing is left behind."""
        lines = [message + b"\n" for message in messages]
        try:
            with self._turn() as begin:
                written = os.write(self._descriptor, begin + b"".join(lines))
                ends = list(itertools.accumulate(map(len, lines), initial=len(begin)))
                whole = bisect.bisect_right(ends, written) - 1
                with suppress(OSError):
                    self._take_back(written - ends[whole])
                return whole
        except OSError:
            return 0  # why is found out with the first of them alone

    @contextmanager
    def _turn(self) -> Iterator[bytes]:
        """Let nobody else write meanwhile where the file is shared; gives what ends a line that somebody left torn.

        Raises:
            OSError: the file cannot be read.
        """
        if not self._shared:
            yield b""
            return
        # Otherwise another could be killed over a line of its own between the look and this one.
        with writing(self._descriptor):
            yield b"\n" if self._is_torn() else b""

    def _take_back(self, count: int) -> None:
        """Cut off what was written last, so that the next line begins at a line's start; a pipe has it already."""
        if count and self._regular:
            os.ftruncate(self._descriptor, os.lseek(self._descriptor, -count, os.SEEK_CUR))

    def write_one(self, message: bytes) -> OSError | None:
        """Write one message; return why it did not get there."""
        try:
            with self._turn() as begin:
                return self._write_line(begin + message + b"\n")
        except OSError as error:
            return error

    def _write_line(self, text: bytes) -> OSError | None:
        line, written = memoryview(text), 0
        try:
            while written < len(line):
                written += os.write(self._descriptor, line[written:])
        except OSError as error:
            self._take_back(written)  # a full disk takes a part of the line
            return error
        return None

    def clear(self) -> None:
        """Empty the file."""
        os.ftruncate(self._descriptor, 0)
        os.lseek(self._descriptor, 0, os.SEEK_SET)

    def _is_torn(self) -> bool:
        """Whether the file ends within a line, as one does whose writer was killed."""
        size = self.size
        return size > 0 and os.pread(self._descriptor, 1, size - 1) != b"\n"

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
            ConfigurationError: somebody else writes it.
        """
        self._path, self._most, self._count = path, size, count
        self._sink = LineSink(_open_file(path, append=append, shared=False), owned=True, shared=append)

    def write(self, messages: Sequence[bytes]) -> list[Exception | None]:
        """Write each message, into a new file where the present one would grow too large; answer as `LineSink`."""
        return [self._write_one(message) for message in messages]

    def _write_one(self, message: bytes) -> Exception | None:
        try:
            size = self._sink.size
            if size and size + len(message) + 1 > self._most:
                self._rotate()
        except (OSError, ConfigurationError) as error:
            return error
        return self._sink.write_one(message)

    def _rotate(self) -> None:
        self._sink.flush()
        if not self._count:
            self._sink.clear()
            return
        for number in range(self._count, 0, -1):
            newer = Path(f"{self._path}.{number - 1}") if number > 1 else self._path
            with suppress(FileNotFoundError):
                newer.replace(f"{self._path}.{number}")
        new = LineSink(_open_file(self._path, append=False, shared=False), owned=True)
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


def _open_file(path: Path, *, append: bool, shared: bool) -> int:
    """Open a file and lock it until it is closed, before anything in it is changed.

    Args:
        path: of the file.
        append: keep what it holds; it is opened for reading too.
        shared: let others append to it at the same time.

    Raises:
        OSError: it cannot be opened.
        ConfigurationError: somebody else writes it, and one of both does not share it.
    """
    flags = (os.O_RDWR | os.O_APPEND) if append else os.O_WRONLY
    descriptor = os.open(path, flags | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            claim(descriptor, path, shared=shared)
            if not append:
                os.ftruncate(descriptor, 0)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def open_sink(
    proto: str, location: str, *, append: bool = False, rotate_size: int = 0, rotate_count: int = 5
) -> LineSink | RotatingSink | PipeSink:
    """Open a sink by nvmsgbroker-like words.

    Args:
        proto: "stdout", "file", or "" to tell from ``location``.
        location: the file's path or file:// URL; "" or "-" means the standard output.
        append: keep what the file holds, and let others append to it too; otherwise the file starts empty, and is this
            one's alone.
        rotate_size: bytes after which a new file is begun; 0: never.
        rotate_count: how many older files are kept.

    Raises:
        ConfigurationError: the two do not fit together, the file cannot be opened for writing, with the reason, or
            somebody else writes it.
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
        return LineSink(_open_file(path, append=append, shared=append), owned=True, shared=append)
    except OSError as error:
        raise ConfigurationError(f"location {location!r} cannot be written: {error.strerror}") from error
