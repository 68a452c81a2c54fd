"""Models of parts of frames for the tests, named as ``elements.secondary_models:Class``; `CALLS` has what they got."""

import time
from typing import Any, ClassVar

import numpy as np

from sluice.models.detections import Detections
from sluice.models.whole import Classification, Layer, RawOutputs, Segmentation, WholeFrame

CALLS: list[list[Any]] = []


def given(frame):
    """What a model sees of a part: stream, frame, origin, size, brightness, and the object it shows."""
    seen = frame.parent_object
    level = round(float(frame.rgb().mean()))
    return frame.stream, frame.number, frame.origin, (frame.width, frame.height), level, seen and (seen.id, seen.label)


class Brightness:
    """Classifies a part by its brightness."""

    labels: ClassVar = [f"level {i}" for i in range(256)]

    def infer(self, frames):
        CALLS.append([given(frame) for frame in frames])
        return [self.result(call[4]) for call in CALLS[-1]]

    def result(self, level):
        return Detections.of_whole(WholeFrame([Classification(level, 0.5, name="brightness")], embedding=[level, 1]))


class Named(Brightness):
    """As `Brightness`, but can only be given objects, and says their label."""

    labels: ClassVar = ["person", "car"]

    def infer(self, frames):
        CALLS.append([given(frame) for frame in frames])
        return [
            Detections.of_whole(WholeFrame([Classification(frame.parent_object.class_id, 0.5, name="named")]))
            for frame in frames
        ]


class Slow(Brightness):
    """As `Brightness`, and takes 100 ms."""

    def infer(self, frames):
        time.sleep(0.1)
        return super().infer(frames)


class Failing(Brightness):
    """As `Brightness`, but raises at the first call of each object that is brighter than 100."""

    def __init__(self):
        self.failed = set()

    def infer(self, frames):
        for frame in frames:
            if frame.rgb().mean() > 100 and frame.parent_object.id not in self.failed:
                if len(frames) == 1:
                    self.failed.add(frame.parent_object.id)
                raise RuntimeError("too bright")
        return super().infer(frames)


class Parts:
    """Finds a box in the middle of each part, and another that reaches over its edge."""

    labels = ("middle", "edge")

    def infer(self, frames):
        CALLS.append([given(frame) for frame in frames])
        return [
            Detections(
                [[f.width / 4, f.height / 4, f.width / 2, f.height / 2], [f.width / 2, 0, 2 * f.width, f.height]],
                [0.9, 0.8],
                [0, 1],
                keypoints=[[[1, 2]], [[3, 4]]],
            )
            for f in frames
        ]


class Everything:
    """Says everything of a part as a whole that there is to say but boxes."""

    labels = ("zero", "one")

    def infer(self, frames):
        CALLS.append([given(frame) for frame in frames])
        whole = WholeFrame(
            [Classification(1, 0.75)], [1, 2, 3], [[1, 2, 0.5]], "B-XY 1", Segmentation(np.eye(2, dtype=np.int32))
        )
        return [Detections.of_whole(whole) for _ in frames]


class Masks:
    """Two objects with masks and embeddings, a class map with probabilities, and raw outputs, for every frame."""

    def __init__(self):
        mask = np.linspace(0, 1, 64 * 64, dtype=np.float32).reshape(64, 64)
        segmentation = Segmentation(np.zeros((48, 64), np.int32), np.zeros((2, 48, 64), np.float32))
        outputs = RawOutputs((Layer("out", np.zeros((1000,), np.float32)),), 64, 48)
        boxes = [[0, 0, 30, 40], [20, 10, 64, 48]]
        self.result = Detections(
            boxes,
            [0.9, 0.8],
            [0, 1],
            box_masks=[mask, mask],
            embeddings=np.ones((2, 256)),
            whole=WholeFrame(segmentation=segmentation, outputs=outputs),
        )

    def infer(self, frames):
        return [self.result for _ in frames]


class Raw:
    """Gives its outputs as they are."""

    def infer(self, frames):
        CALLS.append([given(frame) for frame in frames])
        outputs = RawOutputs((Layer("out", np.arange(3, dtype=np.float32)),), 64, 48)
        return [Detections.of_whole(WholeFrame(outputs=outputs)) for _ in frames]


class Told:
    """Writes down what models before it said of the objects that it is given."""

    def infer(self, frames):
        shown = [frame.parent_object for frame in frames]
        CALLS.append([(o.attributes, o.embedding.tolist(), o.keypoints.tolist()) for o in shown])
        return [None for _ in frames]
