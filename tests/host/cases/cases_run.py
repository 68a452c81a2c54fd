"""`sluice.Pipeline` where decoders give GPU memory: up to the model it stays there, if the model takes it so."""

from __future__ import annotations

import json
import threading
from types import SimpleNamespace

import gi
import numpy as np
import pytest

gi.require_version("Gst", "1.0")
from gi.repository import Gst
from stand_ins import NvmmDecoder
from test_run_outputs import count_frames

import sluice
from playing import reaches_its_end
from sluice.app import frame_memory
from sluice.app.frame_memory import FrameMemory, why_on_host
from sluice.app.options import Options
from sluice.app.outputs import LiveOutputs, OutputOptions, RecordOptions
from sluice.app.streams.policy import StreamPolicy
from sluice.contract import counters

FRAMES = 20
KINDS = {"nvstandincuda": "CUDAMemory", "nvstandinnvmm": "NVMM"}
DECODERS = pytest.mark.parametrize("decoder", KINDS)


@pytest.fixture(scope="session")
def clips(tmp_path_factory):
    """Two files of pictures that only the stand-ins decode as video on a GPU."""
    folder = tmp_path_factory.mktemp("clips")
    paths = [folder / f"{name}.mkv" for name in ("one", "two")]
    for path, pattern in zip(paths, ("ball", "smpte"), strict=True):
        pipeline = Gst.parse_launch(
            f"videotestsrc num-buffers={FRAMES} pattern={pattern} ! video/x-raw,width=160,height=120,framerate=25/1 "
            f"! jpegenc ! matroskamux ! filesink location={path}"
        )
        pipeline.set_state(Gst.State.PLAYING)
        reaches_its_end(pipeline)
        pipeline.set_state(Gst.State.NULL)
    return [str(path) for path in paths]


@pytest.fixture
def ranked(decoder):
    factory = Gst.ElementFactory.find(decoder)
    factory.set_rank(Gst.Rank.PRIMARY + 200)
    yield KINDS[decoder]
    factory.set_rank(Gst.Rank.NONE)


@pytest.fixture
def gpu_model(monkeypatch):
    """PyTorch has no GPU here; what follows from one that it has is tested as if it had."""
    monkeypatch.setattr(frame_memory, "why_on_host", lambda _options: "")


class Looks:
    """Notes the memory of its frames, and what was brought to the host before it; asks for no pixels."""

    labels = ("thing",)

    def __init__(self):
        self.seen = []

    def infer(self, frames):
        read = counters.read()
        self.seen += [(frame.surface.mem_type.name, read.host_frames, read.copies) for frame in frames]
        return [None] * len(frames)


class Reads(Looks):
    """Asks for its frames' pixels, as most models do."""

    def __init__(self):
        super().__init__()
        self.means = []

    def infer(self, frames):
        self.means += [float(frame.rgb().mean()) for frame in frames]
        return super().infer(frames)


def run(sources, model, **options):
    pipeline = sluice.Pipeline(sources, model=model, policy=StreamPolicy(decoder="nvdec"), **options)
    pipeline.run()
    assert pipeline.summary.ok, str(pipeline.summary)
    return pipeline.summary


@DECODERS
def test_messages_alone_bring_nothing_to_the_host(stub, clips, ranked, gpu_model, tmp_path):
    model, before = Looks(), counters.read()
    summary = run(clips, model, messages=tmp_path / "messages")
    assert {memory for memory, *_ in model.seen} == {"CUDA_DEVICE"}
    assert len(model.seen) == 2 * FRAMES
    after = counters.read()
    assert (after.host_frames, after.copies, after.host_maps) == (before.host_frames, before.copies, before.host_maps)
    assert [stream.memory for stream in summary.streams] == [ranked] * 2
    assert (summary.host_frames, summary.host_reason, stub.copies) == (0, "", 0)
    assert "GPU memory up to the model: 2 of 2 streams; 0 frames brought to the host" in str(summary)
    assert (tmp_path / "messages").read_text().count("\n") == 2 * FRAMES


@DECODERS
def test_what_is_written_is_brought_to_the_host_once(stub, clips, ranked, gpu_model, tmp_path):
    model = Looks()
    summary = run(clips, model, out=tmp_path / "out")
    assert {memory for memory, *_ in model.seen} == {"CUDA_DEVICE"}
    assert summary.host_frames == 2 * FRAMES
    assert [stream.frames_out for stream in summary.streams] == [FRAMES] * 2
    assert json.loads(json.dumps(summary.as_dict()))["streams"][0]["memory"] == ranked


@DECODERS
def test_tiles_too(stub, clips, ranked, gpu_model, tmp_path):
    summary = run(clips, Looks(), out=tmp_path / "all.mp4", tile=True)
    assert summary.host_frames == 2 * FRAMES


@DECODERS
def test_a_model_that_asks_for_pixels_gets_them_counted(stub, clips, ranked, gpu_model, monkeypatch):
    on_host, on_gpu = Reads(), Reads()
    summary = run(clips[:1], on_gpu)
    assert summary.host_frames == FRAMES
    monkeypatch.setattr(frame_memory, "why_on_host", lambda _options: "of the test")
    brought = run(clips[:1], on_host)
    assert np.allclose(on_gpu.means, on_host.means, atol=0.01)
    assert {memory for memory, *_ in on_host.seen} == {"SYSTEM"}
    assert [stream.memory for stream in brought.streams] == ["system"]
    assert len(set(on_gpu.means)) > FRAMES // 2


