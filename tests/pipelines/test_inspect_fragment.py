"""What ``sluice inspect`` says to type, typed in a shell."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from sluice.app.env import environment
from sluice.models.inspection import inspect_model

CONFIG = """[property]
onnx-file={}
num-detected-classes=80
cluster-mode=2
parse-bbox-func-name=NvDsInferParseYolo
"""


def run(fragment: str, registry: Path, frames: int = 2) -> "subprocess.CompletedProcess[str]":
    """Run a fragment with a source in the place of its first dots and a sink in that of the last."""
    line = fragment.replace(" ... ", f" -q videotestsrc num-buffers={frames} ", 1)
    line = line.removesuffix("...") + "fakesink"
    assert "..." not in line
    variables = os.environ | environment() | {"GST_REGISTRY": str(registry / "registry.bin")}
    return subprocess.run(line, shell=True, env=variables, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize("name", ["nanodet_m_320.onnx", "yolo26_pose_256_qdq_int8.onnx", "osnet_x0_25_msmt17.onnx"])
def test_the_fragment_runs(data: Path, tmp_path: Path, name: str) -> None:
    found = inspect_model(data / "models" / name)
    done = run(found.fragment, tmp_path)
    assert done.returncode == 0, done.stderr
    assert "ERROR" not in done.stderr


def test_a_name_that_shells_and_gst_launch_read_in_their_own_ways(data: Path, tmp_path: Path) -> None:
    path = tmp_path / 'it\'s a "net"! $HOME.onnx'
    shutil.copy(data / "models" / "face_detection_yunet_120x160.onnx", path)
    done = run(inspect_model(path).fragment, tmp_path)
    assert done.returncode == 0, done.stderr


def test_a_model_that_is_not_there_any_more_ends_it(data: Path, tmp_path: Path) -> None:
    path = Path(shutil.copy(data / "models" / "face_detection_yunet_120x160.onnx", tmp_path))
    fragment = inspect_model(path).fragment
    path.unlink()
    done = run(fragment, tmp_path)
    assert done.returncode != 0
    assert f"there is no model file '{path}'" in done.stderr + done.stdout


def test_embeddings_are_of_objects(data: Path) -> None:
    found = inspect_model(data / "models" / "osnet_x0_25_msmt17.onnx")
    assert "process-mode=secondary unique-id=2" in found.fragment


def test_the_line_of_a_configuration_runs(data: Path, tmp_path: Path) -> None:
    path = tmp_path / "config infer.txt"
    path.write_text(CONFIG.format(data / "models" / "yolo11n_256_coco80_int8_qdq.onnx"))
    use = next(line for line in str(inspect_model(path)).splitlines() if line.startswith("  use"))
    done = run(use.removeprefix("  use").strip(), tmp_path)
    assert done.returncode == 0, done.stderr
