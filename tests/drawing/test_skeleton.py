"""Key points and skeletons as shapes."""

import numpy as np
import pytest

from sluice.drawing.shapes import Circle, Line
from sluice.drawing.skeleton import SKELETONS, VISIBLE, skeleton

RED = (1.0, 0.0, 0.0, 1.0)


def test_any_key_points_are_dots():
    dots, lines = skeleton(np.array([[10, 20], [310, 20], [10, 420]], np.float32), RED)
    assert [(dot.x, dot.y) for dot in dots] == [(10, 20), (310, 20), (10, 420)]
    assert dots[0] == Circle(10, 20, 4, 1, RED, RED)
    assert lines == []


def test_the_key_points_of_a_person_are_joined():
    points = np.stack([np.arange(17), np.arange(17) * 2, np.ones(17)], axis=1).astype(np.float32)
    dots, lines = skeleton(points, RED)
    assert len(dots) == 17
    assert [(line.x1, line.y1, line.x2, line.y2) for line in lines] == [(a, 2 * a, b, 2 * b) for a, b in SKELETONS[17]]
    assert lines[0] == Line(0, 0, 1, 2, 2, RED)
    assert {number for pair in SKELETONS[17] for number in pair} == set(range(17))


def test_what_is_not_seen_is_not_drawn():
    points = np.ones((17, 3), np.float32)
    points[5, 2] = VISIBLE - 0.01  # the left shoulder
    dots, lines = skeleton(points, RED)
    assert len(dots) == 16
    assert len(lines) == sum(5 not in pair for pair in SKELETONS[17])


def test_no_key_point_seen_is_nothing():
    assert skeleton(np.zeros((17, 3), np.float32), RED) == ([], [])


@pytest.mark.parametrize(("span", "radius"), [(10, 2), (500, 5), (5000, 6)])
def test_dots_grow_with_the_object(span, radius):
    dots, _ = skeleton(np.array([[0, 0], [span, 0]], np.float32), RED)
    assert dots[0].radius == radius
