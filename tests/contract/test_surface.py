"""Reading and writing surfaces: every format against numpy's reading of the same bytes, and refusing what is wrong."""

import ctypes
import hashlib
import random
from contextlib import ExitStack

import gi
import numpy as np
import pytest

gi.require_version("Gst", "1.0")
from gi.repository import Gst
from surface_samples import (
    SIZES,
    ForeignBatch,
    copy_of,
    frame_format,
    padded_frame,
    random_frame,
    raw_caps,
    read_planes,
    same_planes,
    scattered_frame,
)

from sluice.contract import counters, gstref
from sluice.contract.batching import make_batch, nvmm_caps, original_buffer
from sluice.contract.formats import FORMATS, ColorFormat, FrameFormat, Matrix, MemType, plane_shapes
from sluice.contract.surface import SurfaceBatch, SurfaceError, writable_batch, writable_raw
from sluice.errors import ContractError, StaleBufferError


@pytest.mark.parametrize("make_frame", [random_frame, padded_frame])
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", FORMATS)
def test_pixels_of_every_format_size_and_layout(name, size, make_frame):
    format = frame_format(name, *size)
    buffer, planes = make_frame(format)
    before = counters.copies()
    single = SurfaceBatch.of_raw(buffer, format)[0]
    batched = SurfaceBatch.of(make_batch([(buffer, format)], 1))[0]
    for surface in (single, batched):
        assert (surface.width, surface.height) == size
        assert (surface.format, surface.color_format) == (name, format.color_format)
        assert (surface.matrix, surface.full_range) == (format.matrix, format.full_range)
        assert same_planes(surface, planes)
    assert counters.copies() == before


@pytest.mark.parametrize("name", FORMATS)
def test_frames_of_a_real_source_are_read_where_they_lie(name):
    pipeline = Gst.parse_launch(
        f"videotestsrc num-buffers=2 ! {raw_caps(name, 65, 35).to_string()} ! appsink name=sink sync=false"
    )
    sink = pipeline.get_by_name("sink")
    pipeline.set_state(Gst.State.PLAYING)
    try:
        sample = sink.emit("pull-sample")
    finally:
        pipeline.set_state(Gst.State.NULL)
    format = FrameFormat.from_caps(sample.get_caps())
    buffer = sample.get_buffer()
    before = counters.copies()
    surface = SurfaceBatch.of_raw(buffer, sample.get_caps())[0]
    content = np.frombuffer(buffer.extract_dup(0, buffer.get_size()), np.uint8)
    assert same_planes(surface, read_planes(content, format, format.info.offset, format.info.stride))
    batch = SurfaceBatch.of(make_batch([(buffer, format)], 1))
    assert [plane.address for plane in batch[0].planes] == [plane.address for plane in surface.planes]
    assert counters.copies() == before


def test_mixed_formats_and_sizes_keep_their_own_geometry_in_one_batch():
    formats = [frame_format(name, 32 + index, 18 + index) for index, name in enumerate(FORMATS)]
    frames = [random_frame(format, seed) for seed, format in enumerate(formats)]
    batch = SurfaceBatch.of(make_batch([(frame[0], format) for frame, format in zip(frames, formats, strict=True)], 16))
    assert (len(batch), batch.capacity, batch.mem_type) == (len(FORMATS), 16, MemType.SYSTEM)
    for surface, (_, planes), format in zip(batch, frames, formats, strict=True):
        assert surface.format == format.name
        assert same_planes(surface, planes)


def test_views_are_read_only_and_keep_the_frames_alive():
    format = frame_format("NV12")
    frame, planes = random_frame(format)
    batch = make_batch([(frame, format)], 1)
    view = SurfaceBatch.of(batch)[0].host_plane(1)
    with pytest.raises(ValueError, match="read-only"):
        view[0, 0, 0] = 1
    live = counters.live_batches()
    del frame, batch
    assert counters.live_batches() == live
    assert np.array_equal(view, planes[1])
    del view
    assert counters.live_batches() == live - 1


