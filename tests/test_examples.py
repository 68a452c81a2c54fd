"""The examples, each run as its first lines say."""

import json
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import cv2
import pytest

from waiting import PATIENCE, until

ROOT = Path(__file__).parent.parent
EXAMPLES = ROOT / "examples"
CLIP = EXAMPLES / "data" / "pedestrians.mp4"


def run(folder: Path, *command: str | Path, **variables: str) -> str:
    """Run a command in a folder, with the environment's commands on the path; return what it printed."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        [str(word) for word in command], cwd=folder, env={**os.environ, "PATH": path, **variables}, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=110,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    return done.stdout


def read(file: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


@pytest.fixture(scope="module")
def short_clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The first 40 frames of the demo clip."""
    clip = tmp_path_factory.mktemp("clip") / "in.mp4"
    settings = ("--model", "none", "--tracker", "none", "--frames", "40", "-q")
    run(clip.parent, "sluice", "run", CLIP, *settings, "--out", clip)
    return clip


def test_a_pytorch_module(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    model = EXAMPLES / "torch_model.py"
    run(tmp_path, "sluice", "run", CLIP, "--model", f"{model}:Detector", "--frames", "5", "--messages", "m.jsonl", "-q")
    assert len(read(tmp_path / "m.jsonl")) == 5


def test_rotated_boxes_on_aerial_pictures(tmp_path: Path) -> None:
    run(tmp_path, sys.executable, EXAMPLES / "aerial_obb.py", "out")
    messages = read(tmp_path / "out" / "aerial.jsonl")
    assert len(messages) == 20
    angles = {round(obj.get("angle", 0)) for message in messages for obj in message["objects"]}  # type: ignore[attr-defined]
    assert len(angles) > 10


def test_people_are_hidden(tmp_path: Path, short_clip: Path) -> None:
    run(tmp_path, EXAMPLES / "privacy_blur.sh", short_clip, "hidden.mp4")
    before, after = cv2.VideoCapture(str(short_clip)), cv2.VideoCapture(str(tmp_path / "hidden.mp4"))
    changed = 0
    while True:
        read_before, one = before.read()
        read_after, other = after.read()
        assert read_before == read_after
        if not read_before:
            break
        changed += int((cv2.absdiff(one, other).max(axis=2) > 60).sum() > 200)
    assert changed > 10, "hardly anything was blurred"


def test_people_are_counted_at_a_line(tmp_path: Path, short_clip: Path) -> None:
    printed = run(tmp_path, sys.executable, EXAMPLES / "line_counting_mqtt.py", short_clip, tmp_path / "lines.jsonl")
    assert "40 frames in, 40 out" in printed
    told = [message["user"][0]["analytics"] for message in read(tmp_path / "lines.jsonl")]  # type: ignore[index]
    assert len(told) == 40
    crossed = Counter(crossing["line"] for analytics in told for crossing in analytics["crossings"])
    assert crossed == {"West": 1}, "somebody goes to the left over the middle within the first 40 frames"
    assert told[-1]["lines"] == {"East": 0, "West": 1}


def test_a_second_model_reads_the_objects_of_the_first(tmp_path: Path, short_clip: Path) -> None:
    run(tmp_path, EXAMPLES / "cascade.sh", short_clip, "cascade.jsonl")
    objects = [obj for message in read(tmp_path / "cascade.jsonl") for obj in message["objects"]]  # type: ignore[attr-defined]
    told = Counter(attribute["type"] for obj in objects for attribute in obj.get("attributes", ()))
    assert objects
    assert told["colour"] == len(objects)


def test_the_model_of_a_service_is_changed(tmp_path: Path) -> None:
    pytest.importorskip("fastapi")
    (tmp_path / "service.yaml").write_text(
        "streams: [{name: ball, source: 'test:ball?live=1&fps=5&frames=0'}]\nmodel: {name: people}\nhttp: {port: 0}\n"
    )
    with (tmp_path / "service.log").open("w") as log:
        service = subprocess.Popen(
            [sys.executable, "-m", "sluice.app.cli", "serve", "service.yaml", "--verbose"],
            cwd=tmp_path, stdout=log, stderr=subprocess.STDOUT,
        )  # fmt: skip
        try:

            def told() -> re.Match[str] | None:
                text = (tmp_path / "service.log").read_text()
                assert service.poll() is None, text
                return re.search(r"http://127\.0\.0\.1:\d+", text)

            url = until(told, "the service's address")[0]
            printed = run(tmp_path, sys.executable, EXAMPLES / "hot_swap_rest.py", url, "people")
            assert "people runs" in printed
        finally:
            service.terminate()
            service.wait(PATIENCE)


def test_the_deepstream_line_runs_without_deepstream(tmp_path: Path, short_clip: Path) -> None:
    run(tmp_path, EXAMPLES / "deepstream.sh", short_clip, "people", "out.mp4")
    assert cv2.VideoCapture(str(tmp_path / "out.mp4")).get(cv2.CAP_PROP_FRAME_COUNT) == 40
