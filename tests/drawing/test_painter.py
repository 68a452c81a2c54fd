"""Shapes: where they are, how they are clipped, and that no value whatever makes drawing fail."""

import itertools
import math

import numpy as np
import pytest
from pictures import FORMATS, Picture

from sluice.drawing.masks import mask_coverage
from sluice.drawing.painter import Painter
from sluice.drawing.shapes import Arrow, ArrowHead, Circle, Line, Mask, Overlay, Rectangle, Text

RED, GREEN, BLUE, WHITE = (1.0, 0.0, 0.0, 1.0), (0.0, 1.0, 0.0, 1.0), (0.0, 0.0, 1.0, 1.0), (1.0, 1.0, 1.0, 1.0)


def drawn(overlay: Overlay, width: int = 320, height: int = 240, pixel_format: str = "RGB") -> np.ndarray:
    """Draw on mid grey and return the RGB picture."""
    picture = Picture(pixel_format, width, height)
    Painter().draw(picture.canvas(), overlay)
    assert picture.padding_is_untouched()
    return picture.rgb()


def extent(rgb: np.ndarray, threshold: int = 0) -> tuple[int, int, int, int]:
    """First and last column and row that changed: (left, top, right, bottom), all inclusive."""
    rows, columns = np.nonzero((np.abs(rgb.astype(int) - 128) > threshold).any(axis=2))
    return int(columns.min()), int(rows.min()), int(columns.max()), int(rows.max())


def test_the_border_is_centred_on_the_edge_of_the_box() -> None:
    rgb = drawn(Overlay(rectangles=[Rectangle(50, 60, 100, 80, 2, RED)]))
    # What NVIDIA's element was seen to cover with this box.
    assert extent(rgb) == (49, 59, 150, 140)
    assert (rgb[61:139, 51:149] == 128).all()
    assert (rgb[59:61, 49:151] == (255, 0, 0)).all()
    assert (rgb[59:141, 149:151] == (255, 0, 0)).all()


@pytest.mark.parametrize("width", [1, 3, 4, 10, 32, 33, 1000])
def test_borders_are_as_wide_as_asked_up_to_32(width: int) -> None:
    rgb = drawn(Overlay(rectangles=[Rectangle(100, 100, 100, 90, width, RED)]))
    changed = (rgb[145] != 128).any(axis=1)
    assert changed.sum() == 2 * min(width, 32)


def test_width_0_draws_no_border_but_the_background() -> None:
    assert (drawn(Overlay(rectangles=[Rectangle(50, 60, 100, 80, 0, RED)])) == 128).all()
    rgb = drawn(Overlay(rectangles=[Rectangle(50, 60, 100, 80, 0, RED, GREEN)]))
    assert extent(rgb) == (50, 60, 149, 139)
    assert (rgb[60:140, 50:150] == (0, 255, 0)).all()


def test_fractions_are_dropped() -> None:
    exact = drawn(Overlay(rectangles=[Rectangle(50, 60, 100, 80, 2)]))
    assert (drawn(Overlay(rectangles=[Rectangle(50.9, 60.7, 100.6, 80.99, 2)])) == exact).all()


def test_boxes_over_the_edge_are_clipped_not_moved() -> None:
    rgb = drawn(Overlay(rectangles=[Rectangle(-20, -20, 60, 60, 4, RED), Rectangle(300, 200, 60, 60, 4, BLUE)]))
    assert (rgb[0:38, 0:38] == 128).all()
    assert (rgb[38:42, 0:42] == (255, 0, 0)).all()
    assert (rgb[198:202, 298:320] == (0, 0, 255)).all()
    assert (rgb[202:240, 302:320] == 128).all()


def test_positive_angles_turn_clockwise_on_screen() -> None:
    rgb = drawn(Overlay(rectangles=[Rectangle(60, 110, 200, 20, 0, RED, GREEN, 30)]))
    right_end = round(160 + 90 * math.cos(math.radians(30))), round(120 + 90 * math.sin(math.radians(30)))
    assert tuple(rgb[right_end[1], right_end[0]]) == (0, 255, 0)
    assert tuple(rgb[240 - right_end[1], right_end[0]]) == (128, 128, 128)


@pytest.mark.parametrize("angle", [90.0, -90.0, 270.0, 450.0])
def test_a_quarter_turn_swaps_the_sides(angle: float) -> None:
    turned = drawn(Overlay(rectangles=[Rectangle(60, 100, 200, 40, 4, RED, GREEN, angle)]))
    upright = drawn(Overlay(rectangles=[Rectangle(140, 20, 40, 200, 4, RED, GREEN)]))
    # Turned edges are antialiased, so a fraction of a pixel may differ, and more in the inner corners.
    difference = np.abs(turned.astype(int) - upright).max(axis=2)
    assert (difference > 64).sum() <= 4
    assert (difference > 0).mean() < 0.02


