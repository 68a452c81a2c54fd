"""Embeddings recorded and searched: exactly, by the index, filtered, while written, after a crash."""

import sqlite3
import subprocess
import sys
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from sluice.errors import ConfigurationError, ContractError, SluiceError
from sluice.search import Archive, Entry, Recorder
from sluice.search.archive import Filter

pytest.importorskip("faiss")
SIZE = 32


def vectors(count, seed=0):
    """Vectors in clusters, as those of things are: an index of what has no order finds less."""
    random = np.random.default_rng(seed)
    centres = np.random.default_rng(99).normal(size=(20, SIZE))
    return (centres[random.integers(20, size=count)] + 0.4 * random.normal(size=(count, SIZE))).astype(np.float32)


def record(folder, table, **more):
    recorder = Recorder(folder, **more)
    for number, vector in enumerate(table):
        recorder.put(
            Entry(
                vector,
                stream=number % 3,
                name=f"cam{number % 3}",
                frame=number,
                pts=number * 1000,
                utc=1_000_000 + number,
                object_id=number if number % 2 else (1 << 64) - 2 - number,
                label="car" if number % 5 == 0 else "person",
                box=(1.0, 2.0, 3.5, 4.0),
                component=7,
            )
        )
    recorder.close()
    return recorder


def best(table, vector, count, keep=lambda number: True):
    """The truth: numbers of the rows most like a vector."""
    lengths = np.linalg.norm(table, axis=1) * np.linalg.norm(vector)
    order = np.argsort(-(table @ vector) / lengths)
    return [number for number in order.tolist() if keep(number)][:count]


def test_the_most_alike_come_first_with_all_that_is_known(tmp_path) -> None:
    table = vectors(500)
    assert record(tmp_path / "a", table).written == 500
    with Archive(tmp_path / "a") as archive:
        assert len(archive) == 500
        hits = archive.search(table[123] * 40, 5)
        assert [hit.entry.frame for hit in hits] == best(table, table[123], 5)
        assert hits[0].similarity == pytest.approx(1, abs=2e-3)
        assert [hit.similarity for hit in hits] == sorted((hit.similarity for hit in hits), reverse=True)
        entry = hits[0].entry
        assert (entry.stream, entry.name, entry.pts, entry.utc) == (0, "cam0", 123_000, 1_000_123)
        assert (entry.object_id, entry.label, entry.box, entry.component) == (123, "person", (1.0, 2.0, 3.5, 4.0), 7)
        assert archive.search(archive.vector(hits[1].key), 1)[0].key == hits[1].key
        even = archive.search(table[10], 1)[0]
        assert even.entry.object_id == (1 << 64) - 12


@pytest.mark.parametrize("exact", [1_000_000, 10], ids=["exact", "index"])
def test_filters(tmp_path, exact) -> None:
    table = vectors(2000)
    record(tmp_path, table)
    wanted = vectors(1, seed=5)[0]
    cases = [
        (Filter(), lambda n: True),
        (Filter(stream=1), lambda n: n % 3 == 1),
        (Filter(stream="cam2"), lambda n: n % 3 == 2),
        (Filter(since=1_000_500, until=1_000_600), lambda n: 500 <= n < 600),
        (Filter(label="car", stream=0), lambda n: n % 15 == 0),
        (Filter(stream="nobody"), lambda n: False),
    ]
    with Archive(tmp_path) as archive:
        archive.exact = exact
        for where, keep in cases:
            found = [hit.entry.frame for hit in archive.search(wanted, 8, where)]
            truth = best(table, wanted, 8, keep)
            assert len(found) == len(truth)
            assert all(map(keep, found))
            assert len(set(found) & set(truth)) >= len(truth) - (1 if exact == 10 else 0)


