"""sluicemsgconv against what nvmsgconv itself made of the same metadata: every golden sample, to the letter."""

import base64
import ctypes
import json
import re

import pytest
from google.protobuf.unknown_fields import UnknownFieldSet

from data_folders import REFERENCE
from elements.batch_feed import Feed, Gst
from elements.event_samples import Samples
from sluice.contract.metadata import BatchMeta, Lease
from sluice.messages.deepstream_protobuf import frame_class
from sluice.messages.payload import PAYLOAD_META

CASES = sorted(path.stem for path in REFERENCE.glob("samples/msgconv/cases/*.json"))

CRASHED = "newapi_minimal_noconfig"
"""nvmsgconv crashes here; a frame without a known sensor gets the one that it has elsewhere."""

_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
_NOW = re.compile(r'"@timestamp" : "\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"')


@pytest.fixture
def case(request, reference):
    return json.loads((reference / "samples" / "msgconv" / "cases" / f"{request.param}.json").read_text())


def properties(case, folder):
    words = []
    for name, value in case["element_properties"].items():
        text = str(folder / value) if name == "config" else str(value).lower()
        words.append(f"{name}={text}")
    return " ".join(words)


def inputs(case):
    if not case.get("auto_frame_num"):
        return [buffer["frames"] for buffer in case["input_buffers"]]
    (frame,) = case["input_buffers"][0]["frames"]
    return [[{**frame, "frame_num": number}] for number in range(case["num_buffers"])]


def user_metas(buffer):
    """Return the type, and of payloads the bytes and the component id, of the user metas of each frame."""
    with Lease() as lease:
        return [
            [(user.meta_type, payload(user) if user.meta_type == PAYLOAD_META else None) for user in frame.user_metas]
            for frame in BatchMeta.of(buffer, lease).frames
        ]


def payload(user):
    address = ctypes.c_size_t.from_address(user.data).value
    size, component = (ctypes.c_uint32 * 2).from_address(user.data + 8)
    return ctypes.string_at(address, size), component


def plain(text, new_api):
    """Return a message with what differs from run to run taken out: ids made up on the way and the wall clock."""
    text = _UUID.sub("<uuid>", text)
    return _NOW.sub('"@timestamp" : "<now>"', text) if new_api else text


def compare(found, component, expected, case):
    new_api = case["element_properties"].get("msg2p-newapi", False)
    assert component == expected["componentId"]
    if "payload_text" in expected:
        assert plain(found.decode(), new_api) == plain(expected["payload_text"], new_api)
        assert len(found) == expected["payloadSize"]
        assert json.loads(found).keys() == expected["payload_json"].keys()
    elif case["element_properties"]["payload-type"] == 2:
        ours, theirs = map(frame_class().FromString, (found, base64.b64decode(expected["payload_b64"])))
        assert not any(len(UnknownFieldSet(part)) for part in (theirs, *theirs.objects))
        if new_api:
            ours.ClearField("timestamp")
            theirs.ClearField("timestamp")
        assert ours == theirs
    else:
        assert found == base64.b64decode(expected["payload_b64"])


def run(case, folder):
    """Return the frames' user metas of each buffer behind the element."""
    samples, found = Samples(), []
    feed = Feed(f"sluicemsgconv {properties(case, folder)}")
    feed.source.set_caps(Gst.Caps.from_string(f"{case['caps']},framerate=25/1"))
    with feed:
        for frames in inputs(case):
            held = [samples.buffer(frames)]
            feed.give(held)
            sample = feed.sink.try_pull_sample(10 * Gst.SECOND)
            assert sample is not None, feed.error()
            found.append(user_metas(sample.get_buffer()))
            del sample
    return found


@pytest.mark.skipif(not CASES, reason=f"no reference samples at {REFERENCE} (set SLUICE_TEST_REFERENCE)")
@pytest.mark.parametrize("case", CASES, indirect=True)
def test_messages_are_those_of_nvmsgconv(case, reference):
    folder, observed = reference / "samples" / "msgconv" / "config", case["observed"]
    if observed["exit_code"] == 0 and observed["status"]["state_change"] == "failure":
        assert "config" in Feed(f"sluicemsgconv {properties(case, folder)}").refusal().message
        return
    found = run(case, folder)
    if case["name"] == CRASHED:
        (((_, (message, _)),),) = found[0]
        assert json.loads(message)["sensorId"] == "0"
        assert len(json.loads(message)["objects"]) == 2
        return
    expected = [[frame["user_meta"] for frame in buffer["frames"]] for buffer in observed["buffers"]]
    assert [[[kind for kind, _ in frame] for frame in buffer] for buffer in found] == [
        [[user["meta_type"] for user in frame] for frame in buffer] for buffer in expected
    ]
    for frames, wanted in zip(found, expected, strict=True):
        for frame, users in zip(frames, wanted, strict=True):
            for (_, made), user in zip(frame, users, strict=True):
                if made is not None:
                    compare(*made, user, case)
