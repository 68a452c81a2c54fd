"""What each process of a service is given, and how their numbers are told as those of one."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from sluice.app.outputs import OutputOptions, RtspOptions
from sluice.app.roster import Roster
from sluice.app.serve.processes.crew import Entry, Member
from sluice.app.serve.processes.numbers import merged_snapshot
from sluice.app.serve.processes.task import Recipe, Setup
from sluice.app.sources import parse_source
from sluice.app.streams import StreamState, StreamStatus
from sluice.errors import ConfigurationError
from sluice.metrics import ElementNumbers, OutputNumbers, Snapshot, StreamNumbers
from sluice.metrics.process import read_process

OPTIONS: dict[str, Any] = {"model": "old", "messages": None, "confidence": 0.5, "iou": None, "classes": None}
SETUP = Setup("new", {"confidence": 0.1, "iou": None, "classes": ["dog"]})


def recipe(outputs: OutputOptions | None = None, messages: str | None = None) -> Recipe:
    return Recipe(2, {**OPTIONS, "messages": messages}, outputs or OutputOptions(), {})


def status(name: str, number: int, state: StreamState = StreamState.PLAYING) -> StreamStatus:
    return StreamStatus(name, number, "test:ball", True, state, 0.0, frames_in=3)


def test_a_process_has_the_setup_of_now_and_a_port_of_its_own() -> None:
    made = recipe(OutputOptions(rtsp=RtspOptions(port=8554), tiled=True))
    tasks = [made.task(number, SETUP, ["hunter22"], None) for number in range(2)]
    assert [task.outputs.rtsp and task.outputs.rtsp.port for task in tasks] == [8554, 8555]
    assert [task.outputs.tiled for task in tasks] == [False, False]
    options = {**OPTIONS, "model": "new", "confidence": 0.1, "classes": ["dog"]}
    assert (dict(tasks[1].pipeline), tasks[1].hidden) == (options, ("hunter22",))
    anywhere = recipe(OutputOptions(rtsp=RtspOptions(port=0))).task(1, SETUP, (), None).outputs.rtsp
    assert anywhere is not None
    assert anywhere.port == 0
    with pytest.raises(ConfigurationError, match=r"outputs\.rtsp\.port is 65535, and that of process 1"):
        recipe(OutputOptions(rtsp=RtspOptions(port=65535))).check()


def test_messages_come_together_or_go_through_a_spool_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert (recipe().lines, recipe(messages="out.jsonl").lines, recipe(messages="-").lines) == (None, "out.jsonl", "-")
    assert recipe(messages="-").task(1, SETUP, (), "/dev/fd/7").pipeline["messages"] == "/dev/fd/7"

    def spools(url: str) -> list[str]:
        made = recipe(messages=url)
        assert made.lines is None
        return [str(made.task(number, SETUP, (), None).pipeline["spool"]) for number in range(2)]

    own, other = map(Path, spools("redis://127.0.0.1:6379/seen"))
    assert own.parent == other.parent == tmp_path / "sluice" / "spool"
    assert other.name == f"{own.stem}-1.db"
    assert spools("redis://127.0.0.1:6379/seen?spool=/var/mine.db") == ["/var/mine.db", "/var/mine-1.db"]
    assert spools("redis://127.0.0.1:6379/seen?spool=none") == ["none", "none"]


def test_numbers_of_processes_are_those_of_one() -> None:
    parts = [
        Snapshot(
            streams=(StreamNumbers("a", 0, "playing", 10),),
            elements=(ElementNumbers("sluicemux", 5, 10), ElementNumbers("sluiceinfer", 4, 8, 2)),
            batch_size=2,
            last="sluiceinfer",
            model_seconds=(0.010, 0.02),
            model_busy=7.0,
            model={"inferred": 8},
            messages={"sent": 1},
            spooled=3,
            outputs=(OutputNumbers("a", "record"),),
            viewers={("a", "pictures"): 1},
        ),
        Snapshot(
            streams=(StreamNumbers("c", 2, "playing"),),
            elements=(ElementNumbers("sluicemux", 12, 12), ElementNumbers("sluiceinfer", 12, 12)),
            batch_size=2,
            last="sluiceinfer",
            model_seconds=(0.030, 0.05),
            model_busy=9.0,
            model={"inferred": 12, "errors": 1},
            messages={"sent": 2, "failed": 1},
            spooled=1,
            viewers={("c", "pictures"): 0},
        ),
    ]
    merged = merged_snapshot(parts, [status("a", 0), status("b", 1, StreamState.LOST), status("c", 2)])
    assert [(stream.name, stream.number, stream.state) for stream in merged.streams] == [
        ("a", 0, "playing"), ("b", 1, "lost"), ("c", 2, "playing"),
    ]  # fmt: skip
    assert merged.streams[1].frames_in == 3
    assert merged.elements == (ElementNumbers("sluicemux", 17, 22), ElementNumbers("sluiceinfer", 16, 20, 2))
    assert merged.model_seconds == (pytest.approx((4 * 0.010 + 12 * 0.030) / 16), 0.05)
    assert (merged.model_busy, merged.last, merged.batch_size) == (9.0, "sluiceinfer", 2)
    assert (merged.model, merged.messages) == ({"inferred": 20, "errors": 1}, {"sent": 3, "failed": 1})
    assert (merged.spooled, len(merged.outputs)) == (4, 1)
    assert merged.viewers == {("a", "pictures"): 1, ("c", "pictures"): 0}
    assert merged_snapshot([], []).model_seconds == (0.0, 0.0)


def test_another_process_is_measured_as_this_one_is() -> None:
    own, other = read_process(), read_process(os.getpid())
    assert other.rss == pytest.approx(own.rss, rel=0.2)
    assert other.fds == pytest.approx(own.fds, abs=3)
    assert other.cpu_seconds == pytest.approx(own.cpu_seconds, abs=0.5)
    assert read_process(2**22 + 1).rss == 0  # beyond the largest id that Linux gives


def test_a_stream_that_cannot_be_asked_keeps_its_counts() -> None:
    entry = Entry(3, "gate", parse_source("test:ball?live=1"), "test:ball?live=1", None, Member(1, next_start=5.0))
    assert entry.absent(StreamState.CONNECTING, "").frames_in == 0
    entry.status = status("gate", 3)
    absent = entry.absent(StreamState.LOST, "process 1 has ended")
    assert (absent.name, absent.number, absent.state, absent.frames_in) == ("gate", 3, StreamState.LOST, 3)
    assert (absent.reason, absent.next_retry, absent.fps) == ("process 1 has ended", 5.0, 0.0)


def test_numbers_given_from_outside_are_given_to_nobody_else() -> None:
    roster: Roster[Entry] = Roster()
    source = parse_source("test:ball")

    def make(number: int, name: str) -> Entry:
        return Entry(number, name, source, "test:ball", None, Member(0))

    numbers = [roster.add(source, None, make, given).number for given in (None, 7, None, 4, None)]
    assert numbers == [0, 7, 8, 4, 9]
