"""Real decoders: what is shown is brought to the host once, and is what the host's own path shows; the rest is not."""

from __future__ import annotations

import ctypes
import functools
import json
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the GPU path needs torch")

from test_gpu_pipelines import CUDA, HERE, NVMM

FRAMES = 30
HOST = "nvh264dec ! video/x-raw,format=NV12"
# Both paths decode to the same bytes. Colours of what is drawn are rounded in the matrix that each names, which differs
# where a decoder's caps leave the matrix out and its surfaces tell one.
ROUNDING = 3
MEMORIES = pytest.mark.parametrize("decoder", [NVMM, CUDA], ids=["NVMM", "CUDAMemory"])
DRAWN = slice(0, 330), slice(70, 470)  # rows and columns around the box and its label, see host_pipeline.BOX


@pytest.fixture
def fonts():
    """What sluiceosd writes texts with."""
    try:
        for library in ("libcairo.so.2", "libpango-1.0.so.0", "libpangocairo-1.0.so.0"):
            ctypes.CDLL(library)
    except OSError as error:
        pytest.skip(f"drawing needs Pango and Cairo: {error}")


def head(clip, decoder, streams=1):
    source = (
        f"multifilesrc location={clip} loop=true caps=video/x-h264,stream-format=byte-stream,framerate=30/1 ! "
        f"h264parse ! {decoder} ! queue max-size-buffers=4"
    )
    inputs = " ".join(f"{source} ! mux.sink_{i}" for i in range(streams))
    return f"{inputs} sluicemux name=mux batch-size={streams} batched-push-timeout=200000 ! sluiceinfer model=none"


def play(line, frames=FRAMES):
    """What `host_pipeline.py` told, and the pictures' planes: those seen by number, those of the mux by PTS."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "pictures.npz"
        command = [sys.executable, str(HERE / "host_pipeline.py"), str(frames), str(path), line]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr[-3000:]
        result = json.loads(done.stdout.strip().splitlines()[-1])
        with np.load(path) as stored:
            planes = {name: stored[name] for name in stored.files}
    pictures: dict[str, dict[int, list[np.ndarray]]] = {"seen": defaultdict(list), "mux": defaultdict(list)}
    for name in sorted(planes):
        where, number, _ = name.split("_")
        pictures[where][int(number)].append(planes[name])
    result["stderr"] = done.stderr[-2000:]
    return result, pictures["seen"], pictures["mux"]


def run(line, frames=FRAMES):
    result, seen, left = play(line, frames)
    assert result["error"] is None, (result["error"], line, result["stderr"])
    return result, seen, left


@functools.cache
def on_host(clip, element):
    """The pictures of the host's own path behind an element, or why there are none."""
    result, seen, _ = play(
        f"{head(clip, HOST)} ! sluicedemux name=d d.src_0 ! {element} ! fakesink name=seen sync=false"
    )
    return result["error"] or seen


def wanted(clip, element):
    found = on_host(clip, element)
    if isinstance(found, str):
        pytest.skip(f"{HOST} gives nothing to compare with: {found[:600]}")
    return found


def alike(one, other, tolerance=0):
    assert len(one) == len(other) == FRAMES, (len(one), len(other))
    for number in range(FRAMES):
        for x, y in zip(one[number], other[number], strict=True):
            assert x.shape == y.shape
            assert np.abs(x.astype(int) - y).max() <= tolerance, f"frame {number}"
    return True


def copied_one_by_one(result, picture):
    """Frame by frame one copy, of all its pixels, and nothing else."""
    assert [note["host_frames"] for note in result["seen"]] == list(range(1, FRAMES + 1))
    assert result["seen"][-1]["host_bytes"] == FRAMES * sum(plane.size for plane in picture)
    assert result["copies"] == 0


def downloaded_alike(result, seen, left, drawn=False):
    """The pictures are those that PyTorch downloads from the same surfaces, but for what is drawn."""
    changed = 0
    for number, note in enumerate(result["seen"]):
        for plane, (x, y) in enumerate(zip(seen[number], left[note["pts"]], strict=True)):
            assert x.shape == y.shape
            x, y = x.copy(), y.copy()
            if drawn:
                place = tuple(slice(part.start >> plane, part.stop >> plane) for part in DRAWN)
                changed += int(not np.array_equal(x[place], y[place]))
                x[place] = y[place] = 0
            assert np.array_equal(x, y), f"frame {number}, plane {plane}"
    assert changed >= (len(result["seen"]) if drawn else 0)
    assert len({picture[0].tobytes() for picture in seen.values()}) > FRAMES // 2, "the pictures do not change"


