"""Batches own their frames: who holds what, for how long, and what is refused."""

import gi
import numpy as np
import pytest
from leftovers import nothing_is_left

gi.require_version("Gst", "1.0")
from gi.repository import Gst
from surface_samples import (
    ForeignBatch,
    add_video_meta,
    copy_of,
    frame_format,
    let_die_on_other_threads,
    padded_frame,
    random_frame,
    raw_caps,
    same_planes,
    scattered_frame,
)

from sluice.contract import counters, gstref
from sluice.contract.batching import (
    CUDA_FEATURE,
    NVMM_FEATURE,
    SURFACE_FEATURE,
    make_batch,
    memory_feature,
    nvmm_caps,
    original_buffer,
    raw_caps_template,
    surface_caps,
)
from sluice.contract.formats import FORMATS, MemType
from sluice.contract.structures import required_structure
from sluice.contract.surface import SurfaceBatch
from sluice.errors import ContractError

WHOLE = 2**64 - 1


def frames_of(count, name="NV12", width=33, height=17):
    """Return [(buffer, format)] and each one's planes."""
    format = frame_format(name, width, height)
    made = [padded_frame(format, seed) for seed in range(count)]
    return [(buffer, format) for buffer, _ in made], [planes for _, planes in made]


@pytest.fixture(autouse=True)
def _nothing_is_left():
    with nothing_is_left("live_batches", "live_frames"):
        yield


def test_the_struct_is_what_an_nvbufsurface_reader_expects():
    frames, _ = frames_of(3)
    batch = make_batch(frames, 8)
    assert (batch.n_memory(), batch.get_size()) == (1, 72)
    header = np.frombuffer(batch.extract_dup(0, 72), np.uint32)
    gpu_id, batch_size, filled, contiguous, mem_type = header[:5]
    assert (gpu_id, batch_size, filled, contiguous, mem_type) == (0, 8, 3, 0, MemType.SYSTEM)


def test_the_very_buffers_come_back():
    frames, _ = frames_of(4)
    batch = make_batch(frames, 4)
    addresses = [gstref.buffer_address(buffer) for buffer, _ in frames]
    del frames
    for index, address in enumerate(addresses):
        assert gstref.refcount(address) == 1
        original = original_buffer(batch, index)
        assert gstref.buffer_address(original) == address
        assert gstref.refcount(address) == 2
        del original
        assert gstref.refcount(address) == 1


@pytest.mark.parametrize("index", [-1, 2, 100])
def test_there_is_no_original_of_a_surface_that_is_not_there(index):
    batch = make_batch(frames_of(2)[0], 4)
    with pytest.raises(ContractError, match=f"surface {index}"):
        original_buffer(batch, index)


def test_there_is_no_original_in_a_foreign_batch():
    with pytest.raises(ContractError, match="not made by sluicemux"):
        original_buffer(ForeignBatch().buffer(), 0)


def test_originals_survive_the_batch_and_are_released_with_it():
    frames, planes = frames_of(1)
    format = frames[0][1]
    batch = make_batch(frames, 1)
    del frames
    original = original_buffer(batch, 0)
    del batch
    assert gstref.refcount(gstref.buffer_address(original)) == 1
    assert gstref.is_memory_writable(gstref.buffer_address(original))
    assert same_planes(SurfaceBatch.of_raw(original, format)[0], planes[0])


def test_memory_moved_to_another_buffer_keeps_the_frames():
    frames, planes = frames_of(3)
    batch = make_batch(frames, 3)
    del frames
    other = Gst.Buffer.new()
    other.append_memory(batch.get_memory(0))
    del batch
    assert all(same_planes(surface, plane) for surface, plane in zip(SurfaceBatch.of(other), planes, strict=True))


def test_copy_region_keeps_the_frames():
    frames, planes = frames_of(3)
    batch = make_batch(frames, 3)
    del frames
    part = batch.copy_region(Gst.BufferCopyFlags.MEMORY, 0, WHOLE)
    del batch
    assert all(same_planes(surface, plane) for surface, plane in zip(SurfaceBatch.of(part), planes, strict=True))
    assert original_buffer(part, 2) is not None


