"""From a video to `sluice search`: colours stand for what an image and a text encoder would see."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import sluice

MODELS = """
import numpy as np
from sluice import Detections
from sluice.models.whole import WholeFrame

COLOURS = {"red": (1, 0, 0), "green": (0, 1, 0), "blue": (0, 0, 1)}

class Find:
    labels = ["patch"]
    def infer(self, frames):
        return [Detections(xyxy=[[4, 4, 36, 36]], scores=[0.9], class_ids=[0]) for _ in frames]

class Look:
    def infer(self, frames):
        return [Detections(xyxy=np.zeros((0, 4)), scores=[], class_ids=[], whole=self.seen(frame)) for frame in frames]
    def seen(self, frame):
        return WholeFrame(embedding=frame.rgb().reshape(-1, 3).mean(axis=0).astype(np.float32) + 1)

class Text:
    def encode(self, texts):
        return [np.sum([COLOURS.get(word, (0, 0, 0)) for word in text.split()], axis=0) for text in texts]
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A folder with the models and an archive of three streams."""
    folder = tmp_path_factory.mktemp("search")
    (folder / "colours.py").write_text(MODELS)
    sources = [f"test:{colour}?frames=40&size=64x48&fps=10" for colour in ("red", "green", "blue")]
    models = {"model": f"{folder}/colours.py:Find", "index_model": f"{folder}/colours.py:Look"}
    assert sluice.Pipeline(sources, index=folder / "archive", **models).run().ok
    return folder


def search(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "sluice.app.cli", "search", "--index", str(folder / "archive"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=100, cwd=folder)


def found(folder: Path, *arguments: str) -> list[dict]:
    done = search(folder, "--json", *arguments)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_the_stream_that_looks_like_the_text_comes_first(folder: Path) -> None:
    for number, colour in enumerate(("red", "green", "blue")):
        hits = found(folder, f"{colour} patch", "--text-model", "colours.py:Text", "-n", "4")
        assert [hit["stream"] for hit in hits] == [number] * 4
        assert {hit["name"] for hit in hits} == {f"test_{colour}"}
        assert hits[0]["similarity"] > 0.9
        assert (hits[0]["label"], hits[0]["box"]) == ("patch", [4.0, 4.0, 32.0, 32.0])
        assert hits[0]["id"] is not None


def test_filters_and_likeness(folder: Path) -> None:
    (best,) = found(folder, "green", "--text-model", "colours.py:Text", "--stream", "test_blue", "-n", "1")
    assert best["name"] == "test_blue"
    alike = found(folder, "--like", str(best["key"]), "-n", "3")
    assert [hit["stream"] for hit in alike] == [2, 2, 2]
    assert best["key"] not in [hit["key"] for hit in alike]
    assert found(folder, "--like", str(best["key"]), "--label", "patch", "--until", "2100-01-01")


def test_for_people(folder: Path) -> None:
    done = search(folder, "red", "--text-model", "colours.py:Text", "-n", "1")
    assert "test_red, frame " in done.stdout
    assert "patch 0 at 4,4,32,32" in done.stdout
    nothing = search(folder, "red", "--text-model", "colours.py:Text", "--since", "2100-01-01T00:00:00Z")
    assert (nothing.returncode, nothing.stdout) == (1, "nothing was found\n")


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("red",), "--text-model is not given"),
        ((), "give a text"),
        (("red", "--like", "1"), "give a text"),
        (("--like", "100000"), "has no entry 100000"),
        (("red", "--text-model", "colours.py:Text", "--since", "yesterday"), "--since is 'yesterday'"),
        (("red", "--text-model", "colors.py:Text"), "no model file 'colors.py'; did you mean 'colours.py'"),
        (("purple", "--text-model", "colours.py:Text"), "without a direction"),
    ],
)
def test_wrong_arguments(folder: Path, arguments: tuple[str, ...], text: str) -> None:
    done = search(folder, *arguments)
    assert done.returncode == 2
    assert text in done.stderr
    assert "Traceback" not in done.stderr


def test_a_model_without_an_archive_is_refused() -> None:
    with pytest.raises(sluice.SluiceError, match="index_model needs index"):
        sluice.Pipeline("test:red?frames=1", index_model="people")
