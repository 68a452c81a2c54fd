"""The JSON Schema of Sluice's messages: it is valid, ours fit it, and others do not."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

import sluice.messages.schema as schema_package
from sluice.contract.answer_meta import Answer
from sluice.messages.deepstream_config import read_configuration
from sluice.messages.schema import Attribute, FrameRecord, Mask, Numbers, ObjectRecord, Per, Shares, messages

jsonschema = pytest.importorskip("jsonschema")

PATH = Path(schema_package.__file__).parent / "sluice-1.json"
VALIDATOR = jsonschema.Draft202012Validator(json.loads(PATH.read_text()))

EVERYTHING = ObjectRecord(
    id=(1 << 64) - 2,
    label="person",
    class_id=0,
    confidence=0.5,
    component=1,
    box=(1.0, 2.0, 3.0, 4.0),
    angle=30.0,
    parent=0,
    mask=Mask(2, 3, [1, 2, 3]),
    attributes=[Attribute("color", "red", 3, 0.8)],
    keypoints=[Numbers(1, np.ones((4, 3), np.float32)), Numbers(None, np.ones((4, 2), np.float32))],
    embeddings=[Numbers(2, np.ones(8, np.float32))],
    user=[{"speed": 3}, "words", None],
)
ANSWERS = [
    Answer(
        2, 3, '{"n": 1}', "json", {"n": 1}, 1, 2, 1_769_851_800_480_000_000, 1_769_851_801_480_000_000, "line:exit", 4
    ),
    Answer(2, 4, "a street"),
    Answer(2, 5, "null", "json", None),
]
OF_FRAME = {
    "keypoints": [Numbers(1, np.ones((4, 3), np.float32))],
    "embeddings": [Numbers(2, np.ones(8, np.float32))],
    "segmentations": [Shares.of(3, np.array([[0, 0, -1], [2, 2, 2]], np.int32))],
}
LITTLE = ObjectRecord((1 << 64) - 1, "", -1, -0.1, 1, (float("nan"), 0.0, 1.0, 2.0))
ABOUT = {
    "sensor": {
        "id": "CAM_0",
        "type": "Camera",
        "description": "Gate",
        "location": {"lat": 1.0, "lon": 2.0, "alt": 3.0},
        "coordinate": {"x": 1.0, "y": 2.0, "z": 3.0},
    },
    "analytics": {"id": "A", "description": "d", "source": "s", "version": "1"},
}


def frame(*objects, **changes):
    values = {"stream": 2, "number": 12, "pts": 480_000_000, "ntp": 1_769_851_800_480_000_000}
    values |= {"width": 1280, "height": 720, "source_width": 1920, "source_height": 1080}
    return FrameRecord(**{**values, "inferred": True, "objects": objects, **changes})


def told(record, per=Per.FRAME, **options):
    return [json.loads(line) for line in messages(record, per, **options)]


def faults(message):
    return [error.message for error in VALIDATOR.iter_errors(message)]


def test_the_schema_is_one():
    jsonschema.Draft202012Validator.check_schema(VALIDATOR.schema)


@pytest.mark.parametrize("per", list(Per))
@pytest.mark.parametrize(
    "record",
    [
        frame(EVERYTHING, LITTLE, user=[1], answers=ANSWERS, **OF_FRAME),
        frame(answers=ANSWERS),
        frame(),
        frame(LITTLE, pts=(1 << 64) - 1, ntp=0, width=0, source_height=0, inferred=False),
    ],
)
def test_messages_fit_the_schema(per, record):
    for message in told(record, per, about=ABOUT):
        assert faults(message) == []


def test_every_member_is_described():
    def members(value):
        found = set()
        for key, item in value.items():
            found.add(key)
            for inner in item if isinstance(item, list) else [item]:
                found |= members(inner) if isinstance(inner, dict) and key not in ("user", "value") else set()
        return found

    def described(value):
        found = set(value.get("properties", {}))
        for item in value.values():
            for inner in item if isinstance(item, list) else [item]:
                found |= described(inner) if isinstance(inner, dict) else set()
        return found

    (message,) = told(frame(EVERYTHING, LITTLE, user=[1], answers=ANSWERS, **OF_FRAME), about=ABOUT)
    free = {"lat", "lon", "alt", "x", "y", "z", "source"}
    assert members(message) - free <= described(VALIDATOR.schema)


@pytest.mark.parametrize(
    "change",
    [
        {"version": "sluice/2"},
        {"stream": "2"},
        {"utc": "2026-01-31 09:30"},
        {"object": None},
        {"inferred": None},
        {"objects": [{"label": "x", "class_id": 0, "component": 1, "box": [1, 2, 3], "confidence": 1}]},
        {"objects": [{"label": "x", "class_id": 0, "component": 1, "box": [1, 2, 3, 4]}]},
        {
            "objects": [
                {"id": (1 << 64) - 1, "label": "", "class_id": 0, "component": 1, "box": [0] * 4, "confidence": 1}
            ]
        },
    ],
)
def test_other_messages_do_not_fit(change):
    (message,) = told(frame(EVERYTHING))
    assert faults({**message, **change})


def test_an_answer_is_told_once_and_with_its_time():
    whole, plain, null = told(frame(EVERYTHING, answers=ANSWERS))[0]["answers"]
    assert whole == {
        "text": '{"n": 1}',
        "mode": "json",
        "value": {"n": 1},
        "segment": 3,
        "cause": "line:exit",
        "pictures": 4,
        "model": "",
        "seconds": 0.0,
        "start_pts": 1,
        "end_pts": 2,
        "start_utc": "2026-01-31T09:30:00.480Z",
        "end_utc": "2026-01-31T09:30:01.480Z",
    }
    assert "value" not in plain
    assert "start_pts" not in plain
    assert null["value"] is None
    per_object = told(frame(EVERYTHING, LITTLE, answers=ANSWERS, **OF_FRAME), Per.OBJECT)
    assert [len(message.get("answers", ())) for message in per_object] == [3, 0]
    assert [[name in message for name in OF_FRAME] for message in per_object] == [[True] * 3, [False] * 3]


@pytest.mark.parametrize("per", list(Per))
def test_an_answer_is_told_of_a_frame_without_objects_too(per):
    (message,) = told(frame(answers=ANSWERS), per, empty_frames=False)
    assert len(message["answers"]) == 3
    assert told(frame(), per, empty_frames=False) == []


def test_a_mask_is_cocos_run_lengths_column_by_column():
    inside = np.array([[0, 1, 1], [0, 0, 1]], bool)
    assert Mask.of(inside) == Mask(2, 3, [2, 1, 1, 2])
    assert Mask.of(~inside).counts == [0, 2, 1, 1, 2]
    assert Mask.of(np.zeros((3, 4), bool)).counts == [12]
    assert Mask.of(np.ones((3, 4), bool)).counts == [0, 12]


def test_masks_read_back():
    random = np.random.default_rng(5)
    for _ in range(50):
        inside = random.random((random.integers(1, 9), random.integers(1, 9))) > random.random()
        mask = Mask.of(inside)
        pixels = np.repeat(np.arange(len(mask.counts)) % 2, mask.counts)
        assert np.array_equal(pixels.reshape(mask.width, mask.height).T, inside)


def test_the_example_of_the_documentation_fits():
    text = (Path(__file__).parents[2] / "docs" / "messages.md").read_text()
    (example,) = re.findall(r"```json\n(.*?)```", text, re.DOTALL)
    assert faults(json.loads(example)) == []


def test_the_configuration_of_the_documentation_is_one(tmp_path):
    text = (Path(__file__).parents[2] / "docs" / "messages.md").read_text()
    (example,) = re.findall(r"```ini\n(.*?)```", text, re.DOTALL)
    path = tmp_path / "msgconv.txt"
    path.write_text(example)
    found = read_configuration(path)
    assert found.warnings == []
    assert (found.sensors[0].id, found.places[0].id, found.analytics[0].id) == ("CAM_0", "P0", "A0")
