"""Class maps of segmentation networks, tinted over the picture."""

import numpy as np
import pytest
from pictures import FORMATS, Picture

from sluice.drawing.masks import MASK_ALPHA
from sluice.drawing.painter import Painter
from sluice.drawing.palette import class_color, track_color
from sluice.drawing.shapes import ClassMap, Overlay


def draw(picture: Picture, *maps: ClassMap) -> Picture:
    Painter().draw(picture.canvas(), Overlay(class_maps=list(maps)))
    assert picture.padding_is_untouched()
    return picture


def test_the_colours_are_those_of_pascal_voc() -> None:
    known = {0: (0, 0, 0), 1: (128, 0, 0), 2: (0, 128, 0), 7: (128, 128, 128), 15: (192, 128, 128), 20: (0, 64, 128)}
    assert {number: class_color(number)[:3] for number in known} == known
    assert class_color(255)[:3] == (224, 224, 192)
    assert class_color(256 + 15) == class_color(15)


def test_tracks_have_colours_of_their_own_that_are_bright() -> None:
    colors = {track_color(number) for number in range(20)}
    assert len(colors) == 20
    assert min(max(color[:3]) for color in colors) >= 128
    assert track_color(2**63 + 5) == track_color(2**63 + 5)


def test_a_map_covers_the_whole_picture_each_cell_its_part() -> None:
    picture = draw(Picture("RGB", 40, 20), ClassMap(np.array([[1, 0], [-1, 15]], np.int32)))
    pixels = picture.planes[0].astype(int)
    for rows, columns, number in ((slice(0, 10), slice(0, 20), 1), (slice(10, 20), slice(20, 40), 15)):
        expected = (128 * (255 - MASK_ALPHA) + np.array(class_color(number)[:3]) * MASK_ALPHA) / 255
        assert np.abs(pixels[rows, columns] - expected).max() <= 1
    assert (pixels[:10, 20:] == 128).all(), "the background is left as it was"
    assert (pixels[10:, :20] == 128).all(), "no class is left as it was"


def test_another_class_can_be_the_background() -> None:
    cells = np.array([[0, 3]], np.int32)
    pixels = draw(Picture("RGB", 40, 20), ClassMap(cells, background=3)).planes[0]
    assert (pixels[:, :20] != 128).any()
    assert (pixels[:, 20:] == 128).all()
    pixels = draw(Picture("RGB", 40, 20), ClassMap(cells, background=-1)).planes[0]
    assert (pixels[:, :20] == 64).all()
    assert (pixels[:, 20:] != 128).any()


def test_a_map_of_an_object_stays_in_its_box() -> None:
    pixels = draw(Picture("GRAY8", 40, 20), ClassMap(np.full((3, 3), 2, np.int32), (10.0, 5.0, 20.0, 10.0))).planes[0]
    rows, columns = np.nonzero(pixels[:, :, 0] != 128)
    assert (columns.min(), columns.max() + 1, rows.min(), rows.max() + 1) == (10, 30, 5, 15)


@pytest.mark.parametrize("pixel_format", FORMATS)
@pytest.mark.parametrize("box", [None, (-5.0, -7.0, 30.0, 21.0), (3.0, 3.0, 1e9, 1e9), (float("nan"), 0.0, 1.0, 1.0)])
def test_any_box_and_class_in_every_format(pixel_format: str, box: tuple[float, float, float, float] | None) -> None:
    cells = np.array([[0, 254, 255], [256, 2**31 - 1, -(2**31)]], np.int32)
    draw(Picture(pixel_format, 33, 17), ClassMap(cells, box), ClassMap(np.zeros((0, 4), np.int32), box))


def test_yuv_gets_the_colours_that_rgb_gets() -> None:
    cells = np.array([[1, 2], [3, 4]], np.int32)
    expected = draw(Picture("RGB", 64, 48), ClassMap(cells)).rgb().astype(int)
    for pixel_format in ("I420", "NV12", "YUY2"):
        found = draw(Picture(pixel_format, 64, 48), ClassMap(cells)).rgb()
        difference = np.abs(found - expected)
        # The test pictures are grey 128 in RGB and luma 128 in YUV, which is 2 levels brighter.
        assert difference[:22].max() <= 6
