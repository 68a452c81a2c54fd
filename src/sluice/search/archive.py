"""Searches an archive of embeddings by cosine similarity.

Up to `EXACT` candidates every vector is looked at, with numpy; beyond, an approximate index (IVF) is kept beside the
database, by `faiss`: of the libraries with wheels for every Python of ours it is the one that filters while it searches
and can be imported in any order with ONNX Runtime (usearch's module ends the process in one of them; hnswlib has no
wheels).
"""

from __future__ import annotations

import heapq
import math
import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt

from sluice.errors import ConfigurationError, ContractError
from sluice.search.entries import COLUMNS, Entry, connect, entry_of, size_of, unit

EXACT = 100_000
"""Candidates up to which every vector is compared: 0.7 s of processor time for 512 numbers each."""

_CHUNK = 16_384
_LEAST_PARTS = 16  # parts of the index that are looked at, of _parts(entries)
_TRAINING_ROWS = 39  # per part, which faiss asks for at least


def _faiss() -> Any:
    try:
        import faiss
    except ImportError as error:
        raise ConfigurationError(
            f"searching more than {EXACT} embeddings needs the package faiss-cpu, which cannot be imported: {error}; "
            "pip install 'sluice-video[search]'"
        ) from error
    return faiss


@dataclass(frozen=True)
class Hit:
    """One entry that was found.

    Attributes:
        key: number of the entry in its archive.
        similarity: cosine of the angle to what was looked for, -1 to 1.
        entry: what is known of it.
    """

    key: int
    similarity: float
    entry: Entry


@dataclass(frozen=True)
class Filter:
    """Which entries count; None and "" for any.

    Attributes:
        stream: number or name of the stream.
        since, until: wall-clock times in nanoseconds since 1970, the second not included.
        label: class of the object.
    """

    stream: int | str | None = None
    since: int | None = None
    until: int | None = None
    label: str = ""

    def clause(self) -> tuple[str, list[Any]]:
        """Return it as SQL and its values."""
        parts: list[tuple[str, Any]] = []
        if self.stream is not None:
            parts.append(("name = ?" if isinstance(self.stream, str) else "stream = ?", self.stream))
        if self.since is not None:
            parts.append(("utc >= ?", self.since))
        if self.until is not None:
            parts.append(("utc < ?", self.until))
        if self.label:
            parts.append(("label = ?", self.label))
        return " AND ".join(text for text, _ in parts) or "1", [value for _, value in parts]


