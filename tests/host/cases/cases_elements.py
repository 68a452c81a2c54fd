"""sluiceosd, sluicetiler, sluicedemux and sluicehost on frames that say to be in GPU memory."""

from __future__ import annotations

import gi
import numpy as np
import pytest

gi.require_version("Gst", "1.0")
gi.require_version("GstVideo", "1.0")
from batch_feed import push_to_appsrc
from gi.repository import Gst, GstVideo
from stand_ins import ToCuda  # noqa: F401 - registers the elements
from surface_samples import read_planes

from playing import reaches_its_end
from sluice.contract import bulk, counters, gstref
from sluice.contract.formats import FrameFormat
from sluice.contract.host import frame_on_host
from sluice.contract.metadata import BatchMeta, Lease
from sluice.contract.surface import SurfaceBatch
from sluice.errors import ContractError

FRAMES = 4
SINK = "fakesink async=false"
PATTERNS = ("ball", "smpte", "circular")
GPU = pytest.mark.parametrize("gpu", ["tocuda", "tonvmm"])
FEATURE = {"tocuda": "memory:CUDAMemory", "tonvmm": "memory:NVMM"}
OFF = "display-bbox=0 display-text=0 display-keypoints=0 display-answers=0"


def source(number, gpu="", width=64, height=48):
    """Frames of a stream, each stream and frame another picture."""
    caps = f"video/x-raw,format=NV12,width={width},height={height},framerate=25/1,colorimetry=bt709"
    made = f"videotestsrc num-buffers={FRAMES} pattern={PATTERNS[number]} name=source{number} ! {caps}"
    return f"{made} ! {gpu}" if gpu else made


def head(gpu="", streams=2, size=(64, 48)):
    inputs = " ".join(f"{source(i, gpu, *size)} ! mux.sink_{i}" for i in range(streams))
    return f"{inputs} sluicemux name=mux batch-size={streams} batched-push-timeout=-1"


class Seen:
    """What arrived at one pad."""

    def __init__(self, pad):
        self.buffers, self.caps, self.addresses, self.pictures = [], [], [], []
        pad.add_probe(Gst.PadProbeType.BUFFER, self._take)

    def _take(self, pad, info):
        buffer, caps = info.get_buffer(), pad.get_current_caps()
        self.caps.append(caps.to_string())
        if caps.get_features(0).contains("memory:SystemMemory"):
            surfaces = SurfaceBatch.of_raw(buffer, FrameFormat.from_caps(caps))
            self.pictures.append([np.array(plane) for plane in surfaces[0].host_planes()])
        elif caps.get_features(0).contains("memory:CUDAMemory"):
            surfaces = SurfaceBatch.of_raw(buffer, FrameFormat.from_caps(caps))
        else:
            surfaces = SurfaceBatch.of(buffer)
        self.addresses += [surface.address for surface in surfaces]
        self.buffers.append((buffer.pts, surfaces.mem_type.name, len(surfaces)))
        surfaces.close()
        return Gst.PadProbeReturn.OK


def draw_on(pad, label="thing"):
    """Give every frame that passes a pad a box."""

    def add(_pad, info):
        with Lease() as lease:
            for frame in BatchMeta.of(info.get_buffer(), lease).frames:
                box = np.array([[8, 8, 30, 20]], np.float32)
                bulk.write_objects(frame, box, np.ones(1, np.float32), np.zeros(1, np.int32), [label], unique_id=1)
        return Gst.PadProbeReturn.OK

    pad.add_probe(Gst.PadProbeType.BUFFER, add)


class Run:
    """Plays a pipeline to its end; ``at`` names what is looked at: pads as element.pad."""

    def __init__(self, line, *at, boxes="", before=None):
        self.pipeline = Gst.parse_launch(line)
        self.seen = [Seen(self._pad(name)) for name in at]
        if boxes:
            draw_on(self._pad(boxes))
        if before is not None:
            before(self.pipeline)
        self.error, self.warnings = None, []
        start = counters.read()
        self.pipeline.set_state(Gst.State.PLAYING)
        wanted = Gst.MessageType.EOS | Gst.MessageType.ERROR | Gst.MessageType.WARNING
        while True:
            message = self.pipeline.get_bus().timed_pop_filtered(20 * Gst.SECOND, wanted)
            assert message is not None, "the pipeline hangs"
            if message.type == Gst.MessageType.WARNING:
                self.warnings.append(message.parse_warning()[0].message)
                continue
            if message.type == Gst.MessageType.ERROR:
                self.error = " ".join(map(str, message.parse_error()))
            break
        self.pipeline.set_state(Gst.State.NULL)
        end = counters.read()
        self.host_frames, self.host_bytes = end.host_frames - start.host_frames, end.host_bytes - start.host_bytes
        self.copies, self.host_maps = end.copies - start.copies, end.host_maps - start.host_maps

    def _pad(self, name):
        element, pad = name.split(".")
        return self.pipeline.get_by_name(element).get_static_pad(pad)


