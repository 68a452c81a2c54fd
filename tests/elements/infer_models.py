"""Models for the tests of sluiceinfer, named as ``model=<this file>:Class``."""

import threading
import time
from typing import ClassVar

import numpy as np

from sluice.models.detections import Detections


def boxes(*rows, scores=None, class_ids=None):
    """Detections with these corners."""
    n = len(rows)
    scores = np.full(n, 0.5) if scores is None else scores
    return Detections(np.array(rows, np.float32).reshape(n, 4), scores, class_ids or np.zeros(n, int))


class Nothing:
    """Sees every frame and finds nothing."""

    def infer(self, frames):
        return [None for _ in frames]


class Whole:
    """Finds one object, the whole frame, in each frame; its class id is the frame's number."""

    labels = ("even", "odd")

    def infer(self, frames):
        return [boxes((0, 0, f.width, f.height), class_ids=[f.number % 2]) for f in frames]


class Seen:
    """Finds one object for each that is already on the frame, one pixel further right."""

    labels = ("seen",)

    def infer(self, frames):
        return [boxes(*[(x0 + 1, y0, x1 + 1, y1) for x0, y0, x1, y1 in (o.xyxy for o in f.objects)]) for f in frames]


class Slow(Whole):
    """Takes 80 ms a call."""

    def infer(self, frames):
        time.sleep(0.08)
        return super().infer(frames)


class Unprintable(Whole):
    """Raises for every frame what no message of GStreamer can hold as it is."""

    def infer(self, frames):
        raise ValueError("caf\udce9\0.jpg")


class Raises(Whole):
    """Raises on frame 7."""

    def infer(self, frames):
        if any(f.number == 7 for f in frames):
            raise RuntimeError("the seventh frame is cursed")
        return super().infer(frames)


class Wrong:
    """Returns something unusable for frame 7: what ``kind`` says."""

    def __init__(self, kind: str):
        self.kind = kind

    def infer(self, frames):
        good = boxes((0, 0, 9, 9))
        results = [self.bad() if f.number == 7 else good for f in frames]
        if self.kind == "number" and any(f.number == 7 for f in frames):
            return [*results, good]
        return results

    def bad(self):
        row = np.array([[0, 0, 9, 9]], np.float32)
        one, zero = np.ones(1, np.float32), np.zeros(1, np.int32)
        return {
            "nan": Detections(row * np.nan, one, zero),
            "shape": Detections(row[:, :3], one, zero),
            "dtype": Detections(row.astype(complex), one, zero),
            "scores": Detections(row, np.ones(2, np.float32), zero),
            "class": Detections(row, one, np.array([0.5])),
            "order": Detections(row[:, ::-1], one, zero),
            "type": "a person",
            "number": None,
        }[self.kind]


class Hinting(Whole):
    """Cannot begin a call, and finds classes that it has no label for."""

    def begin(self, frames):
        raise RuntimeError("no queue")

    def infer(self, frames):
        return [boxes((0, 0, 9, 9), (1, 1, 9, 9), class_ids=[1, 7]) for _ in frames]


class Flood:
    """Finds 20,000 objects in each frame; every second is of class 1, with the better score."""

    def infer(self, frames):
        rows = np.tile(np.float32([0, 0, 9, 9]), (20_000, 1))
        classes = np.arange(20_000) % 2
        return [Detections(rows, 0.5 + 0.1 * classes, classes) for _ in frames]


class Outside:
    """Finds three boxes: over the edge, outside, inside."""

    def infer(self, frames):
        return [boxes((-10, -10, 10, 10), (-50, 0, -1, 10), (5, 5, 15, 15)) for _ in frames]


class Threads:
    """Writes down the threads of its calls into class attributes, and whether it was closed."""

    calls: ClassVar[list] = []

    def load(self):
        self.note("load")

    def warm_up(self):
        self.note("warm_up")

    def infer(self, frames):
        self.note("infer")
        return [None for _ in frames]

    def close(self):
        self.note("close")

    def note(self, name):
        type(self).calls.append((name, threading.current_thread().name, threading.get_ident()))


class Keeps:
    """Keeps its frames, against the rules, and reads the pixels of the one before later."""

    def __init__(self):
        self.kept = None
        self.refused = []

    def infer(self, frames):
        if self.kept is not None:
            self.kept.rgb()
        self.kept = frames[0]
        return [None for _ in frames]


class Converts:
    """Keeps a frame that it converted, which is allowed: finds one object of the kept frame's mean colour."""

    def __init__(self):
        self.kept = None

    def infer(self, frames):
        pixels = frames[0].rgb() if self.kept is None else self.kept.rgb()
        self.kept = frames[0]
        frames[0].rgb()
        return [boxes((0, 0, 9, 9), class_ids=[int(pixels.mean())]) for _ in frames]