def test_the_index_is_kept_and_grows(tmp_path) -> None:
    table = vectors(600)
    record(tmp_path, table[:400])
    for more in (table[:0], table[400:]):
        if len(more):
            record(tmp_path, more)
        with Archive(tmp_path) as archive:
            archive.exact = 10
            known = len(archive)
            assert archive.search(table[known - 1], 1)[0].key == known
        (saved,) = tmp_path.glob("vectors-*.faiss")
        assert saved.name == f"vectors-1-{known}.faiss"
    saved.write_bytes(b"cut off")
    with Archive(tmp_path) as archive:
        archive.exact = 10
        assert archive.search(table[7], 1)[0].key == 8


def test_the_oldest_expire_and_an_index_of_them_is_made_anew(tmp_path) -> None:
    table = vectors(300)
    record(tmp_path, table[:100])
    with Archive(tmp_path) as archive:
        archive.exact = 10
        archive.search(table[0], 1)
    recorder = record(tmp_path, table[100:], most_entries=100)
    assert recorder.expired >= 200
    with Archive(tmp_path) as archive:
        assert len(archive) <= 100
        archive.exact = 10
        assert archive.search(table[299], 1)[0].entry.frame == 199
        assert all(hit.key > 200 for hit in archive.search(table[0], 10))


def test_a_search_beside_a_recorder(tmp_path) -> None:
    table = vectors(50)
    recorder = Recorder(tmp_path)
    with Archive(tmp_path) as archive:
        assert archive.search(table[0]) == []
    for vector in table:
        recorder.put(Entry(vector))
    while recorder.written < 50:
        pass
    with Archive(tmp_path) as archive:
        assert len(archive.search(table[3], 60)) == 50
    recorder.close()


def test_vectors_that_cannot_be_compared_are_refused_and_counted(tmp_path) -> None:
    recorder = Recorder(tmp_path)
    good = vectors(1)[0]
    bad = [np.zeros(SIZE), np.full(SIZE, np.nan), np.full(SIZE, np.inf), np.ones(SIZE + 1), np.zeros(0)]
    for vector in [good, *(np.asarray(one, np.float32) for one in bad), np.full(SIZE, 1e30, np.float32)]:
        recorder.put(Entry(vector))
    recorder.close()
    assert (recorder.written, recorder.refused) == (2, 5)
    with Archive(tmp_path) as archive:
        for vector, text in ((np.ones(5), "has 5 numbers"), (np.zeros(SIZE), "no direction")):
            with pytest.raises(ConfigurationError, match=text):
                archive.search(vector)
        with pytest.raises(ConfigurationError, match="no entry 99"):
            archive.vector(99)


def test_a_disk_that_fails_is_told_and_ends_nothing_else(tmp_path) -> None:
    recorder = Recorder(tmp_path)
    other = sqlite3.connect(tmp_path / "embeddings.sqlite")
    other.execute("DROP TABLE entries")
    other.commit()
    recorder.put(Entry(vectors(1)[0]))
    with pytest.raises(SluiceError, match="cannot be written"):
        recorder.close()


def test_an_entry_that_no_archive_can_hold_is_told_and_ends_nothing_else(tmp_path) -> None:
    recorder = Recorder(tmp_path)
    recorder.put(Entry(vectors(1)[0], pts=1 << 63))
    with pytest.raises(SluiceError, match="cannot be written: Python int too large"):
        recorder.close()


def test_folders_that_are_no_archive(tmp_path) -> None:
    with pytest.raises(ConfigurationError, match="no archive of embeddings"):
        Archive(tmp_path)
    (tmp_path / "embeddings.sqlite").write_bytes(b"nothing of the kind" * 100)
    for opening in (Archive, Recorder):
        with pytest.raises(ConfigurationError, match="cannot be"):
            opening(tmp_path)
    with pytest.raises(ConfigurationError, match="cannot be opened"):
        Recorder(tmp_path / "embeddings.sqlite" / "below")
    other = tmp_path / "other"
    record(other, vectors(1))
    database = sqlite3.connect(other / "embeddings.sqlite")
    database.execute("UPDATE about SET value = 'sluice-embeddings/9' WHERE name = 'format'")
    database.commit()
    with pytest.raises(ConfigurationError, match="sluice-embeddings/9"):
        Archive(other)


