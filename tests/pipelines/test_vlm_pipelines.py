"""A slow model in whole pipelines: answers on frames, in messages, drawn, in events and the summary."""

import json
import subprocess
import sys
import threading
import time
from pathlib import Path

import cv2
import numpy as np
import pytest

import sluice
from sluice.errors import ConfigurationError, SluiceError
from vlm.chat_server import ChatServer, Reply

CLIP = Path(__file__).parents[2] / "examples" / "data" / "pedestrians.mp4"


class Counts:
    """Says how bright the pictures were."""

    def answer(self, images: list[np.ndarray], prompt: str) -> str:
        return f"{prompt} {len(images)} {images[-1].shape[1]}x{images[-1].shape[0]}"


def test_answers_of_files_are_the_same_every_time() -> None:
    def run() -> list[tuple[int, int, str]]:
        vlm = {"backend": Counts(), "prompt": "{pts}", "every": 1.0, "frames": 2}
        sources = ["test:ball?frames=70&size=64x48&fps=25", "test:snow?frames=45&size=32x32&fps=15"]
        with sluice.Pipeline(sources, model=None, vlm=vlm) as pipeline:
            found = [(frame.stream, frame.number, one.text) for frame in pipeline for one in frame.answers]
        assert pipeline.summary.segments == {"asked": 6, "answered": 6}
        return sorted(found)

    assert (
        run()
        == run()
        == [
            (0, 13, "0.520 2 64x48"),
            (0, 38, "1.520 2 64x48"),
            (0, 63, "2.520 2 64x48"),
            (1, 8, "0.533 2 32x32"),
            (1, 23, "1.533 2 32x32"),
            (1, 38, "2.533 2 32x32"),
        ]
    )


def test_in_messages_events_and_on_the_picture(tmp_path: Path) -> None:
    with ChatServer(answer=lambda asked: Reply(text='{"people": 2}')) as server:
        schema = tmp_path / "schema.json"
        schema.write_text('{"type": "object", "required": ["people"]}')
        options = {"backend": server.url, "model": "m", "schema": schema, "every": 2, "prompt": "How many at {name}?"}
        out, messages = tmp_path / "out.mp4", tmp_path / "m.jsonl"
        plain = tmp_path / "plain.mp4"
        sluice.Pipeline("test:black?frames=40&size=320x240&fps=10", model=None, tracker=None, out=plain).run()
        pipeline = sluice.Pipeline(
            "test:black?frames=40&size=320x240&fps=10",
            model=None,
            tracker=None,
            vlm=options,
            out=out,
            messages=messages,
        )
        summary = pipeline.run()
        known = pipeline.answers
    assert summary.ok
    assert summary.segments == {"asked": 2, "answered": 2}
    told = [json.loads(line) for line in messages.read_text().splitlines()]
    with_answers = {message["frame"]: message["answers"][0] for message in told if "answers" in message}
    assert sorted(with_answers) == [0, 20]
    assert with_answers[20]["value"] == {"people": 2}
    assert with_answers[20]["start_pts"] == 2_000_000_000
    assert not any("user" in message for message in told)
    noted = [event for event in pipeline.events.since() if event.kind == "vlm-answered"]
    assert [event.details["answer"]["value"] for event in noted] == [{"people": 2}] * 2
    assert list(known) == ["test_black"]
    assert {asked.prompt.splitlines()[0] for asked in server.asked} == {"How many at test_black?"}
    lowest = [cv2.VideoCapture(str(path)).read()[1][200:].max() for path in (out, plain)]
    assert lowest[0] > 150 > lowest[1]


def test_a_camera_goes_on_while_the_endpoint_hangs_and_stop_is_quick() -> None:
    with ChatServer(answer=lambda asked: Reply(hang=True)) as server:
        vlm = {"backend": server.url, "model": "m", "every": 0.2, "properties": {"timeout": 600.0}}
        with sluice.Pipeline("test:ball?live=1&size=64x48&fps=25", model=None, vlm=vlm) as pipeline:
            numbers = []
            for frame in pipeline:
                numbers.append(frame.number)
                if len(numbers) == 50:
                    break
            began = time.monotonic()
        assert time.monotonic() - began < 2
    assert numbers == sorted(set(numbers))
    segments = pipeline.summary.segments
    assert segments["asked"] == sum(count for name, count in segments.items() if name != "asked") >= 9


def test_a_failing_endpoint_is_in_the_summary_and_ends_nothing() -> None:
    with ChatServer(answer=lambda asked: Reply(status=500, body=b"broken")) as server:
        vlm = {"backend": server.url, "model": "m", "every": 1, "properties": {"retries": 0}}
        pipeline = sluice.Pipeline("test:ball?frames=50&size=64x48&fps=25", model=None, vlm=vlm)
        summary = pipeline.run()
    assert summary.ok
    assert summary.streams[0].frames_out == 50
    assert summary.segments == {"asked": 2, "server-error": 2}
    assert "0 of 2 segments answered, without an answer: 2 server-error" in str(summary)
    assert any("server-error" in warning for warning in summary.warnings)
    assert [event.kind for event in pipeline.events.since() if event.kind.startswith("vlm")] == ["vlm-failed"] * 2