def test_a_surface_does_not_make_the_buffer_read_only_nor_hold_it():
    format = frame_format("I420")
    batch = make_batch([(random_frame(format)[0], format)], 1)
    address = gstref.buffer_address(batch)
    surfaces = SurfaceBatch.of(batch)
    kept = surfaces[0], surfaces[0].host_plane(0)
    assert gstref.refcount(address) == 1
    assert not gstref.is_memory_writable(address)
    del surfaces, kept
    assert gstref.is_memory_writable(address)


def test_a_raw_buffer_stays_writable_beside_its_surface():
    format = frame_format("RGB")
    buffer, _ = padded_frame(format)
    address = gstref.buffer_address(buffer)
    surface = SurfaceBatch.of_raw(buffer, format)[0]
    assert gstref.is_writable(address)
    assert not gstref.is_memory_writable(address)
    del surface
    assert gstref.is_memory_writable(address)


def test_a_closed_batch_lends_nothing_more_but_what_was_taken_stays():
    format = frame_format("GRAY8")
    frame, planes = random_frame(format)
    batch = SurfaceBatch.of_raw(frame, format)
    surface, view = batch[0], batch[0].host_plane()
    batch.close()
    for use in (surface.host_plane, surface.dlpack, surface.host_planes):
        with pytest.raises(StaleBufferError):
            use()
    assert np.array_equal(view, planes[0])


@pytest.mark.parametrize("index", [-1, 1, 7])
def test_surfaces_and_planes_that_are_not_there(index):
    format = frame_format("RGB")
    batch = SurfaceBatch.of_raw(random_frame(format)[0], format)
    with pytest.raises(IndexError):
        _ = batch[index]
    with pytest.raises(SurfaceError, match=f"no plane {index}"):
        batch[0].host_plane(index)


# ---- surfaces that others made ----


def test_a_foreign_batch_is_read_without_a_copy():
    foreign = ForeignBatch(count=3, capacity=4)
    batch = SurfaceBatch.of(foreign.buffer(), nvmm_caps("NV12", 64, 48, 4), scaled=True)
    assert (len(batch), batch.capacity) == (3, 4)
    for surface, content in zip(batch, foreign.pixels, strict=True):
        assert surface.color_format is ColorFormat.NV12
        assert (surface.matrix, surface.full_range) == (Matrix.BT601, False)
        assert surface.host_plane(0).ctypes.data == content.ctypes.data
        assert np.array_equal(surface.host_plane(0), content[: 512 * 48].reshape(48, 512)[:, :64])
        assert np.array_equal(surface.host_plane(1), content[512 * 48 :].reshape(24, 512)[:, :64].reshape(24, 32, 2))


def test_more_surfaces_than_usual():
    foreign = ForeignBatch(count=200, capacity=256, width=16, height=16, pitch=16)
    batch = SurfaceBatch.of(foreign.buffer())
    assert len(batch) == 200
    assert batch[199].host_plane(0).ctypes.data == foreign.pixels[199].ctypes.data


@pytest.mark.parametrize("kind", [MemType.DEFAULT, MemType.CUDA_DEVICE, MemType.SURFACE_ARRAY, MemType.CUDA_ARRAY])
def test_device_memory_is_not_read_by_the_processor(kind):
    surface = SurfaceBatch.of(ForeignBatch(mem_type=kind).buffer())[0]
    assert surface.planes[0].pitch == 512
    with pytest.raises(SurfaceError, match=kind.name):
        surface.host_plane(0)