def pictures_of(run):
    assert run.error is None, run.error
    return run.seen[0].pictures


def same(one, other):
    assert len(one) == len(other) > 0
    for a, b in zip(one, other, strict=True):
        assert all(np.array_equal(x, y) for x, y in zip(a, b, strict=True))
    return True


# ---- sluicedemux


@GPU
def test_the_demuxer_hands_gpu_memory_on(stub, gpu):
    line = f"{head(gpu)} ! sluicedemux name=d d.src_0 ! {SINK} name=a d.src_1 ! {SINK} name=b"
    run = Run(line, "mux.src", "a.sink", "b.sink")
    assert run.error is None
    batched, *streams = run.seen
    assert sorted(streams[0].addresses + streams[1].addresses) == sorted(batched.addresses)
    for stream in streams:
        assert len(stream.buffers) == FRAMES
        assert {memory for _, memory, _ in stream.buffers} == {"CUDA_DEVICE"}
        assert all(FEATURE[gpu] in caps for caps in stream.caps)
    assert (run.host_frames, run.copies, run.host_maps, stub.copies) == (0, 0, 0, 0)


@GPU
def test_frames_of_pads_that_are_not_linked_cost_nothing(stub, gpu):
    run = Run(f"{head(gpu)} ! sluicedemux name=d d.src_1 ! sluiceosd ! {SINK} name=b", "b.sink")
    assert run.error is None
    assert (run.host_frames, run.copies) == (FRAMES, 0)


# ---- sluiceosd


def drawn(gpu, where="single", osd="", boxes=True):
    if where == "single":
        line = f"{head(gpu, 1)} ! sluicedemux name=d d.src_0 ! sluiceosd name=o {osd} ! {SINK} name=a"
    else:
        line = f"{head(gpu, 2)} ! sluiceosd name=o {osd} ! sluicedemux name=d d.src_0 ! {SINK} name=a"
    return Run(line, "a.sink", "o.src", boxes="mux.src" if boxes else "")


