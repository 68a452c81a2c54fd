"""DeepStream's schemas beyond the golden samples: values that no sample has."""

import json
import math
import uuid

import pytest

from sluice.messages import deepstream_minimal, deepstream_protobuf
from sluice.messages.deepstream_config import Configuration
from sluice.messages.deepstream_full import FullSchema
from sluice.messages.deepstream_json import number, pretty
from sluice.messages.deepstream_objects import SeenClassifier, SeenObject
from sluice.messages.event_meta import EventRecord, ObjectType, Tracking3D


def full(event):
    return json.loads(FullSchema(Configuration(), lambda _: None).event(event))


def line(event):
    return json.loads(deepstream_minimal.event_message([event], 1, None, "s"))["objects"][0]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.0"),
        (0.9, "0.90000000000000002"),
        (1e20, "1e+20"),
        (-3.0, "-3.0"),
        (float("nan"), "null"),
        (math.inf, "null"),
    ],
)
def test_numbers_have_a_point_or_an_exponent(value, text):
    assert number(value) == text


def test_the_layout_is_that_of_json_glib():
    value = {"a": {}, "b": [], "c": [1, {"d": None}], "e": {"f": {}, "g": 'x\n"\\é'}}
    assert pretty(value).splitlines() == [
        "{",
        '  "a" : {  },',
        '  "b" : [],',
        '  "c" : [',
        "    1,",
        "    {",
        '      "d" : null',
        "    }",
        "  ],",
        '  "e" : {',
        '    "f" : {    },',
        '    "g" : "x\\n\\"\\\\é"',
        "  }",
        "}",
    ]
    assert json.loads(pretty(value)) == value


def test_ids_are_random_uuids():
    ids = [full(EventRecord())[name] for name in ("messageid", "event") for _ in range(50)]
    ids = [value if isinstance(value, str) else value["id"] for value in ids]
    assert len(set(ids)) == 100
    assert all(uuid.UUID(value).version == 4 and uuid.UUID(value).variant == uuid.RFC_4122 for value in ids)
    assert all(str(uuid.UUID(value)) == value for value in ids)


def test_boxes_that_are_no_numbers_do_not_break_the_message():
    event = EventRecord(box=(math.nan, -math.inf, 1.0, 2.0))
    assert full(event)["object"]["bbox"] == {
        "topleftx": None,
        "toplefty": None,
        "bottomrightx": None,
        "bottomrighty": None,
    }
    assert line(event).startswith("0|nan|-inf|")


def test_a_description_that_is_null_is_empty():
    event = EventRecord(object_type=ObjectType.PERSON, described=True)
    assert full(event)["object"]["person"] == {}
    assert line(event) == "0|0|0|0|0|Person|0"


def test_descriptions_of_types_without_one_are_left_out():
    event = EventRecord(object_type=ObjectType.BAG, described=True)
    assert "bag" not in full(event)["object"]
    assert line(event) == "0|0|0|0|0|Bag|0"


def test_the_minimal_line_of_a_face_has_an_empty_field():
    told = {
        "gender": "f",
        "hair": None,
        "cap": "",
        "glasses": "y",
        "facialhair": "n",
        "name": "Ann",
        "eyecolor": "green",
    }
    event = EventRecord(object_type=ObjectType.FACE, described=True, description={**told, "age": 30})
    assert line(event) == "0|0|0|0|0|Face|#|f|30|||y|n|Ann||green|0"


def test_embeddings_and_tracking_follow_the_confidence():
    tracked = Tracking3D(0.5, (1.0, 2.0), (3.0, 4.0), [7, 8])
    event = EventRecord(confidence=0.5, embedding=[0.5, 1234567.0], tracking3d=tracked)
    assert line(event) == (
        "0|0|0|0|0|Vehicle|#|||||||0.5|#|embedding|0.5,1.23457e+06|"
        "#|SV3DT|0.500000|1.000000,2.000000|3.000000,4.000000|7,8|"
    )


def test_key_points_of_an_unknown_pose_and_beyond_the_names_are_left_out():
    joints = [(1.0, 2.0, 3.0, 0.5)] * 40
    assert full(EventRecord(object_type=ObjectType.PERSON, joints=joints, pose_type=9))["object"]["pose"] == {}
    assert len(full(EventRecord(joints=joints, pose_type=1))["object"]["pose"]) == 34
    frame = deepstream_protobuf.frame_class().FromString(
        deepstream_protobuf.event_message([EventRecord(joints=joints, pose_type=0)], 1, None, "s")
    )
    assert len(frame.objects[0].pose.keypoints) == 18
    assert list(frame.objects[0].pose.keypoints[0].coordinates) == [1.0, 2.0, 0.5]


def test_protobuf_carries_embeddings_and_refuses_a_time_that_is_none():
    message = deepstream_protobuf.event_message([EventRecord(embedding=[0.5, -1.0])], 1, None, "s")
    frame = deepstream_protobuf.frame_class().FromString(message)
    assert list(frame.objects[0].embedding.vector) == [0.5, -1.0]
    assert not frame.HasField("timestamp")
    with pytest.raises(ValueError, match="timestamp"):
        deepstream_protobuf.event_message([], 1, "yesterday", "s")


def test_a_label_that_is_a_members_name_does_not_break_the_message():
    seen = SeenObject(1, "bbox", 0.5, (1.0, 2.0, 3.0, 4.0), [SeenClassifier("color", [])])
    made = json.loads(FullSchema(Configuration(), lambda _: None).object(seen, 0, "now"))
    assert made["object"]["bbox"]["topleftx"] == 1


def test_groups_that_are_missing_are_told():
    missing = []
    FullSchema(Configuration(), missing.append).event(EventRecord(place_id=1, sensor_id=2, module_id=3))
    assert missing == ["place1", "sensor2", "analytics3"]
