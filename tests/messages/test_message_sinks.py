"""Files and the standard output as sinks, and what is refused."""

import errno
import os
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path

import pytest

from sluice.errors import ConfigurationError
from sluice.messages import open_sink
from waiting import until


def write(sink, *messages):
    assert sink.write(messages) == [None] * len(messages)
    sink.flush()
    sink.close()


def test_a_file_gets_one_line_per_message(tmp_path):
    path = tmp_path / "m.jsonl"
    path.write_text("old\n")
    write(open_sink("", str(path)), b'{"a":1}', "ü".encode())
    assert path.read_bytes() == '{"a":1}\nü\n'.encode()


def test_append_keeps_what_was_there(tmp_path):
    path = tmp_path / "m.jsonl"
    path.write_text("old\n")
    write(open_sink("file", str(path), append=True), b"new")
    assert path.read_text() == "old\nnew\n"


@pytest.mark.parametrize(("proto", "location"), [("", ""), ("", "-"), ("stdout", ""), ("stdout", "-")])
def test_the_standard_output_gets_one_line_per_message_and_stays_open(capfd, proto, location):
    write(open_sink(proto, location), b"one", b"two")
    os.write(1, b"three\n")
    assert capfd.readouterr().out == "one\ntwo\nthree\n"


@pytest.mark.parametrize(
    ("proto", "location", "words"),
    [
        ("stdout", "m.jsonl", "use proto=file or no location"),
        ("file", "-", "location names no file"),
        ("", "/nonexistent/folder/m.jsonl", "'/nonexistent/folder/m.jsonl' cannot be written: No such file"),
        ("", "/", "'/' cannot be written: Is a directory"),
    ],
)
def test_what_cannot_work_is_refused_by_name(proto, location, words):
    with pytest.raises(ConfigurationError, match=words):
        open_sink(proto, location)