def test_block_linear_surfaces_are_not_read_as_rows():
    foreign = ForeignBatch()
    foreign.params[0].layout = 1
    with pytest.raises(SurfaceError, match="BLOCK_LINEAR"):
        SurfaceBatch.of(foreign.buffer())[0].host_plane(0)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda h, p: setattr(h, "numFilled", 5), "batchSize is 4 and numFilled 5"),
        (lambda h, p: setattr(h, "batchSize", 5000), "batchSize is 5000"),
        (lambda h, p: setattr(h, "memType", 8), "memType is 8"),
        (lambda h, p: setattr(h, "surfaceList", None), "surfaceList"),
        (lambda h, p: setattr(h, "surfaceList", 8), "surfaceList points to 0x8"),
        (lambda h, p: setattr(h, "surfaceList", ctypes.addressof(p) + 1), "surfaceList"),
        (lambda h, p: setattr(p[0], "width", 0), "size is 0x48"),
        (lambda h, p: setattr(p[0], "height", 1 << 30), "size is 64x1073741824"),
        (lambda h, p: setattr(p[0], "layout", 2), "layout is 2"),
        (lambda h, p: setattr(p[0], "dataSize", 1000), "plane 0 ends at byte .* of 1000"),
        (lambda h, p: setattr(p[0].planeParams, "num_planes", 5), "5 planes"),
        (lambda h, p: setattr(p[0].planeParams, "num_planes", 0), "0 planes"),
        (lambda h, p: p[0].planeParams.pitch.__setitem__(1, 63), "plane 1 has a pitch of 63, but 32 pixels of 2 bytes"),
        (lambda h, p: p[0].planeParams.width.__setitem__(0, 1 << 20), "plane 0 is 1048576x48"),
        (lambda h, p: p[0].planeParams.bytesPerPix.__setitem__(0, 0), "0 bytes per pixel"),
        (lambda h, p: p[0].planeParams.offset.__setitem__(1, 0xFFFFFFFF), "plane 1 ends at byte 42949"),
    ],
)
def test_impossible_structs_are_refused_with_their_numbers(change, reason):
    foreign = ForeignBatch()
    change(foreign.header, foreign.params)
    with pytest.raises(ContractError, match=reason):
        SurfaceBatch.of(foreign.buffer())


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda p: setattr(p, "colorFormat", 2), "I420 and has 2 planes instead of 3"),
        (lambda p: setattr(p, "colorFormat", 41), "colour format 41"),
        (lambda p: p.planeParams.width.__setitem__(0, 63), "plane 0 .* is 63x48 .*; 64x48 of 1 would be right"),
        (lambda p: p.planeParams.height.__setitem__(1, 12), "plane 1 .* is 32x12 .*; 32x24 of 2 would be right"),
    ],
)
def test_planes_that_contradict_the_colour_format_are_refused(change, reason):
    foreign = ForeignBatch()
    change(foreign.params[0])
    with pytest.raises(ContractError, match=reason):
        SurfaceBatch.of(foreign.buffer())[0].host_plane(0)


def test_planes_that_are_aligned_beyond_the_picture_are_cut_to_it():
    foreign = ForeignBatch()
    foreign.params[0].width, foreign.params[0].height = 62, 46
    surface = SurfaceBatch.of(foreign.buffer())[0]
    assert [plane.shape for plane in surface.host_planes()] == [(46, 62), (23, 31, 2)]
    assert surface.planes[1].offset == 512 * 48


def test_chroma_of_odd_sizes_may_be_rounded_down():
    foreign = ForeignBatch(width=63, height=47)
    assert [plane.shape for plane in SurfaceBatch.of(foreign.buffer())[0].host_planes()] == [(47, 63), (23, 31, 2)]


def test_pixels_at_an_address_that_is_not_memory_are_refused():
    foreign = ForeignBatch()
    foreign.params[0].dataPtr = 0x1000
    with pytest.raises(SurfaceError, match="0x1000 is not readable"):
        SurfaceBatch.of(foreign.buffer())[0].host_plane(0)


