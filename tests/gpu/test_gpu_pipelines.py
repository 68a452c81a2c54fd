"""Real decoders into sluicemux and sluiceinfer: surfaces stay where they are, and are what the decoder made."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="the GPU path needs torch")

HERE = Path(__file__).parent
NVMM = "nvv4l2decoder num-extra-surfaces=16"
SIZED = 'model-options="decoder=yolo-end2end;width=64;height=64'
CUDA = "nvh264dec ! video/x-raw(memory:CUDAMemory)"


def line(clip, decoder, streams, model, more=""):
    source = (
        f"multifilesrc location={clip} loop=true caps=video/x-h264,stream-format=byte-stream,framerate=30/1 ! "
        f"h264parse ! {decoder} ! queue max-size-buffers=4"
    )
    head = (
        f"sluicemux name=mux batch-size={streams} batched-push-timeout=200000 ! sluiceinfer name=infer {model} {more}"
    )
    return " ".join([f"{head} ! fakesink sync=false", *(f"{source} ! mux.sink_{i}" for i in range(streams))])


def run(text, frames=40, seconds=60):
    command = [sys.executable, str(HERE / "run_pipeline.py"), str(frames), str(seconds), text]
    done = subprocess.run(command, capture_output=True, text=True, timeout=seconds + 60)
    assert done.returncode == 0, done.stderr[-3000:]
    result = json.loads(done.stdout.strip().splitlines()[-1])
    assert result["error"] is None, (result, done.stderr[-2000:])
    return result


def look(clip, decoder, path, streams=1, frames=40, keep=0):
    """What the model saw of each frame."""
    model = f'model={HERE / "seeing_models.py"}:Looking model-options="path={path};keep={keep}"'
    result = run(line(clip, decoder, streams, model), frames)
    assert result["frames"] >= frames
    return [json.loads(text) for text in path.read_text().splitlines()]


@pytest.mark.parametrize("decoder", [NVMM, CUDA], ids=["NVMM", "CUDAMemory"])
def test_surfaces_reach_the_model_without_a_copy(clip, decoder, tmp_path):
    for note in look(clip, decoder, tmp_path / "seen", streams=2):
        assert note["same"], "the tensor has another address than the surface"
        assert (note["device"], note["format"]) == ("cuda:0", "NV12")
        assert (note["host_maps"], note["copies"]) == (0, 0)


def test_both_decoders_give_the_same_pictures(clip, tmp_path):
    sums = []
    for i, decoder in enumerate((NVMM, CUDA)):
        notes = look(clip, decoder, tmp_path / f"seen{i}", frames=60)
        sums.append({note["number"]: note["sums"] for note in notes})
    assert len(set(map(str, sums[0].values()))) > 20, "the pictures do not change"
    for number in range(50):
        assert sums[0][number] == sums[1][number], f"frame {number}"


@pytest.mark.parametrize("decoder", [NVMM, CUDA], ids=["NVMM", "CUDAMemory"])
def test_kept_tensors_keep_their_pixels(clip, decoder, tmp_path):
    notes = look(clip, decoder, tmp_path / "seen", frames=40, keep=3)
    assert len(notes) > 30
    for note in notes:
        assert note["sums"] == note["later"], f"the pixels of frame {note['number']} changed while it was kept"


@pytest.mark.parametrize("decoder", [NVMM, CUDA], ids=["NVMM", "CUDAMemory"])
def test_a_network_gives_each_stream_its_own_boxes(clip, decoder):
    """Streams of the same clip, so the same frame number has the same boxes in whatever batch it was."""
    model = f"model={HERE / 'seeing_models.py'}:Boxes"
    options = (
        "model-options=decoder=yolo-end2end\\;width=64\\;height=64\\;prepare=4\\;fit=stretch confidence-threshold=0"
    )
    result = run(line(clip, decoder, 3, model, options + " in-flight=3"), frames=150)
    assert not result["warnings"]
    assert (result["host_maps"], result["copies"]) == (0, 0)
    by_number: dict[int, list] = {}
    for frame in result["objects"]:
        by_number.setdefault(frame["number"], []).append(frame["objects"])
    several = [found for found in by_number.values() if len(found) > 1]
    assert len(several) > 20
    for found in several:
        assert len(found[0]) == 4
        for other in found[1:]:
            for one, two in zip(found[0], other, strict=True):
                assert one == pytest.approx(two, abs=2e-3)
    assert len({str(found[0]) for found in several}) > 10, "the boxes do not change from frame to frame"


OTHER_FORMATS = ("P010_10LE", "UYVY", "Y444", "RGBA", "BGRx", "I420")


@pytest.mark.parametrize("name", OTHER_FORMATS)
def test_a_network_reads_what_a_converter_makes(clip, name):
    """The kernel reads some formats, NVIDIA's converter the others; the pictures are the same but for roundings."""
    found = []
    for decoder in (NVMM, f"{NVMM} ! nvvideoconvert ! video/x-raw(memory:NVMM),format={name}"):
        model = f"model={HERE / 'seeing_models.py'}:Boxes"
        more = f'{SIZED};prepare=2" confidence-threshold=0 in-flight=3'
        result = run(line(clip, decoder, 2, model, more), frames=60)
        assert (result["host_maps"], result["copies"]) == (0, 0)
        found.append({(one["stream"], one["number"]): one["objects"] for one in result["objects"]})
    common = found[0].keys() & found[1].keys()
    assert len(common) > 40
    for key in common:
        for one, other in zip(*(each[key] for each in found), strict=True):
            assert one == pytest.approx(other, abs=6e-3), key  # 1.5 of 255 levels


def test_a_network_on_the_processor_refuses_gpu_memory_with_the_converter(clip):
    model = f"model={HERE / 'seeing_models.py'}:Boxes device=cpu"
    options = f'{SIZED}"'
    command = [sys.executable, str(HERE / "run_pipeline.py"), "5", "30", line(clip, NVMM, 1, model, options)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=90)
    result = json.loads(done.stdout.strip().splitlines()[-1])
    assert "CUDA_DEVICE" in result["error"]
    assert "nvvideoconvert ! video/x-raw" in result["error"]
