"""`sluice.contract.host` against a stand-in for the driver."""

from __future__ import annotations

import gc
import itertools
import threading

import gi
import numpy as np
import pytest

gi.require_version("Gst", "1.0")
gi.require_version("GstVideo", "1.0")
from gi.repository import Gst, GstVideo
from surface_samples import SIZES, ForeignBatch, frame_format, padded_frame, random_frame, same_planes

from sluice.contract import counters, gstref
from sluice.contract.batching import make_batch, original_buffer
from sluice.contract.formats import FORMATS, FrameFormat, Matrix, MemType
from sluice.contract.host import batch_on_host, frame_on_host, is_host_batch, on_host
from sluice.contract.surface import SurfaceBatch, SurfaceError
from sluice.errors import ContractError

CUDA = "video/x-raw(memory:CUDAMemory), format={}, width={}, height={}, framerate=30/1{}"


def on_cuda(name, width=64, height=48, extra=""):
    """The format of frames that are said to be in CUDA memory."""
    return FrameFormat.from_caps(Gst.Caps.from_string(CUDA.format(name, width, height, extra)))


def counted():
    read = counters.read()
    return read.host_frames, read.host_bytes, read.host_maps, read.copies


def since(before):
    return tuple(now - then for now, then in zip(counted(), before, strict=True))


@pytest.mark.parametrize(("name", "size"), itertools.product(FORMATS, SIZES))
def test_a_copy_has_the_pixels_and_says_the_same(stub, name, size):
    format = on_cuda(name, *size)
    buffer, planes = padded_frame(format)
    surface = SurfaceBatch.of_raw(buffer, format)[0]
    assert surface.mem_type is MemType.CUDA_DEVICE
    before = counted()
    copy = on_host(surface)
    assert same_planes(copy, planes)
    assert since(before) == (1, sum(plane.size for plane in planes), 0, 0)
    assert copy.mem_type is MemType.SYSTEM
    for what in ("index", "width", "height", "format", "color_format", "matrix", "full_range"):
        assert getattr(copy, what) == getattr(surface, what)
    assert not copy.writable


@pytest.mark.parametrize("name", FORMATS)
def test_a_part_is_copied_alone(stub, name):
    format = on_cuda(name)
    buffer, planes = padded_frame(format)
    surface = SurfaceBatch.of_raw(buffer, format)[0]
    before = counted()
    copy = on_host(surface.crop(10, 6, 21, 15))
    _, host_planes = padded_frame(frame_format(name, 64, 48))
    whole = SurfaceBatch.of_raw(padded_frame(frame_format(name, 64, 48))[0], frame_format(name, 64, 48))[0]
    wanted = [np.array(plane) for plane in whole.crop(10, 6, 21, 15).host_planes()]
    assert (copy.width, copy.height) == (21, 15)
    assert same_planes(copy, wanted)
    assert all(np.array_equal(one, other) for one, other in zip(planes, host_planes, strict=True))
    assert since(before)[:2] == (1, sum(plane.size for plane in wanted))


@pytest.mark.parametrize("colours", ["1:3:0:0", "2:4:0:0", "1:6:0:0", "2:6:0:0", "2:3:0:0"])
def test_colours_stay_exact(stub, colours):
    format = on_cuda("NV12", extra=f", colorimetry=(string){colours}")
    copy = on_host(SurfaceBatch.of_raw(random_frame(format)[0], format)[0])
    full, matrix = colours.split(":")[:2]
    assert (copy.matrix, copy.full_range) == (Matrix(int(matrix)), full == "1")


def test_memory_of_the_host_is_not_copied(stub):
    format = frame_format("NV12")
    surface = SurfaceBatch.of_raw(random_frame(format)[0], format)[0]
    before = counted()
    assert on_host(surface) is surface
    assert since(before) == (0, 0, 0, 0)


def test_the_copy_lives_longer_than_the_frame(stub):
    format = on_cuda("NV12", 320, 240)
    buffer, planes = random_frame(format)
    surfaces = SurfaceBatch.of_raw(buffer, format)
    view = on_host(surfaces[0]).host_plane(0)
    surfaces.close()
    del buffer, surfaces
    gc.collect()
    for seed in range(40):  # other frames, which would be given its buffer
        other, _ = random_frame(format, seed + 1)
        on_host(SurfaceBatch.of_raw(other, format)[0])
    assert np.array_equal(view, planes[0])


