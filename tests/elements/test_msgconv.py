"""sluicemsgconv: what it attaches to frames, and what is refused."""

import ctypes
import json

import pytest

from elements.batch_feed import HEIGHT, WIDTH, Feed, Given, Gst, grey
from sluice.contract import batching, bulk, gstref, infer_meta, user_meta
from sluice.contract.metadata import BatchMeta, Lease
from sluice.messages import attach_payloads, read_payloads
from sluice.messages.payload import PAYLOAD_META

PERSON = [10.0, 8.0, 20.0, 30.0, 0.875]
DOG = [30.0, 5.0, 10.5, 12.0, 0.5]


def told(buffer, **options):
    with Lease() as lease:
        return [json.loads(message) for message in read_payloads(BatchMeta.of(buffer, lease), **options)]


def push_with(feed, change, *frames):
    """Push a batch after ``change(batch)`` has added to its metadata."""
    from elements.batch_feed import make_buffer

    buffer = make_buffer(frames)
    with Lease() as lease:
        change(BatchMeta.of(buffer, lease))
    held = [buffer]
    del buffer
    feed.give(held)
    return feed.sink.try_pull_sample(10 * Gst.SECOND).get_buffer()


def test_one_message_per_frame_of_the_batch():
    with Feed("sluicemsgconv name=c") as feed:
        buffer = feed.push(
            Given([PERSON, DOG], number=5, pts=40, ntp=1_769_851_800_480_000_000, class_ids=[0, 16]),
            Given(stream=3, number=9, seen=False),
        )
        assert feed.get("c").get_property("stats").get_value("messages") == 2
    first, second = told(buffer)
    assert first == {
        "version": "sluice/1",
        "stream": 0,
        "frame": 5,
        "pts": 40,
        "utc": "2026-01-31T09:30:00.480Z",
        "width": WIDTH,
        "height": HEIGHT,
        "source_width": WIDTH,
        "source_height": HEIGHT,
        "inferred": True,
        "objects": [
            {"label": "person", "class_id": 0, "confidence": 0.875, "component": 3, "box": PERSON[:4]},
            {"label": "person", "class_id": 16, "confidence": 0.5, "component": 3, "box": DOG[:4]},
        ],
    }
    assert (second["stream"], second["frame"], second["inferred"], second["objects"]) == (3, 9, False, [])
    assert second["pts"] is None


@pytest.mark.parametrize(
    "properties", ["", "per=object", "masks=true"], ids=["whole batches", "per object", "one by one"]
)
def test_what_is_known_of_a_stream_is_told_and_can_change_while_playing(properties):
    with Feed(f"sluicemsgconv name=c {properties}") as feed:
        converter = feed.get("c")
        converter.set_property("stream-members", '{"0": {"name": "gäte", "epoch": 7}, "3": {"name": "door"}}')
        first = told(feed.push(Given([PERSON]), Given([DOG], stream=3), Given([DOG], stream=4)))
        assert [(m.get("name"), m.get("epoch")) for m in first] == [("gäte", 7), ("door", None), (None, None)]
        converter.set_property("stream-members", '{"0": {"name": "gäte", "epoch": 8}}')
        assert [m.get("epoch") for m in told(feed.push(Given([PERSON]), Given([DOG], stream=3)))] == [8, None]
        converter.set_property("stream-members", r'{"0": {"name": "caf\udce9"}}')
        assert [m["name"] for m in told(feed.push(Given([PERSON])))] == ["caf\udce9"]


def test_ids_and_angles_come_from_the_tracker_and_the_detector():
    with Feed("sluicetracker ! sluicemsgconv") as feed:
        feed.push(Given([PERSON], rotation=[30.0]))
        (message,) = told(feed.push(Given([PERSON], number=1, rotation=[30.0])))
        assert (message["objects"][0]["id"], message["objects"][0]["angle"]) == (0, 30.0)
        (message,) = told(feed.push(Given(number=2, seen=False)))
        assert message["objects"][0]["predicted"] is True
        assert message["objects"][0]["id"] == 0