def test_random_structs_never_crash():
    """Bytes of header and surface are overwritten at random; each result is a refusal or readable pixels."""
    chance = random.Random(4)
    refused = 0
    for _ in range(3000):
        foreign = ForeignBatch(width=16, height=16, pitch=16)
        for struct in (foreign.header, foreign.params[0]):
            content = (ctypes.c_uint8 * ctypes.sizeof(struct)).from_address(ctypes.addressof(struct))
            for _ in range(chance.randrange(3)):
                content[chance.randrange(len(content))] = chance.randrange(256)
        try:
            for surface in SurfaceBatch.of(foreign.buffer()):
                for plane in surface.host_planes():
                    plane[:1].sum(), plane[-1:].sum()
        except ContractError:
            refused += 1
    assert 300 < refused < 3000


@pytest.mark.parametrize("size", [0, 1, 71])
def test_buffers_too_small_for_the_struct(size):
    buffer = Gst.Buffer.new_wrapped(bytes(size)) if size else Gst.Buffer.new()
    with pytest.raises(ContractError, match=r"memories|bytes"):
        SurfaceBatch.of(buffer)


def test_plain_video_is_not_taken_for_a_batch():
    for seed in range(50):
        frame, _ = random_frame(frame_format("RGB", 64, 64), seed)
        with pytest.raises(ContractError):
            SurfaceBatch.of(frame)


@pytest.mark.parametrize("thing", [None, 5, b"", Gst.Caps.new_any()])
def test_only_a_buffer_is_a_buffer(thing):
    with pytest.raises(TypeError):
        SurfaceBatch.of(thing)


@pytest.mark.parametrize(
    ("caps", "scaled", "reason"),
    [
        (nvmm_caps("RGBA", 64, 48, 4), False, "surface 0 is NV12, the caps say RGBA"),
        (nvmm_caps("NV12", 32, 48, 4), True, "64x48, the caps say 32x48"),
        (nvmm_caps("NV12", 64, 48, 1), False, "2 surfaces, its caps allow 1"),
    ],
)
def test_surfaces_that_contradict_the_caps_are_refused(caps, scaled, reason):
    foreign = ForeignBatch(count=2)
    with pytest.raises(ContractError, match=reason):
        SurfaceBatch.of(foreign.buffer(), caps, scaled=scaled)


def test_sizes_are_free_where_the_mux_does_not_scale():
    assert len(SurfaceBatch.of(ForeignBatch(count=2).buffer(), nvmm_caps("NV12", 32, 48, 4))) == 2


def test_a_batch_is_not_a_raw_frame():
    with pytest.raises(ContractError, match="batch of surfaces already"):
        SurfaceBatch.of_raw(ForeignBatch().buffer(), nvmm_caps("NV12", 64, 48, 1))


# ---- writing ----


def filled(batch, index, value):
    """Write one value to all of a surface's planes."""
    with writable_batch(batch, [index]) as surfaces:
        for plane in surfaces[index].host_planes():
            plane[:] = value


@pytest.mark.parametrize("name", FORMATS)
def test_an_exclusive_frame_is_written_in_place(name):
    format = frame_format(name)
    buffer, _ = padded_frame(format)
    batch = make_batch([(buffer, format)], 1)
    frame = gstref.buffer_address(buffer)
    del buffer
    before = counters.copies()
    filled(batch, 0, 9)
    assert counters.copies() == before
    assert gstref.buffer_address(original_buffer(batch, 0)) == frame
    assert all((plane == 9).all() for plane in SurfaceBatch.of(batch)[0].host_planes())


