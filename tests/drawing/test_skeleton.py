"""Key points and skeletons as shapes, and on the picture."""

import math

import numpy as np
import pytest
from pictures import FORMATS, Picture

from sluice.drawing.painter import Painter
from sluice.drawing.shapes import Overlay
from sluice.drawing.skeleton import SKELETONS, VISIBLE, skeleton

RED, BLUE = (1.0, 0.0, 0.0, 1.0), (0.0, 0.0, 1.0, 1.0)


def drawn(*shown, pixel_format="RGB", width=320, height=240):
    """The picture as RGB, grey where nothing is drawn."""
    picture = Picture(pixel_format, width, height)
    Painter().draw(picture.canvas(), Overlay(skeletons=list(shown)))
    assert picture.padding_is_untouched()
    return picture.rgb().astype(int)


def person(left, top):
    """17 key points in a box of 40x80."""
    rng = np.random.default_rng(left)
    return rng.uniform((left, top), (left + 40, top + 80), (17, 2)).astype(np.float32)


def test_any_key_points_are_dots():
    shown = skeleton(np.array([[10, 20], [310, 20], [10, 420]], np.float32), RED)
    assert shown.dots.tolist() == [[10, 20], [310, 20], [10, 420]]
    assert (shown.radius, shown.color) == (4, RED)
    assert len(shown.lines) == 0


def test_the_key_points_of_a_person_are_joined():
    points = np.stack([np.arange(17), np.arange(17) * 2, np.ones(17)], axis=1).astype(np.float32)
    shown = skeleton(points, RED)
    assert len(shown.dots) == 17
    assert shown.lines.tolist() == [[[a, 2 * a], [b, 2 * b]] for a, b in SKELETONS[17]]
    assert {number for pair in SKELETONS[17] for number in pair} == set(range(17))


@pytest.mark.parametrize("hidden", [(1, 1, VISIBLE - 0.01), (np.nan, 1, 1), (1, np.inf, 1)])
def test_what_is_not_seen_or_has_no_place_is_not_drawn(hidden):
    points = np.ones((17, 3), np.float32)
    points[5] = hidden  # the left shoulder
    shown = skeleton(points, RED)
    assert len(shown.dots) == 16
    assert len(shown.lines) == sum(5 not in pair for pair in SKELETONS[17])
    assert math.isfinite(shown.radius)


def test_no_key_point_seen_is_nothing():
    shown = skeleton(np.zeros((17, 3), np.float32), RED)
    assert (len(shown.dots), len(shown.lines)) == (0, 0)
    assert (drawn(shown) == 128).all()


@pytest.mark.parametrize(("span", "radius"), [(10, 2), (500, 5), (5000, 6)])
def test_dots_grow_with_the_object(span, radius):
    assert skeleton(np.array([[0, 0], [span, 0]], np.float32), RED).radius == radius


def test_dots_and_lines_lie_where_the_key_points_are():
    points = np.zeros((17, 3), np.float32)
    points[[5, 7]] = (50, 60, 1), (150, 60, 1)  # an upper arm
    rgb = drawn(skeleton(points, RED))
    changed = np.argwhere((rgb != 128).any(axis=2))
    assert (*changed.min(axis=0), *changed.max(axis=0)) == (57, 47, 62, 152)
    assert np.abs(rgb[59:61, 50:150] - (255, 0, 0)).max() < 16
    assert (rgb[57, 60:140] == 128).all()


@pytest.mark.parametrize("pixel_format", FORMATS)
def test_many_are_drawn_at_once_as_each_by_itself(pixel_format):
    """Hundreds have more pixels than the picture; what differs is where soft edges of two lie on one another."""
    places = [(12 * i % 270, 7 * i % 170) for i in range(100)]
    shown = [skeleton(person(*place), RED if i % 2 else BLUE) for i, place in enumerate(places)]
    together = drawn(*[s for s in shown if s.color == RED], pixel_format=pixel_format)
    alone = Picture(pixel_format, 320, 240)
    for one in shown:
        if one.color == RED:
            Painter().draw(alone.canvas(), Overlay(skeletons=[one]))
    assert (together != 128).mean() > 0.2
    assert np.abs(together - alone.rgb()).mean() < 4


@pytest.mark.parametrize("pixel_format", FORMATS)
def test_key_points_at_and_beyond_the_edge(pixel_format):
    for points in ([[0, 0], [320, 240]], [[-1e9, 50], [1e9, 60]], [[3e38, 3e38]], [[-3, 100]], [[-50, 100]]):
        drawn(skeleton(np.array(points, np.float32), RED), pixel_format=pixel_format)
    far = person(0, 0) * np.float32(1e7)
    drawn(skeleton(far, RED), pixel_format=pixel_format, width=33, height=17)
    assert (drawn(skeleton(np.array([[-50, 100]], np.float32), RED)) == 128).all()
    assert (drawn(skeleton(np.array([[-1, 100]], np.float32), RED))[100, 0] != 128).any()