@pytest.mark.parametrize("gpu", [0, 1])
def test_surfaces_of_nvmm_are_copied_on_their_own_gpu(stub, gpu):
    foreign = ForeignBatch(count=3, mem_type=MemType.CUDA_DEVICE, gpu_id=gpu)
    for index, surface in enumerate(SurfaceBatch.of(foreign.buffer())):
        copy = on_host(surface)
        pixels = foreign.pixels[index].reshape(-1, 512)
        assert np.array_equal(copy.host_plane(0), pixels[:48, :64])
        assert np.array_equal(copy.host_plane(1).reshape(24, 64), pixels[48:, :64])
        assert stub.last_device == gpu


def test_chroma_that_was_rounded_down_is_completed(stub):
    foreign = ForeignBatch(mem_type=MemType.CUDA_DEVICE, width=33, height=17, pitch=64)
    foreign.params[0].planeParams.height[1] = 8
    foreign.params[0].planeParams.offset[1] = 64 * 17
    source = foreign.pixels[0]
    chroma = on_host(SurfaceBatch.of(foreign.buffer())[0]).host_plane(1)
    given = source[64 * 17 :][: 64 * 8].reshape(8, 64)[:, :32].reshape(8, 16, 2)
    assert chroma.shape == (9, 17, 2)
    assert np.array_equal(chroma[:8, :16], given)
    assert np.array_equal(chroma[:8, 16], given[:, 15])
    assert np.array_equal(chroma[8], chroma[7])


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"mem_type": MemType.SURFACE_ARRAY}, "memory type SURFACE_ARRAY.*nvvideoconvert"),
        ({"mem_type": MemType.CUDA_ARRAY}, "memory type CUDA_ARRAY.*nvvideoconvert"),
        ({"mem_type": MemType.CUDA_DEVICE, "gpu_id": 7}, "GPU 7.*there is no GPU 7"),
    ],
)
def test_what_cannot_be_copied_is_refused_by_name(stub, change, reason):
    before = counted()
    with pytest.raises(SurfaceError, match=f"surface 0 .NV12 64x48.*{reason}"):
        on_host(SurfaceBatch.of(ForeignBatch(**change).buffer())[0])
    assert since(before) == (0, 0, 0, 0)


def test_block_linear_surfaces_are_refused(stub):
    foreign = ForeignBatch(mem_type=MemType.CUDA_DEVICE)
    foreign.params[0].layout = 1
    with pytest.raises(SurfaceError, match="layout is BLOCK_LINEAR"):
        on_host(SurfaceBatch.of(foreign.buffer())[0])


@pytest.mark.parametrize(
    ("where", "error", "reason"),
    [
        ("fail_copy", 700, "plane 0, cuMemcpy2DAsync on GPU 0: CUDA_ERROR_ILLEGAL_ADDRESS"),
        ("fail_wait", 1, "cuStreamSynchronize on GPU 0: CUDA_ERROR_INVALID_VALUE"),
        ("fail_copy", 999, "plane 0, cuMemcpy2DAsync on GPU 0: an unknown error"),
    ],
)
def test_errors_of_the_driver_are_named_and_the_next_copy_works(stub, where, error, reason):
    format = on_cuda("NV12")
    buffer, planes = random_frame(format)
    surface = SurfaceBatch.of_raw(buffer, format)[0]
    setattr(stub, where, error)
    with pytest.raises(SurfaceError, match=rf"surface 0 \(NV12 64x48, memory type CUDA_DEVICE, GPU 0\).*{reason}"):
        on_host(surface)
    assert stub.depth() == 0
    assert same_planes(on_host(surface), planes)


def test_buffers_are_used_again_and_few_are_kept(stub):
    format = on_cuda("NV12", 1920, 1080)
    surface = SurfaceBatch.of_raw(random_frame(format)[0], format)[0]
    on_host(surface)
    made = stub.pinned_made
    for _ in range(10):
        on_host(surface)
    assert stub.pinned_made == made, "a buffer that was free was not used again"
    kept = [on_host(surface) for _ in range(100)]
    assert stub.pinned_made == made + 99
    kept.clear()
    assert stub.pinned <= 40 + 2, "more than 128 MB are kept without use"


def test_without_page_locked_memory_other_memory_does(stub):
    format = on_cuda("NV12", 722, 406)
    buffer, planes = random_frame(format)
    stub.fail_host_alloc = 1
    made = stub.pinned_made
    copies = [on_host(SurfaceBatch.of_raw(buffer, format)[0]) for _ in range(3)]
    assert all(same_planes(copy, planes) for copy in copies)
    assert stub.pinned_made == made


def test_many_threads_copy_at_once(stub):
    format, failures = on_cuda("I420", 320, 240), []

    def copy(seed):
        try:
            for number in range(60):
                buffer, planes = random_frame(format, seed * 100 + number)
                assert same_planes(on_host(SurfaceBatch.of_raw(buffer, format)[0]), planes)
            assert stub.depth() == 0
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=copy, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