@GPU
@pytest.mark.parametrize("boxes", [True, False])
def test_frames_are_drawn_on_as_in_system_memory(stub, gpu, boxes):
    """Each is brought to the host once, also where nothing is drawn, since what follows takes system memory."""
    on_host, run = drawn("", boxes=boxes), drawn(gpu, boxes=boxes)
    assert same(pictures_of(run), pictures_of(on_host))
    assert (run.host_frames, run.host_bytes) == (FRAMES, FRAMES * 64 * 48 * 3 // 2)
    assert on_host.host_frames == 0
    assert run.copies == 0
    assert all("(" not in caps.split(",")[0] for caps in run.seen[0].caps)
    assert [pts for pts, *_ in run.seen[0].buffers] == [pts for pts, *_ in on_host.seen[0].buffers]


@GPU
def test_boxes_change_the_picture(stub, gpu):
    with_boxes, without = drawn(gpu), drawn(gpu, boxes=False)
    for one, other in zip(pictures_of(with_boxes), pictures_of(without), strict=True):
        assert not np.array_equal(one[0], other[0])


@GPU
def test_batches_are_drawn_on_as_in_system_memory(stub, gpu):
    on_host, run = drawn("", "batch"), drawn(gpu, "batch")
    assert same(pictures_of(run), pictures_of(on_host))
    assert run.host_frames == 2 * FRAMES
    assert {memory for _, memory, _ in run.seen[1].buffers} == {"SYSTEM"}
    assert all("memory:SluiceSurface" in caps for caps in run.seen[1].caps)
    assert all("(" not in caps.split(",")[0] and "gpu" not in caps for caps in run.seen[0].caps)


@GPU
@pytest.mark.parametrize("where", ["single", "batch"])
def test_switched_off_it_leaves_frames_on_the_gpu(stub, gpu, where):
    run = drawn(gpu, where, OFF)
    assert run.error is None
    assert (run.host_frames, run.copies) == (0, 0)
    assert {memory for _, memory, _ in run.seen[0].buffers} == {"CUDA_DEVICE"}
    assert all(FEATURE[gpu] in caps for caps in run.seen[0].caps)


@GPU
def test_switched_off_it_still_gives_what_downstream_can_take(stub, gpu):
    line = f"{head(gpu, 1)} ! sluicedemux name=d d.src_0 ! sluiceosd {OFF} ! video/x-raw ! {SINK} name=a"
    run = Run(line, "a.sink")
    assert run.error is None
    assert run.host_frames == FRAMES
    assert len(run.seen[0].pictures) == FRAMES


@GPU
def test_switched_on_while_it_plays(stub, gpu):
    def switch(pipeline):
        count = iter(range(100))

        def probe(_pad, _info):
            if next(count) == 1:
                pipeline.get_by_name("o").set_property("display-bbox", True)
            return Gst.PadProbeReturn.OK

        pipeline.get_by_name("o").get_static_pad("sink").add_probe(Gst.PadProbeType.BUFFER, probe)

    line = f"{head(gpu, 1)} ! sluicedemux name=d d.src_0 ! sluiceosd name=o {OFF} ! {SINK} name=a"
    run = Run(line, "a.sink", before=switch, boxes="mux.src")
    assert run.error is None
    told = [memory for _, memory, _ in run.seen[0].buffers]
    assert told in (["CUDA_DEVICE"] * before + ["SYSTEM"] * (FRAMES - before) for before in (1, 2))
    assert run.host_frames == told.count("SYSTEM")
    on_host = pictures_of(drawn("", osd=OFF.replace("display-bbox=0", "")))
    assert same(pictures_of(run), on_host[-len(run.seen[0].pictures) :])


@GPU
def test_a_frame_that_others_hold_is_drawn_on_in_its_own_copy(stub, gpu):
    line = (
        f"{head(gpu, 1)} ! sluicedemux name=d d.src_0 ! tee name=t t. ! queue ! sluiceosd ! {SINK} name=a "
        f"t. ! queue ! {SINK} name=b"
    )
    run = Run(line, "a.sink", "b.sink", boxes="mux.src")
    assert same(pictures_of(run), pictures_of(drawn("")))
    assert {memory for _, memory, _ in run.seen[1].buffers} == {"CUDA_DEVICE"}
    assert run.host_frames == FRAMES


def test_an_error_of_the_driver_reaches_the_bus(stub):
    stub.fail_copy = 700
    run = drawn("tonvmm")
    assert "surface 0 (NV12 64x48, memory type CUDA_DEVICE, GPU 0)" in run.error
    assert "CUDA_ERROR_ILLEGAL_ADDRESS" in run.error


# ---- sluicetiler


def tiled(gpu, more="", streams=3):
    line = f"{head(gpu, streams)} ! sluicetiler name=t width=128 height=96 {more} ! {SINK} name=a"
    return Run(line, "a.sink", boxes="mux.src")


@GPU
def test_tiles_are_those_of_system_memory(stub, gpu):
    on_host, run = tiled(""), tiled(gpu)
    assert same(pictures_of(run), pictures_of(on_host))
    assert run.host_frames == 3 * FRAMES


@GPU
def test_of_one_shown_stream_one_frame_per_batch_is_copied(stub, gpu):
    on_host, run = tiled("", "show-source=1"), tiled(gpu, "show-source=1")
    assert same(pictures_of(run), pictures_of(on_host))
    assert (run.host_frames, run.host_bytes) == (FRAMES, FRAMES * 64 * 48 * 3 // 2)


# ---- sluicehost


@GPU
def test_the_download_gives_the_same_frames(stub, gpu):
    line = "{} ! sluicehost ! fakesink async=false name=a"
    on_host, run = Run(line.format(source(0)), "a.sink"), Run(line.format(source(0, gpu)), "a.sink")
    assert same(pictures_of(run), pictures_of(on_host))
    assert (run.host_frames, on_host.host_frames) == (FRAMES, 0)


@GPU
def test_the_download_takes_batches(stub, gpu):
    line = f"{head(gpu)} ! sluicehost ! sluicedemux name=d d.src_0 ! {SINK} name=a d.src_1 ! {SINK} name=b"
    run = Run(line, "a.sink", "b.sink")
    assert run.error is None
    assert run.host_frames == 2 * FRAMES
    assert len(run.seen[0].pictures) == len(run.seen[1].pictures) == FRAMES


@GPU
def test_frames_of_both_memories_in_one_batch(stub, gpu):
    line = (
        f"{source(0)} ! mux.sink_0 {source(1, gpu)} ! sluicehost ! mux.sink_1 "
        f"sluicemux name=mux batch-size=2 batched-push-timeout=-1 ! {SINK} name=a"
    )
    run = Run(line, "a.sink")
    assert run.error is None
    assert {memory for _, memory, _ in run.seen[0].buffers} == {"SYSTEM"}


@GPU
def test_messages_only_bring_nothing_to_the_host(stub, gpu, tmp_path):
    behind = f"sluicetracker ! sluicemsgconv ! sluicemsgbroker location={tmp_path / 'messages'}"
    line = f"{head(gpu)} ! sluiceinfer model=none ! {behind}"
    run = Run(line, boxes="mux.src")
    assert run.error is None
    assert (run.host_frames, run.copies, run.host_maps, stub.copies) == (0, 0, 0, 0)
    assert (tmp_path / "messages").read_text().count("\n") >= 2 * FRAMES


# ---- buffers of a decoder's pool


class Pool:
    """A pool of two NV12 frames with wide rows, whose GstVideoMetas are locked, as a decoder's are."""

    def __init__(self, width=64, height=48):
        text = f"format=NV12,width={width},height={height},framerate=25/1,colorimetry=bt709"
        self.caps = Gst.Caps.from_string(f"video/x-raw(memory:CUDAMemory),{text}")
        self.format = FrameFormat.from_caps(self.caps)
        alignment = GstVideo.VideoAlignment()
        alignment.padding_right, alignment.padding_bottom = 32, 16
        self.pool = GstVideo.VideoBufferPool.new()
        config = self.pool.get_config()
        Gst.BufferPool.config_set_params(
            config, Gst.Caps.from_string(f"video/x-raw,{text}"), self.format.info.size, 2, 2
        )
        for option in ("GstBufferPoolOptionVideoMeta", "GstBufferPoolOptionVideoAlignment"):
            Gst.BufferPool.config_add_option(config, option)
        GstVideo.buffer_pool_config_set_video_alignment(config, alignment)
        assert self.pool.set_config(config)
        self.pool.set_active(True)

    def take(self, seed):
        """The address of a buffer with random pixels, with its only reference, and its planes."""
        flow, buffer = self.pool.acquire_buffer(None)
        assert flow == Gst.FlowReturn.OK
        content = np.random.default_rng(seed).integers(0, 256, buffer.get_size(), dtype=np.uint8)
        buffer.fill(0, content.tobytes())
        meta = GstVideo.buffer_get_video_meta(buffer)
        assert meta.stride[0] > 64
        planes = read_planes(content, self.format, meta.offset, meta.stride)
        buffer.pts = seed * 40 * Gst.MSECOND
        return gstref.steal(buffer), planes


@pytest.mark.parametrize("element", ["sluicehost", "sluiceosd"])
def test_buffers_of_a_pool_go_back_as_they_were(stub, element):
    """With two frames in the pool, twenty pass; each a picture of its own, in the rows that its caps say."""
    pool, wanted = Pool(), []
    line = f"appsrc name=in format=time ! {element} ! {SINK} name=a sync=false"
    pipeline = Gst.parse_launch(line)
    pipeline.get_by_name("in").set_property("caps", pool.caps)
    seen = Seen(pipeline.get_by_name("a").get_static_pad("sink"))
    pipeline.set_state(Gst.State.PLAYING)
    for seed in range(20):  # waits where the pool has no buffer left
        address, planes = pool.take(seed)
        wanted.append(planes)
        push_to_appsrc(gstref.address(pipeline.get_by_name("in")), address)
    pipeline.get_by_name("in").emit("end-of-stream")
    reaches_its_end(pipeline)
    pipeline.set_state(Gst.State.NULL)
    assert same(seen.pictures, wanted)
    assert [pts for pts, *_ in seen.buffers] == [seed * 40 * Gst.MSECOND for seed in range(20)]


def test_a_buffer_of_a_pool_is_not_changed(stub):
    pool = Pool()
    buffer = gstref.take(pool.take(1)[0])
    with pytest.raises(ContractError, match="one of a pool"):
        frame_on_host(buffer, pool.format)
