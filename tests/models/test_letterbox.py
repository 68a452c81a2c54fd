"""Letterbox geometry: round trips, and boxes at the edges."""

from __future__ import annotations

import numpy as np
import pytest

from sluice.errors import ModelError
from sluice.models.letterbox import FITS, Letterbox

SIZES = [((1280, 720), (640, 640)), ((720, 1280), (640, 640)), ((33, 17), (416, 416)), ((1, 1), (320, 320))]
SIZES += [((1920, 1080), (640, 384)), ((4000, 3), (64, 64)), ((853, 479), (257, 255))]


@pytest.mark.parametrize("how", FITS)
@pytest.mark.parametrize(("frame", "network"), SIZES)
def test_round_trip(frame, network, how):
    box = Letterbox.fit(frame, network, how)
    rng = np.random.default_rng(0)
    xyxy = (rng.uniform(0, 1, (50, 4)) * np.tile(frame, 2)).astype(np.float32)
    back = box.to_frame(box.to_network(xyxy))
    assert back.dtype == np.float32
    assert np.allclose(back, xyxy, atol=1e-3 * max(frame))


@pytest.mark.parametrize("how", FITS)
@pytest.mark.parametrize(("frame", "network"), SIZES)
def test_the_frame_fills_its_rectangle_inside_the_input(frame, network, how):
    box = Letterbox.fit(frame, network, how)
    inside = box.left >= 0 and box.top >= 0
    inside &= box.left + box.width <= network[0] and box.top + box.height <= network[1]
    covering = box.left <= 0 and box.top <= 0
    covering &= box.left + box.width >= network[0] and box.top + box.height >= network[1]
    assert covering if how == "crop" else inside
    assert min(box.width, box.height) >= 1
    corners = box.to_network(np.array([[0, 0, *frame]], np.float32))[0]
    assert np.allclose(corners, [box.left, box.top, box.left + box.width, box.top + box.height], atol=1e-3)


def test_where_the_padding_is():
    assert Letterbox.fit((1280, 720), (640, 640), "centre") == Letterbox(1280, 720, 0, 140, 640, 360)
    assert Letterbox.fit((1280, 720), (640, 640), "top-left") == Letterbox(1280, 720, 0, 0, 640, 360)
    assert Letterbox.fit((1280, 720), (640, 640), "stretch") == Letterbox(1280, 720, 0, 0, 640, 640)
    # An odd rest: one line more below.
    assert Letterbox.fit((1280, 718), (640, 640), "centre").top == 140


def test_a_box_that_reaches_into_the_padding_is_clipped_and_kept():
    box = Letterbox.fit((1280, 720), (640, 640))
    reaching = np.array([[600, 480, 660, 520], [-10, 130, 20, 160]], np.float32)
    assert box.to_frame(reaching).tolist() == [[1200, 680, 1280, 720], [0, 0, 40, 40]]
    assert box.to_frame(reaching, clip=False).tolist() == [[1200, 680, 1320, 760], [-20, -20, 40, 40]]


def test_key_points_go_the_same_way():
    box = Letterbox.fit((1280, 720), (640, 640))
    points = np.array([[[320.0, 320.0], [0.0, 140.0]]], np.float32)
    assert box.to_frame(points).tolist() == [[[640, 360], [0, 0]]]


def test_no_boxes():
    box = Letterbox.fit((1280, 720), (640, 640))
    assert box.to_frame(np.empty((0, 4), np.float32)).shape == (0, 4)


def test_a_crop_fills_the_input_with_the_middle_of_the_frame():
    """torchvision's Resize(32) of 100 x 60 is 53 x 32 (53.33 cut), its CenterCrop(32) begins at round(10.5) = 10."""
    box = Letterbox.fit((100, 60), (32, 32), "crop")
    assert (box.left, box.top, box.width, box.height) == (-10, 0, 53, 32)
    middle = box.to_frame(np.array([[0, 0, 32, 32]], np.float32))
    assert middle.tolist() == [pytest.approx([10 * 100 / 53, 0, 42 * 100 / 53, 60])]
    assert Letterbox.fit((60, 100), (32, 64), "crop") == Letterbox(60, 100, -3, 0, 38, 64)


@pytest.mark.parametrize("how", FITS)
def test_a_frame_without_pixels_is_refused(how):
    with pytest.raises(ModelError, match="a frame of 0x48 pixels cannot be given to a network"):
        Letterbox.fit((0, 48), (32, 32), how)
