"""Writes a recording on a thread of its own, so that the stream never waits for the disk."""

from __future__ import annotations

import json
import queue
import threading
from pathlib import Path
from typing import Any

from sluice.errors import ConfigurationError, SluiceError
from sluice.recording.frames import FORMAT


class RecordingWriter:
    """A file of frames; `put` never waits: what does not fit into the queue is dropped and counted."""

    def __init__(self, path: str | Path, limit: int = 1000) -> None:
        """Make the file, or replace it.

        Args:
            path: the file.
            limit: how many frames may wait for the disk.

        Raises:
            ConfigurationError: the file cannot be written.
        """
        self._path = Path(path)
        try:
            self._file = self._path.open("w", encoding="utf-8")
        except OSError as error:
            raise ConfigurationError(f"the recording cannot be written: {error}") from error
        self.dropped = 0
        self.written = 0
        self._error: Exception | None = None
        self._queue: queue.Queue[dict[str, Any] | None] = queue.Queue(limit)
        self._thread = threading.Thread(target=self._run, name="sluice-recording", daemon=True)
        self._thread.start()

    def put(self, frame: dict[str, Any]) -> None:
        """Hand over a frame of `sluice.recording.read_frame`.

        Raises:
            SluiceError: the file could not be written.
        """
        if self._error is not None:
            raise SluiceError(f"the recording {self._path} cannot be written: {self._error}") from self._error
        try:
            self._queue.put_nowait(frame)
        except queue.Full:
            self.dropped += 1

    def close(self) -> None:
        """Write what still waits, and close the file; not on a streaming thread.

        Raises:
            SluiceError: the file could not be written.
        """
        self._queue.put(None)
        self._thread.join()
        if self._error is not None:
            raise SluiceError(f"the recording {self._path} cannot be written: {self._error}") from self._error

    def _run(self) -> None:
        try:
            with self._file:
                self._write({"format": FORMAT})
                while (frame := self._queue.get()) is not None:
                    self._write(frame)
                    self.written += 1
                    if self._queue.empty():
                        self._file.flush()
        except Exception as error:  # whatever it is, `close` must not wait for a queue that nobody empties
            self._error = error
            while self._queue.get() is not None:
                self.dropped += 1

    def _write(self, value: dict[str, Any]) -> None:
        self._file.write(json.dumps(value, separators=(",", ":")) + "\n")