@pytest.mark.parametrize("angle", [0.0, 0.0005, 180.0, -360.0, 89.9, math.nan, math.inf])
def test_every_angle_keeps_the_centre_free_and_draws_the_border(angle: float) -> None:
    rgb = drawn(Overlay(rectangles=[Rectangle(100, 80, 80, 60, 3, RED, None, angle)]))
    assert (rgb[110, 140] == 128).all()
    area = np.abs(rgb[:, :, 0].astype(int) - 128).sum() / 127
    assert area == pytest.approx(2 * (80 + 60) * 3, rel=0.25)


def test_later_boxes_lie_on_top_and_kinds_keep_their_order() -> None:
    mask = Mask(np.ones((2, 2), np.float32), 0.5, 0, 0, 100, 100, BLUE)
    box = Rectangle(0, 0, 100, 100, 0, RED, GREEN)
    both = Overlay(rectangles=[box, box._replace(background=RED)], masks=[mask], lines=[Line(0, 50, 100, 50, 6, WHITE)])
    both.circles.append(Circle(50, 50, 10, 2, RED, RED))
    rgb = drawn(both, 100, 100)
    assert tuple(rgb[20, 20]) == (128, 0, 127), "the mask over the last box"
    assert tuple(rgb[50, 20]) == (255, 255, 255), "the line over the mask"
    assert tuple(rgb[50, 50]) == (255, 0, 0), "the circle over the line"


def test_a_mask_is_stretched_over_its_box_and_binarised() -> None:
    data = np.array([[0.9, 0.1], [0.1, 0.51]], np.float32)
    rgb = drawn(Overlay(masks=[Mask(data, 0.5, 40, 20, 80, 40, RED)]), 160, 80)
    assert tuple(rgb[22, 42]) == tuple(rgb[57, 117]) == (191, 64, 64)
    assert tuple(rgb[22, 117]) == tuple(rgb[57, 42]) == (128, 128, 128)
    assert extent(rgb)[0] >= 40
    assert extent(rgb)[3] < 60


def test_a_mask_over_the_edge_shows_its_own_part() -> None:
    data = np.zeros((4, 4), np.float32)
    data[2:, 2:] = 1.0
    rgb = drawn(Overlay(masks=[Mask(data, 0.5, -80, -80, 160, 160, RED)]), 100, 100)
    assert tuple(rgb[75, 75]) == (191, 64, 64)
    whole = drawn(Overlay(masks=[Mask(data, 0.5, 0, 0, 160, 160, RED)]), 200, 200)
    assert np.abs(rgb[:80, :80].astype(int) - whole[80:160, 80:160]).max() <= 1


@pytest.mark.parametrize("box", [(3, 5, 83, 65), (0, 0, 7, 9), (10, 10, 12, 13)])
def test_a_mask_is_the_same_whether_its_box_is_cut_off_or_not(box: tuple[int, int, int, int]) -> None:
    data = np.random.default_rng(1).random((20, 30)).astype(np.float32)
    left, top, right, bottom = box
    whole = mask_coverage(data, 0.5, box, right, bottom).astype(int)
    cut = mask_coverage(data, 0.5, box, right - 1, bottom).astype(int)
    assert whole.shape == (bottom - top, right - left)
    assert cut.shape == (bottom - top, right - left - 1)
    assert (whole[:, : cut.shape[1]] == cut).all()


def test_a_line_is_longer_by_half_its_width_at_both_ends() -> None:
    rgb = drawn(Overlay(lines=[Line(20, 30, 200, 30, 4, GREEN)]))
    assert extent(rgb, 64) == (18, 28, 201, 31)
    assert (drawn(Overlay(lines=[Line(20, 30, 200, 30, 0, GREEN)])) == 128).all()


@pytest.mark.parametrize(("head", "left", "right"), [(0, True, False), (1, False, True), (2, True, True)])
def test_arrows_have_their_heads_where_asked(head: int, left: bool, right: bool) -> None:
    rgb = drawn(Overlay(arrows=[Arrow(50, 100, 250, 100, 2, ArrowHead(head), RED)]))
    # 20 pixels of head at 15 degrees reach 5 pixels above and below the shaft.
    assert (rgb[94:98, 64:76] != 128).any() == left
    assert (rgb[94:98, 224:236] != 128).any() == right


