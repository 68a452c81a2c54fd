"""``sluice run`` and its companions from a shell: exit status, summary, messages, progress, interruption."""

import json
import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path

import cv2
import pytest

from sluice import Pipeline
from sluice.app import cli
from sluice.app.summary import Summary
from waiting import PATIENCE, until

SLUICE = [sys.executable, "-m", "sluice.app.cli"]
MODEL = '''
class Bright:
    """Ten lines are a model."""

    labels = ["bright", "dark"]

    def infer(self, frames):
        import numpy as np
        from sluice import Detections

        box = np.array([[1, 2, 30, 40], [5, 5, 20, 20]], np.float32)
        return [Detections(box, np.array([0.9, 0.4], np.float32), np.array([0, 1], np.int32)) for _ in frames]
'''
SMALL = "test:ball?frames=12&size=64x48"


def sluice(*arguments: object, timeout: float = 60) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([*SLUICE, *map(str, arguments)], capture_output=True, text=True, timeout=timeout)


@pytest.fixture
def bright(tmp_path: Path) -> Path:
    path = tmp_path / "bright.py"
    path.write_text(MODEL)
    return path


def test_everything_at_once(data: Path, tmp_path: Path, bright: Path) -> None:
    clip = data / "videos" / "vpf_test.mp4"
    summary, messages, out = tmp_path / "summary.json", tmp_path / "all.jsonl", tmp_path / "out"
    done = sluice(
        "run", clip, SMALL, "--model", f"{bright}:Bright", "--tracker", "sort", "--out", out,
        "--messages", messages, "--summary", summary, "--confidence", 0.5,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads(summary.read_text())
    first, second = found["streams"]
    assert (first["uri"], first["frames_in"], first["frames_out"]) == (str(clip), 96, 96)
    assert (second["uri"], second["frames_in"], second["frames_out"]) == (SMALL, 12, 12)
    assert first["objects"] >= 90
    assert first["tracks"] == second["tracks"] == 1
    assert (first["damaged"], first["warnings"], first["errors"]) == (False, [], [])
    assert found["model"] == f"{bright}:Bright"
    assert found["provider"] in ("portable", "nvidia")
    assert found["fps"] > 0
    assert found["runtime"] == "python"
    assert sorted(path.name for path in out.iterdir()) == ["test_ball.mp4", "vpf_test.mp4"]
    assert cv2.VideoCapture(str(out / "vpf_test.mp4")).read()[0]
    assert len(messages.read_text().splitlines()) >= 90
    assert f"wrote {out / 'vpf_test.mp4'}" in done.stdout
    assert "vpf_test: 96 frames" in done.stderr


@pytest.mark.parametrize("wrong", [("--model", "missing.py"), ("--model", "none", "--tracker", "nosuch")])
def test_a_run_that_cannot_start_leaves_the_files_of_an_earlier_one_alone(
    tmp_path: Path, wrong: tuple[str, ...]
) -> None:
    earlier = {tmp_path / "test_ball.mp4": b"a video", tmp_path / "m.jsonl": b"messages"}
    for path, content in earlier.items():
        path.write_bytes(content)
    done = sluice("run", SMALL, *wrong, "--out", tmp_path, "--messages", tmp_path / "m.jsonl")
    assert done.returncode == 2, done.stderr
    assert {path: path.read_bytes() for path in earlier} == earlier


def test_a_network_file_says_what_executed_it(data: Path, tmp_path: Path) -> None:
    model, summary = data / "models" / "yolox_nano_416x416.onnx", tmp_path / "summary.json"
    image = data / "models" / "images" / "bus.jpg"
    done = sluice("run", image, "--model", model, "--tracker", "none", "--classes", "person", "--summary", summary)
    assert done.returncode == 0, done.stderr
    found = json.loads(summary.read_text())
    assert found["runtime"] == "onnxruntime"
    assert found["streams"][0]["objects"] >= 3  # the people in front of the bus


def test_messages_on_the_standard_output_are_alone_there(bright: Path) -> None:
    done = sluice("run", SMALL, "--model", bright, "--messages", "-", "--tracker", "none")
    assert done.returncode == 0, done.stderr
    assert len([json.loads(line) for line in done.stdout.splitlines()]) == 12
    assert "12 frames in, 12 out" in done.stderr


def test_model_none_runs_everything_else(tmp_path: Path) -> None:
    done = sluice("run", SMALL, "--model", "none", "--out", tmp_path / "x.mp4")
    assert done.returncode == 0, done.stderr
    assert "12 frames in, 12 out, 0 objects" in done.stdout


def test_classes_are_kept_by_name(tmp_path: Path, bright: Path) -> None:
    summary = tmp_path / "summary.json"
    arguments = ("run", SMALL, "--model", bright, "--tracker", "none", "--summary", summary)
    assert sluice(*arguments, "--classes", "dark").returncode == 0
    assert json.loads(summary.read_text())["streams"][0]["objects"] == 12
    assert sluice(*arguments, "--classes", "dark,0").returncode == 0
    assert json.loads(summary.read_text())["streams"][0]["objects"] == 24


def test_one_failed_stream_is_status_1_and_the_others_finish(tmp_path: Path) -> None:
    broken = tmp_path / "broken.mp4"
    broken.write_bytes(b"no video" * 1000)
    summary = tmp_path / "summary.json"
    done = sluice("run", broken, SMALL, "--model", "none", "--summary", summary)
    assert done.returncode == 1
    first, second = json.loads(summary.read_text())["streams"]
    assert str(broken) in first["errors"][0]
    assert (second["frames_out"], second["errors"]) == (12, [])


@pytest.mark.parametrize(
    ("text", "status", "error", "line"),
    [
        ("class Bad:\n    def infer(self, frames)\n        return []\n", 2, "SyntaxError: expected ':'", 2),
        ("import nothing_of_the_kind\n", 2, "No module named 'nothing_of_the_kind'", 1),
        ("class Bad:\n    def __init__(self):\n        raise RuntimeError('no idea')\n    infer = print\n", 1,
         "RuntimeError: no idea", 3),
        ("class Bad:\n    def infer(self):\n        return []\n", 2, "right is def infer(self, frames)", 2),
        ("def f(frames):\n    raise RuntimeError('no idea')\nclass Bad:\n    infer = staticmethod(f)\n", 1,
         "RuntimeError: no idea", 2),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_model_is_said_once_with_its_own_lines(
    tmp_path: Path, text: str, status: int, error: str, line: int
) -> None:
    model = tmp_path / "bad.py"
    model.write_text(text)
    done = sluice("run", SMALL, "--model", f"{model}:Bad", "--quiet")
    assert done.returncode == status, done.stderr
    said = done.stderr + done.stdout
    assert said.count(error) == 1
    assert f"{model}, line {line}" in said.replace('"', "")
    ended = "error: sluiceinfer ended the run at stream 0, frame 0; the standard error says why"
    assert (ended in done.stdout) == ("infer = staticmethod(f)" in text)  # else nothing had begun
    assert f"{Path(cli.__file__).parents[1]}/" not in said  # our own lines are of no use to anybody but us


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ([], "SOURCE"),
        (["nothere.mp4"], "nothere.mp4"),
        (["rtsp://u:sesame@h/x", "gopher://u:sesame@h"], "gopher"),
        ([SMALL, "--model", "nothere.onnx"], "nothere.onnx"),
        ([SMALL, "--model", "nosuchname"], "nosuchname"),
        ([SMALL, "--model", "none", "--tracker", "nosuch"], "nosuch"),
        ([SMALL, "--model", "none", "--frames", "0"], "frames"),
        ([SMALL, "--model", "none", "--confidence", "2"], "confidence"),
        ([SMALL, "--model", "none", "--labels", "nothere.txt"], "nothere.txt"),
        ([SMALL, "--model", "none", "--out", "x.avi"], "x.avi"),
        ([SMALL, "--model", "none", "--tile"], "tile"),
        ([SMALL, "--model", "none", "--summary", "/proc/nothere/x.json"], "/proc/nothere"),
        ([SMALL, "--model", "none", "--model-option", "decoder"], "'decoder'"),
        ([SMALL, "--nosuchoption"], "nosuchoption"),
    ],
)
def test_wrong_arguments_are_status_2_by_name(arguments: list[str], named: str) -> None:
    done = sluice("run", *arguments)
    assert done.returncode == 2, done.stderr
    assert named in done.stderr
    assert "Traceback" not in done.stderr
    assert "sesame" not in done.stderr + done.stdout


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--model-option", "nosuch=1"], "'nosuch'"),
        (["--model-option", "iou=0.5"], "'iou'"),
        (["--model-option", "width=416", "--model-option", "decoder=ssd"], "'ssd'"),
        (["--model-option", "width=64"], "width 64"),
        (["--device", "cudo"], "'cudo'"),
    ],
)
def test_options_and_device_reach_the_network(data: Path, arguments: list[str], named: str) -> None:
    done = sluice("run", SMALL, "--model", data / "models" / "yolox_nano_416x416.onnx", *arguments)
    assert done.returncode == 2, done.stderr
    assert named in done.stderr


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_interruption_finishes_the_file(number: signal.Signals, status: int, tmp_path: Path) -> None:
    out, summary, told = tmp_path / "x.mp4", tmp_path / "summary.json", tmp_path / "messages.jsonl"
    command = ["run", "test:ball?live=1&size=64x48", "--model", "none", "--out", out, "--summary", summary]
    command += ["--messages", told]
    child = subprocess.Popen([*SLUICE, *map(str, command)], stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    until(lambda: told.exists() and len(told.read_text().splitlines()) > 20, "frames come through")
    begun = time.monotonic()
    child.send_signal(number)
    child.communicate(timeout=PATIENCE)
    assert time.monotonic() - begun < 4
    assert child.returncode == status
    found = json.loads(summary.read_text())
    assert found["stopped"]
    video = cv2.VideoCapture(str(out))
    frames = 0
    while video.grab():
        frames += 1
    assert frames == found["streams"][0]["frames_out"] > 0


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_interruption_while_the_model_loads(number: signal.Signals, status: int, tmp_path: Path) -> None:
    model, loading = tmp_path / "slow.py", tmp_path / "loading"
    model.write_text(
        "import time, pathlib\n\nclass Slow:\n    def load(self):\n"
        f"        pathlib.Path({str(loading)!r}).touch()\n        time.sleep(60)\n"
        "    def infer(self, frames):\n        return [None for _ in frames]\n"
    )
    command = ["run", "test:ball?size=64x48", "--model", f"{model}:Slow"]
    with subprocess.Popen([*SLUICE, *command], stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        until(loading.exists, "the model is loaded")
        child.send_signal(number)
        _, errors = child.communicate(timeout=30)
    assert child.returncode == status
    assert "Traceback" not in errors


def test_a_summary_that_cannot_be_written_is_said_and_status_1(tmp_path: Path) -> None:
    done = sluice("run", SMALL, "--model", "none", "--summary", "/dev/full")
    assert done.returncode == 1
    assert "'/dev/full' cannot be written: No space left" in done.stderr
    assert "Traceback" not in done.stderr
    assert "12 frames in, 12 out" in done.stdout


def test_the_process_ends_though_a_model_call_hangs(tmp_path: Path) -> None:
    model = tmp_path / "hang.py"
    model.write_text(
        "import time, pathlib\n\nclass Hang:\n    def infer(self, frames):\n"
        f"        pathlib.Path({str(tmp_path / 'called')!r}).touch()\n        time.sleep(60)\n"
    )
    command = ["run", "test:ball?size=64x48", "--model", f"{model}:Hang"]
    with subprocess.Popen([*SLUICE, *command], stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        until((tmp_path / "called").exists, "the model is called")
        begun = time.monotonic()
        child.send_signal(signal.SIGINT)
        child.communicate(timeout=30)
    assert time.monotonic() - begun < 6
    assert child.returncode == 130


def test_a_bar_per_stream_on_a_terminal() -> None:
    terminal, end = pty.openpty()
    with subprocess.Popen(
        [*SLUICE, "run", SMALL, "test:snow?frames=9&size=64x48", "--model", "none"],
        stdout=subprocess.DEVNULL,
        stderr=end,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "120"},
    ) as child:
        os.close(end)
        shown = b""
        while True:
            try:
                block = os.read(terminal, 4096)
            except OSError:
                break
            if not block:
                break
            shown += block
    os.close(terminal)
    assert child.returncode == 0
    assert b"test_ball" in shown
    assert b"test_snow" in shown
    assert "━".encode() in shown
    assert b"12 frames" in shown


def test_doctor_as_json() -> None:
    done = sluice("doctor", "--json", timeout=110)
    findings = json.loads(done.stdout)
    assert {finding["status"] for finding in findings} <= {"ok", "note", "fault"}
    assert done.returncode == int(any(finding["status"] == "fault" for finding in findings))
    assert all(finding["fix"] for finding in findings if finding["status"] == "fault")


def test_env_lines_are_for_a_shell() -> None:
    done = sluice("env")
    shell = subprocess.run(["sh", "-c", f'{done.stdout}\nprintf %s "$GST_PLUGIN_PATH"'], capture_output=True, text=True)
    folder = Path(shell.stdout.split(os.pathsep)[0])
    assert (folder / "python" / "sluice_infer.py").is_file()


def test_env_with_examples_adds_their_folder() -> None:
    done = sluice("env", "--examples")
    assert done.returncode == 0, done.stderr
    assert str(Path(__file__).parents[2] / "examples") in done.stdout


def test_models_lists_names_runtimes_and_decoders() -> None:
    done = sluice("models")
    for name in ("people", "none", "onnxruntime", "yolox", "file.py:Class"):
        assert name in done.stdout
    listed = [line for line in done.stdout.splitlines() if line.startswith("  ") and "file.py:Class" not in line]
    width = max(len(line.split()[0]) for line in listed)
    assert all(line[2 + width] == " " and line[3 + width] != " " for line in listed)


def test_inspect_says_what_head_and_why(data: Path) -> None:
    done = sluice("inspect", data / "models" / "yolox_nano_416x416.onnx")
    assert done.returncode == 0, done.stderr
    assert "yolox" in done.stdout
    assert "1, 3, 416, 416" in done.stdout
    refused = sluice("inspect", "nothere.onnx")
    assert refused.returncode == 2
    assert "nothere.onnx" in refused.stderr


def test_inspect_says_each_warning_of_a_configuration_once(data: Path, tmp_path: Path) -> None:
    config = tmp_path / "config.txt"
    network = data / "models" / "yolox_nano_416x416.onnx"
    config.write_text(f"[property]\nonnx-file={network}\nnosuchkey=1\nnum-detected-classes=80\ncluster-mode=2\n")
    done = sluice("inspect", config)
    assert done.returncode == 0, done.stderr
    assert (done.stdout + done.stderr).count("nosuchkey") == 1


def test_objects_without_a_confirmed_track_are_counted_or_kept(tmp_path: Path) -> None:
    model = tmp_path / "weak.py"
    model.write_text(
        "import sluice\n"
        "def weak(frames):\n"
        "    return [sluice.Detections(xyxy=[[5, 5, 50, 50]], scores=[0.2], class_ids=[0]) for _ in frames]\n"
    )
    counted = {}
    for keep in (False, True):
        with Pipeline(["test:ball?frames=9"], model=f"{model}:weak", keep_unconfirmed=keep) as pipeline:
            seen = [obj for frame in pipeline for obj in frame.objects]
        counted[keep] = (len(seen), pipeline.summary.unconfirmed, {obj.id for obj in seen})
    # No track begins with a score below 0.25.
    assert counted[False] == (0, 9, set())
    assert counted[True] == (9, 0, {None})
    assert "--keep-unconfirmed" in str(Summary([], unconfirmed=9))


@pytest.mark.parametrize(("arguments", "inferred"), [([], 4), (["--interval", "0"], 12), (["--interval", "5"], 2)])
def test_a_configuration_file_as_the_model(data: Path, tmp_path: Path, arguments: list[str], inferred: int) -> None:
    config, messages = tmp_path / "config.txt", tmp_path / "x.jsonl"
    network = data / "models" / "yolo11n_256_coco80_int8_qdq.onnx"
    config.write_text(
        f"[property]\nonnx-file={network}\nnum-detected-classes=80\ncluster-mode=2\ninterval=2\n"
        "parse-bbox-func-name=NvDsInferParseYolo\n"
    )
    run = ["run", SMALL, "--model", config, "--tracker", "none", "--messages", messages, *arguments]
    done = sluice(*run)
    assert done.returncode == 0, done.stderr
    assert "runtime onnxruntime" in done.stdout
    found = [json.loads(line)["inferred"] for line in messages.read_text().splitlines()]
    assert (len(found), sum(found)) == (12, inferred)


def test_masks_are_drawn(tmp_path: Path) -> None:
    model = tmp_path / "masked.py"
    model.write_text(
        "import numpy as np, sluice\n"
        "def masked(frames):\n"
        "    return [sluice.Detections(xyxy=[[40, 40, 200, 200]], scores=[0.9], class_ids=[0],\n"
        "                              box_masks=[np.ones((8, 8), np.float32)]) for _ in frames]\n"
    )
    out = tmp_path / "out.mp4"
    with Pipeline(["test:black?frames=3"], model=f"{model}:masked", tracker="none", out=out) as pipeline:
        pipeline.run()
    read, picture = cv2.VideoCapture(str(out)).read()
    assert read
    inside, outside = picture[120, 120], picture[220, 260]
    assert int(inside[2]) > int(outside[2]) + 60, "half of the border's red"