def test_a_part_of_a_memory_keeps_the_whole_one():
    frames, planes = frames_of(2)
    batch = make_batch(frames, 2)
    del frames
    part = Gst.Buffer.new()
    part.append_memory(batch.get_memory(0).share(0, -1))
    del batch
    assert all(same_planes(surface, plane) for surface, plane in zip(SurfaceBatch.of(part), planes, strict=True))


def test_a_deep_copy_is_a_descriptor_of_the_same_pixels():
    frames, planes = frames_of(2)
    batch = make_batch(frames, 2)
    before = counters.read()
    deep = batch.copy_deep()
    addresses = [surface.planes[0].address for surface in SurfaceBatch.of(batch)]
    del batch, frames
    assert [surface.planes[0].address for surface in SurfaceBatch.of(deep)] == addresses
    assert all(same_planes(surface, plane) for surface, plane in zip(SurfaceBatch.of(deep), planes, strict=True))
    assert counters.copies() == before.copies
    assert counters.read().live_frames == before.live_frames


def test_making_a_shared_batch_writable_copies_the_buffer_and_shares_the_memory():
    batch = make_batch(frames_of(2)[0], 2)
    address = gstref.ref(gstref.buffer_address(batch))
    before = counters.read()
    copy = gstref.make_writable(address)
    assert copy != gstref.buffer_address(batch)
    assert (counters.copies(), counters.live_batches()) == (before.copies, before.live_batches)
    assert not gstref.is_memory_writable(copy)
    assert len(SurfaceBatch.of(gstref.wrap(copy))) == 2
    gstref.unref(copy)


def test_twenty_thousand_batches_leak_nothing():
    frames, _ = frames_of(4, width=16, height=16)
    before = counters.read()
    for _ in range(20_000):
        SurfaceBatch.of(make_batch(frames, 8))[3].host_plane(1)
    after = counters.read()
    assert (after.live_batches, after.live_frames) == (before.live_batches, before.live_frames)
    assert after.host_maps - before.host_maps == 80_000
    assert all(gstref.refcount(gstref.buffer_address(buffer)) == 1 for buffer, _ in frames)


def test_batches_die_on_other_threads():
    frames, _ = frames_of(8)
    batches = [make_batch(frames, 8) for _ in range(200)]
    before = counters.live_batches()
    let_die_on_other_threads(batches)
    assert counters.live_batches() == before - 200


@pytest.mark.parametrize("name", ["I420", "NV12"])
def test_planes_in_several_allocations_are_copied_once_and_counted(name):
    format = frame_format(name)
    buffer, planes = scattered_frame(format)
    buffer.pts = 40
    before = counters.copies()
    batch = make_batch([(buffer, format)], 1)
    assert counters.copies() == before + 1
    assert same_planes(SurfaceBatch.of(batch)[0], planes)
    assert original_buffer(batch, 0).pts == 40


def test_memories_that_gstreamer_merges_are_counted_as_a_copy():
    format = frame_format("GRAY8", 32, 16)
    content = np.random.default_rng(1).integers(0, 256, 512, dtype=np.uint8)
    buffer = Gst.Buffer.new()
    for half in np.split(content, 2):
        buffer.append_memory(Gst.Buffer.new_wrapped(half.tobytes()).get_all_memory())
    before = counters.copies()
    batch = make_batch([(buffer, format)], 1)
    assert counters.copies() == before + 1
    assert np.array_equal(SurfaceBatch.of(batch)[0].host_plane(), content.reshape(16, 32))


def test_frames_given_with_a_video_info_need_no_preparation():
    format = frame_format("I420")
    buffer, planes = random_frame(format)
    assert same_planes(SurfaceBatch.of(make_batch([(buffer, format.info)], 1))[0], planes)


# ---- what is refused ----