def test_what_no_wait_would_mend_is_told_at_once(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("sluice.search.entries._WAIT_SECONDS", 600)
    (tmp_path / "embeddings.sqlite").mkdir()
    with pytest.raises(ConfigurationError, match="unable to open database file"):
        Recorder(tmp_path)


def test_an_archive_in_a_folder_that_may_not_be_written() -> None:
    """As of a service's own user, searched by another; root, who may write anywhere, becomes nobody for it."""
    program = """
import os, sys
from sluice.search import Archive

if os.getuid() == 0:
    os.setuid(65534)
with Archive(sys.argv[1]) as archive:
    print(len(archive), archive.search(archive.vector(3), 1)[0].key)
"""
    with tempfile.TemporaryDirectory() as folder:
        archive = Path(folder) / "archive"
        record(archive, vectors(20))
        Path(folder).chmod(0o755)
        archive.chmod(0o555)
        try:
            done = subprocess.run([sys.executable, "-c", program, str(archive)], capture_output=True, text=True)
        finally:
            archive.chmod(0o755)
    assert done.stdout.split() == ["20", "3"], done.stderr


def test_a_damaged_vector_is_named(tmp_path) -> None:
    record(tmp_path, vectors(3))
    database = sqlite3.connect(tmp_path / "embeddings.sqlite")
    database.execute("UPDATE entries SET vector = x'00' WHERE key = 2")
    database.commit()
    with Archive(tmp_path) as archive, pytest.raises(ContractError, match="damaged"):
        archive.search(vectors(1)[0])
    with Archive(tmp_path) as archive, pytest.raises(ContractError, match="damaged"):
        archive.vector(2)


def test_two_recorders_write_into_one_archive(tmp_path) -> None:
    table = vectors(400)
    recorders = [Recorder(tmp_path, most_entries=300) for _ in range(2)]
    for number, vector in enumerate(table):
        recorders[number % 2].put(Entry(vector, frame=number))
    for recorder in recorders:
        recorder.close()
    assert sum(recorder.written for recorder in recorders) == 400
    with Archive(tmp_path) as archive:
        assert len(archive) <= 300, "each knows of what the other wrote"
        assert archive.search(archive.vector(399), 1)[0].key == 399


def test_the_first_of_two_recorders_decides_on_the_length(tmp_path) -> None:
    first, second = Recorder(tmp_path), Recorder(tmp_path)
    first.put(Entry(vectors(1)[0]))
    first.close()
    second.put(Entry(np.ones(SIZE + 1, np.float32)))
    second.put(Entry(vectors(1)[0]))
    second.close()
    assert (second.written, second.refused) == (1, 1)


def test_recorders_that_begin_at_the_same_moment(tmp_path) -> None:
    for number in range(10):
        folder = tmp_path / str(number)
        barrier = threading.Barrier(4)

        def begin(folder=folder, barrier=barrier):
            barrier.wait()
            return Recorder(folder)

        with ThreadPoolExecutor() as pool:
            for recorder in [one.result() for one in [pool.submit(begin) for _ in range(4)]]:
                recorder.close()
        with Archive(folder) as archive:
            assert archive.search(np.ones(SIZE)) == []


def test_an_entry_that_expires_during_a_search_is_left_out(tmp_path) -> None:
    table = vectors(50)
    record(tmp_path, table)
    with Archive(tmp_path) as archive:
        compare = archive._compare_all

        def slow(*arguments):
            found = compare(*arguments)
            database = sqlite3.connect(tmp_path / "embeddings.sqlite")
            database.execute("DELETE FROM entries WHERE key = ?", (found[0][1],))
            database.commit()
            return found

        archive._compare_all = slow
        assert len(archive.search(table[3], 5)) == 4