def test_circles_have_a_ring_and_a_disc() -> None:
    rgb = drawn(Overlay(circles=[Circle(160, 120, 40, 5, RED, GREEN)]))
    assert extent(rgb, 20) == (117, 77, 202, 162)
    assert tuple(rgb[120, 160]) == (0, 255, 0)
    assert tuple(rgb[120, 200]) == (255, 0, 0)
    thin = drawn(Overlay(circles=[Circle(160, 120, 40, 0, RED)]))
    assert extent(thin, 64) == (119, 79, 200, 160)


ODD = (math.nan, math.inf, -math.inf, 1e30, -1e30, 0.0, -1.0, 2**31, 70000.0, 0.5)


def odd_overlay() -> Overlay:
    """Shapes with one or two odd values in every place."""
    overlay = Overlay()
    for a, b in itertools.product(ODD, ODD):
        color = (a, b, 0.5, 1.0)
        overlay.rectangles += [Rectangle(a, b, 20, 20), Rectangle(5, 5, a, b, 2, color, color), Rectangle(a, 5, b, 9)]
        overlay.rectangles.append(Rectangle(3, 3, a, 20, 3, color, color, b))
        overlay.texts.append(Text("x", a, b, background=color))
        overlay.lines += [Line(a, b, 10, 10), Line(1, 2, a, b, 3, color)]
        overlay.arrows += [Arrow(a, b, 10, 10), Arrow(1, 2, a, b, 3, ArrowHead.BOTH)]
        overlay.circles += [Circle(a, b, 10), Circle(10, 10, a, 2, color, color)]
        overlay.masks.append(Mask(np.ones((3, 3), np.float32), 0.5, a, 5, b, 20))
    for width in (-5, 0, 2**31):
        overlay.rectangles.append(Rectangle(5, 5, 9, 9, width))
        overlay.lines.append(Line(1, 1, 9, 9, width))
        overlay.circles.append(Circle(9, 9, 4, width))
        overlay.texts.append(Text("y", 1, 1, size=width))
    overlay.masks += [
        Mask(np.zeros((0, 0), np.float32), 0.5, 0, 0, 9, 9),
        Mask(np.full((2, 2), np.nan, np.float32), math.nan, 0, 0, 9, 9),
    ]
    return overlay


@pytest.mark.parametrize("pixel_format", FORMATS)
@pytest.mark.parametrize(("width", "height"), [(41, 33), (2, 2), (1, 1)])
def test_no_value_makes_drawing_fail_or_leave_the_picture(pixel_format: str, width: int, height: int) -> None:
    picture = Picture(pixel_format, width, height)
    Painter().draw(picture.canvas(), odd_overlay())
    assert picture.padding_is_untouched()


def test_shapes_without_a_place_draw_nothing() -> None:
    nan = math.nan
    overlay = Overlay(
        rectangles=[Rectangle(nan, 1, 9, 9), Rectangle(1, 1, nan, 9), Rectangle(1, 1, 0, 9), Rectangle(1, 1, -4, 9)],
        texts=[Text("x", nan, 1)],
        lines=[Line(nan, 1, 2, 3)],
        arrows=[Arrow(1, nan, 2, 3)],
        circles=[Circle(5, 5, nan), Circle(5, 5, 0), Circle(5, 5, -3)],
        masks=[Mask(np.ones((2, 2), np.float32), 0.5, nan, 0, 9, 9)],
    )
    assert (drawn(overlay, 40, 40) == 128).all()


def test_ten_thousand_objects() -> None:
    random = np.random.default_rng(7)
    overlay = Overlay()
    for left, top, width, height in random.uniform(-50, 400, (10_000, 4)).tolist():
        overlay.rectangles.append(Rectangle(left, top, width, height, 2))
        overlay.texts.append(Text(f"{int(left) % 40}", left, top, size=10))
    assert (drawn(overlay) != 128).any()


@pytest.mark.parametrize("pixel_format", ["RGBA", "BGRA", "RGBx", "BGRx", "BGR"])
def test_rgb_formats_draw_the_same_picture(pixel_format: str) -> None:
    overlay = Overlay(rectangles=[Rectangle(5, 5, 30, 20, 3, (0.2, 0.5, 0.9, 0.6))], texts=[Text("ab", 9, 9)])
    assert (drawn(overlay, 61, 45, pixel_format) == drawn(overlay, 61, 45)).all()


def test_nv12_and_i420_get_the_same_samples() -> None:
    overlay = Overlay(rectangles=[Rectangle(5, 5, 30, 20, 3, (0.2, 0.5, 0.9, 0.6))], circles=[Circle(30, 30, 11)])
    overlay.texts.append(Text("ab", 9, 9))
    assert (drawn(overlay, 61, 45, "NV12") == drawn(overlay, 61, 45, "I420")).all()