@pytest.mark.parametrize("holder", ["upstream", "memory", "second batch"])
def test_a_frame_that_others_see_is_copied_once_and_counted(holder):
    format = frame_format("NV12")
    buffer, planes = padded_frame(format)
    buffer.pts = 7
    batch = make_batch([(buffer, format)], 1)
    with ExitStack() as held:
        other = SurfaceBatch.of_raw(buffer, format)[0]
        if holder == "upstream":
            held.callback(lambda kept: None, buffer)
        if holder == "second batch":
            held.callback(lambda kept: None, copy_of(batch))
        if holder != "memory":
            del other
        watch = SurfaceBatch.of_raw(buffer, format)[0].host_planes() if holder == "upstream" else None
        del buffer
        before = counters.copies()
        filled(batch, 0, 9)
        filled(batch, 0, 10)
        assert counters.copies() == before + 1
        assert watch is None or all(np.array_equal(seen, plane) for seen, plane in zip(watch, planes, strict=True))
    assert all((plane == 10).all() for plane in SurfaceBatch.of(batch)[0].host_planes())
    assert original_buffer(batch, 0).pts == 7


def test_a_view_that_is_still_held_never_changes():
    format = frame_format("RGB")
    frame, planes = random_frame(format)
    batch = make_batch([(frame, format)], 1)
    del frame
    view = SurfaceBatch.of(batch)[0].host_plane()
    filled(batch, 0, 9)
    assert np.array_equal(view, planes[0])


def test_only_the_surfaces_named_are_writable():
    format = frame_format("RGB")
    batch = make_batch([(random_frame(format, seed)[0], format) for seed in range(2)], 2)
    with writable_batch(batch, [1]) as surfaces:
        assert [surface.writable for surface in surfaces] == [False, True]
        assert not surfaces[0].host_plane().flags.writeable
    with writable_batch(batch) as surfaces:
        assert [surface.writable for surface in surfaces] == [True, True]


def test_writing_ends_with_the_block():
    format = frame_format("RGB")
    batch = make_batch([(random_frame(format)[0], format)], 1)
    with writable_batch(batch) as surfaces:
        surface = surfaces[0]
    with pytest.raises(StaleBufferError):
        surface.host_plane()
    original = original_buffer(batch, 0)
    assert copy_of(original).get_size() == format.info.size


def test_a_shared_or_foreign_batch_is_not_written():
    format = frame_format("RGB")
    batch = make_batch([(random_frame(format)[0], format)], 1)
    other = gstref.ref(gstref.buffer_address(batch))
    with pytest.raises(ContractError, match="shared by 2 holders"), writable_batch(batch):
        pass
    gstref.unref(other)
    with pytest.raises(ContractError, match="not a batch that sluicemux made"), writable_batch(ForeignBatch().buffer()):
        pass
    with pytest.raises(ContractError, match="no surface 1"), writable_batch(batch, [1]):
        pass


@pytest.mark.parametrize("make_frame", [random_frame, padded_frame, scattered_frame])
@pytest.mark.parametrize("name", FORMATS)
def test_a_raw_buffer_is_written_in_place(name, make_frame):
    format = frame_format(name)
    buffer, planes = make_frame(format)
    with writable_raw(buffer, format) as surface:
        assert same_planes(surface, planes)
        for plane in surface.host_planes():
            plane[:] = 9
    assert all((plane == 9).all() for plane in SurfaceBatch.of_raw(buffer, format)[0].host_planes())
    with pytest.raises(StaleBufferError):
        surface.host_plane()


def test_a_raw_buffer_whose_memory_others_see_gets_its_own():
    format = frame_format("I420")
    buffer, planes = padded_frame(format)
    other = copy_of(buffer)
    before = counters.copies()
    with writable_raw(buffer, format) as surface:
        surface.host_plane(0)[:] = 9
    assert counters.copies() == before + 1
    assert same_planes(SurfaceBatch.of_raw(other, format)[0], planes)
    assert (SurfaceBatch.of_raw(buffer, format)[0].host_plane(0) == 9).all()


@pytest.mark.parametrize("clip", ["vtest_pets09_h264_b3.mp4", "vpf_test.mp4"])
def test_drawing_never_reaches_a_decoders_reference_pictures(data, clip):
    """Every frame is blackened in its batch; the ones decoded from it later are as if nobody had drawn."""
    assert decoded(data / "videos" / clip, draw=True) == decoded(data / "videos" / clip, draw=False)