def test_attributes_parents_and_user_values_are_told():
    def change(batch):
        frame = batch.frames[0]
        outer, inner = reversed(frame.objects)
        inner.parent = outer
        color = inner.add_classifier(4, "color")
        color.add_label("red", class_id=1, probability=0.75)
        color.add_label("bright", class_id=2, probability=0.5)
        user_meta.attach_json(inner, "TEST.A", {"speed": 3})
        user_meta.attach_text(inner, "TEST.A", "just words")
        user_meta.attach_json(frame, "TEST.B", {"shop": [1, None]})
        user_meta.attach_bytes(frame, "TEST.C", b"not told")

    with Feed("sluicemsgconv") as feed:
        (message,) = told(push_with(feed, change, Given([PERSON, DOG])))
    inner = message["objects"][1]
    assert inner["parent"] == 0
    assert inner["attributes"] == [
        {"type": "color", "label": "red", "class_id": 1, "confidence": 0.75},
        {"type": "color", "label": "bright", "class_id": 2, "confidence": 0.5},
    ]
    assert inner["user"] == [{"speed": 3}, "just words"]
    assert message["user"] == [{"shop": [1, None]}]
    assert message["objects"][0].keys() == {"label", "class_id", "confidence", "component", "box"}


@pytest.mark.parametrize("text", ["1e999", '{"a": -1e400}', "NaN", "[" * 100_000])
def test_user_texts_that_json_cannot_hold_are_told_as_texts(text):
    with Feed("sluicemsgconv") as feed:
        (message,) = told(push_with(feed, lambda b: user_meta.attach_text(b.frames[0], "TEST.A", text), Given()))
    assert message["user"] == [text]


def test_one_message_per_object_in_their_order():
    with Feed("sluicemsgconv per=object") as feed:
        found = told(feed.push(Given([PERSON, DOG])))
        assert [message["object"]["box"] for message in found] == [PERSON[:4], DOG[:4]]
        assert told(feed.push(Given()))[0]["object"] is None


def test_empty_frames_can_be_skipped():
    with Feed("sluicemsgconv empty-frames=skip name=c") as feed:
        assert told(feed.push(Given())) == []
        assert len(told(feed.push(Given([PERSON])))) == 1
        assert feed.get("c").get_property("stats").get_value("skipped") == 1


def test_only_every_nth_frame_number_gives_a_message():
    with Feed("sluicemsgconv frame-interval=3") as feed:
        sent = [len(told(feed.push(Given([PERSON], number=number)))) for number in range(7)]
    assert sent == [1, 0, 0, 1, 0, 0, 1]


def test_messages_are_payloads_as_nvidias_broker_reads_them():
    with Feed("sluicemsgconv comp-id=5") as feed:
        buffer = feed.push(Given([PERSON]))
    with Lease() as lease:
        (user,) = BatchMeta.of(buffer, lease).frames[0].user_metas
        assert user.meta_type == PAYLOAD_META == 8
        assert user.copy_func
        assert user.release_func
        address, size, component = (ctypes.c_uint64 * 3).from_address(user.data)[0], *_two(user.data + 8)
        assert component == 5
        assert ctypes.string_at(address, size) == read_payloads(BatchMeta.of(buffer, lease))[0]
    assert len(told(buffer, component_id=5)) == 1
    assert told(buffer, component_id=6) == []


def _two(address):
    return tuple((ctypes.c_uint32 * 2).from_address(address))


def test_messages_survive_a_copy_of_the_buffer_and_its_end():
    with Feed("sluicemsgconv per=object") as feed:
        buffer = feed.push(Given([PERSON, DOG]))
    before = told(buffer)
    copied = buffer.copy_deep()
    del buffer
    # A copied batch has its lists in the other order; that is how the providers copy.
    assert sorted(map(json.dumps, told(copied))) == sorted(map(json.dumps, before))


