"""The message format, member by member."""

import json

import numpy as np
import pytest

from sluice.messages import Attribute, FrameRecord, Numbers, ObjectRecord, Per, messages
from sluice.messages.schema import UNTRACKED_OBJECT_ID, encode, utc_text

NONE = 0xFFFFFFFFFFFFFFFF


def person(**changes):
    values = {"id": 7, "label": "person", "class_id": 0, "confidence": np.float32(0.9), "component": 1}
    return ObjectRecord(**{**values, "box": np.array([100.25, 50, 40, 120.1], dtype=np.float32), **changes})


def frame(*objects, **changes):
    values = {"stream": 2, "number": 12, "pts": 480_000_000, "ntp": 0, "width": 1280, "height": 720}
    values |= {"source_width": 1920, "source_height": 1080, "inferred": True, "objects": objects}
    return FrameRecord(**{**values, **changes})


def parsed(record, per=Per.FRAME, **options):
    return [json.loads(line) for line in messages(record, per, **options)]


def test_the_whole_message_of_a_frame():
    (message,) = parsed(frame(person()))
    assert message == {
        "version": "sluice/1",
        "stream": 2,
        "frame": 12,
        "pts": 480_000_000,
        "width": 1280,
        "height": 720,
        "source_width": 1920,
        "source_height": 1080,
        "inferred": True,
        "objects": [
            {
                "id": 7,
                "label": "person",
                "class_id": 0,
                "confidence": 0.9,
                "component": 1,
                "box": [100.25, 50.0, 40.0, 120.1],
            }
        ],
    }


def test_messages_are_one_line_of_compact_utf8():
    (line,) = messages(frame(person(label='fußgänger\n"x" 人')), Per.FRAME)
    assert b"\n" not in line
    assert b'"label":"fu\xc3\x9fg\xc3\xa4nger\\n\\"x\\" \xe4\xba\xba"' in line


def test_text_that_is_not_unicode_is_escaped():
    assert json.loads(encode("a\udc80b")) == "a\udc80b"


def test_what_is_not_known_is_absent():
    (message,) = parsed(frame(person(id=UNTRACKED_OBJECT_ID), pts=NONE, width=0, source_height=0))
    assert message["pts"] is None
    assert message.keys() == {"version", "stream", "frame", "pts", "inferred", "objects"}
    assert "id" not in message["objects"][0]


@pytest.mark.parametrize("number", [0, 1 << 53 | 1, (1 << 64) - 2])
def test_ids_are_exact_to_64_bits(number):
    (line,) = messages(frame(person(id=np.uint64(number))), Per.FRAME)
    assert f'"id":{number},'.encode() in line


def test_what_is_known_of_an_object_is_told():
    red = Attribute("color", "red", 3, np.float32(0.8))
    wheel = person(angle=np.float32(-12.5), parent=1, attributes=[red], user=[{"speed": 3}])
    (message,) = parsed(frame(wheel, person(), ntp=1_769_851_800_480_999_999, user=[{"shop": 4}], inferred=False))
    assert message["utc"] == "2026-01-31T09:30:00.480Z"
    assert message["user"] == [{"shop": 4}]
    assert message["inferred"] is False
    told = message["objects"][0]
    assert (told["angle"], told["parent"], told["user"]) == (-12.5, 1, [{"speed": 3}])
    assert told["attributes"] == [{"type": "color", "label": "red", "class_id": 3, "confidence": 0.8}]


def test_a_prediction_of_the_tracker_is_not_a_detection():
    (message,) = parsed(frame(person(confidence=np.float32(-0.1))))
    assert message["objects"][0]["predicted"] is True
    assert "confidence" not in message["objects"][0]


def test_numbers_that_json_has_not_are_null():
    (message,) = parsed(frame(person(confidence=np.float32("nan"), box=np.array([np.inf, 0, 1, 2], np.float32))))
    assert message["objects"][0]["confidence"] is None
    assert message["objects"][0]["box"] == [None, 0.0, 1.0, 2.0]


def test_floats_read_back_as_the_same_floats():
    box = np.random.default_rng(1).uniform(-10, 4000, 4).astype(np.float32)
    (message,) = parsed(frame(person(box=box)))
    assert np.array_equal(np.array(message["objects"][0]["box"], dtype=np.float32), box)


def test_one_message_per_object_in_their_order():
    told = parsed(frame(person(id=1, parent=1), person(id=2), user=["x"]), Per.OBJECT)
    assert [message["object"]["id"] for message in told] == [1, 2]
    assert all(message["frame"] == 12 and message["user"] == ["x"] for message in told)
    assert all("objects" not in message and "parent" not in message["object"] for message in told)


def test_frames_without_objects_are_told_or_skipped():
    assert parsed(frame())[0]["objects"] == []
    assert parsed(frame(), Per.OBJECT)[0]["object"] is None
    assert parsed(frame(), empty_frames=False) == []
    assert parsed(frame(), Per.OBJECT, empty_frames=False) == []


def test_utc_is_cut_to_milliseconds():
    assert utc_text(0) == "1970-01-01T00:00:00.000Z"
    assert utc_text(1_769_851_800_999_999_999) == "2026-01-31T09:30:00.999Z"


def test_key_points_and_embeddings():
    points = np.array([[1.5, 2, 0.1], [3, np.nan, 1]], np.float32)
    vectors = [Numbers(2, np.array([0.1, -1], np.float32)), Numbers(None, np.array([7], np.float32))]
    ((message,),) = (parsed(frame(person(keypoints=[Numbers(1, points)], embeddings=vectors))),)
    (found,) = message["objects"]
    assert found["keypoints"] == [{"component": 1, "points": [[1.5, 2.0, 0.1], [3.0, None, 1.0]]}]
    assert found["embeddings"] == [{"component": 2, "vector": [0.1, -1.0]}, {"vector": [7.0]}]
