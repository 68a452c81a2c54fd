"""Two scenes with every kind of shape against stored pictures that a person has looked at.

Tolerance: fonts and their hinting differ between distributions, so texts may differ (5 grey levels on average over the
area of the texts); everywhere else at most 2 levels in any pixel.
`python tests/drawing/test_golden.py [scene] [hidden]` writes the pictures anew: look at them before keeping them.
"""

import sys
from pathlib import Path

import cv2
import numpy as np
import pytest
from pictures import Picture

from sluice.contract.formats import Matrix
from sluice.drawing.painter import Painter
from sluice.drawing.shapes import (
    Arrow,
    ArrowHead,
    Circle,
    ClassMap,
    Line,
    Mask,
    Mosaic,
    Overlay,
    Rectangle,
    Text,
    Trail,
)

FOLDER = Path(__file__).parent / "golden"
WIDTH, HEIGHT = 321, 241
TEXT_ROWS = slice(170, HEIGHT)
GOLDEN = ("I420", "YUY2", "GRAY8", "RGB")
RED, GREEN, BLUE = (1.0, 0.0, 0.0, 1.0), (0.0, 1.0, 0.0, 1.0), (0.0, 0.0, 1.0, 1.0)
YELLOW, MAGENTA, WHITE, BLACK = (1.0, 1.0, 0.0, 1.0), (1.0, 0.0, 1.0, 1.0), (1.0,) * 4, (0.0, 0.0, 0.0, 1.0)


def scene() -> Overlay:
    """Every kind of shape at odd and even places, over the edges, opaque and not; all texts in TEXT_ROWS."""
    mask = np.zeros((6, 6), np.float32)
    mask[1:3, 1:5] = mask[3:5, 2:4] = 1.0
    return Overlay(
        rectangles=[
            Rectangle(10, 10, 60, 40, 4, RED),
            Rectangle(83, 11, 51, 39, 3, GREEN, (0.0, 0.0, 1.0, 0.4)),
            Rectangle(150, 12, 50, 30, 1, WHITE),
            Rectangle(-12, 70, 40, 40, 6, (0.0, 1.0, 1.0, 0.5)),
            Rectangle(295, 60, 60, 50, 8, RED, YELLOW),
            Rectangle(220, 20, 60, 30, 4, YELLOW, (1.0, 0.0, 1.0, 0.5), 30.0),
            Rectangle(40, 75, 50, 20, 2, WHITE, None, -60.0),
        ],
        masks=[Mask(mask, 0.5, 100, 60, 61, 61, RED)],
        lines=[Line(175, 60, 235, 110, 3, GREEN), Line(175, 115, 235, 115, 1, WHITE), Line(175, 121, 235, 121, 4, RED)],
        arrows=[Arrow(10, 125, 90, 160, 2, ArrowHead.END), Arrow(170, 130, 100, 160, 3, ArrowHead.BOTH, MAGENTA)],
        circles=[Circle(265, 90, 20, 5, YELLOW), Circle(200, 145, 14, 0, BLACK, (1.0, 1.0, 1.0, 0.5))],
        texts=[
            Text("person 12", 10, 175, "Sans", 11, WHITE, BLACK),
            Text("half Äß", 121, 175, "Serif", 12, YELLOW, (0.0, 0.0, 1.0, 0.5)),
            Text("no background", 10, 205, "Sans Bold", 13, (1.0, 0.5, 0.0, 1.0)),
            Text("clipped", 281, 221, "Sans", 14, WHITE, RED),
        ],
    )


def hidden_scene() -> Overlay:
    """Class maps, mosaics and trails over what `scene` has drawn before."""
    classes = np.full((8, 12), -1, np.int32)
    classes[1:4, 1:5], classes[3:7, 4:9], classes[5:8, 8:12] = 15, 7, 2
    classes[0, 0] = 0
    heart = np.zeros((5, 5), np.float32)
    heart[0, [1, 3]] = heart[1:3, :] = heart[3, 1:4] = heart[4, 2] = 0.9
    return Overlay(
        class_maps=[ClassMap(classes), ClassMap(np.array([[20]], np.int32), (270.0, 180.0, 41.0, 31.0))],
        mosaics=[
            Mosaic(5, 5, 71, 51),
            Mosaic(221, 61, 200, 71),
            Mosaic(120, 10, 80, 60, 30.0),
            Mosaic(96, 56, 69, 69, 0.0, heart, 0.5),
        ],
        trails=[
            Trail(tuple((20.0 + 8 * i, 150.0 + 30 * np.sin(i / 3)) for i in range(30)), 2, YELLOW),
            Trail(((300.0, 230.0), (200.0, 230.0), (160.5, 190.5), (-40.0, 210.0)), 3, GREEN),
            Trail(((10.0, 60.0), (10.0, 160.0)), 1, RED),
        ],
    )


def draw(name: str, pixel_format: str) -> np.ndarray:
    """A scene as RGB, drawn in a format; YUV is limited-range BT.709."""
    matrix = Matrix.RGB if pixel_format.startswith(("RGB", "BGR")) else Matrix.BT709
    picture = Picture(pixel_format, WIDTH, HEIGHT, matrix)
    picture.fill_gradient()
    Painter().draw(picture.canvas(), scene())
    if name == "hidden":
        Painter().draw(picture.canvas(), hidden_scene())
    return picture.rgb()


@pytest.mark.parametrize("name", ["scene", "hidden"])
@pytest.mark.parametrize("pixel_format", GOLDEN)
def test_the_scene_is_the_stored_picture(name: str, pixel_format: str) -> None:
    golden = cv2.imread(str(FOLDER / f"{name}_{pixel_format}.png"))[:, :, ::-1].astype(int)
    difference = np.abs(draw(name, pixel_format) - golden)
    assert difference[TEXT_ROWS].mean() <= 5.0
    difference[TEXT_ROWS] = 0
    assert difference.max() <= 2


if __name__ == "__main__":
    for pixel_format in GOLDEN:
        for name in sys.argv[1:] or ("scene", "hidden"):
            cv2.imwrite(str(FOLDER / f"{name}_{pixel_format}.png"), draw(name, pixel_format)[:, :, ::-1])
