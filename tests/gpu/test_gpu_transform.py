"""NVIDIA's converter on a GPU: what its filters make of a picture, which nvinfer's ``scaling-filter`` names too."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch", reason="the GPU path needs torch")

from test_gpu_pipelines import HERE, NVMM, line

NEAREST, DEFAULT = 0, 6


@pytest.fixture(scope="module")
def differences(tmp_path_factory):
    """Mean and largest difference, in levels of 255, of each filter from the one that files name by its number."""
    clip = os.environ.get("SLUICE_GPU_CLIP")
    if not torch.cuda.is_available() or not clip:
        pytest.skip("needs an NVIDIA GPU, and an H.264 elementary stream named by SLUICE_GPU_CLIP")
    path = tmp_path_factory.mktemp("filters") / "seen.json"
    model = f'model={HERE / "seeing_models.py"}:Filters model-options="path={path}"'
    command = [sys.executable, str(HERE / "run_pipeline.py"), "2", "60", line(clip, NVMM, 1, model)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=110)
    assert done.returncode == 0, done.stderr[-3000:]
    return {int(number): value for number, value in json.loads(path.read_text()).items()}


@pytest.mark.parametrize("number", range(7))
def test_a_filter_is_what_configuration_files_are_read_as(differences, number):
    """But for what the converter does in one step: colours and size."""
    mean, _largest = differences[number]
    assert mean < 1.5, differences


def test_the_default_is_the_nearest_pixel(differences):
    assert differences[DEFAULT] == differences[NEAREST]