def test_a_named_pipe_waits_for_its_reader_with_the_first_message(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    open_sink("", str(pipe)).close()  # nobody reads, and nothing was written: neither waits
    read = []
    reader = threading.Timer(0.2, lambda: read.append(pipe.read_bytes()))
    reader.start()
    write(open_sink("file", str(pipe)), b"one", b"two")
    reader.join()
    assert read == [b"one\ntwo\n"]


def test_a_full_disk_is_an_error_of_the_message():
    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full here")
    sink = open_sink("file", "/dev/full")
    (error,) = sink.write([b"x"])
    assert error.errno == errno.ENOSPC
    sink.close()


LIMITED = """
import resource, signal, sys
from sluice.messages import open_sink
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (15, resource.RLIM_INFINITY))
sink = open_sink("file", sys.argv[1])
print([error is None for error in sink.write([b"whole", b"does not fit in", b"fits"])])
"""


def test_a_message_that_fits_only_in_part_leaves_nothing_behind(tmp_path):
    path = tmp_path / "m.jsonl"
    result = subprocess.run([sys.executable, "-c", LIMITED, path], capture_output=True, text=True, check=True)
    assert result.stdout == "[True, False, True]\n"
    assert path.read_text() == "whole\nfits\n"


WRITER = """
import sys
from sluice.messages import open_sink
sink, letter = open_sink("", sys.argv[1], append=True), sys.argv[2].encode()
for _ in range(300):
    assert sink.write([letter * 50_000]) == [None]
print("written", flush=True)
sys.stdin.read()
"""


def test_what_several_append_is_whole_lines_also_when_some_are_killed(tmp_path):
    path = tmp_path / "m.jsonl"

    def begin(letter):
        command = [sys.executable, "-c", WRITER, str(path), letter]
        return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    killed, lasting = begin("k"), [begin("a"), begin("b")]
    try:
        for _ in range(10):
            before = path.stat().st_size if path.exists() else 0
            until(lambda before=before: path.exists() and path.stat().st_size > before)
            killed.kill()
            killed.wait()
            killed = begin("k")
        for writer in lasting:
            assert writer.stdout.readline() == b"written\n"
    finally:
        for writer in (killed, *lasting):
            writer.kill()
            writer.communicate()
    write(open_sink("", str(path), append=True), b"last")
    lines = path.read_bytes().split(b"\n")
    assert lines[-2:] == [b"last", b""]
    counts = Counter(line for line in lines if line[:1] in (b"a", b"b"))
    assert counts == {b"a" * 50_000: 300, b"b" * 50_000: 300}
    assert all(set(line) == {ord("k")} for line in lines[:-2] if line[:1] not in (b"a", b"b"))


def test_a_line_that_a_killed_run_left_unfinished_is_ended_before_the_next(tmp_path):
    path = tmp_path / "m.jsonl"
    path.write_bytes(b"whole\ntor")
    write(open_sink("", str(path), append=True), b"next", b"more")
    assert path.read_bytes() == b"whole\ntor\nnext\nmore\n"


@pytest.mark.parametrize(("first", "second"), [(False, False), (False, True), (True, False)])
def test_a_file_that_another_run_writes_is_refused_and_not_touched(tmp_path, first, second):
    path = tmp_path / "m.jsonl"
    holder = open_sink("", str(path), append=first)
    holder.write([b"one"])
    with pytest.raises(ConfigurationError, match=rf"being written by another run \(process {os.getpid()}\)"):
        open_sink("", str(path), append=second)
    holder.write([b"two"])
    assert path.read_bytes() == b"one\ntwo\n"
    holder.close()
    write(open_sink("", str(path), append=second), b"three")
    assert path.read_bytes() == (b"one\ntwo\n" if second else b"") + b"three\n"


def test_a_file_that_is_rotated_is_shared_with_nobody(tmp_path):
    holder = rotating(tmp_path / "m", append=True)
    with pytest.raises(ConfigurationError, match="another run"):
        open_sink("", str(tmp_path / "m"), append=True)
    holder.close()


def rotating(path, **options):
    return open_sink("", str(path), rotate_size=10, **{"rotate_count": 2, **options})


def files(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_a_file_is_rotated_before_it_grows_too_large(tmp_path):
    write(rotating(tmp_path / "m"), b"1234", b"5678", b"9", b"longer than a file", b"a")
    assert files(tmp_path) == {"m": b"a\n", "m.1": b"longer than a file\n", "m.2": b"9\n"}


def test_rotation_goes_on_where_an_earlier_run_ended(tmp_path):
    write(rotating(tmp_path / "m"), b"1234567")
    write(rotating(tmp_path / "m", append=True), b"8", b"9")
    assert files(tmp_path) == {"m": b"9\n", "m.1": b"1234567\n8\n"}


def test_without_older_files_rotation_starts_anew(tmp_path):
    write(rotating(tmp_path / "m", rotate_count=0), b"1234567", b"8901")
    assert files(tmp_path) == {"m": b"8901\n"}


def test_a_file_url_is_a_file(tmp_path):
    write(open_sink("", f"file://{tmp_path / 'm'}"), b"x")
    assert files(tmp_path) == {"m": b"x\n"}


def test_messages_that_are_written_together_leave_no_part_behind(tmp_path):
    """The limit is reached within the third of four: two are whole, the third's part is cut off, the fourth fits."""
    path = tmp_path / "m.jsonl"
    program = LIMITED.replace('[b"whole", b"does not fit in", b"fits"]', '[b"one", b"two", b"does not fit", b"four"]')
    result = subprocess.run([sys.executable, "-c", program, path], capture_output=True, text=True, check=True)
    assert result.stdout == "[True, True, False, True]\n"
    assert path.read_text() == "one\ntwo\nfour\n"


def test_messages_to_a_full_disk_each_have_the_error(tmp_path):
    program = LIMITED.replace("(15,", "(0,").replace("error is None for", "error.errno for")
    result = subprocess.run([sys.executable, "-c", program, tmp_path / "m"], capture_output=True, text=True, check=True)
    assert result.stdout == f"{[errno.EFBIG] * 3}\n"
    assert (tmp_path / "m").read_bytes() == b""