def _parts(entries: int) -> int:
    """How many parts an index of so many entries has: four times the root, faiss's own advice."""
    return max(1, min(4 * math.isqrt(max(entries, 0)), entries // _TRAINING_ROWS))


class Archive:
    """The embeddings in a folder; a context manager. Not for use by two threads at once."""

    def __init__(self, folder: str | Path) -> None:
        """Open an archive for reading.

        Raises:
            ConfigurationError: there is none.
        """
        self._folder = Path(folder)
        self._database = connect(self._folder)
        self._size = size_of(self._database)
        self.exact = EXACT

    def __enter__(self) -> Archive:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the database."""
        self._database.close()

    def __len__(self) -> int:
        return int(self._query("SELECT count(*) FROM entries").fetchone()[0])

    def vector(self, key: int) -> npt.NDArray[np.float32]:
        """Return the vector of an entry, to look for others like it.

        Raises:
            ConfigurationError: there is no such entry.
            ContractError: it is damaged.
        """
        found = self._query("SELECT vector FROM entries WHERE key = ?", (key,)).fetchone()
        if found is None:
            raise ConfigurationError(f"the archive {str(self._folder)!r} has no entry {key}")
        if len(found[0]) != 2 * (self._size or 0):
            raise self._damage()
        return np.frombuffer(found[0], np.float16).astype(np.float32)

    def search(self, vector: npt.NDArray[Any], count: int = 10, where: Filter | None = None) -> list[Hit]:
        """Return the entries most like a vector, the most alike first.

        Args:
            vector: [D], of any length above 0.
            count: how many at most.
            where: which entries count.

        Raises:
            ConfigurationError: the vector has another size than the archive's, or no direction.
        """
        if self._size is None:
            return []
        wanted = unit(vector)
        if wanted is None or wanted.size != self._size:
            raise ConfigurationError(
                f"what is looked for has {np.asarray(vector).size} numbers, and the archive's embeddings have "
                f"{self._size}; right is the text encoder of the very model that made them"
                if wanted is not None
                else "what is looked for has no direction: all its numbers are 0, or one is not finite"
            )
        clause, values = (where or Filter()).clause()
        candidates = int(self._query(f"SELECT count(*) FROM entries WHERE {clause}", values).fetchone()[0])
        if candidates <= self.exact:
            found = self._compare_all(wanted, count, clause, values)
        else:
            found = self._ask_index(wanted, count, clause, values)
        return [hit for similarity, key in found if (hit := self._hit(key, similarity)) is not None]

    def _compare_all(
        self, wanted: npt.NDArray[np.float32], count: int, clause: str, values: list[Any]
    ) -> list[tuple[float, int]]:
        best: list[tuple[float, int]] = []
        for keys, vectors in self._chunks(clause, values):
            similarities = vectors.astype(np.float32) @ wanted
            nearest = np.argpartition(-similarities, min(count, len(keys)) - 1)[:count]
            best += zip(similarities[nearest].tolist(), keys[nearest].tolist(), strict=True)
            best = heapq.nlargest(count, best)
        return best

    def _ask_index(
        self, wanted: npt.NDArray[np.float32], count: int, clause: str, values: list[Any]
    ) -> list[tuple[float, int]]:
        faiss = _faiss()
        index = self._current_index()
        rows = self._query(f"SELECT key FROM entries WHERE {clause}", values)
        allowed = np.fromiter((key for (key,) in rows), np.int64)
        selector = faiss.IDSelectorBatch(allowed)
        best: list[tuple[float, int]] = []
        # First the parts of the index that are nearest, then, where they hold too few that count, all of it.
        for parts in (max(_LEAST_PARTS, index.nlist // 8), index.nlist):
            parameters = faiss.SearchParametersIVF(sel=selector, nprobe=min(parts, index.nlist))
            similarities, keys = index.search(wanted[np.newaxis], count, params=parameters)
            found = zip(similarities[0].tolist(), keys[0].tolist(), strict=True)
            best = [(similarity, key) for similarity, key in found if key >= 0]
            if len(best) >= min(count, len(allowed)):
                break
        return best

    def _current_index(self) -> Any:
        """Load the index, add what was recorded since it was saved, and save it again where that can be done."""
        loaded = self._loaded()
        first, last = self._ends()
        index, begins, known = loaded if loaded is not None else (self._trained_index(), first, first - 1)
        added = 0
        for keys, vectors in self._chunks("key > ?", [known]):
            index.add_with_ids(vectors.astype(np.float32), keys)
            added += len(keys)
            last = int(keys[-1])
        if added:
            self._save(index, begins, last)
        return index

    def _ends(self) -> tuple[int, int]:
        """The first and the last key."""
        first, last = self._query("SELECT coalesce(min(key), 1), coalesce(max(key), 0) FROM entries").fetchone()
        return int(first), int(last)

    def _trained_index(self) -> Any:
        """Return an empty index whose parts are those of a sample of the archive."""
        faiss = _faiss()
        total = len(self)
        parts = _parts(total)
        kind = faiss.ScalarQuantizer.QT_fp16
        index = faiss.IndexIVFScalarQuantizer(
            faiss.IndexFlatIP(self._size), self._size, parts, kind, faiss.METRIC_INNER_PRODUCT
        )
        step = max(1, total // (_TRAINING_ROWS * parts))
        sample = [vectors for _, vectors in self._chunks("key % ? = 0", [step])]
        index.train(np.concatenate(sample).astype(np.float32))
        return index

    def _loaded(self) -> tuple[Any, int, int] | None:
        """Return the index that was saved and the first and last key in it; None where it must be made anew."""
        saved = max(self._saved(), key=lambda item: item[2], default=None)
        if saved is None:
            return None
        path, begins, known = saved
        try:
            index = _faiss().read_index(str(path))
            fits = index.d == self._size and index.nlist > 0
        except (RuntimeError, AttributeError, MemoryError):  # a file cut off by a crash, or another kind of index
            return None
        first, last = self._ends()
        # Entries that expired stay in the index; when most have, or it has outgrown its parts, it is made anew.
        expired = max(0, first - begins) * 2 > known - begins + 1
        return (index, begins, known) if fits and not expired and _parts(last - first) <= 2 * index.nlist else None

    def _saved(self) -> list[tuple[Path, int, int]]:
        found = []
        for path in self._folder.glob("vectors-*.faiss"):
            numbers = path.stem.split("-")[1:]
            if len(numbers) == 2 and all(number.isdecimal() for number in numbers):
                found.append((path, int(numbers[0]), int(numbers[1])))
        return found

    def _save(self, index: Any, begins: int, last: int) -> None:
        before = [path for path, _, _ in self._saved()]
        path = self._folder / f"vectors-{begins}-{last}.faiss"
        scratch = self._folder / f".vectors.{os.getpid()}.{threading.get_ident()}"
        try:
            _faiss().write_index(index, str(scratch))
            scratch.replace(path)
            for other in before:
                if other != path:
                    other.unlink(missing_ok=True)
        except (RuntimeError, OSError):  # read-only, full: the index is made again next time
            with suppress(OSError):
                scratch.unlink(missing_ok=True)

    def _chunks(
        self, clause: str, values: list[Any]
    ) -> Iterator[tuple[npt.NDArray[np.int64], npt.NDArray[np.float16]]]:
        cursor = self._query(f"SELECT key, vector FROM entries WHERE {clause} ORDER BY key", values)
        while rows := cursor.fetchmany(_CHUNK):
            keys = np.array([key for key, _ in rows], np.int64)
            data = b"".join(vector for _, vector in rows)
            if len(data) != 2 * len(rows) * (self._size or 0):
                raise self._damage()
            yield keys, np.frombuffer(data, np.float16).reshape(len(rows), -1)

    def _hit(self, key: int, similarity: float) -> Hit | None:
        """Return what was found; None where a recorder has deleted it meanwhile."""
        row = self._query(f"SELECT {COLUMNS} FROM entries WHERE key = ?", (key,)).fetchone()
        return None if row is None else Hit(key, similarity, entry_of(row))

    def _damage(self) -> ContractError:
        return ContractError(f"the archive {str(self._folder)!r} is damaged: a vector has another length")

    def _query(self, text: str, values: Any = ()) -> sqlite3.Cursor:
        try:
            return self._database.execute(text, values)
        except sqlite3.Error as error:
            raise ContractError(f"the archive {str(self._folder)!r} cannot be read: {error}") from error
