"""Writes embeddings into an archive on a thread of its own, so that the stream never waits for the disk."""

from __future__ import annotations

import queue
import threading
from pathlib import Path

from sluice.errors import SluiceError
from sluice.search.entries import COLUMNS, MOST_NUMBERS, Entry, connect, row_of, size_of, unit

_MOST_WAITING = 4096
_BATCH = 256
_PLACES = ", ".join("?" * len(COLUMNS.split(", ")))


class Recorder:
    """Adds entries to an archive; `put` never waits: what does not fit into the queue is dropped and counted.

    Several may write into one archive, in any number of processes.

    Attributes:
        written: entries on disk.
        dropped: entries that did not fit into the queue, since the disk was too slow.
        refused: entries whose vector has no direction (zeros, NaN) or another length than the archive's.
        expired: old entries deleted to keep the limit.
    """

    def __init__(self, folder: str | Path, most_entries: int = 1_000_000) -> None:
        """Open an archive, or make it.

        Args:
            folder: the archive.
            most_entries: the oldest beyond so many are deleted.

        Raises:
            ConfigurationError: it cannot be written.
        """
        self._folder = Path(folder)
        self._most = most_entries
        self._database = connect(self._folder, create=True)
        self._size = size_of(self._database)
        self.written = self.dropped = self.refused = self.expired = 0
        self._error: Exception | None = None
        self._queue: queue.Queue[Entry | None] = queue.Queue(_MOST_WAITING)
        self._thread = threading.Thread(target=self._run, name="sluice-embeddings", daemon=True)
        self._thread.start()

    def put(self, entry: Entry) -> None:
        """Hand over an entry.

        Raises:
            SluiceError: the archive could not be written.
        """
        self._check()
        try:
            self._queue.put_nowait(entry)
        except queue.Full:
            self.dropped += 1

    def close(self) -> None:
        """Write what still waits and close the archive; not on a streaming thread.

        Raises:
            SluiceError: the archive could not be written.
        """
        self._queue.put(None)
        self._thread.join()
        self._check()

    def _check(self) -> None:
        if self._error is not None:
            raise SluiceError(f"the archive {str(self._folder)!r} cannot be written: {self._error}") from self._error

    def _run(self) -> None:
        taken: list[Entry | None] = []
        try:
            while not taken or taken[-1] is not None:
                taken = self._take()
                self._write(taken)
        except Exception as error:  # the database's, or an entry that it cannot hold: `close` waits for this thread
            self._error = error
            self.dropped += sum(entry is not None for entry in taken)
            while taken[-1] is not None:
                taken = self._take()
                self.dropped += sum(entry is not None for entry in taken)
        finally:
            self._database.close()

    def _take(self) -> list[Entry | None]:
        """Wait for an entry, and take those with it that are there already."""
        taken = [self._queue.get()]
        while taken[-1] is not None and len(taken) < _BATCH:
            try:
                taken.append(self._queue.get_nowait())
            except queue.Empty:
                break
        return taken

    def _write(self, taken: list[Entry | None]) -> None:
        """Write entries in one transaction."""
        rows = []
        for entry in taken:
            vector = None if entry is None or not 0 < entry.vector.size <= MOST_NUMBERS else unit(entry.vector)
            if entry is None:
                continue
            if vector is None or self._size not in (None, vector.size):
                self.refused += 1
                continue
            if self._size is None and not self._takes_size(vector.size):
                self.refused += 1
                continue
            rows.append(row_of(entry, vector))
        if rows:
            self._database.executemany(f"INSERT INTO entries ({COLUMNS}) VALUES ({_PLACES})", rows)
            self._expire()
            self._database.commit()
            self.written += len(rows)

    def _takes_size(self, size: int) -> bool:
        """Whether the archive's vectors have this length: those of the first that was written, by any recorder."""
        self._database.execute("INSERT OR IGNORE INTO about VALUES ('size', ?)", (str(size),))
        self._size = size_of(self._database)
        return self._size == size

    def _expire(self) -> None:
        # Keys are given in turn, and the oldest go first: there are as many as lie between the first and the last.
        (count,) = self._database.execute("SELECT coalesce(max(key) - min(key) + 1, 0) FROM entries").fetchone()
        if count <= self._most:
            return
        # A hundredth more than needed, so that it is not done for every batch.
        surplus = count - self._most + self._most // 100
        oldest = "SELECT key FROM entries ORDER BY key LIMIT ?"
        removed = self._database.execute(f"DELETE FROM entries WHERE key IN ({oldest})", (surplus,)).rowcount
        self.expired += removed