def decoded(path, draw, frames=40):
    """Return a digest of each decoded frame; draw on the frames as an overlay behind the mux would."""
    pipeline = Gst.parse_launch(f"filesrc location={path} ! decodebin ! appsink name=sink sync=false max-buffers=2")
    sink = pipeline.get_by_name("sink")
    pipeline.set_state(Gst.State.PLAYING)
    digests = []
    try:
        for _ in range(frames):
            sample = sink.emit("pull-sample")
            format = FrameFormat.from_caps(sample.get_caps())
            batch = make_batch([(sample.get_buffer(), format)], 1)
            del sample
            planes = SurfaceBatch.of(batch)[0].host_planes()
            digests.append([hashlib.sha1(plane.tobytes()).hexdigest() for plane in planes])
            del planes
            if draw:
                filled(batch, 0, 0)
    finally:
        pipeline.set_state(Gst.State.NULL)
    return digests


@pytest.mark.parametrize("name", sorted(FORMATS))
@pytest.mark.parametrize("size", [(64, 48), (33, 17)])
@pytest.mark.parametrize("part", [(0, 0, 2, 2), (8, 4, 10, 6), (2, 6, 11, 7), (12, 2, None, None)])
def test_a_part_of_a_surface_shows_the_same_pixels(name, size, part):
    format = frame_format(name, *size)
    buffer, _ = padded_frame(format)
    surface = SurfaceBatch.of_raw(buffer, format)[0]
    left, top = part[:2]
    width, height = part[2] or size[0] - left, part[3] or size[1] - top
    cut = surface.crop(left, top, width, height)
    assert (cut.width, cut.height, cut.format) == (width, height, name)
    assert (cut.matrix, cut.full_range) == (surface.matrix, surface.full_range)
    for index, shape in enumerate(plane_shapes(name, width, height)):
        before = plane_shapes(name, left, top)[index]
        whole, found = surface.host_plane(index), cut.host_plane(index)
        expected = whole[before.height :, before.width :][: shape.height, : shape.width]
        assert found.shape == expected.shape
        assert np.array_equal(found, expected)
        assert np.array_equal(np.from_dlpack(cut.dlpack(index)), expected)


@pytest.mark.parametrize(
    "part", [(1, 0, 4, 4), (0, 3, 4, 4), (-2, 0, 4, 4), (0, 0, 65, 4), (60, 44, 4, 6), (0, 0, 0, 4)]
)
def test_a_part_that_is_none_is_refused(part):
    format = frame_format("NV12", 64, 48)
    buffer, _ = random_frame(format)
    with pytest.raises(ContractError, match="64x48"):
        SurfaceBatch.of_raw(buffer, format)[0].crop(*part)


@pytest.mark.parametrize("raw", [False, True])
def test_a_lent_batch_holds_its_memory_once_pixels_are_wanted_and_nothing_after_its_end(raw):
    format = frame_format("I420", 64, 48)
    frame, planes = random_frame(format)
    buffer = frame if raw else make_batch([(frame, format)], 1)
    address = gstref.buffer_address(buffer)
    batch = SurfaceBatch.at_raw(address, format, lent=True) if raw else SurfaceBatch.at(address, lent=True)
    assert batch.size(0) == (batch[0].width, batch[0].height) == (64, 48)
    if not raw:
        assert gstref.is_memory_writable(address)
    view = batch[0].host_plane(0)
    assert not gstref.is_memory_writable(address)
    batch.close()
    np.testing.assert_array_equal(view, planes[0])
    with pytest.raises(StaleBufferError):
        batch[0].host_plane(0)
    del view
    assert gstref.is_memory_writable(address)
    never_read = SurfaceBatch.at_raw(address, format, lent=True) if raw else SurfaceBatch.at(address, lent=True)
    never_read.close()
    assert gstref.is_memory_writable(address)
    assert gstref.refcount(address) == 1
