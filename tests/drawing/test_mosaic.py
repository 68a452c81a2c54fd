"""Objects made unrecognisable: what changes, what does not, and what can still be seen."""

import numpy as np
import pytest
from pictures import FORMATS, Picture

from sluice.contract.formats import Matrix
from sluice.drawing.painter import Painter
from sluice.drawing.shapes import Mosaic, Overlay, Rectangle

NAN, INF = float("nan"), float("inf")


def noise(pixel_format: str, width: int = 200, height: int = 160) -> Picture:
    picture = Picture(pixel_format, width, height, Matrix.BT601)
    for number, plane in enumerate(picture.planes):
        plane[...] = np.random.default_rng(number).integers(0, 256, plane.shape)
    return picture


def draw(picture: Picture, *mosaics: Mosaic) -> Picture:
    Painter().draw(picture.canvas(), Overlay(mosaics=list(mosaics)))
    assert picture.padding_is_untouched()
    return picture


@pytest.mark.parametrize("pixel_format", FORMATS)
@pytest.mark.parametrize("box", [(20, 10, 120, 100), (21, 11, 119, 99), (-30, -30, 91, 73), (150.5, 100.5, 500, 500)])
def test_nothing_of_the_box_is_left_and_nothing_else_changes(pixel_format: str, box: tuple[float, ...]) -> None:
    before, after = noise(pixel_format), draw(noise(pixel_format), Mosaic(*box))
    left, top, right, bottom = int(box[0]), int(box[1]), int(np.ceil(box[0] + box[2])), int(np.ceil(box[1] + box[3]))
    for plane, changed in zip(before.planes, after.planes, strict=True):
        across, down = 200 / plane.shape[1], 160 / plane.shape[0]
        inside = np.zeros(plane.shape[:2], bool)
        x0, y0 = max(int(left / across), 0), max(int(top / down), 0)
        inside[y0 : int(np.ceil(max(bottom, 0) / down)), x0 : int(np.ceil(max(right, 0) / across))] = True
        if pixel_format == "YUY2":
            inside[:, 1:-1] |= inside[:, :-2] | inside[:, 2:]  # two pixels share their chroma
        assert (changed[~inside] == plane[~inside]).all()
        part = changed[inside].reshape(-1, plane.shape[2])[:, : 3 if "A" in pixel_format else None]
        # The noise has a deviation of 74 grey levels.
        assert part.std(axis=0).max() < 25


@pytest.mark.parametrize("pixel_format", ["I420", "NV12", "YUY2", "RGB", "BGRA"])
def test_with_a_mask_only_what_it_covers_is_hidden(pixel_format: str) -> None:
    mask = np.zeros((4, 4), np.float32)
    mask[:, :2] = 0.9
    before, after = noise(pixel_format).rgb(), draw(noise(pixel_format), Mosaic(40, 20, 80, 80, 0, mask, 0.5)).rgb()
    assert (before != after)[20:100, 40:80].any(axis=2).mean() > 0.95
    assert (before[:, 80:] == after[:, 80:]).all()
    assert (before[:, :40] == after[:, :40]).all()


def test_chroma_under_the_edge_of_a_mask_is_hidden_too() -> None:
    """A mask whose edge lies inside a sample of chroma: the sample does not keep its colour."""
    before, after = noise("I420"), draw(noise("I420"), Mosaic(41, 21, 20, 20, 0, np.ones((1, 1), np.float32), 0.5))
    for plane in (1, 2):
        changed = (before.planes[plane] != after.planes[plane])[:, :, 0]
        rows, columns = np.nonzero(changed)
        assert (rows.min(), rows.max(), columns.min(), columns.max()) == (10, 20, 20, 30)
    rows, columns = np.nonzero((before.planes[0] != after.planes[0])[:, :, 0])
    assert (rows.min(), rows.max(), columns.min(), columns.max()) == (21, 40, 41, 60)


def test_a_rotated_box_is_hidden_with_its_corners() -> None:
    before, after = noise("GRAY8"), draw(noise("GRAY8"), Mosaic(80, 70, 60, 20, 90.0))
    rows, columns = np.nonzero((before.planes[0] != after.planes[0])[:, :, 0])
    assert (columns.min(), columns.max() + 1, rows.min(), rows.max() + 1) == (100, 120, 50, 110)


def test_drawing_lies_on_top_of_what_is_hidden() -> None:
    picture = noise("RGB")
    box = Rectangle(20, 20, 60, 60, 4, (1.0, 0.0, 0.0, 1.0))
    Painter().draw(picture.canvas(), Overlay(rectangles=[box], mosaics=[Mosaic(10, 10, 100, 100)]))
    assert (picture.planes[0][18:22, 18:82] == (255, 0, 0)).all()


@pytest.mark.parametrize(
    "mosaic",
    [
        Mosaic(NAN, 1, 5, 5),
        Mosaic(1, 1, NAN, 5),
        Mosaic(10, 10, 0, 5),
        Mosaic(10, 10, -4, 5),
        Mosaic(500, 10, 4, 5),
        Mosaic(1e30, 10, 4, 5, 45.0),
        Mosaic(65536, 10, 4, 1e-40, 45.0),
        Mosaic(-INF, 10, 4, 5),
        Mosaic(10, 10, 8, 8, 0, np.full((2, 2), NAN, np.float32), 0.5),
    ],
)
def test_what_has_no_place_changes_nothing(mosaic: Mosaic) -> None:
    assert (draw(noise("RGB"), mosaic).planes[0] == noise("RGB").planes[0]).all()


@pytest.mark.parametrize("box", [(0, 0, INF, INF), (-INF, -INF, INF, INF), (0, 0, 1, 1), (0, 0, 1e30, 2), (3, 3, 2, 2)])
@pytest.mark.parametrize("pixel_format", FORMATS)
@pytest.mark.parametrize("angle", [0.0, 33.0, NAN])
def test_no_box_makes_it_fail(pixel_format: str, box: tuple[float, ...], angle: float) -> None:
    draw(noise(pixel_format, 33, 17), Mosaic(*box, angle), Mosaic(*box, 0.0, np.ones((3, 5), np.float32), 0.5))
