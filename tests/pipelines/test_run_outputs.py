"""The live outputs and metrics of ``sluice run``."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import urllib.request
from pathlib import Path

import cv2
import pytest

SLUICE = [sys.executable, "-m", "sluice.app.cli"]
TEST = "test:ball?size=64x48&fps=25"


def sluice(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*SLUICE, *map(str, arguments)], capture_output=True, text=True, timeout=60)


def count_frames(path: Path) -> int:
    capture, count = cv2.VideoCapture(str(path)), 0
    while capture.read()[0]:
        count += 1
    return count


def test_a_file_is_recorded_whole(tmp_path: Path) -> None:
    done = sluice(
        "run", f"{TEST}&frames=110", f"{TEST}&frames=60", "--model", "none", "--record", tmp_path / "r",
        "--segment-seconds", 2, "--hls", tmp_path / "h",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "110 frames in, 110 out" in done.stdout
    for name, counts in (("test_ball", [50, 50, 10]), ("test_ball-2", [50, 10])):
        assert [count_frames(path) for path in sorted((tmp_path / "r" / name).iterdir())] == counts
        assert "#EXT-X-ENDLIST" in (tmp_path / "h" / name / "index.m3u8").read_text()


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small disk needs root")
def test_a_recording_that_fails_is_in_the_summary(tmp_path: Path) -> None:
    small = tmp_path / "small"
    small.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16k", "tmpfs", str(small)], capture_output=True).returncode:
        pytest.skip("a small disk cannot be mounted here")
    try:
        done = sluice("run", f"{TEST}&frames=200", "--model", "none", "--record", small)
    finally:
        subprocess.run(["umount", "-l", str(small)], check=True)
    assert re.search(r"warning: test_ball: record: .*[Ss]pace", done.stdout), done.stdout + done.stderr


def test_metrics_and_top_while_it_runs() -> None:
    run = subprocess.Popen(
        [*SLUICE, "run", f"{TEST}&live=1", "--model", "none", "--metrics", "0", "-q"], stderr=subprocess.PIPE, text=True
    )
    try:
        assert run.stderr is not None
        line = run.stderr.readline()
        url = re.search(r"http://127\.0\.0\.1:\d+", line)
        assert url is not None, line
        with urllib.request.urlopen(f"{url[0]}/metrics", timeout=10) as answer:
            assert b"sluice_process_open_fds" in answer.read()
        for _ in range(20):
            top = sluice("top", url[0], "--once")
            assert top.returncode == 0, top.stderr
            if "1 of 1 streams play" in top.stdout:
                break
        assert "1 of 1 streams play" in top.stdout
    finally:
        run.terminate()
        run.communicate()
    assert run.returncode == 143


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("--record", "r", "--out", "x.mp4"), "--record, --hls and --rtsp take the place of --out"),
        (("--segment-seconds", "2"), "--segment-seconds needs --record"),
        (("--record", "r", "--processes", "2"), "leave out --processes"),
        (("--record", "file"), "file', which is a file; name a folder"),
        (("--hls", "file"), "hls: the folder is"),
        (("--record", ""), "it is empty; name a file or folder"),
        (("--hls", " "), "it is empty; name a file or folder"),
        (("--out", ""), "it is empty; name a file or folder"),
        (("--record", "/proc/sluice"), "'/proc/sluice' cannot be made"),
    ],
)
def test_what_does_not_go_together_is_refused(tmp_path: Path, arguments: tuple[str, ...], named: str) -> None:
    (tmp_path / "file").touch()
    given = [str(tmp_path / item) if item in ("r", "file") else item for item in arguments]
    done = sluice("run", f"{TEST}&frames=5", "--model", "none", *given)
    assert done.returncode == 2
    assert named in done.stderr


def test_top_without_a_service_says_so() -> None:
    done = sluice("top", "http://127.0.0.1:9", "--once")
    assert done.returncode == 1
    assert "does not answer" in done.stderr
