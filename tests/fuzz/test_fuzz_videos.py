"""Spoilt videos through the whole pipeline: nothing crashes or hangs, each failure is named, a good stream is whole."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
CLIP = ROOT / "examples" / "data" / "pedestrians.mp4"
FRAMES = 40
CLIPS = (
    "asl_walk.mkv",
    "derived_853x479_vp9.webm",
    "derived_pts_wrap.ts",
    "vpf_test_res_change.h264",
    "decord_video_90.mov",
)


def spoil(content: bytes, seed: int) -> bytes:
    """The same bytes with some flipped, or a part of them lost, doubled, zeroed or cut off."""
    chance = random.Random(seed)
    spoilt = bytearray(content)
    begin = chance.randrange(len(spoilt))
    end = min(len(spoilt), begin + chance.randrange(1, 20_000))
    kind = seed % 5
    if kind == 0:
        for _ in range(chance.randrange(1, 300)):
            spoilt[chance.randrange(len(spoilt))] ^= 1 << chance.randrange(8)
    elif kind == 1:
        del spoilt[begin:end]
    elif kind == 2:
        spoilt[begin:begin] = spoilt[begin:end]
    elif kind == 3:
        spoilt[begin:end] = bytes(end - begin)
    else:
        del spoilt[max(begin, 64) :]
    return bytes(spoilt)


def run(files: list[Path], folder: Path) -> dict[str, dict[str, object]]:
    """Run the files and a good one as streams of one job; return each stream's part of the summary by file name."""
    summary = folder / "summary.json"
    done = subprocess.run(
        [sys.executable, "-m", "sluice.app.cli", "run", *map(str, [*files, CLIP]), "--model", "none", "--quiet",
         "--frames", str(FRAMES), "--summary", str(summary), "--out", str(folder / "out")],
        capture_output=True, text=True, timeout=100,
    )  # fmt: skip
    assert done.returncode in (0, 1), f"exit status {done.returncode}\n{done.stdout}\n{done.stderr[-3000:]}"
    assert "Traceback" not in done.stderr
    return {str(stream["uri"]).rsplit("/", 1)[-1]: stream for stream in json.loads(summary.read_text())["streams"]}


def check(streams: dict[str, dict[str, object]]) -> None:
    good = streams.pop(CLIP.name)
    assert (good["frames_in"], good["frames_out"], good["errors"]) == (FRAMES, FRAMES, [])
    for name, stream in streams.items():
        assert stream["frames_out"] == stream["frames_in"] or stream["errors"], (name, stream)
        assert stream["frames_in"] or stream["errors"], f"{name} gave no frame and no reason"


@pytest.mark.parametrize("first", [0, 5, 10, 15])
def test_spoilt_copies_of_the_demo_clip(first: int, tmp_path: Path) -> None:
    files = [tmp_path / f"spoilt_{seed}.mp4" for seed in range(first, first + 5)]
    for seed, file in enumerate(files, first):
        file.write_bytes(spoil(CLIP.read_bytes(), seed))
    check(run(files, tmp_path))


@pytest.mark.parametrize("name", CLIPS)
def test_spoilt_copies_of_other_containers(name: str, data: Path, tmp_path: Path) -> None:
    files = [tmp_path / f"spoilt_{seed}{Path(name).suffix}" for seed in range(5)]
    for seed, file in enumerate(files):
        file.write_bytes(spoil((data / "videos" / name).read_bytes(), seed))
    check(run(files, tmp_path))
