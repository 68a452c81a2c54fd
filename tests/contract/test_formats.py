"""Pixel formats against NvBufSurface's enum, GStreamer's own geometry, and each other."""

import gi
import pytest

gi.require_version("Gst", "1.0")
from gi.repository import Gst
from surface_samples import SIZES, frame_format, raw_caps

from sluice.contract.formats import (
    FORMATS,
    ColorFormat,
    FrameFormat,
    Layout,
    Matrix,
    MemType,
    colour_tag,
    meaning,
    plane_shapes,
    read_colour_tag,
)
from sluice.contract.layout import layout
from sluice.errors import ContractError

# Written from nvbufsurface.h: the value, and what its name says.
COLOR_FORMATS = [
    ("I420", "bt601", 2),
    ("I420", "1:4:0:0", 4),
    ("I420", "bt709", 31),
    ("I420", "1:3:5:1", 32),
    ("I420", "bt2020", 35),
    ("NV12", "bt601", 6),
    ("NV12", "1:4:0:0", 7),
    ("NV12", "bt709", 33),
    ("NV12", "1:3:5:1", 34),
    ("NV12", "bt2020", 36),
    ("YUY2", "bt601", 14),
    ("YUY2", "1:4:0:0", 15),
    ("GRAY8", "bt601", 1),
    ("GRAY8", "1:4:0:0", 88),
    ("RGB", "sRGB", 27),
    ("BGR", "sRGB", 28),
    ("RGBA", "sRGB", 19),
    ("BGRA", "sRGB", 20),
    ("RGBx", "sRGB", 23),
    ("BGRx", "sRGB", 24),
]


@pytest.mark.parametrize(("name", "colorimetry", "value"), COLOR_FORMATS)
def test_format_and_colorimetry_become_the_nvbufsurface_value_and_back(name, colorimetry, value):
    format = frame_format(name, extra=f", colorimetry=(string){colorimetry}")
    assert format.color_format == value
    assert meaning(value) == (name, format.matrix, format.full_range)


@pytest.mark.parametrize(
    ("name", "colorimetry", "matrix", "full_range", "nearest"),
    [
        ("I420", "1:6:0:0", Matrix.BT2020, True, ColorFormat.YUV420_709_ER),
        ("YUY2", "bt709", Matrix.BT709, False, ColorFormat.YUYV),
        ("YUY2", "1:3:0:0", Matrix.BT709, True, ColorFormat.YUYV_ER),
        ("GRAY8", "bt709", Matrix.BT709, False, ColorFormat.GRAY8),
    ],
)
def test_pairs_without_a_value_keep_the_exact_pair_beside_the_nearest_value(
    name, colorimetry, matrix, full_range, nearest
):
    format = frame_format(name, extra=f", colorimetry=(string){colorimetry}")
    assert (format.matrix, format.full_range, format.color_format) == (matrix, full_range, nearest)
    assert read_colour_tag(format.tag) == (matrix, full_range)


def test_colorimetry_left_out_is_what_gstreamer_takes_for_the_height():
    assert frame_format("I420", 640, 480).matrix is Matrix.BT601
    assert frame_format("I420", 1280, 720).matrix is Matrix.BT709
    assert not frame_format("NV12", 1280, 720).full_range
    assert frame_format("RGB").matrix is Matrix.RGB
    assert frame_format("RGB").full_range


@pytest.mark.parametrize(("colorimetry", "matrix"), [("2:2:0:0", Matrix.BT601), ("2:5:0:0", Matrix.BT709)])
def test_rare_matrices_are_read_as_their_neighbours(colorimetry, matrix):
    assert frame_format("I420", extra=f", colorimetry=(string){colorimetry}").matrix is matrix


@pytest.mark.parametrize("tag", [0, 0x7F00_1234_5678, colour_tag(Matrix.BT601, True) & 0xFFFF_FFFF])
def test_a_reserved_field_with_anything_else_is_no_tag(tag):
    assert read_colour_tag(tag) is None


