"""Messages on disk until the broker has acknowledged them, across crashes of this process.

The store is SQLite, which comes with Python: one file, a journal that survives a crash at any moment, numbers that are
never given twice, and messages that can be given up from the old or the new end when the spool is full. A queue library
(persist-queue) is built on it too, but bounds no size and acknowledges one message at a time.
"""

from __future__ import annotations

import sqlite3
import threading
import uuid
from collections.abc import Sequence
from pathlib import Path

from sluice.errors import ConfigurationError

_OVERHEAD = 48
"""Bytes counted for a message beside its payload: row, page and index."""

_WORTH_GIVING_BACK = 1 << 20  # bytes; a smaller file keeps its free pages for the next messages

_JOURNAL_PAGES = 4000  # of 4096 bytes, after which the journal goes into the file, which waits for the disk

_LOCK_PATIENCE = 2.0  # seconds; a process that has just been killed lets go at once

_SCHEMA = """
CREATE TABLE IF NOT EXISTS message(id INTEGER PRIMARY KEY AUTOINCREMENT, payload BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS origin(name TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS refused(id INTEGER PRIMARY KEY, reason TEXT NOT NULL, payload BLOB NOT NULL);
"""

_SHARE_OF_REFUSED = 8  # of the capacity, one part is for messages that no broker took


