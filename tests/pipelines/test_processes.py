"""``sluice run --processes``: streams shared out over processes, and what becomes of the run when one dies."""

import contextlib
import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from waiting import PATIENCE, until

SLUICE = [sys.executable, "-m", "sluice.app.cli", "run"]
MODEL = '''
import os
import signal


class Bright:
    """Finds one object; in the process whose stream and frame are named, dies."""

    labels = ["bright"]

    def __init__(self, dies_at: str = "", raises_at: str = "") -> None:
        self._dies_at, self._raises_at = dies_at, raises_at

    def infer(self, frames):
        import numpy as np
        from sluice import Detections

        for frame in frames:
            if f"{frame.stream},{frame.number}" == self._dies_at:
                os.kill(os.getpid(), signal.SIGKILL)
            if f"{frame.stream},{frame.number}" == self._raises_at:
                raise ValueError("no more")
        box = np.array([[1, 2, 30, 40]], np.float32)
        return [Detections(box, np.array([0.9], np.float32), np.array([0], np.int32)) for _ in frames]
'''


def ball(frames: int, more: str = "") -> str:
    return f"test:ball?frames={frames}&size=64x48{more}"


@pytest.fixture
def bright(tmp_path: Path) -> str:
    path = tmp_path / "bright.py"
    path.write_text(MODEL)
    return f"{path}:Bright"


def sluice(*arguments: object) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([*SLUICE, *map(str, arguments)], capture_output=True, text=True, timeout=110)


def frames_by_stream(text: str) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for line in text.splitlines():
        message = json.loads(line)
        found.setdefault(message["stream"], []).append(message["frame"])
    return found