def test_every_tag_reads_back():
    for matrix in Matrix:
        for full_range in (False, True):
            assert read_colour_tag(colour_tag(matrix, full_range)) == (matrix, full_range)


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("size", [*SIZES, (1920, 1080)])
def test_planes_fill_the_room_that_gstreamer_gives_them(name, size):
    format = frame_format(name, *size)
    info = format.info
    ends = [*info.offset[1 : len(format.planes)], info.size]
    for plane, offset, stride, end in zip(format.planes, info.offset, info.stride, ends, strict=False):
        assert plane.row_bytes <= stride < plane.row_bytes + 4
        rows = (end - offset) // stride
        assert rows - 2 < plane.height <= rows


def test_odd_sizes_round_chroma_up():
    assert [tuple(vars(p).values()) for p in plane_shapes("I420", 33, 17)] == [(33, 17, 1), (17, 9, 1), (17, 9, 1)]
    assert [tuple(vars(p).values()) for p in plane_shapes("NV12", 33, 17)] == [(33, 17, 1), (17, 9, 2)]
    assert [tuple(vars(p).values()) for p in plane_shapes("YUY2", 33, 17)] == [(34, 17, 2)]


@pytest.mark.parametrize("name", ["Y444", "I420_10LE", "A420", "GRAY16_LE", "NV21", "UYVY", "ARGB"])
def test_other_raw_formats_are_refused_with_the_converter_to_add(name):
    with pytest.raises(ContractError, match=rf"{name}.*videoconvert ! video/x-raw,format=I420"):
        FrameFormat.from_caps(raw_caps(name))


@pytest.mark.parametrize(
    "caps",
    [
        "video/x-raw, format=I420, width=[1,9], height=2",
        "video/x-raw, width=9, height=2",
        "audio/x-raw, rate=8000",
        "video/x-h264",
    ],
)
def test_caps_that_are_not_fixed_raw_video_are_refused(caps):
    with pytest.raises(ContractError, match="not fixed raw video"):
        FrameFormat.from_caps(Gst.Caps.from_string(caps))


def test_cuda_memory_is_seen_in_the_caps():
    from gi.repository import Gst

    caps = Gst.Caps.from_string("video/x-raw(memory:CUDAMemory), format=NV12, width=64, height=48, framerate=30/1")
    assert FrameFormat.from_caps(caps).on_cuda
    assert not frame_format("NV12").on_cuda


@pytest.mark.parametrize(("enum", "prefix"), [(ColorFormat, "COLOR_FORMAT"), (MemType, "MEM"), (Layout, "LAYOUT")])
def test_the_enums_have_the_values_of_the_layout_table(enum, prefix):
    table = {name.upper(): value for name, value in layout().enum(f"NvBufSurface{enum.__name__}").items()}
    for member in enum:
        assert table[f"NVBUF_{prefix}_{member.name}"] == member


def test_an_unknown_surface_format_is_named_with_the_known_ones():
    with pytest.raises(ContractError, match=r"41.*NV12 \(6\)"):
        meaning(41)


def test_luma_weights_sum_to_less_than_one_and_rgb_has_none():
    assert Matrix.BT601.luma == (0.299, 0.114)
    assert Matrix.BT709.luma == (0.2126, 0.0722)
    assert Matrix.BT2020.luma == (0.2627, 0.0593)
    with pytest.raises(ContractError, match="RGB"):
        _ = Matrix.RGB.luma


def test_memory_types_say_who_can_read_them():
    assert [kind for kind in MemType if kind.on_host] == [MemType.CUDA_PINNED, MemType.CUDA_UNIFIED, MemType.SYSTEM]
    assert [kind for kind in MemType if kind.on_cuda] == [MemType.DEFAULT, MemType.CUDA_DEVICE, MemType.CUDA_UNIFIED]
    assert [layout.value for layout in Layout] == [0, 1]


def test_a_video_info_is_described_once():
    info = frame_format("NV12").info
    assert FrameFormat.of(info) is FrameFormat.of(info)
    assert FrameFormat.of(FrameFormat.of(info)) is FrameFormat.of(info)
