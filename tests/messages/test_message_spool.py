"""The store on disk: order, numbers that are never given twice, the bound, and crashes."""

import signal
import sqlite3
import subprocess
import sys

import pytest

from sluice.errors import ConfigurationError
from sluice.messages.spool import Spool


def payloads(spool, most=1000, size=1 << 20):
    return [payload for _, payload in spool.first(most, size)]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "folder" / "s.db"


def test_messages_come_back_in_order_until_they_are_removed(path):
    spool = Spool(path, capacity=1 << 20)
    spool.append([b"a", b"b", b"\x00\xff"])
    first = spool.first(2, 1 << 20)
    assert [payload for _, payload in first] == [b"a", b"b"]
    spool.remove(first[0][0])
    assert payloads(spool) == [b"b", b"\x00\xff"]
    assert len(spool) == 2


def test_numbers_and_origin_outlive_the_process_and_an_empty_spool(path):
    spool = Spool(path, capacity=1 << 20)
    spool.append([b"a", b"b"])
    ((_, _), (last, _)) = spool.first(10, 1 << 20)
    spool.remove(last)
    spool.close()
    again = Spool(path, capacity=1 << 20)
    assert again.origin == spool.origin
    again.append([b"c"])
    assert again.first(10, 1 << 20) == [(last + 1, b"c")]
    assert Spool(None, capacity=1 << 20).origin != spool.origin


def test_a_batch_is_bounded_in_bytes_but_never_empty(path):
    spool = Spool(path, capacity=1 << 20)
    spool.append([b"x" * 100, b"y" * 100, b"z" * 100])
    assert len(payloads(spool, size=250)) == 2
    assert len(payloads(spool, size=10)) == 1


def test_room_is_what_the_bound_leaves_also_after_opening_again(path):
    spool = Spool(path, capacity=500)
    assert spool.room([b"x" * 100] * 10) == 3
    spool.append([b"x" * 100] * 2)
    assert spool.room([b"x" * 100] * 10) == 1
    spool.close()
    again = Spool(path, capacity=500)
    assert again.room([b"x" * 100] * 10) == 1
    again.remove(2)
    assert again.room([b"x" * 100] * 10) == 3
    assert again.ever_fits(b"x" * 400)
    assert not again.ever_fits(b"x" * 500)


def test_a_file_that_was_full_gives_the_disk_back(path):
    spool = Spool(path, capacity=1 << 24)
    spool.append([b"x" * 10_000] * 500)
    spool.remove(500)
    spool.close()
    assert path.stat().st_size < 200_000


class FullDisk:
    """A connection to a database on a disk that has no room for another change."""

    def __init__(self, database):
        self.database = database

    def __getattr__(self, name):
        return getattr(self.database, name)

    def __enter__(self):
        return self.database.__enter__()

    def __exit__(self, *error):
        return self.database.__exit__(*error)

    def execute(self, statement, *values):
        if statement.startswith(("DELETE", "INSERT")):
            raise sqlite3.OperationalError("database or disk is full")
        return self.database.execute(statement, *values)


def test_what_a_full_disk_does_not_let_go_does_not_come_again(path):
    spool = Spool(path, capacity=1 << 20)
    spool.append([b"a", b"b", b"c"])
    room, spool._db = spool._db, FullDisk(spool._db)
    assert spool.remove(2) is False
    assert (len(spool), payloads(spool)) == (1, [b"c"])
    assert not spool.set_aside(3, b"c", "refused")
    spool._db = room
    assert spool.remove(3) is True
    assert len(spool) == 0
    spool.close()
    assert len(Spool(path, capacity=1 << 20)) == 0


def test_a_second_user_is_refused_by_name(path):
    spool = Spool(path, capacity=1 << 20)
    with pytest.raises(ConfigurationError, match="is in use, by another process or another element; give each its own"):
        Spool(path, capacity=1 << 20)
    spool.close()
    Spool(path, capacity=1 << 20).close()


def test_what_is_no_spool_is_refused_by_name(tmp_path):
    (tmp_path / "text").write_text("no database " * 100)
    with pytest.raises(ConfigurationError, match="text' cannot be used: file is not a database"):
        Spool(tmp_path / "text", capacity=1)
    with pytest.raises(ConfigurationError, match="cannot be used"):
        Spool(tmp_path / "text" / "s.db", capacity=1)


def test_a_closed_spool_says_so(path):
    spool = Spool(path, capacity=1 << 20)
    spool.close()
    with pytest.raises(sqlite3.ProgrammingError):
        spool.append([b"x"])


CRASHING = """
import os, signal, sys
from pathlib import Path
from sluice.messages.spool import Spool
spool = Spool(Path(sys.argv[1]), capacity=1 << 20)
for n in range(50):
    spool.append([b"%d" % n])
spool.remove(10)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_killed_process_loses_nothing_and_leaves_no_lock(path):
    result = subprocess.run([sys.executable, "-c", CRASHING, path], check=False)
    assert result.returncode == -signal.SIGKILL
    spool = Spool(path, capacity=1 << 20)
    assert payloads(spool) == [b"%d" % n for n in range(10, 50)]