@pytest.mark.parametrize(("count", "capacity"), [(2, 1), (0, 0), (1, 1025), (0, -1)])
def test_capacities_that_do_not_fit(count, capacity):
    with pytest.raises(ContractError, match=f"{count} frames do not make a batch of capacity {capacity}"):
        make_batch(frames_of(count)[0], capacity)


def test_an_empty_batch_is_a_batch():
    batch = SurfaceBatch.of(make_batch([], 4))
    assert (len(batch), batch.capacity) == (0, 4)


def test_raw_frames_and_surfaces_do_not_mix():
    with pytest.raises(ContractError, match="1 of 2 frames are NvBufSurfaces"):
        make_batch([*frames_of(1)[0], (ForeignBatch().buffer(), None)], 4)


def test_a_frame_smaller_than_its_caps_is_named():
    frames, _ = frames_of(1)
    with pytest.raises(ContractError, match="frame 1 of the batch has 10 bytes, NV12 33x17 takes"):
        make_batch([*frames, (Gst.Buffer.new_wrapped(bytes(10)), frames[0][1])], 4)


@pytest.mark.parametrize(
    ("meta_format", "offsets", "strides", "reason"),
    [
        (("NV12", 31, 17), [0, 700, 0, 0], [33, 34, 0, 0], "GstVideoMeta of NV12 31x17, the caps say NV12 33x17"),
        (("I420", 33, 17), [0, 700, 900, 0], [33, 17, 17, 0], "GstVideoMeta of I420 33x17, the caps say NV12 33x17"),
        (("NV12", 33, 17), [0, 700, 0, 0], [33, 34, 0, 0], "reach beyond its memory"),
        (("NV12", 33, 17), [0, 600, 0, 0], [32, 34, 0, 0], "stride below the bytes of a row"),
        (("NV12", 33, 17), [0, 600, 0, 0], [-33, 34, 0, 0], "stride below the bytes of a row"),
        (("NV12", 33, 17), [0, 5000, 0, 0], [33, 34, 0, 0], "cannot be mapped as NV12"),
    ],
)
def test_a_video_meta_that_does_not_fit_is_refused(meta_format, offsets, strides, reason):
    buffer = Gst.Buffer.new_wrapped(bytes(900))
    add_video_meta(buffer, frame_format(*meta_format), offsets, strides)
    with pytest.raises(ContractError, match=f"frame 0 of the batch .*{reason}"):
        make_batch([(buffer, frame_format("NV12"))], 1)


# ---- surfaces that are batched as they are ----


def test_surfaces_are_struct_copies_that_keep_their_buffers():
    foreign = [ForeignBatch(count=1, capacity=1) for _ in range(3)]
    buffers = [batch.buffer() for batch in foreign]
    addresses = [gstref.buffer_address(buffer) for buffer in buffers]
    batch = make_batch([(buffer, None) for buffer in buffers], 4)
    del buffers
    surfaces = SurfaceBatch.of(batch, nvmm_caps("NV12", 64, 48, 4), scaled=True)
    assert (len(surfaces), surfaces.capacity, surfaces.mem_type) == (3, 4, MemType.SYSTEM)
    for index, (surface, one) in enumerate(zip(surfaces, foreign, strict=True)):
        assert surface.host_plane(0).ctypes.data == one.pixels[0].ctypes.data
        assert gstref.buffer_address(original_buffer(batch, index)) == addresses[index]


def test_several_surfaces_of_one_buffer_stay_together():
    buffer = ForeignBatch(count=2, capacity=2).buffer()
    batch = make_batch([(buffer, None), (ForeignBatch(count=1, capacity=1).buffer(), None)], 3)
    assert len(SurfaceBatch.of(batch)) == 3
    assert gstref.buffer_address(original_buffer(batch, 1)) == gstref.buffer_address(buffer)


