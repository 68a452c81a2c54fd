"""sluicemsgconv's properties of nvmsgconv: what they do, and what is refused or warned of by name."""

import json

import numpy as np
import pytest

from elements.batch_feed import Feed, Given, Gst, make_buffer
from elements.event_samples import Samples
from elements.test_msgconv import DOG, PERSON, push_with, told
from sluice.contract.metadata import BatchMeta, Lease
from sluice.messages import read_payloads

EVENT = {"type": 0, "objType": 1, "trackingId": 7, "ts": "2026-01-02T03:04:05.678Z", "frameId": 3, "sensorStr": "cam"}
FRAME = {
    "frame_num": 3,
    "source_id": 0,
    "source_frame_width": 64,
    "source_frame_height": 64,
    "pipeline_width": 0,
    "pipeline_height": 0,
}
CONFIG = "[sensor0]\nenable=1\nid=CAM_0\n[place0]\nenable=1\nid=P\n[analytics0]\nenable=1\nid=A\n"


@pytest.fixture
def config(tmp_path):
    path = tmp_path / "msgconv.txt"
    path.write_text(CONFIG)
    return path


def payloads(buffer):
    with Lease() as lease:
        return read_payloads(BatchMeta.of(buffer, lease))


def warning(feed):
    message = feed.message(Gst.MessageType.WARNING, 0)
    return message and message.parse_warning()[0].message


@pytest.mark.parametrize(
    ("properties", "words"),
    [
        ("payload-type=256", "payload-type 256 (PAYLOAD_RESERVED) is no schema; it can be 0, 1, 2, 257 or sluice"),
        ("payload-type=0", "payload-type 0 needs config"),
        ("payload-type=PAYLOAD_DEEPSTREAM", "payload-type 0 needs config"),
        ("msg2p-lib=/opt/mine.so", "msg2p-lib is '/opt/mine.so'; message libraries in C are not loaded"),
        ("payload-type=1 per=object", "per is set, but DeepStream's schemas have no such choice"),
        ("payload-type=1 masks=true", "masks is set, but DeepStream's schemas have no such choice"),
        ("payload-type=1 embeddings=true", "embeddings is set, but DeepStream's schemas have no such choice"),
        ("dummy-payload=true", "dummy-payload is for DeepStream's payload-type 1 and 2"),
        ("config=/nowhere/c.txt", "config '/nowhere/c.txt' cannot be read: No such file or directory"),
        ("debug-payload-dir=/nowhere", "debug-payload-dir '/nowhere' is no folder; make it first"),
    ],
)
def test_values_that_cannot_be_used_are_refused_by_name(properties, words):
    assert words in Feed(f"sluicemsgconv {properties}").refusal().message


def test_defaults_can_be_read_and_the_schema_set_by_name():
    with Feed("sluicemsgconv name=c payload-type=PAYLOAD_DEEPSTREAM_MINIMAL") as feed:
        element = feed.get("c")
        assert int(element.get_property("payload-type")) == 1
        assert element.get_property("frame-interval") == 1
        assert element.get_property("config") is None


def test_the_stock_library_and_multiple_payloads_are_accepted():
    library = "/opt/nvidia/deepstream/deepstream/lib/libnvds_msgconv.so"
    with Feed(f"sluicemsgconv msg2p-lib={library} multiple-payloads=true") as feed:
        assert len(told(feed.push(Given([PERSON])))) == 1


def test_a_wrong_key_is_a_warning_with_the_right_one_or_an_error(tmp_path):
    path = tmp_path / "c.txt"
    path.write_text(CONFIG.replace("[sensor0]\n", "[sensor0]\nlocaton=1;2;3\n"))
    words = "[sensor0] has an unknown key 'locaton'"
    with Feed(f"sluicemsgconv config={path}") as feed:
        assert words in warning(feed)
        assert told(feed.push(Given([PERSON])))[0]["sensor"]["id"] == "CAM_0"
    error = Feed(f"sluicemsgconv config={path} strict-config=true").refusal().message
    assert words in error
    assert "did you mean 'location'?" in error


def test_our_messages_tell_sensor_place_and_module(config):
    with Feed(f"sluicemsgconv config={config}") as feed:
        first, second = told(feed.push(Given([PERSON]), Given([DOG], stream=1)))
    assert first["sensor"]["id"] == "CAM_0"
    assert first["place"]["id"] == "P"
    assert first["analytics"]["id"] == "A"
    assert not second.keys() & {"sensor", "place", "analytics"}


def test_groups_that_messages_lack_are_warned_of_once(config):
    with Feed(f"sluicemsgconv config={config} payload-type=1 msg2p-newapi=true") as feed:
        for number in range(3):
            feed.push(Given([PERSON], stream=5, number=number))
        assert "no group [sensor5] with enable=1" in warning(feed)
        assert warning(feed) is None


