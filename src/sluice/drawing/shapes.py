"""What can be drawn: plain values, in pixels of the picture, with no pointers and no GStreamer in them.

Coordinates lie on pixel edges: x = 0 is the left edge of the first column and x = width the right edge of the last one.
They may be any float, also outside the picture, infinite or NaN: shapes are clipped, those without a place skipped.
"""

from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Rgba = tuple[float, float, float, float]
"""Red, green, blue and alpha from 0 to 1, as NvOSD_ColorParams has them."""

MAX_BORDER_WIDTH = 32
"""The widest border or line in pixels (MAX_BORDER_WIDTH of nvll_osd_api.h); a wider one is drawn this wide."""

MIN_FONT_SIZE, MAX_FONT_SIZE = 10, 200
"""The sizes in points that nvdsosd clamps a font to; size 0 is not drawn at all."""


class Rectangle(NamedTuple):
    """A box. Half of the border lies outside its edge, half inside. The angle is in degrees, clockwise on screen."""

    left: float
    top: float
    width: float
    height: float
    border_width: int = 3
    border_color: Rgba = (0.0, 1.0, 0.0, 1.0)
    background: Rgba | None = None
    rotation_angle: float = 0.0


class Text(NamedTuple):
    """A text whose top-left corner, padding included, is at (x, y). A newline starts a new line."""

    text: str
    x: float
    y: float
    font: str = "Serif"
    size: int = 12
    color: Rgba = (1.0, 1.0, 1.0, 1.0)
    background: Rgba | None = None


class Line(NamedTuple):
    """A straight line from (x1, y1) to (x2, y2), longer at both ends by half its width."""

    x1: float
    y1: float
    x2: float
    y2: float
    width: int = 2
    color: Rgba = (1.0, 1.0, 1.0, 1.0)


class ArrowHead(IntEnum):
    """Where an arrow has its head: the values of NvOSD_Arrow_Head_Direction."""

    START = 0
    END = 1
    BOTH = 2


class Arrow(NamedTuple):
    """A line with a head of two short strokes at one or both of its ends."""

    x1: float
    y1: float
    x2: float
    y2: float
    width: int = 2
    head: ArrowHead = ArrowHead.END
    color: Rgba = (1.0, 1.0, 1.0, 1.0)


class Circle(NamedTuple):
    """A ring of `width` pixels centred on the radius, and what it encloses when `background` is given."""

    x: float
    y: float
    radius: float
    width: int = 2
    color: Rgba = (1.0, 1.0, 1.0, 1.0)
    background: Rgba | None = None


class Mask(NamedTuple):
    """A float32 [H, W] segmentation mask, stretched over its box. What lies above the threshold is tinted."""

    data: npt.NDArray[np.float32]
    threshold: float
    left: float
    top: float
    width: float
    height: float
    color: Rgba = (0.0, 1.0, 0.0, 1.0)


class ClassMap(NamedTuple):
    """An int32 [H, W] map of classes, tinted in the colours of `sluice.drawing.palette`.

    It is stretched over its box (left, top, width, height), or over the whole picture. Negative classes and
    `background` are left as they are.
    """

    data: npt.NDArray[np.int32]
    box: tuple[float, float, float, float] | None = None
    background: int = 0


class Mosaic(NamedTuple):
    """A box made unrecognisable: all of it, or where a mask over it is above the threshold.

    A rotated box is hidden with all of the upright box around it.
    """

    left: float
    top: float
    width: float
    height: float
    rotation_angle: float = 0.0
    mask: npt.NDArray[np.float32] | None = None
    threshold: float = 0.0


class Trail(NamedTuple):
    """The way of a track: opaque lines from point to point, oldest first."""

    points: tuple[tuple[float, float], ...]
    width: int = 2
    color: Rgba = (1.0, 1.0, 1.0, 1.0)


class Skeleton(NamedTuple):
    """Key points of one object: dots [N, 2] (x, y) of a radius, and lines [M, 2, 2] from (x, y) to (x, y)."""

    dots: npt.NDArray[np.float32]
    lines: npt.NDArray[np.float32]
    radius: float
    width: int = 2
    color: Rgba = (1.0, 1.0, 1.0, 1.0)


class Panel(NamedTuple):
    """A text across the bottom of the picture, wrapped to its width, at most half as high as it.

    The size is in points; 0: about a fortieth of the picture's height.
    """

    text: str
    font: str = "Sans"
    size: int = 0
    color: Rgba = (1.0, 1.0, 1.0, 1.0)
    background: Rgba = (0.0, 0.0, 0.0, 0.6)


@dataclass(slots=True)
class Overlay:
    """All there is to draw on one picture, each kind in the order of drawing."""

    mosaics: list[Mosaic] = field(default_factory=list)
    class_maps: list[ClassMap] = field(default_factory=list)
    rectangles: list[Rectangle] = field(default_factory=list)
    masks: list[Mask] = field(default_factory=list)
    trails: list[Trail] = field(default_factory=list)
    texts: list[Text] = field(default_factory=list)
    skeletons: list[Skeleton] = field(default_factory=list)
    lines: list[Line] = field(default_factory=list)
    arrows: list[Arrow] = field(default_factory=list)
    circles: list[Circle] = field(default_factory=list)
    panels: list[Panel] = field(default_factory=list)

    def __bool__(self) -> bool:
        """Whether there is anything to draw."""
        return any(getattr(self, kind) for kind in self.__slots__)
