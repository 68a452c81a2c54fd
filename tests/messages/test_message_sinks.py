"""Files and the standard output as sinks, and what is refused."""

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from sluice.errors import ConfigurationError
from sluice.messages import open_sink


def write(sink, *messages):
    for message in messages:
        sink.write(message)
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
        ("kafka", "", "proto 'kafka' is not known; stdout and file are"),
        ("stdout", "m.jsonl", "use proto=file or no location"),
        ("file", "-", "location names no file"),
        ("", "/nonexistent/folder/m.jsonl", "'/nonexistent/folder/m.jsonl' cannot be written: No such file"),
        ("", "/", "'/' cannot be written: Is a directory"),
    ],
)
def test_what_cannot_work_is_refused_by_name(proto, location, words):
    with pytest.raises(ConfigurationError, match=words):
        open_sink(proto, location)


def test_a_full_disk_is_an_error_of_the_message():
    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full here")
    sink = open_sink("file", "/dev/full")
    with pytest.raises(OSError, match="No space left") as caught:
        sink.write(b"x")
    assert caught.value.errno == errno.ENOSPC
    sink.close()


LIMITED = """
import resource, signal, sys
from sluice.messages import open_sink
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (15, resource.RLIM_INFINITY))
sink = open_sink("file", sys.argv[1])
sink.write(b"whole")
try:
    sink.write(b"does not fit in")
except OSError:
    print("refused")
sink.write(b"fits")
"""


def test_a_message_that_fits_only_in_part_leaves_nothing_behind(tmp_path):
    path = tmp_path / "m.jsonl"
    result = subprocess.run([sys.executable, "-c", LIMITED, path], capture_output=True, text=True, check=True)
    assert result.stdout == "refused\n"
    assert path.read_text() == "whole\nfits\n"