def test_streams_keep_their_numbers_and_order_and_one_summary_tells_of_all(tmp_path: Path, bright: str) -> None:
    messages, summary = tmp_path / "all.jsonl", tmp_path / "summary.json"
    counts = [30, 25, 20]
    done = sluice(
        *map(ball, counts), "--model", bright, "--processes", 2, "--messages", messages, "--summary", summary,
        "--out", tmp_path / "out",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = frames_by_stream(messages.read_text())
    assert found == {stream: list(range(count)) for stream, count in enumerate(counts)}
    told = json.loads(summary.read_text())
    assert [stream["frames_out"] for stream in told["streams"]] == counts
    assert [stream["name"] for stream in told["streams"]] == ["test_ball", "test_ball-2", "test_ball-3"]
    assert [Path(stream["output"]).name for stream in told["streams"]] == [
        "test_ball.mp4", "test_ball-2.mp4", "test_ball-3.mp4",
    ]  # fmt: skip
    assert all(Path(stream["output"]).stat().st_size for stream in told["streams"])
    assert (told["errors"], told["stopped"], told["provider"] != "") == ([], False, True)


def test_each_process_keeps_messages_for_a_broker_in_a_spool_of_its_own(
    tmp_path: Path, bright: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/seen"  # nobody is there afterwards
    done = sluice(ball(9), ball(9), "--model", bright, "--processes", 2, "--messages", url, "-q")
    assert done.returncode == 0, done.stderr
    kept = []
    for path in sorted((tmp_path / "sluice" / "spool").glob("*.db")):
        with contextlib.closing(sqlite3.connect(path)) as spool:
            rows = spool.execute("SELECT payload FROM message ORDER BY id").fetchall()
        kept.append([(message["stream"], message["frame"]) for (text,) in rows if (message := json.loads(text))])
    assert sorted(kept) == [[(stream, frame) for frame in range(9)] for stream in range(2)]


def test_ids_are_those_of_one_process(tmp_path: Path, bright: str) -> None:
    ids = []
    for processes in (1, 2):
        messages = tmp_path / f"{processes}.jsonl"
        done = sluice(ball(12), ball(12), "--model", bright, "--processes", processes, "--messages", messages, "-q")
        assert done.returncode == 0, done.stderr
        found = [json.loads(line) for line in messages.read_text().splitlines()]
        ids.append({(m["stream"], m["frame"]): [o.get("id") for o in m["objects"]] for m in found})
    assert ids[0] == ids[1]


def test_a_process_that_dies_is_named_and_the_others_finish(tmp_path: Path, bright: str) -> None:
    summary = tmp_path / "summary.json"
    done = sluice(
        ball(30), ball(30), ball(30), "--model", bright, "--model-option", "dies_at=2,9", "--processes", 3,
        "--messages", "-", "--summary", summary, "-q",
    )  # fmt: skip
    assert done.returncode == 1
    found = frames_by_stream(done.stdout)
    assert found[0] == found[1] == list(range(30))
    first, second, third = json.loads(summary.read_text())["streams"]
    assert (first["errors"], second["errors"]) == ([], [])
    (why,) = third["errors"]
    assert "process 2 (pid " in why
    assert "stream 2" in why
    assert "SIGKILL" in why


def test_a_model_that_fails_at_work_fails_the_streams_of_its_process(tmp_path: Path, bright: str) -> None:
    summary = tmp_path / "summary.json"
    done = sluice(
        ball(30), ball(30), "--model", bright, "--model-option", "raises_at=1,9", "--processes", 2,
        "--summary", summary, "-q",
    )  # fmt: skip
    assert done.returncode == 1
    told = json.loads(summary.read_text())
    assert told["streams"][0]["errors"] == []
    assert "process 1" in told["streams"][1]["errors"][0]
    assert "no more" in told["errors"][0]


def test_messages_that_cannot_be_written_fail_the_run(tmp_path: Path, bright: str) -> None:
    summary = tmp_path / "summary.json"
    endless = ball(0, "&live=1&fps=25")
    done = sluice(
        endless, endless, "--model", bright, "--processes", 2,
        "--messages", "/dev/full", "--summary", summary, "-q",
    )  # fmt: skip
    assert done.returncode == 1
    why = "messages: a line could not be written to '/dev/full': [Errno 28] No space left on device"
    assert f"error: {why}" in done.stdout
    told = json.loads(summary.read_text())
    assert (told["errors"], told["stopped"]) == ([why], False)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--model", "nowhere.py:Class"), "nowhere.py"),
        (("--tile", "--out", "all.mp4"), "needs them in one process"),
    ],
)
def test_what_cannot_be_is_refused_as_wrong_arguments(tmp_path: Path, arguments: tuple[str, ...], said: str) -> None:
    done = sluice(ball(5), ball(5), "--processes", 2, "-q", *arguments)
    assert done.returncode == 2
    assert said in done.stderr


def children_of(pid: int) -> list[int]:
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return [int(word) for word in text.split()]


@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGINT])
def test_an_interruption_ends_all_processes_and_finishes(tmp_path: Path, bright: str, sent: signal.Signals) -> None:
    messages, summary = tmp_path / "m.jsonl", tmp_path / "s.json"
    live = ball(0, "&live=1")
    command = [*SLUICE, live, live, "--model", bright, "--processes", "2", "--messages", str(messages)]
    run = subprocess.Popen([*command, "--summary", str(summary), "-q"])
    until(lambda: messages.exists() and len(frames_by_stream(whole(messages))) == 2, "messages of both streams")
    workers = children_of(run.pid)
    assert len(workers) == 2
    run.send_signal(sent)
    assert run.wait(PATIENCE) == 128 + sent
    assert not any(Path(f"/proc/{worker}").exists() for worker in workers)
    assert json.loads(summary.read_text())["stopped"] is True
    assert all(frames_by_stream(messages.read_text()).values())


def whole(path: Path) -> str:
    return path.read_text().rpartition("\n")[0]


def test_processes_end_when_who_started_them_is_gone(bright: str) -> None:
    live = ball(0, "&live=1")
    run = subprocess.Popen([*SLUICE, live, live, "--model", bright, "--processes", "2", "-q"])
    workers = until(lambda: found if len(found := children_of(run.pid)) == 2 else None, "both processes")
    os.kill(run.pid, signal.SIGKILL)
    run.wait(PATIENCE)
    until(lambda: not any(Path(f"/proc/{worker}").exists() for worker in workers), "the end of both")
