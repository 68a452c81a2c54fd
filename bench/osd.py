"""How much processor time drawing takes: a 1080p I420 picture with 20 boxes and labels, on one core.

    python bench/osd.py [--boxes 20] [--frames 300] [--format I420]

"same labels" draws texts that were drawn before; "new labels" writes a new confidence into every label of every frame,
so that each text has to be rendered. Goal: 1.5 ms per frame with the same labels. The other lines are what is drawn
besides: the boxes hidden by a mosaic, a mask of 80 x 80 in each, a trail of 30 points each, and a class map of
257 x 257 over the whole picture.
"""

import argparse
import statistics
import time
from collections.abc import Callable

import cv2
import numpy as np

from sluice.contract.formats import plane_shapes
from sluice.drawing.canvas import Canvas
from sluice.drawing.painter import Painter
from sluice.drawing.shapes import ClassMap, Mask, Mosaic, Overlay, Rectangle, Text, Trail

WIDTH, HEIGHT = 1920, 1080
BOX = 120, 260
Place = tuple[int, int]


def places(boxes: int, frame: int) -> list[Place]:
    """Left and top of boxes that move one pixel a frame."""
    return [(40 + index * 37 % 1600 + frame % 100, 60 + index * 151 % 700) for index in range(boxes)]


def labelled(boxes: int, frame: int, *, new_labels: bool = False) -> Overlay:
    """Boxes with a label above each."""
    result = Overlay()
    for index, (left, top) in enumerate(places(boxes, frame)):
        confidence = (frame * 7 + index) % 1000 / 1000.0 if new_labels else 0.87
        result.rectangles.append(Rectangle(left, top, *BOX, 3, (0.0, 1.0, 0.0, 1.0)))
        result.texts.append(
            Text(f"person {index} {confidence:.3f}", left, top - 24, background=(0.0, 0.0, 0.0, 1.0), size=11)
        )
    return result


def newly_labelled(boxes: int, frame: int) -> Overlay:
    """Boxes with labels that were never drawn before."""
    return labelled(boxes, frame, new_labels=True)


def hidden(boxes: int, frame: int) -> Overlay:
    """A mosaic over each box."""
    return Overlay(mosaics=[Mosaic(*place, *BOX) for place in places(boxes, frame)])


def masked(boxes: int, frame: int) -> Overlay:
    """A round mask in each box."""
    across = np.linspace(-1, 1, 80, dtype=np.float32)
    mask = 1.0 - across**2 - across[:, np.newaxis] ** 2
    return Overlay(masks=[Mask(mask, 0.0, *place, *BOX) for place in places(boxes, frame)])


def trails(boxes: int, frame: int) -> Overlay:
    """The way of each box."""
    ways = [tuple((left + 3.0 * step, top + step % 3.0) for step in range(30)) for left, top in places(boxes, frame)]
    return Overlay(trails=[Trail(way) for way in ways])


def class_map(_boxes: int, frame: int) -> Overlay:
    """Three classes in stripes that move."""
    columns = (np.arange(257) + frame) // 40 % 4
    return Overlay(class_maps=[ClassMap(np.broadcast_to(columns, (257, 257)).astype(np.int32))])


def milliseconds(make: Callable[[int, int], Overlay], pixel_format: str, boxes: int, frames: int) -> float:
    """The median processor time to draw one frame."""
    shapes = plane_shapes(pixel_format, WIDTH, HEIGHT)
    planes = [np.full((s.height, s.width, s.bytes_per_pixel), 100, np.uint8) for s in shapes]
    painter = Painter()
    times = []
    for frame in range(frames):
        drawing = make(boxes, frame)
        start = time.thread_time()
        painter.draw(Canvas(pixel_format, planes, WIDTH, HEIGHT), drawing)
        times.append(time.thread_time() - start)
    return statistics.median(times) * 1000.0


KINDS = {
    "boxes with labels, same labels": labelled,
    "boxes with labels, new labels": newly_labelled,
    "hidden boxes": hidden,
    "masks": masked,
    "trails": trails,
    "boxes left out, a class map": class_map,
}


def main() -> None:
    """Print all figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--boxes", type=int, default=20)
    parser.add_argument("--frames", type=int, default=300)
    parser.add_argument("--format", default="I420")
    arguments = parser.parse_args()
    cv2.setNumThreads(1)
    for title, make in KINDS.items():
        result = milliseconds(make, arguments.format, arguments.boxes, arguments.frames)
        print(f"{arguments.format} {WIDTH}x{HEIGHT}, {arguments.boxes} {title}: {result:.2f} ms per frame")


if __name__ == "__main__":
    main()