def test_masks_are_told_where_asked_for():
    def change(batch):
        first = batch.frames[0].objects[1]
        first.mask, first.mask_threshold = np.array([[0.1, 0.9], [0.9, 0.5]], np.float32), 0.5

    for properties, expected in (("", None), ("masks=true", {"size": [2, 2], "counts": [1, 2, 1]})):
        with Feed(f"sluicemsgconv {properties}") as feed:
            (message,) = told(push_with(feed, change, Given([PERSON, DOG])))
        assert message["objects"][0].get("mask") == expected
        assert "mask" not in message["objects"][1]


@pytest.mark.parametrize(("kind", "emitted"), [(1, 1), (2, 1), (0, 0)])
def test_empty_frames_can_be_skipped_in_deepstreams_schemas(config, kind, emitted):
    for words, expected in (("", emitted), ("empty-frames=skip", 0)):
        with Feed(f"sluicemsgconv payload-type={kind} msg2p-newapi=true config={config} {words}") as feed:
            assert len(payloads(feed.push(Given()))) == expected
            assert len(payloads(feed.push(Given([PERSON])))) == 1


def test_what_was_sent_is_written_to_the_debug_folder(tmp_path):
    with Feed(f"sluicemsgconv per=object frame-interval=2 debug-payload-dir={tmp_path}") as feed:
        made = [payloads(feed.push(Given([PERSON, DOG], number=number))) for number in range(4)]
    files = sorted(tmp_path.iterdir())
    assert [file.read_bytes() for file in files] == [b"".join(m + b" \n" for m in group) for group in made if group]
    assert len(files) == 2
    assert all(file.name.endswith("Z.txt") and file.name.startswith("20") for file in files)


def test_objects_without_event_messages_are_told_once():
    with Feed("sluicemsgconv payload-type=1") as feed:
        for number in range(299):
            assert payloads(feed.push(Given([PERSON], number=number))) == []
        assert warning(feed) is None
        feed.push(Given([PERSON], number=299))
        assert "set msg2p-newapi=true" in warning(feed)
        feed.push(Given([PERSON], number=300))
        assert warning(feed) is None


def push_events(feed, *events):
    samples = Samples()
    feed.give([samples.buffer([{**FRAME, "events": events}])])
    sample = feed.sink.try_pull_sample(10 * Gst.SECOND)
    assert sample is not None, feed.error()
    made = payloads(sample.get_buffer())
    del sample
    return made


def events_feed(properties):
    feed = Feed(f"sluicemsgconv {properties}")
    feed.source.set_caps(Gst.Caps.from_string("video/x-raw,format=RGBA,width=64,height=64,framerate=25/1"))
    return feed


def test_a_time_that_is_none_gives_no_protobuf_message_and_a_warning():
    with events_feed("payload-type=2") as feed:
        assert push_events(feed, {**EVENT, "ts": "yesterday"}) == []
        assert "'yesterday' is not of the form" in warning(feed)
        assert len(push_events(feed, EVENT)) == 1


def test_messages_of_events_leave_in_the_order_the_events_were_attached(config):
    with events_feed(f"payload-type=0 config={config}") as feed:
        made = push_events(feed, {**EVENT, "trackingId": 1}, {**EVENT, "trackingId": 2})
    assert [json.loads(message)["object"]["id"] for message in made] == ["1", "2"]


def test_lidar_data_are_refused_by_name():
    feed = Feed("sluicemsgconv payload-type=1")
    feed.source.set_caps(Gst.Caps.from_string("ds3d/datamap"))
    with feed:
        feed.give([Gst.Buffer.new()])
        assert "sluicemsgconv makes no messages of ds3d/datamap" in feed.error(10)


def test_event_messages_of_pyservicemaker_become_messages(config):
    from sluice.pyservicemaker import Buffer

    buffer = make_buffer([Given([PERSON], number=9)])
    batch = Buffer(buffer).batch_meta
    for frame in batch.frame_items:
        for item in frame.object_items:
            message = batch.acquire_event_message_meta()
            message.generate(item, frame, sensor="lobby", labels=["person"])
            frame.append(message)
            del message, item
        del frame
    del batch
    held = [buffer]
    del buffer
    with Feed(f"sluicemsgconv payload-type=1 config={config}") as feed:
        feed.give(held)
        (made,) = payloads(feed.sink.try_pull_sample(10 * Gst.SECOND).get_buffer())
    told_of_it = json.loads(made)
    assert told_of_it["sensorId"] == "lobby"
    assert told_of_it["id"] == "9"
    assert told_of_it["objects"] == ["18446744073709551615|10|8|30|38|Person|#|||||||0.875"]
