"""Colour conversion against the standards' formulas in float64: all formats, matrices, ranges and odd sizes."""

from __future__ import annotations

import itertools

import cv2
import numpy as np
import pytest
from array_surfaces import noise, rgb_of

from sluice.contract.formats import Matrix
from sluice.models import recycling
from sluice.models.frame import Frame
from sluice.models.pixels import to_packed

COLOURS = list(itertools.product([Matrix.BT601, Matrix.BT709, Matrix.BT2020], [False, True]))
SIZES = [(64, 48), (63, 48), (64, 47), (1, 1), (33, 17)]
from sluice.models.recycling import recycled


def reference(surface, name):
    """float64 RGB, chroma repeated over its pixels."""
    width, height = surface.width, surface.height
    if name == "GRAY8":
        gray = surface.planes[0].astype(np.float64)
        gray = gray if surface.full_range else np.clip((gray - 16) * 255 / 219, 0, 255)
        return np.repeat(gray[..., None], 3, axis=2)
    if name == "YUY2":
        packed = surface.planes[0]
        y, u, v = packed[:, :width, 0], packed[:, ::2, 1], packed[:, 1::2, 1]
        u, v = (np.repeat(plane, 2, axis=1)[:, :width] for plane in (u, v))
    else:
        y = surface.planes[0]
        chroma = surface.planes[1:] if name == "I420" else np.moveaxis(surface.planes[1], -1, 0)
        u, v = (plane.repeat(2, axis=0).repeat(2, axis=1)[:height, :width] for plane in chroma)
    return rgb_of(y, u, v, surface.matrix, surface.full_range)


@pytest.mark.parametrize(("matrix", "full_range"), COLOURS)
@pytest.mark.parametrize("name", ["I420", "NV12", "YUY2", "GRAY8"])
@pytest.mark.parametrize(("width", "height"), SIZES)
def test_yuv_is_within_two_levels_of_the_formula(name, width, height, matrix, full_range):
    """Of BT.601 with limited range only luma that there should be: OpenCV takes less than 16 for 16."""
    surface = noise(name, width, height, matrix=matrix, full_range=full_range)
    if name != "GRAY8" and matrix is Matrix.BT601 and not full_range:
        luma = surface.planes[0][..., 0] if name == "YUY2" else surface.planes[0]
        np.maximum(luma, 16, out=luma)
    expected = reference(surface, name)
    rgb = to_packed(surface, "RGB")
    assert rgb.shape == (height, width, 3)
    assert rgb.dtype == np.uint8
    assert np.abs(rgb - expected).max() <= 2
    assert np.array_equal(to_packed(surface, "BGR"), rgb[..., ::-1])


@pytest.mark.parametrize(
    ("name", "codes"),
    [
        ("I420", (cv2.COLOR_YUV2RGB_I420, cv2.COLOR_YUV2BGR_I420)),
        ("NV12", (cv2.COLOR_YUV2RGB_NV12, cv2.COLOR_YUV2BGR_NV12)),
        ("YUY2", (cv2.COLOR_YUV2RGB_YUY2, cv2.COLOR_YUV2BGR_YUY2)),
    ],
)
@pytest.mark.parametrize(("width", "height"), [(64, 48), (2, 2), (182, 34)])
def test_bt601_of_limited_range_is_opencvs_to_the_bit(name, codes, width, height):
    """Every byte value, also those that limited range has no meaning for."""
    surface = noise(name, width, height)
    packed = np.concatenate([plane.reshape(-1) for plane in surface.planes]).reshape(-1, width)
    packed = packed.reshape(height, width, 2) if name == "YUY2" else packed
    for order, code in zip(("RGB", "BGR"), codes, strict=True):
        assert np.array_equal(to_packed(surface, order), cv2.cvtColor(packed, code))


@pytest.mark.parametrize("name", ["RGB", "BGR", "RGBA", "BGRA", "RGBx", "BGRx"])
@pytest.mark.parametrize(("width", "height"), SIZES)
def test_packed_formats_are_exact(name, width, height):
    surface = noise(name, width, height)
    rgb = surface.planes[0][..., [0, 1, 2] if name.startswith("RGB") else [2, 1, 0]]
    assert np.array_equal(to_packed(surface, "RGB"), rgb)
    assert np.array_equal(to_packed(surface, "BGR"), rgb[..., ::-1])


@pytest.mark.parametrize("order", ["RGB", "BGR"])
def test_a_frame_in_the_order_asked_for_is_a_read_only_view(order):
    surface = noise(order, 30, 20)
    frame = Frame(surface, stream=0, number=0, pts=0)
    pixels = frame.rgb() if order == "RGB" else frame.bgr()
    assert np.shares_memory(pixels, surface.planes[0])
    assert not pixels.flags.writeable
    assert surface.planes[0].flags.writeable


def test_planes_are_the_surface_itself():
    surface = noise("NV12", 30, 20)
    planes = [np.from_dlpack(plane) for plane in Frame(surface, stream=0, number=0, pts=0).planes()]
    assert [plane.shape for plane in planes] == [(20, 30), (10, 15, 2)]
    assert all(np.shares_memory(mine, theirs) for mine, theirs in zip(planes, surface.planes, strict=True))


def test_a_picture_lies_where_one_lay_that_nobody_holds():
    shape = 700, 800, 3
    first = recycled(shape)
    place = first.ctypes.data
    part = first[10:20, ::2, 0]
    part[...] = 7
    del first
    second = recycled(shape)
    second[...] = 9
    assert (part == 7).all(), "a part of the first is still held"
    assert second.ctypes.data != place
    del part
    assert recycled(shape).ctypes.data == place


def test_pictures_of_many_sizes_keep_few_blocks():
    held = [recycled((1000, 1000 + i)) for i in range(20)]
    assert len({array.ctypes.data for array in held}) == 20
    del held
    assert len(recycling._free) <= recycling.MOST
    assert recycled((5, 7)).shape == (5, 7)
