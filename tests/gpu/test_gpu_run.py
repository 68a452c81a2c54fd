"""`sluice run` with real decoders on a GPU: where frames are up to the model, and what is brought to the host."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import gi
import pytest

gi.require_version("Gst", "1.0")
from gi.repository import Gst

torch = pytest.importorskip("torch", reason="the GPU path needs torch")

from test_gpu_pipelines import HERE

from sluice.app.outputs.encoding import find_encoder
from sluice.errors import ConfigurationError

FRAMES = 60
SECONDS = 40
DECODERS = pytest.mark.parametrize(
    ("decoder", "memory"), [("nvv4l2decoder", "NVMM"), ("nvh264dec", "CUDAMemory")], ids=["NVMM", "CUDAMemory"]
)
MODELS = HERE / "seeing_models.py"
SMALL = {"decoder": "yolo-end2end", "width": 64, "height": 64}


def play(tmp_path, clip, decoder, **options):
    """The summary of a run of two streams of the clip."""
    given = {"sources": [clip, clip], "decoder": "nvdec", "frames": FRAMES, **options}
    order = tmp_path / "options.json"
    order.write_text(json.dumps(given))
    try:
        done = subprocess.run(
            [sys.executable, str(HERE / "run_sluice.py"), str(order)],
            env={**os.environ, "GST_PLUGIN_FEATURE_RANK": f"{decoder}:MAX"},
            capture_output=True,
            text=True,
            timeout=SECONDS,
        )
    except subprocess.TimeoutExpired as late:
        pytest.fail(f"it was not over after {SECONDS} s; it wrote: {(late.stderr or b'')[-3000:]!r}")
    assert done.returncode == 0, done.stderr[-3000:]
    summary = json.loads(done.stdout.strip().splitlines()[-1])
    assert summary["errors"] == [], summary
    for stream in summary["streams"]:
        assert (stream["errors"], stream["frames_in"], stream["decoder"]) == ([], FRAMES, decoder), stream
    return summary


def memories(summary):
    return [stream["memory"] for stream in summary["streams"]]


@DECODERS
def test_messages_alone_bring_nothing_to_the_host(clip, decoder, memory, tmp_path):
    summary = play(tmp_path, clip, decoder, model="none", messages=str(tmp_path / "messages"))
    assert memories(summary) == [memory] * 2
    assert summary["host_frames"] == 0
    assert "GPU memory up to the model: 2 of 2 streams; 0 frames brought to the host" in summary["text"]
    assert (tmp_path / "messages").read_text().count("\n") == 2 * FRAMES


@DECODERS
def test_a_network_on_the_gpu_reads_frames_there(clip, decoder, memory, tmp_path):
    summary = play(tmp_path, clip, decoder, model=f"{MODELS}:Boxes", model_options=SMALL, confidence=0.001)
    assert memories(summary) == [memory] * 2
    assert summary["host_frames"] == 0
    assert all(stream["objects"] for stream in summary["streams"])


@DECODERS
def test_pixels_that_a_model_asks_for_are_counted(clip, decoder, memory, tmp_path):
    summary = play(tmp_path, clip, decoder, model=f"{MODELS}:Reading")
    assert memories(summary) == [memory] * 2
    assert summary["host_frames"] == 2 * FRAMES


@DECODERS
def test_a_network_on_the_processor_is_given_frames_on_the_host(clip, decoder, memory, tmp_path):
    options = {"model": f"{MODELS}:Boxes", "model_options": SMALL, "device": "cpu", "confidence": 0.001}
    summary = play(tmp_path, clip, decoder, **options)
    assert memories(summary) == ["system"] * 2
    assert all(stream["objects"] for stream in summary["streams"])
    if memory == "NVMM":  # the other decoder gives system memory by itself where that is asked of it
        assert summary["host_frames"] == 2 * FRAMES
        assert "the model runs on the processor" in summary["host_reason"]


@DECODERS
def test_videos_take_each_frame_once(clip, decoder, memory, tmp_path):
    try:
        find_encoder()
    except ConfigurationError as error:
        pytest.skip(str(error))
    if Gst.ElementFactory.find("videobox") is None:
        pytest.skip("needs videobox, of gstreamer1.0-plugins-good")
    summary = play(tmp_path, clip, decoder, model="none", out=str(tmp_path / "out"))
    assert memories(summary) == [memory] * 2
    assert summary["host_frames"] == 2 * FRAMES
