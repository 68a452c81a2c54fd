"""Real decoders: what is shown is brought to the host once, and is what the host's own path shows; the rest is not."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the GPU path needs torch")

from test_gpu_pipelines import CUDA, HERE, NVMM

FRAMES = 30
HOST = "nvh264dec ! video/x-raw"
# Both paths decode to the same bytes. Colours of what is drawn are rounded in the matrix that each names, which differs
# where a decoder's caps leave the matrix out and its surfaces tell one.
ROUNDING = 3
MEMORIES = pytest.mark.parametrize("decoder", [NVMM, CUDA], ids=["NVMM", "CUDAMemory"])


def head(clip, decoder, streams=1):
    source = (
        f"multifilesrc location={clip} loop=true caps=video/x-h264,stream-format=byte-stream,framerate=30/1 ! "
        f"h264parse ! {decoder} ! queue max-size-buffers=4"
    )
    inputs = " ".join(f"{source} ! mux.sink_{i}" for i in range(streams))
    return f"{inputs} sluicemux name=mux batch-size={streams} batched-push-timeout=200000 ! sluiceinfer model=none"


def run(tmp_path, line, frames=FRAMES, seconds=60):
    """What `host_pipeline.py` told, and the pictures' planes by number."""
    path = tmp_path / f"pictures{len(list(tmp_path.glob('*.npz')))}.npz"
    command = [sys.executable, str(HERE / "host_pipeline.py"), str(frames), str(seconds), str(path), line]
    done = subprocess.run(command, capture_output=True, text=True, timeout=seconds + 60)
    assert done.returncode == 0, done.stderr[-3000:]
    result = json.loads(done.stdout.strip().splitlines()[-1])
    assert result["error"] is None, (result["error"], done.stderr[-2000:])
    with np.load(path) as stored:
        planes = {name: stored[name] for name in stored.files}
    pictures: list[list[np.ndarray]] = [[] for _ in result["seen"]]
    for name in sorted(planes):
        pictures[int(name.partition("_")[0])].append(planes[name])
    return result, pictures


def alike(one, other, tolerance=0):
    assert len(one) == len(other) == FRAMES
    for number, (a, b) in enumerate(zip(one, other, strict=True)):
        for x, y in zip(a, b, strict=True):
            assert x.shape == y.shape
            assert np.abs(x.astype(int) - y).max() <= tolerance, f"frame {number}"
    return True


def copied_one_by_one(result, picture):
    """Frame by frame one copy, of all its pixels, and nothing else."""
    assert [note["host_frames"] for note in result["seen"]] == list(range(1, FRAMES + 1))
    assert result["seen"][-1]["host_bytes"] == FRAMES * sum(plane.size for plane in picture)
    assert result["copies"] == 0


@MEMORIES
def test_frames_brought_to_the_host_are_those_that_the_decoder_gives_there(clip, decoder, tmp_path):
    line = "{} ! sluicedemux name=d d.src_0 ! sluicehost ! fakesink name=seen sync=false"
    host, wanted = run(tmp_path, line.format(head(clip, HOST)))
    result, pictures = run(tmp_path, line.format(head(clip, decoder)))
    assert alike(pictures, wanted)
    assert host["host_frames"] == 0
    copied_one_by_one(result, pictures[0])
    assert len({picture[0].tobytes() for picture in pictures}) > FRAMES // 2, "the pictures do not change"


@MEMORIES
def test_what_is_drawn_is_what_is_drawn_in_system_memory(clip, decoder, tmp_path):
    line = "{} ! sluicedemux name=d d.src_0 ! sluiceosd ! fakesink name=seen sync=false"
    _, wanted = run(tmp_path, line.format(head(clip, HOST)))
    result, pictures = run(tmp_path, line.format(head(clip, decoder)))
    assert alike(pictures, wanted, ROUNDING)
    copied_one_by_one(result, pictures[0])
    _, plain = run(tmp_path, line.format(head(clip, HOST)).replace("sluiceosd", "sluicehost"))
    assert not np.array_equal(plain[0][0], wanted[0][0]), "nothing was drawn"


@MEMORIES
def test_batches_are_drawn_on_too(clip, decoder, tmp_path):
    line = "{} ! sluiceosd ! sluicedemux name=d d.src_0 ! fakesink name=seen sync=false"
    _, wanted = run(tmp_path, line.format(head(clip, HOST)))
    result, pictures = run(tmp_path, line.format(head(clip, decoder)))
    assert alike(pictures, wanted, ROUNDING)
    copied_one_by_one(result, pictures[0])


@MEMORIES
def test_a_tiler_that_shows_one_stream_copies_one_frame_per_batch(clip, decoder, tmp_path):
    tiler = "sluicetiler show-source=0 width=640 height=360"
    line = f"{head(clip, decoder, 4)} ! {tiler} ! fakesink name=seen sync=false"
    result, _ = run(tmp_path, line)
    last = result["seen"][-1]
    assert last["host_frames"] <= FRAMES, "frames were copied that are not shown"
    assert last["host_frames"] >= FRAMES - 5  # a batch that left before the first frame of stream 0
    assert len(result["batched"]) > 2 * FRAMES
    assert result["copies"] == 0


@MEMORIES
def test_the_demuxer_keeps_gpu_memory(clip, decoder, tmp_path):
    line = f"{head(clip, decoder, 2)} ! sluicedemux name=d d.src_1 ! fakesink name=seen sync=false"
    result, _ = run(tmp_path, line)
    for note in result["seen"]:
        assert note["memory"] == "CUDA_DEVICE"
        assert ("memory:NVMM" if decoder is NVMM else "memory:CUDAMemory") in note["caps"]
        assert set(note["addresses"]) <= set(result["batched"])
    assert (result["host_frames"], result["host_maps"], result["copies"]) == (0, 0, 0)


@MEMORIES
def test_messages_alone_bring_nothing_to_the_host(clip, decoder, tmp_path):
    behind = f"sluicetracker ! sluicemsgconv ! sluicemsgbroker location={tmp_path / 'messages'}"
    result, _ = run(tmp_path, f"{head(clip, decoder, 2)} ! {behind}", frames=4 * FRAMES)
    assert len(result["batched"]) >= 4 * FRAMES
    assert (result["host_frames"], result["host_maps"], result["copies"]) == (0, 0, 0)


@MEMORIES
def test_switched_off_drawing_leaves_frames_on_the_gpu(clip, decoder, tmp_path):
    off = "sluiceosd display-bbox=0 display-text=0 display-keypoints=0 display-answers=0"
    line = f"{head(clip, decoder)} ! sluicedemux name=d d.src_0 ! {off} ! fakesink name=seen sync=false"
    result, _ = run(tmp_path, line)
    assert {note["memory"] for note in result["seen"]} == {"CUDA_DEVICE"}
    assert result["host_frames"] == 0