@MEMORIES
def test_frames_brought_to_the_host_are_those_on_the_gpu(clip, decoder):
    line = f"{head(clip, decoder)} ! sluicedemux name=d d.src_0 ! sluicehost ! fakesink name=seen sync=false"
    result, seen, left = run(line)
    downloaded_alike(result, seen, left)
    copied_one_by_one(result, seen[0])


@MEMORIES
def test_frames_brought_to_the_host_are_those_that_the_decoder_gives_there(clip, decoder):
    reference = wanted(clip, "sluicehost")
    line = f"{head(clip, decoder)} ! sluicedemux name=d d.src_0 ! sluicehost ! fakesink name=seen sync=false"
    assert alike(run(line)[1], reference)


@MEMORIES
def test_drawing_changes_what_it_draws_on_and_nothing_else(clip, decoder, fonts):
    line = f"{head(clip, decoder)} ! sluicedemux name=d d.src_0 ! sluiceosd ! fakesink name=seen sync=false"
    result, seen, left = run(line)
    downloaded_alike(result, seen, left, drawn=True)
    copied_one_by_one(result, seen[0])


@MEMORIES
@pytest.mark.parametrize("chain", ["sluicedemux name=d d.src_0 ! sluiceosd", "sluiceosd ! sluicedemux name=d d.src_0"])
def test_what_is_drawn_is_what_is_drawn_in_system_memory(clip, decoder, chain, fonts):
    """On single frames, and on batches."""
    reference = wanted(clip, "sluiceosd")
    result, seen, _ = run(f"{head(clip, decoder)} ! {chain} ! fakesink name=seen sync=false")
    assert alike(seen, reference, ROUNDING)
    copied_one_by_one(result, seen[0])


@MEMORIES
def test_a_tiler_that_shows_one_stream_copies_one_frame_per_batch(clip, decoder):
    tiler = "sluicetiler show-source=0 width=640 height=360"
    result, *_ = run(f"{head(clip, decoder, 4)} ! {tiler} ! fakesink name=seen sync=false")
    last = result["seen"][-1]
    assert last["host_frames"] <= FRAMES, "frames were copied that are not shown"
    assert last["host_frames"] >= FRAMES - 5  # a batch that left before the first frame of stream 0
    assert len(result["batched"]) > 2 * FRAMES
    assert result["copies"] == 0


@MEMORIES
def test_the_demuxer_keeps_gpu_memory(clip, decoder):
    result, *_ = run(f"{head(clip, decoder, 2)} ! sluicedemux name=d d.src_1 ! fakesink name=seen sync=false")
    for note in result["seen"]:
        assert note["memory"] == "CUDA_DEVICE"
        assert ("memory:NVMM" if decoder is NVMM else "memory:CUDAMemory") in note["caps"]
        assert set(note["addresses"]) <= set(result["batched"])
    assert (result["host_frames"], result["host_maps"], result["copies"]) == (0, 0, 0)


@MEMORIES
def test_messages_alone_bring_nothing_to_the_host(clip, decoder, tmp_path):
    behind = f"sluicetracker ! sluicemsgconv ! sluicemsgbroker location={tmp_path / 'messages'}"
    result, *_ = run(f"{head(clip, decoder, 2)} ! {behind}", frames=4 * FRAMES)
    assert len(result["batched"]) >= 4 * FRAMES
    assert (result["host_frames"], result["host_maps"], result["copies"]) == (0, 0, 0)


@MEMORIES
def test_switched_off_drawing_leaves_frames_on_the_gpu(clip, decoder, fonts):
    off = "sluiceosd display-bbox=0 display-text=0 display-keypoints=0 display-answers=0"
    result, *_ = run(f"{head(clip, decoder)} ! sluicedemux name=d d.src_0 ! {off} ! fakesink name=seen sync=false")
    assert {note["memory"] for note in result["seen"]} == {"CUDA_DEVICE"}
    assert result["host_frames"] == 0