def test_the_order_of_messages_is_kept_and_empty_ones_are_not_attached():
    buffer = batching.make_batch([grey()], 1)
    with Lease() as lease:
        batch = BatchMeta.attach(buffer, 1, lease)
        import numpy as np

        bulk.fill_frames(batch, np.zeros(1, bulk.FRAME_ROW))
        attach_payloads(batch.frames[0], [b"one", b"", b"two\0x"])
        attach_payloads(batch.frames[0], [])
        assert read_payloads(batch) == [b"one", b"two\0x"]


def test_the_buffer_goes_on_untouched():
    seen = []

    def note(pad, info):
        seen.append(gstref.address(info.get_buffer()))
        return Gst.PadProbeReturn.OK

    with Feed("tee name=tee tee. ! fakesink async=false tee. ! sluicemsgconv name=c") as feed:
        for name in ("sink", "src"):
            feed.get("c").get_static_pad(name).add_probe(Gst.PadProbeType.BUFFER, note)
        feed.push(Given([PERSON]))
    assert len(seen) == 2
    assert seen[0] == seen[1]


@pytest.mark.parametrize(
    ("properties", "words"),
    [
        ("per=batch", "per is 'batch'; it can be frame or object"),
        ("empty-frames=drop", "empty-frames is 'drop'; it can be emit or skip"),
    ],
)
def test_wrong_properties_are_refused_by_name(properties, words):
    assert words in Feed(f"sluicemsgconv {properties}").refusal().message


def test_a_buffer_without_metadata_is_an_error_that_says_what_is_missing():
    with Feed("sluicemsgconv") as feed:
        feed.give([batching.make_batch([grey()], 1)])
        assert "sluicemux or sluiceinfer must stand before sluicemsgconv" in feed.error(10)


@pytest.mark.parametrize(("properties", "told_embeddings"), [("", False), ("embeddings=true", True)])
def test_what_holds_for_the_frame_is_told(properties, told_embeddings):
    def change(batch):
        (frame,) = batch.frames
        infer_meta.attach_segmentation(frame, [[2, 2, -1, 0], [2, 2, 2, 0]], classes=3, unique_id=6)
        infer_meta.attach_embeddings(frame, [0.25, -1.5], unique_id=5)
        infer_meta.attach_keypoints(frame, [[12.5, 9, 0.1]], unique_id=4)

    with Feed(f"sluicemsgconv {properties}") as feed:
        ((message,),) = (told(push_with(feed, change, Given([PERSON]))),)
    classes = [{"class_id": 2, "share": 0.625}, {"class_id": 0, "share": 0.25}]
    assert message["segmentations"] == [{"component": 6, "size": [2, 4], "classes": classes}]
    assert message["keypoints"] == [{"component": 4, "points": [[12.5, 9.0, 0.1]]}]
    assert message.get("embeddings") == ([{"component": 5, "vector": [0.25, -1.5]}] if told_embeddings else None)
    assert not {"segmentations", "keypoints", "embeddings"} & message["objects"][0].keys()


@pytest.mark.parametrize(("properties", "told_embeddings"), [("", False), ("embeddings=true", True)])
def test_key_points_are_told_and_embeddings_where_asked_for(properties, told_embeddings):
    def change(batch):
        (frame,) = batch.frames
        second, first = frame.objects
        infer_meta.attach_keypoints(first, [[12.5, 9, 0.1], [13, 10, 1]], unique_id=4)
        infer_meta.attach_embeddings(second, [0.25, -1.5], unique_id=5)

    with Feed(f"sluicemsgconv {properties}") as feed:
        ((message,),) = (told(push_with(feed, change, Given([PERSON, DOG]))),)
    first, second = message["objects"]
    assert first["keypoints"] == [{"component": 4, "points": [[12.5, 9.0, 0.1], [13.0, 10.0, 1.0]]}]
    assert "keypoints" not in second
    assert second.get("embeddings") == ([{"component": 5, "vector": [0.25, -1.5]}] if told_embeddings else None)
    assert "user" not in first