@DECODERS
def test_a_model_on_the_processor_is_given_frames_on_the_host(stub, clips, ranked):
    """Without PyTorch's GPU: the download is in front of the muxer, counted, and said."""
    model = Reads()
    summary = run(clips, model)
    assert {memory for memory, *_ in model.seen} == {"SYSTEM"}
    assert [stream.memory for stream in summary.streams] == ["system"] * 2
    if ranked == "NVMM":  # the other one gives system memory by itself
        assert summary.host_frames == 2 * FRAMES
        assert "40 frames brought to the host in front of the model, since " in str(summary)
        assert summary.host_reason


@pytest.mark.parametrize("decoder", ["nvstandinnvmm"])
def test_a_stream_made_on_the_host_brings_the_others_there(stub, clips, ranked, gpu_model):
    model = Looks()
    summary = run([clips[0], f"test:ball?frames={FRAMES}"], model)
    assert {memory for memory, *_ in model.seen} == {"SYSTEM"}
    assert summary.host_frames == FRAMES
    assert "another stream has frames in system memory" in summary.host_reason


@pytest.mark.parametrize("decoder", ["nvstandinnvmm"])
@pytest.mark.parametrize("stays", [True, False])
def test_the_decoder_has_surfaces_for_what_stays_on_the_gpu(stub, clips, ranked, gpu_model, monkeypatch, stays):
    monkeypatch.setattr(frame_memory, "why_on_host", lambda _options: "" if stays else "of the test")
    NvmmDecoder.asked_for.clear()
    run(clips[:1], Looks())
    assert NvmmDecoder.asked_for == ([16] if stays else [])


@pytest.mark.parametrize("decoder", ["nvstandinnvmm"])
def test_pytorch_is_asked_for_its_gpu_before_any_stream_begins(stub, clips, ranked, monkeypatch):
    """To import it takes seconds: neither a decoder's thread nor another stream waits for it."""
    asked = []
    monkeypatch.setattr(frame_memory, "why_on_host", lambda _options: asked.append(threading.current_thread()) or "")
    run(clips, Looks())
    assert asked == [threading.current_thread()]


# ---- the decision alone


def options(**given):
    return Options(**given)


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"model": None}, ""),
        ({"model": "none"}, ""),
        ({"model": "net.onnx"}, "reads frames on the host"),
        ({"model": "net.onnx", "runtime": "openvino"}, "run by openvino, reads frames on the host"),
        ({"model": "net.txt"}, "reads frames on the host"),
    ],
)
def test_which_models_read_frames_on_the_host(stub, given, reason, monkeypatch):
    monkeypatch.setattr(
        Options,
        "runtime_name",
        property(
            lambda o: (
                {"net.txt": "torch"}.get(o.model)
                or ("none" if o.model in (None, "none") else o.runtime if o.runtime != "auto" else "onnxruntime")
            )
        ),
    )
    found = why_on_host(options(**given))
    assert (found == "") if reason == "" else reason in found


@pytest.mark.parametrize(
    ("decoders", "policy", "asked"), [({"nvdec"}, "auto", 1), ({"software"}, "auto", 0), ({"nvdec"}, "software", 0)]
)
def test_pytorch_is_asked_for_only_where_frames_may_come_from_a_gpu(stub, monkeypatch, decoders, policy, asked):
    calls = []
    monkeypatch.setattr(frame_memory, "why_on_host", lambda _options: calls.append(1) or "")
    monkeypatch.setattr(frame_memory, "installed", lambda: decoders)
    memory = FrameMemory(options())
    memory.expect(SimpleNamespace(kind="uri"), StreamPolicy(decoder=policy))
    memory.prepare()
    assert len(calls) == asked


def test_the_first_stream_decides(stub, gpu_model):
    file, policy = SimpleNamespace(kind="uri"), StreamPolicy(decoder="nvdec")
    memory = FrameMemory(options())
    memory.expect(file, policy)
    assert memory.may_stay()
    assert memory.stays("memory:NVMM")
    assert not memory.stays("")
    assert memory.stays("memory:NVMM")
    assert memory.why_not == ""
    memory = FrameMemory(options())
    memory.expect(file, StreamPolicy(decoder="software"))
    assert not memory.may_stay()
    assert not memory.stays("memory:NVMM")
    assert "one kind" in memory.why_not


# ---- outputs that come and go


def run_with_outputs(clips, wanted):
    outputs = LiveOutputs(wanted)
    try:
        return run(clips, Looks(), branches=outputs)
    finally:
        outputs.close()


@DECODERS
@pytest.mark.parametrize("overlay", [True, False])
def test_recordings_take_each_frame_once(stub, clips, ranked, gpu_model, tmp_path, overlay):
    wanted = OutputOptions(record=RecordOptions(tmp_path / "r"), pictures=None, overlay=overlay)
    summary = run_with_outputs(clips, wanted)
    assert [stream.memory for stream in summary.streams] == [ranked] * 2
    assert summary.host_frames == 2 * FRAMES
    files = sorted(path for path in (tmp_path / "r").rglob("*") if path.is_file())
    assert [count_frames(path) for path in files] == [FRAMES] * 2


@DECODERS
def test_outputs_that_nobody_wants_take_nothing(stub, clips, ranked, gpu_model):
    summary = run_with_outputs(clips, OutputOptions())
    assert [stream.memory for stream in summary.streams] == [ranked] * 2
    assert summary.host_frames == 0
