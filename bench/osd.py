"""How much processor time drawing takes: a 1080p I420 picture with 20 boxes and labels, on one core.

    python bench/osd.py [--boxes 20] [--frames 300] [--format I420]

"same labels" draws texts that were drawn before; "new labels" writes a new confidence into every label of every frame,
so that each text has to be rendered. Goal: 1.5 ms per frame with the same labels.
"""

import argparse
import statistics
import time

import cv2
import numpy as np

from sluice.contract.formats import plane_shapes
from sluice.drawing.canvas import Canvas
from sluice.drawing.painter import Painter
from sluice.drawing.shapes import Overlay, Rectangle, Text

WIDTH, HEIGHT = 1920, 1080


def overlay(boxes: int, frame: int, *, new_labels: bool) -> Overlay:
    """Boxes that move one pixel a frame, with a label above each."""
    result = Overlay()
    for index in range(boxes):
        left, top = 40 + index * 37 % 1600 + frame % 100, 60 + index * 151 % 700
        confidence = (frame * 7 + index) % 1000 / 1000.0 if new_labels else 0.87
        result.rectangles.append(Rectangle(left, top, 120, 260, 3, (0.0, 1.0, 0.0, 1.0)))
        result.texts.append(
            Text(f"person {index} {confidence:.3f}", left, top - 24, background=(0.0, 0.0, 0.0, 1.0), size=11)
        )
    return result


def milliseconds(pixel_format: str, boxes: int, frames: int, *, new_labels: bool) -> float:
    """The median processor time to draw one frame."""
    shapes = plane_shapes(pixel_format, WIDTH, HEIGHT)
    planes = [np.full((s.height, s.width, s.bytes_per_pixel), 100, np.uint8) for s in shapes]
    painter = Painter()
    times = []
    for frame in range(frames):
        drawing = overlay(boxes, frame, new_labels=new_labels)
        start = time.thread_time()
        painter.draw(Canvas(pixel_format, planes, WIDTH, HEIGHT), drawing)
        times.append(time.thread_time() - start)
    return statistics.median(times) * 1000.0


def main() -> None:
    """Print both figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--boxes", type=int, default=20)
    parser.add_argument("--frames", type=int, default=300)
    parser.add_argument("--format", default="I420")
    arguments = parser.parse_args()
    cv2.setNumThreads(1)
    for title, new_labels in (("same labels", False), ("new labels", True)):
        result = milliseconds(arguments.format, arguments.boxes, arguments.frames, new_labels=new_labels)
        print(f"{arguments.format} {WIDTH}x{HEIGHT}, {arguments.boxes} boxes, {title}: {result:.2f} ms per frame")


if __name__ == "__main__":
    main()
