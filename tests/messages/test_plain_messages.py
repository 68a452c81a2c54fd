"""Messages made of whole batches in C: byte for byte what the Python form makes of the same frames."""

import ctypes
import json

import gi
import numpy as np
import pytest

gi.require_version("Gst", "1.0")
from gi.repository import Gst

from sluice.contract import bulk, user_meta
from sluice.contract.metadata import BatchMeta, Lease
from sluice.elements.msgconv_frames import read_frame
from sluice.messages import Per, messages, read_payloads
from sluice.messages.plain import Outcome, attach_plain

SIZES = np.array([(1920, 1080), (64, 48), (0, 0)], np.uint32)


def make(fill, frames=1, capacity=3):
    """A buffer with a batch, whose frames ``fill`` has filled."""
    buffer, lease = Gst.Buffer.new(), Lease()
    batch = BatchMeta.attach(buffer, capacity, lease)
    rows = np.zeros(frames, bulk.FRAME_ROW)
    rows["pad_index"] = rows["source_id"] = np.arange(frames) + 4
    rows["frame_num"] = np.arange(frames) * 3
    rows["buf_pts"] = 40_000_000
    bulk.fill_frames(batch, rows)
    fill(batch.frames)
    return buffer, batch


def add(frame, boxes, scores=None, labels=None, **more):
    count = len(boxes)
    scores = np.full(count, 0.5, np.float32) if scores is None else np.asarray(scores, np.float32)
    labels = labels or ["car"] * count
    boxes = np.asarray(boxes, np.float32).reshape(-1, 4)
    return bulk.write_objects(frame, boxes, scores, np.arange(count, dtype=np.int32), labels, unique_id=7, **more)


def in_python(batch):
    """The messages of every frame, as Python makes them."""
    return [
        message
        for frame in batch.frames
        for message in messages(read_frame(frame, tuple(SIZES[frame.batch_id].tolist())), Per.FRAME)
    ]


def in_c(batch, **options):
    options = {"frame_interval": 1, "empty_frames": True, "component_id": 0} | options
    return attach_plain(batch, SIZES, **options).tolist()


def same(fill, frames=1):
    _held, batch = make(fill, frames)
    expected = in_python(batch)
    assert in_c(batch) == [Outcome.TOLD] * frames
    assert read_payloads(batch) == expected


def test_numbers_of_every_size_are_written_alike():
    random = np.random.default_rng(0)
    decimals = np.array([10.0**n for n in range(-20, 30)], np.float32)
    values = np.concatenate(
        [
            np.abs(random.integers(1, 0x7F800000, 3000, dtype=np.int32).view(np.float32)),
            random.uniform(0, 4000, 3000).astype(np.float32),
            random.uniform(0, 1, 1000).astype(np.float32),
            np.round(random.uniform(0, 2000, 1000), 2).astype(np.float32),
            np.arange(0, 500, dtype=np.float32),
            decimals,
        ]
    )
    boxes = values[: len(values) // 4 * 4].reshape(-1, 4)
    same(lambda frames: add(frames[0], boxes, scores=values[: len(boxes)]))


def test_powers_of_two_are_the_same_numbers():
    """Of some, numpy finds a form that is one digit shorter."""
    powers = (np.float32(2.0) ** np.arange(-148, 128, dtype=np.float32)).reshape(-1, 4)
    _held, batch = make(lambda frames: add(frames[0], powers))
    (expected,) = in_python(batch)
    in_c(batch)
    (found,) = read_payloads(batch)
    assert len(found) <= len(expected) + len(powers)
    assert [np.float32(item["box"]).tolist() for item in json.loads(found)["objects"]] == powers.tolist()


def test_every_field_of_objects_is_told_alike():
    def fill(frames):
        first = add(frames[0], [(1, 2, 3.5, 4), (5, 6, 7, 8), (0, 0, 1, 1)], rotation=[0, -12.5, 359.75])
        inner = add(frames[0], [(1.25, 2, 1, 1)], parents=first[:1])
        assert len(inner) == 1
        for number, item in enumerate(frames[0].objects):
            item.object_id = 2**63 * (number % 2) + number
        frames[0].objects[1].confidence = -0.1
        ctypes.c_float.from_address(frames[0].objects[2]._field("confidence")).value = float("nan")
        frames[0].objects[3].class_id = -1

    same(fill)


def test_untracked_objects_have_no_id():
    same(lambda frames: add(frames[0], [(1, 2, 3, 4)]))


@pytest.mark.parametrize(
    "label", ['a "quoted" one', "back\\slash", "tab\tline\nfeed\r\f\b", "\x01\x1f\x7f", "Straße 人", ""]
)
def test_labels_are_escaped_alike(label):
    same(lambda frames: add(frames[0], [(1, 2, 3, 4)], labels=[label]))


def test_frames_are_told_alike():
    def fill(frames):
        frames[0].ntp_timestamp = 1_769_851_800_480_000_000
        frames[0].source_width, frames[0].source_height = 1280, 720
        frames[1].buf_pts = 2**64 - 1
        frames[1].infer_done = True
        frames[2].ntp_timestamp = 2**64 - 1
        add(frames[2], [(1, 2, 3, 4)])

    same(fill, frames=3)


def test_frames_that_carry_more_are_left():
    def fill(frames):
        add(frames[0], [(1, 2, 3, 4)])
        frames[0].objects[0].add_classifier(2, "color").add_label("red")
        add(frames[1], [(1, 2, 3, 4)])
        user_meta.attach_text(frames[2], "TEST.NOTE", "1")

    _held, batch = make(fill, frames=3)
    assert in_c(batch) == [Outcome.LEFT, Outcome.TOLD, Outcome.LEFT]


def test_objects_with_user_metadata_are_left():
    def fill(frames):
        add(frames[0], [(1, 2, 3, 4)])
        user_meta.attach_text(frames[0].objects[0], "TEST.NOTE", "1")

    _held, batch = make(fill)
    assert in_c(batch) == [Outcome.LEFT]


def test_intervals_and_empty_frames():
    _held, batch = make(lambda frames: add(frames[0], [(1, 2, 3, 4)]), frames=3)
    assert in_c(batch, frame_interval=6, empty_frames=False) == [Outcome.TOLD, Outcome.NOT_DUE, Outcome.EMPTY]
    assert len(read_payloads(batch)) == 1


def test_a_frame_without_a_surface_is_left():
    _held, batch = make(lambda frames: None, frames=4, capacity=4)
    assert in_c(batch) == [Outcome.TOLD] * 3 + [Outcome.LEFT]


def test_the_component_is_written():
    _held, batch = make(lambda frames: None)
    in_c(batch, component_id=5)
    assert read_payloads(batch, component_id=4) == []
    assert len(read_payloads(batch, component_id=5)) == 1