class Spool:
    """Numbered messages in the order they came; used by two threads. Methods raise sqlite3.Error when the disk fails.

    Attributes:
        origin: a random name, the same for the file's life; with a message's number it makes its id.
        path: of the file; None in memory.
    """

    def __init__(self, path: Path | None, *, capacity: int, fsync: bool = False) -> None:
        """Open or make the file.

        Args:
            path: of the file; its folder is made. None: in memory only.
            capacity: the most bytes of messages.
            fsync: wait for the disk at each write, so that messages survive a power failure too.

        Raises:
            ConfigurationError: another process has it open, or it cannot be written.
        """
        self.path = path
        self._capacity = capacity
        self._lock = threading.Lock()
        self._in_flight = 0
        self._done = 0  # messages up to this number are acknowledged, but may still be in the file
        try:
            if path is not None:
                path.parent.mkdir(parents=True, exist_ok=True)
            self._open(path, fsync)
        except (sqlite3.Error, OSError) as error:
            if "locked" in str(error):
                raise ConfigurationError(
                    f"the spool {str(path)!r} is in use, by another process or another element; "
                    "give each its own with spool=/path/of/another.db"
                ) from error
            raise ConfigurationError(
                f"the spool {str(path)!r} cannot be used: {error}; name another with spool=/path/of/another.db, "
                "choose the folder of all spools with XDG_STATE_HOME, or keep messages in memory alone with spool=none"
            ) from error

    def _open(self, path: Path | None, fsync: bool) -> None:
        name = ":memory:" if path is None else str(path)
        self._db = sqlite3.connect(name, timeout=_LOCK_PATIENCE, isolation_level=None, check_same_thread=False)
        run = self._db.execute
        # One process at a time: two would send each other's messages, and break their order.
        run("PRAGMA locking_mode=EXCLUSIVE")
        run("PRAGMA auto_vacuum=INCREMENTAL")
        run("PRAGMA journal_mode=WAL")
        run(f"PRAGMA synchronous={'FULL' if fsync else 'NORMAL'}")
        run(f"PRAGMA journal_size_limit={4 << 20}")
        run(f"PRAGMA wal_autocheckpoint={_JOURNAL_PAGES}")
        run("BEGIN EXCLUSIVE")
        for statement in _SCHEMA.strip().splitlines():
            run(statement)
        run("INSERT INTO origin SELECT ? WHERE NOT EXISTS (SELECT 1 FROM origin)", (uuid.uuid4().hex,))
        run("COMMIT")
        self.origin: str = run("SELECT name FROM origin").fetchone()[0]
        self._count, self._size = self._sum("true", ())
        self._peak = self._size

    def __len__(self) -> int:
        """How many messages are here."""
        return self._count

    def room(self, messages: Sequence[bytes]) -> int:
        """Return how many of these messages, from the front, fit in now; without waiting for the disk."""
        free, fitting = self._capacity - self._size, 0
        for message in messages:
            free -= len(message) + _OVERHEAD
            fitting += free >= 0
        return fitting

    def ever_fits(self, message: bytes) -> bool:
        """Whether a message fits into an empty spool."""
        return len(message) + _OVERHEAD <= self._capacity

    def append(self, messages: Sequence[bytes]) -> None:
        """Add messages; all of them or, with an exception, none."""
        with self._lock:
            with self._db:
                self._db.execute("BEGIN")
                self._db.executemany("INSERT INTO message(payload) VALUES (?)", ((message,) for message in messages))
            self._count += len(messages)
            self._size += sum(map(len, messages)) + len(messages) * _OVERHEAD
            self._peak = max(self._peak, self._size)

    def first(self, most: int, most_bytes: int) -> list[tuple[int, bytes]]:
        """Return number and bytes of the oldest messages, at least one if there is any; they are now in flight."""
        with self._lock:
            found: list[tuple[int, bytes]] = []
            size = 0
            rows = self._db.execute(
                "SELECT id, payload FROM message WHERE id > ? ORDER BY id LIMIT ?", (self._done, most)
            )
            for number, payload in rows:
                size += len(payload)
                if found and size > most_bytes:
                    break
                found.append((number, payload))
            self._in_flight = found[-1][0] if found else 0
            return found

    def remove(self, upto: int) -> bool:
        """Remove the messages with numbers up to this one; none is in flight any more.

        Returns:
            Whether they have left the file. A full disk has no room for the journal of that: then they do not come
            again from here, but another process would find them, and the next call tries it again.
        """
        with self._lock:
            self._in_flight = 0
            count, size = self._sum("id > ? AND id <= ?", (self._done, upto))
            self._done = max(self._done, upto)
            self._count -= count
            self._size -= size
            try:
                with self._db:
                    self._db.execute("BEGIN")
                    self._db.execute("DELETE FROM message WHERE id <= ?", (self._done,))
                if not self._count and self._peak > _WORTH_GIVING_BACK:
                    # As a script, since execute() would take one step, which gives one page back.
                    self._db.executescript("PRAGMA incremental_vacuum")
                    self._peak = 0
            except sqlite3.OperationalError:
                return False
            return True

    def set_aside(self, number: int, payload: bytes, reason: str) -> bool:
        """Keep a message that the broker will never take, in the table ``refused``; the oldest there make room.

        Returns:
            Whether it is kept: not in memory, nor on a full disk, and not one that is larger than the room there.
        """
        room = self._capacity // _SHARE_OF_REFUSED
        if self.path is None or len(payload) > room:
            return False
        try:
            with self._lock, self._db:
                self._db.execute("BEGIN")
                self._db.execute("INSERT OR REPLACE INTO refused VALUES (?, ?, ?)", (number, reason, payload))
                self._db.execute(
                    "DELETE FROM refused WHERE id IN (SELECT id FROM (SELECT id, SUM(LENGTH(payload)) OVER "
                    "(ORDER BY id DESC) AS size FROM refused) WHERE size > ?)",
                    (room,),
                )
        except sqlite3.OperationalError:
            return False
        return True

    def land(self) -> None:
        """Say that nothing is in flight any more, though nothing was removed."""
        with self._lock:
            self._in_flight = 0

    def drop_oldest(self, message: bytes) -> int:
        """Give up the oldest messages that are not in flight until this one fits in; return how many."""
        with self._lock:
            needed = len(message) + _OVERHEAD - (self._capacity - self._size)
            last, freed, first = 0, 0, max(self._in_flight, self._done)
            rows = self._db.execute("SELECT id, LENGTH(payload) FROM message WHERE id > ? ORDER BY id", (first,))
            for number, length in rows:
                if freed >= needed:
                    break
                last, freed = number, freed + length + _OVERHEAD
            rows.close()
            return self._delete("id > ? AND id <= ?", (first, last)) if last else 0

    def close(self) -> None:
        """Close the file, for other processes to open."""
        with self._lock:
            self._db.close()

    def _delete(self, which: str, values: tuple[int, ...]) -> int:
        with self._db:
            self._db.execute("BEGIN")
            count, size = self._sum(which, values)
            self._db.execute(f"DELETE FROM message WHERE {which}", values)
        self._count -= count
        self._size -= size
        return count

    def _sum(self, which: str, values: tuple[int, ...]) -> tuple[int, int]:
        """Return how many messages there are of some, and the bytes counted for them."""
        # LENGTH of a blob reads its header only.
        count, size = self._db.execute(
            f"SELECT COUNT(*), COALESCE(SUM(LENGTH(payload)), 0) FROM message WHERE {which}", values
        ).fetchone()
        return int(count), int(size + count * _OVERHEAD)