def test_a_program_asks() -> None:
    answered, asked = threading.Event(), False
    vlm = {"backend": Counts(), "every": 0, "policy": "newest"}
    with sluice.Pipeline("test:ball?live=1&size=64x48&fps=25", model=None, vlm=vlm) as pipeline:
        for frame in pipeline:
            if frame.number >= 2 and not asked:  # a busy machine may drop any of them
                asked = True
                assert pipeline.ask("test_ball", "who, {cause}?")
                assert not pipeline.ask("nobody")
            if frame.answers:
                assert frame.answers[0].text == "who, ask? 1 64x48"
                answered.set()
                break
    assert answered.is_set()


def test_objects_begin_segments(tmp_path: Path) -> None:
    vlm = {"backend": Counts(), "every": 0, "trigger": "object:person", "prompt": "{cause} {objects}"}
    with sluice.Pipeline(CLIP, model="people", frames=40, vlm=vlm) as pipeline:
        texts = [one.text for frame in pipeline for one in frame.answers]
    assert texts
    assert texts[0].startswith("object:person ")
    assert " person 1 " in texts[0]


@pytest.mark.parametrize(
    ("vlm", "text"),
    [
        ({"model": "m"}, "vlm has no backend"),
        ({"backend": "x", "promt": "?"}, "vlm has no option 'promt'"),
        ({"backend": "http://h/v1", "model": "m", "properties": {"tmeout": 1}}, "no property 'tmeout'"),
        ({"backend": "http://h/v1", "model": "m", "properties": {"image_size": -1}}, "image-size cannot be -1"),
        ({"backend": "http://h/v1", "model": "m", "every": "soon"}, "every cannot be 'soon'"),
        ({"backend": "http://h/v1", "model": "m", "frames": 1000}, "frames cannot be 1000"),
        ({"backend": "nobody"}, "there is no back end 'nobody'"),
        ({"backend": object()}, "has no answer"),
    ],
)
def test_what_is_refused(vlm, text) -> None:
    with pytest.raises(SluiceError, match=text):
        sluice.Pipeline("test:ball?frames=5&size=64x48", model=None, vlm=vlm).run()


def test_asking_without_a_slow_model() -> None:
    with sluice.Pipeline("test:ball?frames=5&size=64x48", model=None) as pipeline:
        with pytest.raises(ConfigurationError, match="not started"):
            pipeline.ask("test_ball")
        pipeline.run()
        assert pipeline.answers == {}
        with pytest.raises(ConfigurationError, match="without vlm"):
            pipeline.ask("test_ball")


def test_the_example_raises_an_alert() -> None:
    def answer(asked):
        return Reply(text=json.dumps({"help": " person" in asked.prompt, "why": f"{len(asked.images)} pictures"}))

    script = Path(__file__).parents[2] / "examples" / "vlm_alert.py"
    with ChatServer(answer=answer) as server:
        command = [sys.executable, str(script), str(CLIP), "--endpoint", server.url, "--model", "m", "--frames", "20"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=110)
    assert done.returncode == 0, done.stderr
    assert "ALERT stream 0, " in done.stdout
    assert "s: 2 pictures" in done.stdout
    assert "segments answered" in done.stderr


class Words:
    """Finds one box for each text."""

    labels: tuple[str, ...] = ()

    def use_prompt(self, labels: list[str], encoded: None) -> None:
        if "nonsense" in labels:
            raise ValueError("no such thing")
        self.labels = tuple(labels)

    def infer(self, frames: list[sluice.Frame]) -> list[sluice.Detections]:
        number = len(self.labels)
        boxes = np.array([[4, 4, 20 + index, 20] for index in range(number)], np.float32).reshape(-1, 4)
        scores, ids = np.full(number, 0.9, np.float32), np.arange(number, dtype=np.int32)
        return [sluice.Detections(boxes, scores, ids) for _ in frames]


def test_a_detector_looks_for_what_it_is_told_and_for_other_things_later() -> None:
    with sluice.Pipeline(
        "test:ball?live=1&size=64x48&fps=25", model=Words(), tracker=None, look_for=["red truck", "person"]
    ) as pipeline:
        seen, told_nonsense = [], False
        for frame in pipeline:
            labels = [thing.label for thing in frame.objects]
            if labels not in seen:
                seen.append(labels)
            if frame.number >= 2 and not told_nonsense:  # a busy machine may drop any of them
                told_nonsense = True
                pipeline.set_look_for(["nonsense"])
            kinds = [event.kind for event in pipeline.events.since()]
            if "prompt-refused" in kinds and "prompt-changed" not in kinds:
                pipeline.set_look_for(["lamp"])
            if ["lamp"] in seen:
                break
    assert seen == [["red truck", "person"], ["lamp"]]
    told = {event.kind: event.text for event in pipeline.events.since() if event.kind.startswith("prompt")}
    assert "no such thing" in told["prompt-refused"]
    assert told["prompt-changed"] == "the model looks for lamp"