@pytest.mark.parametrize(
    ("second", "reason"),
    [
        (ForeignBatch(mem_type=2), "type 2 on GPU 0 does not mix with frame 0's type 6 on GPU 0"),
        (ForeignBatch(gpu_id=1), "type 6 on GPU 1 does not mix"),
        (ForeignBatch(count=4), "4 surfaces do not fit in the 3 places left of 4"),
        (ForeignBatch(count=0), "0 surfaces do not fit"),
        (ForeignBatch(pitch=60), "plane 0 has a pitch of 60"),
    ],
)
def test_surfaces_that_do_not_fit_are_refused(second, reason):
    with pytest.raises(ContractError, match=f"frame 1 of the batch: .*{reason}"):
        make_batch([(ForeignBatch().buffer(), None), (second.buffer(), None)], 4)


def test_a_surface_list_that_cannot_be_read_is_refused():
    broken = ForeignBatch()
    broken.header.surfaceList = 8
    for _ in range(100):  # what is freed twice ends the process sooner or later
        with pytest.raises(ContractError, match="frame 1 of the batch: surfaceList points to 0x8"):
            make_batch([(ForeignBatch().buffer(), None), (broken.buffer(), None)], 8)


def test_raw_video_is_not_taken_for_a_surface():
    with pytest.raises(ContractError, match="frame 0 of the batch"):
        make_batch([(random_frame(frame_format("RGB", 64, 64))[0], None)], 1)


# ---- caps ----


def test_caps_of_batches():
    caps = surface_caps(8, (25, 1))
    assert memory_feature(caps) == SURFACE_FEATURE
    assert required_structure(caps, 0).get_int("batch-size") == (True, 8)
    assert not required_structure(caps, 0).has_field("format")
    nvmm = nvmm_caps("NV12", 64, 48, 4, memory_type="nvbuf-mem-system")
    assert memory_feature(nvmm) == NVMM_FEATURE
    assert required_structure(nvmm, 0).get_string("nvbuf-memory-type") == "nvbuf-mem-system"
    assert nvmm.is_fixed()


def test_a_batch_cannot_be_linked_to_what_takes_nvmm_or_plain_video():
    for other in (nvmm_caps("NV12", 64, 48, 4), raw_caps("NV12"), Gst.Caps.from_string("video/x-raw")):
        assert not surface_caps(4).can_intersect(other)


def test_the_template_takes_every_format_and_no_other():
    template = raw_caps_template()
    assert all(raw_caps(name).can_intersect(template) for name in FORMATS)
    assert not raw_caps("Y444").can_intersect(template)
    assert memory_feature(Gst.Caps.from_string(f"video/x-raw({CUDA_FEATURE}), format=NV12")) == CUDA_FEATURE


def test_unknown_memory_is_refused_by_name():
    with pytest.raises(ContractError, match="memory:DMABuf"):
        memory_feature(Gst.Caps.from_string("video/x-raw(memory:DMABuf), format=NV12"))


def test_a_batch_travels_through_tee_and_queues():
    pipeline = Gst.parse_launch(
        "appsrc name=source format=time is-live=false ! tee name=split "
        "split. ! queue ! appsink name=a sync=false split. ! queue ! appsink name=b sync=false"
    )
    source = pipeline.get_by_name("source")
    source.set_property("caps", surface_caps(2))
    pipeline.set_state(Gst.State.PLAYING)
    try:
        expected = []
        for seed in range(20):
            format = frame_format("NV12", 32, 16)
            buffer, planes = random_frame(format, seed)
            expected.append(planes)
            source.emit("push-buffer", make_batch([(buffer, format)], 2))
        source.emit("end-of-stream")
        for name in "ab":
            sink = pipeline.get_by_name(name)
            for planes in expected:
                assert same_planes(SurfaceBatch.of(sink.emit("pull-sample").get_buffer())[0], planes)
    finally:
        pipeline.set_state(Gst.State.NULL)


def test_a_copied_buffer_shares_its_batch():
    batch = make_batch(frames_of(1)[0], 1)
    other = copy_of(batch)
    assert SurfaceBatch.of(other)[0].planes == SurfaceBatch.of(batch)[0].planes
