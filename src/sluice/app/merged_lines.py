"""Lines that several processes write, together in one file."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any

from sluice.errors import SluiceError
from sluice.messages.sinks import open_sink

_CHUNK = 1 << 16


class MergedLines:
    """Puts the lines of several pipes into one file or the standard output, each whole, in the order of its pipe."""

    def __init__(self, location: str, failed: Callable[[SluiceError], None]) -> None:
        """Open the file.

        Args:
            location: the file, or "-".
            failed: told, once, that lines could not be written, on a thread that reads them; returns at once.

        Raises:
            ConfigurationError: the file cannot be opened.
        """
        self._location = location
        self._failed = failed
        self._sink: Any = open_sink("", location)
        self._writing = threading.Lock()
        self._readers: list[threading.Thread] = []
        self._broken = False

    def add(self) -> int:
        """Return the end of a new pipe that a process writes to; the caller closes its copy."""
        reading, writing = os.pipe()
        os.set_inheritable(writing, True)
        reader = threading.Thread(target=self._read, args=(reading,), name="sluice-lines", daemon=True)
        self._readers = [known for known in self._readers if known.is_alive()]
        self._readers.append(reader)
        reader.start()
        return writing

    def close(self) -> None:
        """Wait for what is in the pipes, whose writers have ended, and close the file."""
        for reader in self._readers:
            reader.join(1)
        self._readers.clear()
        sink, self._sink = self._sink, None
        if sink is not None:
            with self._writing:
                sink.flush()
                sink.close()

    def _read(self, descriptor: int) -> None:
        """Bring whole lines away; what a process that died wrote of a line is left out."""
        rest = b""
        with open(descriptor, "rb", buffering=0) as pipe:
            while chunk := pipe.read(_CHUNK):
                lines, found, behind = chunk.rpartition(b"\n")
                if not found:
                    rest += chunk
                    continue
                self._write(rest + lines)
                rest = behind

    def _write(self, lines: bytes) -> None:
        with self._writing:
            if self._sink is None:
                return
            (failure,) = self._sink.write([lines])  # the sink adds the last line's end
            told, self._broken = self._broken, self._broken or failure is not None
        if self._broken and not told:
            self._failed(SluiceError(f"messages: a line could not be written to {self._location!r}: {failure}"))
