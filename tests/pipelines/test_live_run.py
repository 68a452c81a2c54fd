"""`sluice run` on cameras, and when nobody reads what it writes."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import cv2
import pytest

from rtsp_server import RtspServer
from waiting import until

CLIP = Path(__file__).parents[2] / "examples" / "data" / "pedestrians.mp4"


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "sluice.app.cli", "run", *map(str, arguments), "--quiet"]


def frames_of(path: Path) -> int:
    video, frames = cv2.VideoCapture(str(path)), 0
    while video.grab():
        frames += 1
    return frames


def test_an_interrupted_run_on_a_camera_leaves_a_whole_file(tmp_path: Path) -> None:
    messages = tmp_path / "messages.jsonl"
    with RtspServer() as server:
        run = subprocess.Popen(
            command(server.url(), "--model", "none", "--out", tmp_path / "cam.mp4", "--messages", messages),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        until(lambda: messages.is_file() and len(messages.read_text().splitlines()) > 20, "frames come")
        run.send_signal(signal.SIGINT)
        output, _ = run.communicate(timeout=30)
    assert run.returncode == 130, output
    assert "Traceback" not in output
    assert frames_of(tmp_path / "cam.mp4") > 10
    assert json.loads(messages.read_text().splitlines()[-1])["stream"] == 0


@pytest.mark.parametrize("output", ["head", "/dev/full"])
def test_files_are_finished_though_nobody_reads_the_messages(tmp_path: Path, output: str) -> None:
    video = tmp_path / "tile.mp4"
    words = command(CLIP, "--model", "none", "--out", video, "--messages", "-", "--frames", 200)
    if output == "head":
        run = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert run.stdout is not None
        run.stdout.readline()
        run.stdout.close()
        assert run.stderr is not None
        errors = run.stderr.read()
        run.wait(60)
    else:
        with Path(output).open("w") as full:
            run = subprocess.Popen(words, stdout=full, stderr=subprocess.PIPE, text=True)
            _, errors = run.communicate(timeout=60)
    assert run.returncode == 1, errors
    assert "Traceback" not in errors
    assert "sluicemsgbroker" in errors
    if output == "head":
        assert frames_of(video) > 0


@pytest.mark.parametrize("words", [["models"], ["doctor"], ["run", "test:ball?frames=2&size=64x48", "--model", "none"]])
def test_an_output_that_is_full_is_told_in_one_line(words: list[str]) -> None:
    with Path("/dev/full").open("w") as full:
        ran = subprocess.run(
            [sys.executable, "-m", "sluice.app.cli", *words],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=100,
        )
    assert ran.returncode == 1
    assert ran.stderr.splitlines()[-1] == "sluice: the output cannot be written: No space left on device"
    assert "Traceback" not in ran.stderr
