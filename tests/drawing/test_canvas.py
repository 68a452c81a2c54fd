"""Filling and blending planes: colours by matrix and range, odd sizes, padding, alpha."""

import numpy as np
import pytest
from pictures import FORMATS, Picture

from sluice.contract.formats import Matrix
from sluice.drawing.canvas import Canvas
from sluice.drawing.color import components, to_bytes
from sluice.errors import ConfigurationError

RED, WHITE = (255, 0, 0, 255), (255, 255, 255, 255)


@pytest.mark.parametrize(
    ("matrix", "full_range", "expected"),
    [
        # The Y, Cb and Cr of pure red as the ITU-R recommendations' equations give them.
        (Matrix.BT601, False, (81, 90, 240)),
        (Matrix.BT601, True, (76, 85, 255)),
        (Matrix.BT709, False, (63, 102, 240)),
        (Matrix.BT709, True, (54, 99, 255)),
        (Matrix.BT2020, False, (74, 97, 240)),
    ],
)
def test_red_in_every_matrix_and_range(matrix: Matrix, full_range: bool, expected: tuple[int, int, int]) -> None:
    values = components(RED, matrix, full_range)
    assert (values["y"], values["u"], values["v"]) == expected
    picture = Picture("I420", 16, 16, matrix, full_range)
    picture.canvas().fill(0, 0, 16, 16, RED)
    assert tuple(int(plane[3, 3, 0]) for plane in picture.planes) == expected


def test_components_are_truncated_and_clamped() -> None:
    assert to_bytes((0.5, 1.0, 0.999, 0.0)) == (127, 255, 254, 0)
    assert to_bytes((-1.0, 7.0, float("nan"), float("inf"))) == (0, 255, 0, 255)


@pytest.mark.parametrize("pixel_format", FORMATS)
@pytest.mark.parametrize(("width", "height"), [(64, 48), (65, 47), (31, 2), (3, 3), (1, 1)])
def test_fill_reaches_exactly_the_box(pixel_format: str, width: int, height: int) -> None:
    picture = Picture(pixel_format, width, height)
    before = [plane.copy() for plane in picture.planes]
    left, top, right, bottom = width // 3, height // 3, width - width // 5, height - height // 5
    picture.canvas().fill(left, top, right, bottom, WHITE)
    inside = np.zeros((height, width), bool)
    inside[top:bottom, left:right] = True
    rgb = picture.rgb()
    assert (np.abs(rgb[inside].astype(int) - 255) <= 2).all()
    unchanged = Picture(pixel_format, width, height).rgb()
    assert (rgb[~inside] == unchanged[~inside]).all(), "white has no chroma, so no pixel outside may change"
    assert picture.padding_is_untouched()
    if (right - left) * (bottom - top):
        assert any((old != new).any() for old, new in zip(before, picture.planes, strict=True))


@pytest.mark.parametrize("pixel_format", FORMATS)
def test_fill_outside_the_picture_changes_nothing(pixel_format: str) -> None:
    picture = Picture(pixel_format, 33, 17)
    before = picture.rgb()
    for box in [(-50, 0, 0, 17), (33, 0, 90, 17), (0, -9, 33, 0), (0, 17, 33, 40), (5, 5, 5, 9), (9, 9, 5, 5)]:
        picture.canvas().fill(*box, RED)
    assert (picture.rgb() == before).all()
    assert picture.padding_is_untouched()


@pytest.mark.parametrize("pixel_format", FORMATS)
def test_half_alpha_is_half_way(pixel_format: str) -> None:
    opaque, half, base = (Picture(pixel_format, 34, 18) for _ in range(3))
    opaque.canvas().fill(0, 0, 34, 18, RED)
    half.canvas().fill(0, 0, 34, 18, (*RED[:3], 128))
    middle = (opaque.rgb().astype(float) + base.rgb()) / 2
    assert np.abs(half.rgb() - middle).max() <= 3


@pytest.mark.parametrize("pixel_format", ["RGBA", "BGRA"])
def test_drawing_makes_transparent_pixels_opaque(pixel_format: str) -> None:
    picture = Picture(pixel_format, 8, 8)
    picture.planes[0][...] = 0
    picture.canvas().fill(2, 2, 6, 6, WHITE)
    assert (picture.planes[0][2:6, 2:6, 3] == 255).all()
    assert (picture.planes[0][0, :, 3] == 0).all()


@pytest.mark.parametrize("pixel_format", FORMATS)
@pytest.mark.parametrize(("left", "top"), [(4, 6), (5, 6), (4, 7), (-3, -2), (28, 12), (100, 100), (-40, 3)])
def test_a_stamp_covers_what_it_says(pixel_format: str, left: int, top: int) -> None:
    picture = Picture(pixel_format, 31, 15)
    coverage = np.zeros((6, 8), np.uint8)
    coverage[1:5, 2:6] = 255
    canvas = picture.canvas()
    canvas.paste(canvas.stamp(coverage, left, top, WHITE))
    expected = Picture(pixel_format, 31, 15)
    expected.canvas().fill(left + 2, top + 1, left + 6, top + 5, WHITE)
    assert np.abs(picture.rgb().astype(int) - expected.rgb()).max() <= 2
    assert picture.padding_is_untouched()


def test_chroma_of_a_stamp_is_weighted_by_coverage() -> None:
    picture = Picture("I420", 8, 8)
    canvas = picture.canvas()
    canvas.paste(canvas.stamp(np.full((1, 1), 255, np.uint8), 3, 3, RED))
    # One pixel of four is red: the shared sample moves a quarter of the way from 128 to 240.
    assert int(picture.planes[2][1, 1, 0]) == pytest.approx(128 + (240 - 128) / 4, abs=1)


def test_untouched_pixels_of_a_stamp_keep_every_value() -> None:
    picture = Picture("GRAY8", 256, 2)
    picture.planes[0][:, :, 0] = np.arange(256)
    canvas = picture.canvas()
    canvas.paste(canvas.stamp(np.zeros((2, 256), np.uint8), 0, 0, WHITE))
    assert (picture.planes[0][:, :, 0] == np.arange(256)).all()


def test_other_formats_and_wrong_planes_are_refused_by_name() -> None:
    with pytest.raises(ConfigurationError, match=r"Y444.*I420"):
        Canvas("Y444", [np.zeros((2, 2), np.uint8)] * 3, 2, 2)
    with pytest.raises(ConfigurationError, match="I420 has 3 planes, not 1"):
        Canvas("I420", [np.zeros((2, 2), np.uint8)], 2, 2)
    with pytest.raises(ConfigurationError, match="r/g/b is uint8 with 3 values"):
        Canvas("RGB", [np.zeros((2, 2, 4), np.uint8)], 2, 2)
