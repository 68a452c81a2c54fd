"""Random operations on batches' metadata, and what they left, printed: one line of JSON per seed.

    SLUICE_PROVIDER=portable python metadata_operations.py 0 1 2
    SLUICE_PROVIDER=portable python metadata_operations.py -      bytes that choose, in hex, line by line from stdin

The same seed or bytes do the same operations, so that two providers can be compared, each in a process of its own.
"""

from __future__ import annotations

import json
import random
import sys
from typing import Any

import gi
import numpy as np

gi.require_version("Gst", "1.0")
from gi.repository import Gst

from sluice.contract.bulk import fill_frames, remove_objects, write_objects
from sluice.contract.metadata import BatchMeta, FrameMeta, ObjectMeta

LABELS = (None, "", "person", "naïve café", "a label of more than one hundred and twenty-seven bytes " * 4, "人" * 60)
STEPS = 40


class Chosen(random.Random):
    """Chance that bytes decide, and zeros behind their end, so that a fuzzer can."""

    def __init__(self, choices: bytes) -> None:
        super().__init__()
        self._choices, self._place = choices, 0

    def getrandbits(self, count: int) -> int:
        size = (count + 7) // 8
        taken = self._choices[self._place : self._place + size]
        self._place += size
        return int.from_bytes(taken, "little") & ((1 << count) - 1)

    def random(self) -> float:
        return self.getrandbits(16) / 65536


def numbers(chance: random.Random, *shape: int) -> np.ndarray:
    """Random float32 that any provider must keep as they are."""
    count = int(np.prod(shape))
    return np.array([chance.uniform(0, 2000) for _ in range(count)], np.float32).reshape(shape)


def write_many(chance: random.Random, frame: FrameMeta) -> None:
    count = chance.randrange(6)
    write_objects(
        frame,
        numbers(chance, count, 4),
        numbers(chance, count),
        np.array([chance.randrange(-1, 90) for _ in range(count)], np.int32),
        [chance.choice(LABELS) for _ in range(count)],
        unique_id=chance.randrange(5),
        rotation=numbers(chance, count) if chance.random() < 0.5 else None,
        masks=[numbers(chance, 3, 2) for _ in range(count)] if chance.random() < 0.3 else None,
        infer_done=chance.choice([True, False, None]),
    )


def write_one(chance: random.Random, frame: FrameMeta) -> None:
    parent = chance.choice(frame.objects) if frame.objects and chance.random() < 0.3 else None
    made = frame.add_object(parent)
    made.box = tuple(numbers(chance, 4).tolist())
    made.label = chance.choice(LABELS) or ""
    made.object_id = chance.randrange(2**64)
    made.misc = tuple(chance.randrange(2**31) for _ in range(4))


def classify(chance: random.Random, frame: FrameMeta) -> None:
    if frame.objects:
        result = chance.choice(frame.objects).add_classifier(chance.randrange(9), chance.choice([None, "colour"]))
        for _ in range(chance.randrange(4)):
            result.add_label(chance.choice(LABELS) or "", class_id=chance.randrange(9), probability=0.5)


def mask(chance: random.Random, frame: FrameMeta) -> None:
    if frame.objects:
        chance.choice(frame.objects).mask = chance.choice([None, numbers(chance, 4, 4)])


def show(chance: random.Random, frame: FrameMeta) -> None:
    frame.add_display()


def remove(chance: random.Random, frame: FrameMeta) -> None:
    objects = frame.objects
    childless = [
        one for one in objects if not any(other.parent and other.parent.address == one.address for other in objects)
    ]
    picked = [one.address for one in childless if chance.random() < 0.4]
    remove_objects(frame, np.array(picked, np.uint64))


OPERATIONS = (write_many, write_many, write_one, classify, classify, mask, show, remove)


def dump_object(item: ObjectMeta, order: dict[int, int]) -> dict[str, Any]:
    return {
        "class": item.class_id, "id": item.object_id, "component": item.unique_component_id, "label": item.label,
        "confidence": item.confidence, "box": list(item.box), "detector": list(item.detector_box),
        "rotation": item.rotation, "text": item.text.display_text, "misc": [item.misc[i] for i in range(4)],
        "mask": None if item.mask is None else item.mask.tolist(),
        "parent": order.get(item.parent.address) if item.parent else None,
        "classifiers": [
            [result.unique_component_id, result.classifier_type, result.num_labels,
             [[label.label, label.class_id, label.probability] for label in result.labels]]
            for result in item.classifiers
        ],
    }  # fmt: skip


def dump(batch: BatchMeta) -> list[Any]:
    """Everything that readers see, without addresses."""
    found = []
    for frame in batch.frames:
        order = {item.address: index for index, item in enumerate(frame.objects)}
        found.append(
            [frame.source_id, frame.frame_num, frame.infer_done, frame.num_objects, len(frame.display_metas),
             [dump_object(item, order) for item in frame.objects]]
        )  # fmt: skip
    return found


def run(chance: random.Random) -> list[Any]:
    """Do operations and return what they left, and what a copy of the buffer has of it."""
    buffer = Gst.Buffer.new_allocate(None, 16, None)
    batch = BatchMeta.attach(buffer, 4)
    fill_frames(batch, [(i, i, i, i, chance.randrange(1000), 640, 480, 0, 0) for i in range(chance.randrange(1, 5))])
    for _ in range(STEPS):
        chance.choice(OPERATIONS)(chance, chance.choice(batch.frames))
    whole = Gst.BufferCopyFlags.FLAGS | Gst.BufferCopyFlags.META | Gst.BufferCopyFlags.MEMORY
    copy = BatchMeta.of(buffer.copy_region(whole, 0, 2**64 - 1))
    assert copy is not None
    return [dump(batch), dump(copy)]


if __name__ == "__main__":
    Gst.init(None)
    if sys.argv[1:] == ["-"]:
        for line in sys.stdin:
            print(json.dumps(run(Chosen(bytes.fromhex(line)))), flush=True)
    else:
        for text in sys.argv[1:]:
            print(json.dumps(run(random.Random(int(text)))))
