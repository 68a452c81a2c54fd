"""Two GPUs: each pipeline on its own, and a surface of the other card refused by name."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch", reason="the GPU path needs torch")

from test_gpu_pipelines import HERE, NVMM, SIZED, line

BOXES = f"model={HERE / 'seeing_models.py'}:Boxes"


@pytest.fixture
def two(clip):
    if torch.cuda.device_count() < 2:
        pytest.skip("needs two NVIDIA GPUs")
    return clip


def start(text, frames=200):
    command = [sys.executable, str(HERE / "run_pipeline.py"), str(frames), "60", text]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def result(process):
    out, err = process.communicate(timeout=110)
    assert process.returncode == 0, err[-3000:]
    return json.loads(out.strip().splitlines()[-1])


def on_card(clip, decoder_gpu, model_gpu):
    more = f'{SIZED}" confidence-threshold=0'
    return line(clip, f"{NVMM} gpu-id={decoder_gpu}", 2, f"{BOXES} device=cuda:{model_gpu}", more)


def test_two_pipelines_run_each_on_its_own_card(two):
    running = [start(on_card(two, gpu, gpu)) for gpu in (0, 1)]
    found = [result(process) for process in running]
    assert [(one["error"], one["copies"], one["host_maps"]) for one in found] == [(None, 0, 0)] * 2
    by_frame = [
        {(one["stream"], one["number"]): one["objects"] for one in each["objects"] if one["number"] < 50}
        for each in found
    ]
    common = by_frame[0].keys() & by_frame[1].keys()
    assert len(common) > 40
    for key in common:
        for one, other in zip(by_frame[0][key], by_frame[1][key], strict=True):
            assert one == pytest.approx(other, abs=2e-3)


def test_a_surface_of_the_other_card_is_refused_by_name(two):
    found = result(start(on_card(two, 1, 0), frames=20))
    assert "GPU 1" in found["error"]
    assert "gpu-id is 0; right is gpu-id=1" in found["error"]
