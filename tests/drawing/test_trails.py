"""The ways of tracks: what is remembered, for how long, and how it is drawn."""

import numpy as np
import pytest
from pictures import FORMATS, Picture

from sluice.drawing.painter import Painter
from sluice.drawing.shapes import Overlay, Trail
from sluice.drawing.trails import MAX_TRACKS, UNTRACKED, Trails


def update(trails: Trails, *places: tuple[int, float, float], stream: int = 0, length: int = 3) -> list[Trail]:
    """One frame with tracks whose boxes of 4 x 2 pixels are centred on places (id, x, y)."""
    boxes = np.array([(x - 2, y - 1, 4, 2) for _, x, y in places], np.float32).reshape(-1, 4)
    return trails.update(stream, np.array([number for number, _, _ in places], np.uint64), boxes, length)


def test_a_way_grows_to_its_length_and_moves_on() -> None:
    trails = Trails()
    assert update(trails, (7, 0, 0)) == []
    assert [trail.points for trail in update(trails, (7, 1, 5))] == [((0, 0), (1, 5))]
    update(trails, (7, 2, 5))
    (trail,) = update(trails, (7, 3, 5))
    assert trail.points == ((1, 5), (2, 5), (3, 5))


def test_streams_do_not_share_ids_and_large_ids_are_kept() -> None:
    trails, number = Trails(), 2**64 - 2
    update(trails, (number, 0, 0), stream=0)
    assert update(trails, (number, 9, 9), stream=1) == []
    assert len(update(trails, (number, 9, 9), stream=0)) == 1
    trails.forget(0)
    assert update(trails, (number, 9, 9), stream=0) == []
    assert len(update(trails, (number, 9, 8), stream=1)) == 1
    trails.clear()
    assert update(trails, (number, 9, 9), stream=1) == []


def test_a_track_that_was_away_too_long_begins_anew() -> None:
    trails = Trails()
    update(trails, (1, 0, 0))
    update(trails)
    assert len(update(trails, (1, 5, 5))) == 1
    for _ in range(3):
        assert update(trails) == [], "a track that is not in the frame has no way drawn"
    assert update(trails, (1, 9, 9)) == []


def test_objects_without_a_track_or_a_place_have_no_way() -> None:
    trails = Trails()
    for _ in range(3):
        assert update(trails, (UNTRACKED, 1, 1), (4, float("nan"), 0), (5, float("inf"), 0)) == []


def test_what_is_remembered_is_bounded() -> None:
    trails = Trails()
    for frame in range(3):
        update(trails, *((frame * MAX_TRACKS + index, 1.0, 1.0) for index in range(MAX_TRACKS)), length=1000)
    assert len(update(trails, (3 * MAX_TRACKS - 1, 2, 2), length=1000)) == 1
    assert update(trails, (0, 2, 2), (MAX_TRACKS, 2, 2), length=1000) == []


@pytest.mark.parametrize("pixel_format", FORMATS)
def test_a_trail_is_drawn_where_it_was(pixel_format: str) -> None:
    picture = Picture(pixel_format, 64, 48)
    before = picture.rgb()
    trail = Trail(((8.0, 20.0), (32.0, 20.0), (32.0, 40.0)), 2, (1.0, 1.0, 1.0, 1.0))
    Painter().draw(picture.canvas(), Overlay(trails=[trail]))
    assert picture.padding_is_untouched()
    changed = (picture.rgb() != before).any(axis=2)
    assert changed[19:21, 9:31].all()
    assert changed[21:39, 31:33].all()
    assert not changed[:16].any()
    assert not changed[24:, :28].any()
    assert picture.rgb()[20, 20].min() > 200


@pytest.mark.parametrize("pixel_format", ["I420", "YUY2", "RGB"])
@pytest.mark.parametrize("far", [1e30, -1e30, float("inf"), float("nan"), 1e6])
def test_places_outside_the_picture_do_no_harm(pixel_format: str, far: float) -> None:
    picture = Picture(pixel_format, 33, 17)
    trails = [Trail(((far, far), (5.0, 5.0), (far, 3.0))), Trail(((far, far), (far, far))), Trail(())]
    Painter().draw(picture.canvas(), Overlay(trails=trails))
    assert picture.padding_is_untouched()


@pytest.mark.parametrize("pixel_format", FORMATS)
@pytest.mark.parametrize("size", [(1, 1), (2, 1), (1, 3)])
def test_pictures_of_a_few_pixels_can_be_drawn_on(pixel_format: str, size: tuple[int, int]) -> None:
    picture = Picture(pixel_format, *size)
    Painter().draw(picture.canvas(), Overlay(trails=[Trail(((-9.0, -9.0), (9.0, 9.0)), 3)]))
    assert picture.padding_is_untouched()
