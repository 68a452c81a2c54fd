"""What is kept of one embedding, and the database it is kept in.

SQLite holds the truth, vectors included: it survives a crash and lets searches read while a recorder writes. The index
for large archives (`sluice.search.archive`) is made from it and may be deleted at any time.
"""

from __future__ import annotations

import os
import sqlite3
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sluice.errors import ConfigurationError

DATABASE = "embeddings.sqlite"
FORMAT = "sluice-embeddings/1"
MOST_NUMBERS = 16_384
"""The longest vector: more than any model of today makes."""

_SCHEMA = """
CREATE TABLE about (name TEXT PRIMARY KEY, value TEXT) WITHOUT ROWID;
CREATE TABLE entries (
  key INTEGER PRIMARY KEY AUTOINCREMENT,
  stream INTEGER NOT NULL, name TEXT NOT NULL, frame INTEGER NOT NULL, pts INTEGER, utc INTEGER,
  object INTEGER, label TEXT NOT NULL, component INTEGER, box BLOB, vector BLOB NOT NULL);
CREATE INDEX entries_time ON entries (stream, utc);
"""
_WAIT_SECONDS = 5.0
_RETRY_SECONDS = 0.02
_SIGN = 1 << 63


@dataclass(frozen=True)
class Entry:
    """One embedding and where it comes from.

    Attributes:
        vector: float32 [D].
        stream: number of the stream.
        name: its name.
        frame: number of the frame within it.
        pts: time of the frame in its stream in nanoseconds, None if unknown.
        utc: its wall-clock time in nanoseconds since 1970, None if unknown.
        object_id: the track's id; None for a frame, or while untracked.
        label: the object's class; "" for a frame.
        box: left, top, width, height in pixels of the frame's surface; None for a frame.
        component: unique id of the element that made the embedding.
    """

    vector: npt.NDArray[np.float32]
    stream: int = 0
    name: str = ""
    frame: int = 0
    pts: int | None = None
    utc: int | None = None
    object_id: int | None = None
    label: str = ""
    box: tuple[float, float, float, float] | None = None
    component: int | None = None


def unit(vector: npt.NDArray[Any]) -> npt.NDArray[np.float32] | None:
    """Return a vector scaled to length 1, as cosine similarity needs it; None where it has no direction."""
    numbers = np.asarray(vector, np.float32).ravel()
    length = float(np.linalg.norm(numbers.astype(np.float64)))
    return np.asarray(numbers / length, np.float32) if np.isfinite(length) and length > 0 else None


def connect(folder: Path, *, create: bool = False) -> sqlite3.Connection:
    """Open an archive's database.

    Args:
        folder: the archive.
        create: make the folder and the database where there are none, and open it for writing.

    Raises:
        ConfigurationError: there is none, it is none, or it cannot be opened.
    """
    path = folder / DATABASE
    try:
        if create:
            folder.mkdir(parents=True, exist_ok=True)
            connection = sqlite3.connect(path, timeout=_WAIT_SECONDS, check_same_thread=False)
        elif not path.is_file():
            raise ConfigurationError(f"there is no archive of embeddings in {str(folder)!r}: no {DATABASE}")
        else:
            connection = sqlite3.connect(
                f"{path.resolve().as_uri()}?{_way_to_read(path)}",
                uri=True,
                timeout=_WAIT_SECONDS,
                check_same_thread=False,
            )
    except (OSError, sqlite3.Error) as error:
        raise ConfigurationError(f"the archive {str(folder)!r} cannot be opened: {error}") from error
    try:
        _prepare(connection, folder, create)
    except sqlite3.Error as error:
        connection.close()
        raise ConfigurationError(f"the archive {str(folder)!r} cannot be read: {error}") from error
    except ConfigurationError:
        connection.close()
        raise
    return connection


def _way_to_read(path: Path) -> str:
    """How SQLite is to open a database that is only read.

    Beside one with a write-ahead log it makes two files, which it cannot where the folder may not be written; without
    a log, which a recorder at work has, it can do without them.
    """
    at_rest = not path.with_name(f"{path.name}-wal").exists()
    return "mode=ro&immutable=1" if at_rest and not os.access(path.parent, os.W_OK) else "mode=ro"


def _use_log(connection: sqlite3.Connection) -> None:
    """Give the database a write-ahead log.

    SQLite does not wait here as it does elsewhere: of several that begin at once all but one are told "locked" at once
    (the pragma upgrades a read lock, for which the busy handler is not called).
    """
    until = time.monotonic() + _WAIT_SECONDS
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > until:
                raise
            time.sleep(_RETRY_SECONDS)


def _prepare(connection: sqlite3.Connection, folder: Path, create: bool) -> None:
    if create:
        _use_log(connection)
        connection.execute("PRAGMA synchronous=NORMAL")
        connection.execute("BEGIN IMMEDIATE")  # another recorder may begin at the same moment
        if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'about'").fetchone():
            for statement in filter(str.strip, _SCHEMA.split(";")):
                connection.execute(statement)
            connection.execute("INSERT INTO about VALUES ('format', ?)", (FORMAT,))
        connection.commit()
    found = connection.execute("SELECT value FROM about WHERE name = 'format'").fetchone()
    if found is None or found[0] != FORMAT:
        shown = None if found is None else found[0]
        raise ConfigurationError(f"the archive {str(folder)!r} has the format {shown!r}; this is {FORMAT}")


def size_of(connection: sqlite3.Connection) -> int | None:
    """Return how many numbers the archive's vectors have; None while it is empty."""
    found = connection.execute("SELECT value FROM about WHERE name = 'size'").fetchone()
    with suppress(TypeError, ValueError):
        return int(found[0])
    return None


def row_of(entry: Entry, vector: npt.NDArray[np.float32]) -> tuple[Any, ...]:
    """Return an entry as a row of the database, but for its key; the vector in half precision."""
    identity = entry.object_id
    return (
        entry.stream,
        entry.name,
        entry.frame,
        entry.pts,
        entry.utc,
        # SQLite's integers are signed; ids are 64 bits without a sign.
        None if identity is None else identity - 2 * _SIGN if identity >= _SIGN else identity,
        entry.label,
        entry.component,
        None if entry.box is None else np.asarray(entry.box, np.float32).tobytes(),
        vector.astype(np.float16).tobytes(),
    )


def entry_of(row: tuple[Any, ...]) -> Entry:
    """Return what `row_of` made a row of."""
    stream, name, frame, pts, utc, identity, label, component, box, vector = row
    return Entry(
        vector=np.frombuffer(vector, np.float16).astype(np.float32),
        stream=stream,
        name=name,
        frame=frame,
        pts=pts,
        utc=utc,
        object_id=identity + 2 * _SIGN if identity is not None and identity < 0 else identity,
        label=label,
        box=None if box is None else tuple(np.frombuffer(box, np.float32).tolist()),
        component=component,
    )


COLUMNS = "stream, name, frame, pts, utc, object, label, component, box, vector"
"""The columns of `row_of`."""