# ---- buffers


def test_a_frame_keeps_times_and_other_metadata_and_loses_its_layout(stub):
    format = on_cuda("NV12", 33, 17, ", colorimetry=(string)1:3:0:0")
    buffer, planes = padded_frame(format)
    buffer.pts, buffer.duration, buffer.offset = 5, 7, 9
    buffer.add_reference_timestamp_meta(Gst.Caps.from_string("timestamp/x-unix"), 1234, 0)
    found = frame_on_host(buffer, format)
    assert not found.on_cuda
    assert (found.name, found.width, found.height, found.full_range) == ("NV12", 33, 17, True)
    assert (buffer.pts, buffer.duration, buffer.offset) == (5, 7, 9)
    assert buffer.get_reference_timestamp_meta(None).timestamp == 1234
    assert GstVideo.buffer_get_video_meta(buffer) is None
    assert buffer.get_size() == found.info.size
    assert same_planes(SurfaceBatch.of_raw(buffer, frame_format("NV12", 33, 17))[0], planes)


def test_a_frame_of_nvmm_becomes_raw_video(stub):
    foreign = ForeignBatch(mem_type=MemType.CUDA_DEVICE)
    buffer = foreign.buffer()
    found = frame_on_host(buffer, None)
    assert (found.name, found.width, found.height) == ("NV12", 64, 48)
    luma = SurfaceBatch.of_raw(buffer, found)[0].host_plane(0)
    assert np.array_equal(luma, foreign.pixels[0].reshape(-1, 512)[:48, :64])


def test_a_batch_is_no_single_frame(stub):
    with pytest.raises(ContractError, match="2 surfaces is no single frame"):
        frame_on_host(ForeignBatch(count=2, mem_type=MemType.CUDA_DEVICE).buffer(), None)


def test_a_shared_frame_is_not_changed(stub):
    format = on_cuda("NV12")
    buffer, planes = random_frame(format)
    holder = gstref.ref(gstref.buffer_address(buffer))
    with pytest.raises(ContractError, match="shared by 2 holders"):
        frame_on_host(buffer, format)
    gstref.unref(holder)
    assert same_planes(SurfaceBatch.of_raw(buffer, frame_format("NV12", 64, 48))[0], planes)


def test_a_batch_of_cuda_frames_is_brought_whole(stub):
    formats = [on_cuda("NV12"), on_cuda("RGBA", 33, 17)]
    frames = [(*padded_frame(format, seed), format) for seed, format in enumerate(formats)]
    for number, (buffer, _, _) in enumerate(frames):
        buffer.pts = 100 + number
    batch = make_batch([(buffer, format) for buffer, _, format in frames], 4)
    batch.pts = 3
    assert not is_host_batch(gstref.buffer_address(batch))
    before = counted()
    assert batch_on_host(batch)
    assert since(before)[0] == 2
    assert since(before)[3] == 0
    assert is_host_batch(gstref.buffer_address(batch))
    assert SurfaceBatch.of(batch).mem_type is MemType.SYSTEM
    surfaces = SurfaceBatch.of(batch)
    assert (len(surfaces), surfaces.capacity, batch.pts) == (2, 4, 3)
    for number, (_, planes, _) in enumerate(frames):
        assert same_planes(surfaces[number], planes)
        assert original_buffer(batch, number).pts == 100 + number
    before = counted()
    assert not batch_on_host(batch)
    assert since(before)[0] == 0


@pytest.mark.parametrize("mem_type", [MemType.CUDA_DEVICE, MemType.CUDA_UNIFIED, MemType.CUDA_PINNED, MemType.SYSTEM])
def test_a_batch_of_another_muxer_is_brought_whole(stub, mem_type):
    foreign = ForeignBatch(count=3, mem_type=mem_type, gpu_id=1)
    buffer = foreign.buffer()
    assert batch_on_host(buffer)
    surfaces = SurfaceBatch.of(buffer)
    assert (len(surfaces), surfaces.mem_type, surfaces.gpu_id) == (3, MemType.SYSTEM, 0)
    for index, surface in enumerate(surfaces):
        assert np.array_equal(surface.host_plane(0), foreign.pixels[index].reshape(-1, 512)[:48, :64])


def test_nothing_is_left_alive(stub):
    gc.collect()
    before = counters.read()
    for _ in range(20):
        format = on_cuda("NV12")
        batch = make_batch([(random_frame(format)[0], format) for _ in range(3)], 4)
        batch_on_host(batch)
        del batch
    gc.collect()
    after = counters.read()
    assert (after.live_batches, after.live_frames) == (before.live_batches, before.live_frames)
