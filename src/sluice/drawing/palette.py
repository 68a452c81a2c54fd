"""Colours of classes and tracks."""

from functools import cache

from sluice.drawing.color import Bytes4


@cache
def class_color(number: int) -> Bytes4:
    """The colour of a class: the colour map of PASCAL VOC's devkit, which segmentation data sets share (0 is black).

    Its 256 colours take one bit after the other of the number for red, green and blue, from the highest bit down; they
    repeat for larger numbers.
    """
    rest, color = number & 0xFF, [0, 0, 0]
    for bit in range(7, -1, -1):
        for channel in range(3):
            color[channel] |= (rest >> channel & 1) << bit
        rest >>= 3
    red, green, blue = color
    return red, green, blue, 255


def track_color(number: int) -> Bytes4:
    """The colour of a track: one of 20 bright ones, by its id, so that it stays the same."""
    return class_color(_BRIGHT[number % len(_BRIGHT)])


# The classes of the map whose colours have a luma of 100 or more, which is seen on most pictures.
_BRIGHT = tuple(
    number
    for number in range(256)
    if (0.299 * class_color(number)[0] + 0.587 * class_color(number)[1] + 0.114 * class_color(number)[2]) >= 100
)[:20]
