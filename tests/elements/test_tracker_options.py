"""sluicetracker as nvtracker is set up: its configuration files and events, lists of targets, embeddings."""

import numpy as np
import pytest

from elements.batch_feed import Feed, Given, Gst, make_buffer, objects
from elements.test_tracker import PERSON, UNTRACKED, ids, stats
from sluice.contract import bulk, infer_meta
from sluice.contract.metadata import BatchMeta, Lease
from sluice.contract.target_meta import TargetList, TrackerState, read_targets
from sluice.elements import events
from sluice.pyservicemaker import Buffer
from sluice.pyservicemaker._pydeepstream import TrackerPastFrameUserMetadata

PAST_FRAMES = 15
ALL_LISTS = "output-past-frames=true output-shadow-tracks=true output-terminated-tracks=true"


def warning(feed):
    message = feed.message(Gst.MessageType.WARNING | Gst.MessageType.ERROR)
    assert message is not None
    assert message.type == Gst.MessageType.WARNING
    return message.parse_warning()[0].message


def targets(buffer, kind):
    with Lease() as lease:
        return read_targets(BatchMeta.of(buffer, lease), kind)


def with_embeddings(frame, vectors, unique_id=5):
    """Return a batch whose objects carry embeddings, as a sluiceinfer that works on objects leaves them."""
    buffer = make_buffer([frame])
    with Lease() as lease:
        meta = BatchMeta.of(buffer, lease).frames[0]
        addresses = bulk.read_objects(meta).address[::-1].copy()
        infer_meta.attach_embeddings(meta, np.asarray(vectors, np.float32), unique_id=unique_id, addresses=addresses)
    return buffer


def test_past_frames_shadow_and_terminated_tracks_are_told():
    options = "tracker-options=minimum_consecutive_frames=3,lost_track_buffer=1"
    with Feed(f"sluicetracker {ALL_LISTS} {options}") as feed:
        buffers = [
            feed.push(Given([PERSON] if shown else [], stream=4, number=number))
            for number, shown in enumerate([True, True, True, False, True, False, False, False])
        ]
        (stream,) = targets(buffers[2], TargetList.PAST_FRAMES)
        (person,) = stream.targets
        assert (stream.stream, person.id, person.label, person.class_id) == (4, 0, "person", 0)
        assert [frame.number for frame in person.frames] == [0, 1]
        assert {frame.state for frame in person.frames} == {TrackerState.TENTATIVE}
        assert person.frames[0].box == tuple(PERSON[:4])
        (stream,) = targets(buffers[3], TargetList.SHADOW)
        assert [frame.state for frame in stream.targets[0].frames] == [TrackerState.INACTIVE]
        shadowed = [bool(targets(buffer, TargetList.SHADOW)) for buffer in buffers]
        assert shadowed == [False, False, False, True, False, True, False, False]
        ended = [targets(buffer, TargetList.TERMINATED) for buffer in buffers]
        assert [bool(lists) for lists in ended] == [False] * 6 + [True, False]
        assert [frame.number for frame in ended[6][0].targets[0].frames] == [0, 1, 2, 3, 4, 5]


def test_past_frames_are_read_by_code_written_for_nvidias_package():
    with Feed("sluicetracker output-past-frames=true") as feed:
        feed.push(Given([PERSON], number=0))
        buffer = feed.push(Given([PERSON], number=1))
    (user,) = Buffer(buffer).batch_meta.user_meta_items(PAST_FRAMES)
    (stream,) = TrackerPastFrameUserMetadata(user).past_frame_data
    (person,) = stream["objects"]
    assert person["unique_id"] == 0
    assert [(frame["frame_num"], frame["left"]) for frame in person["frames"]] == [(0, PERSON[0])]


def test_tracks_of_a_stream_that_ends_are_told_with_the_next_batch():
    with Feed("sluicetracker output-terminated-tracks=true") as feed:
        for number in range(3):
            feed.push(Given([PERSON], number=number), Given([], stream=1, number=number))
        feed.event(events.stream_eos(0))
        buffer = feed.push(Given([], stream=1, number=3))
        ((stream, (person,)),) = [(lists.stream, lists.targets) for lists in targets(buffer, TargetList.TERMINATED)]
        assert (stream, person.id, len(person.frames)) == (0, 0, 3)
        assert targets(feed.push(Given([], stream=1, number=4)), TargetList.TERMINATED) == []


def test_no_lists_without_the_properties():
    with Feed("sluicetracker") as feed:
        for number in range(3):
            buffer = feed.push(Given([PERSON], number=number))
    assert [targets(buffer, kind) for kind in TargetList] == [[], [], []]


def test_a_configuration_file_of_nvdcf_says_what_takes_its_place(data):
    file = next((data / "nvinfer-configs").rglob("runtime_source_add_delete/tracker_config.yml"))
    library = "/opt/nvidia/deepstream/deepstream/lib/libnvds_nvmultiobjecttracker.so"
    with Feed(f"sluicetracker name=t ll-config-file={file} ll-lib-file={library}") as feed:
        said = warning(feed)
        feed.push(Given([PERSON]))
        # probationAge is 0: an id with the second detection at the latest.
        assert ids(feed.push(Given([PERSON], number=1))) == [0]
    assert "configures NvDCF; tracking with sort (lost_track_buffer=9" in said
    assert "NvDCF's visual tracking (correlation filters on pixels) is not here" in said
    assert "NvDCF.filterLr" in said


def test_the_limit_of_targets_takes_the_first_of_the_list(tmp_path):
    file = tmp_path / "iou.yml"
    file.write_text("TargetManagement:\n  maxTargetsPerStream: 1\n  probationAge: 0\n")
    other = [40.0, 8.0, 20.0, 30.0, 0.875]
    with Feed(f"sluicetracker ll-config-file={file} keep-unconfirmed=true") as feed:
        feed.push(Given([PERSON, other]))
        buffer = feed.push(Given([PERSON, other], number=1))
    assert ids(buffer) == [UNTRACKED, 0]


def test_a_new_configuration_while_playing_keeps_the_tracks(tmp_path):
    for name, age in (("short", 0), ("long", 30)):
        (tmp_path / f"{name}.yml").write_text(
            "StateEstimator:\n  stateEstimatorType: 1\n"
            f"TargetManagement:\n  probationAge: 1\n  maxShadowTrackingAge: {age}\n"
        )
    (tmp_path / "iou.yml").write_text("TargetManagement:\n  probationAge: 0\n")

    def update(feed, path):
        feed.event(events.control_event(events.TRACKER_CONFIG_UPDATE, stream_id="0", config_path=str(path)))
        return warning(feed)

    with Feed(f"sluicetracker ll-config-file={tmp_path / 'short.yml'}") as feed:
        assert "NvSORT" in warning(feed)
        for number in range(2):
            buffer = feed.push(Given([PERSON], number=number))
        assert ids(buffer) == [0]
        assert "lost_track_buffer=30" in update(feed, tmp_path / "long.yml")
        for number in range(2, 8):
            feed.push(Given([], number=number))
        assert ids(feed.push(Given([PERSON], number=8))) == [0], "the track lived on, by the new file"
        assert "is refused, tracking goes on as before: tracks of sort" in update(feed, tmp_path / "iou.yml")
        assert "cannot be read" in update(feed, tmp_path / "none.yml")
        assert ids(feed.push(Given([PERSON], number=9))) == [0]


def test_embeddings_of_a_cascade_decide_who_is_who():
    """As in the tracker's own test: two people turn round while hidden, 20 pixels apart."""
    left, right = [1, 0, 0.1, 0], [0, 1, 0.1, 0]
    with Feed("sluicetracker name=t algorithm=deepsort tracker-options=minimum_consecutive_frames=2") as feed:
        for frame in range(32):
            ahead = min(frame, 20)
            boxes = [[0.5 * ahead, 5, 10, 30, 0.9], [25 - 0.5 * ahead, 5, 10, 30, 0.9]]
            hidden = 20 <= frame < 30
            given = Given([] if hidden else boxes, number=frame)
            feed.give([make_buffer([given]) if hidden else with_embeddings(given, [left, right])])
            buffer = feed.sink.try_pull_sample(10 * Gst.SECOND).get_buffer()
            if frame == 19:
                assert ids(buffer) == [0, 1]
        assert ids(buffer) == [0, 1]
        assert stats(feed)["embeddings"] == 44


def test_embeddings_of_another_component_do_not_count():
    with Feed("sluicetracker name=t algorithm=deepsort reid-component-id=6") as feed:
        for frame in range(3):
            feed.give([with_embeddings(Given([PERSON], number=frame), [[1, 0]], unique_id=5)])
            feed.sink.try_pull_sample(10 * Gst.SECOND)
        feed.give([with_embeddings(Given([PERSON], number=3), [[1, 0]], unique_id=6)])
        feed.sink.try_pull_sample(10 * Gst.SECOND)
        assert stats(feed)["embeddings"] == 1


def test_deepsort_says_once_when_no_object_carries_an_embedding():
    with Feed("sluicetracker algorithm=deepsort") as feed:
        for number in range(101):
            buffer = feed.push(Given([PERSON], number=number))
        assert ids(buffer) == [0]
        assert "put a sluiceinfer with a re-identification model" in warning(feed)
        assert feed.message(Gst.MessageType.WARNING, 0) is None


def test_frames_of_one_stream_in_one_batch_are_steps_in_their_order():
    with Feed("sluicetracker") as feed:
        frames = [Given([PERSON], stream=stream, number=number) for number in range(3) for stream in (0, 1)]
        buffer = feed.push(*frames)
        assert [objects(buffer, frame).object_id.tolist() for frame in range(6)] == [[], [], [0], [0], [0], [0]]


def test_frames_of_another_surface_type_are_left_alone():
    with Feed("sluicetracker name=t tracking-surface-type=2") as feed:
        for number in range(2):
            buffer = make_buffer([Given([PERSON], stream=stream, number=number) for stream in range(3)])
            with Lease() as lease:
                for kind, frame in enumerate(BatchMeta.of(buffer, lease).frames):
                    frame.surface_type = kind
            feed.give([buffer])
            del buffer
            buffer = feed.sink.try_pull_sample(10 * Gst.SECOND).get_buffer()
        assert [ids(buffer, frame) for frame in range(3)] == [[0], [UNTRACKED], [0]]
        assert stats(feed)["frames"] == 4


@pytest.mark.parametrize(
    "name",
    [
        "tracking-surface-type",
        "compute-hw",
        "input-tensor-meta",
        "tensor-meta-gie-id",
        "user-meta-pool-size",
        "sub-batches",
        "sub-batch-err-recovery-trial-cnt",
    ],
)
def test_every_property_of_nvtracker_is_there(name):
    assert Feed("sluicetracker name=t").get("t").find_property(name) is not None


NO_CAMERA = "tracker-options=enable_cmc=false"


@pytest.mark.parametrize(
    ("properties", "enough"),
    [
        ("algorithm=bytetrack", 0.25),
        ("algorithm=sort", 0.25),
        ("algorithm=ocsort", 0.25),
        ("algorithm=cbiou", 0.25),
        ("algorithm=deepsort", 0.25),
        (f"algorithm=botsort {NO_CAMERA}", 0.25),
        ("algorithm=bytetrack track-threshold=0.1", 0.1),
        ("algorithm=bytetrack track-threshold=-1", 0.7),
        ("algorithm=sort track-threshold=-1", 0.25),
        ("algorithm=ocsort track-threshold=-1", 0.6),
        ("algorithm=deepsort track-threshold=-1", 0.6),
        (f"algorithm=botsort track-threshold=-1 {NO_CAMERA}", 0.7),
        ("algorithm=bytetrack tracker-options=track_activation_threshold=0.9", 0.9),
        ("algorithm=bytetrack implementation=library", 0.25),
    ],
)
def test_detections_of_the_threshold_begin_tracks_and_weaker_ones_do_not(properties, enough):
    with Feed(f"sluicetracker keep-unconfirmed=true {properties}") as feed:
        for number in range(5):
            table = [[10.0, 8.0, 20.0, 30.0, enough + 0.05], [40.0, 8.0, 20.0, 30.0, enough - 0.05]]
            found = objects(feed.push(Given(table, number=number)))
    numbers = dict(zip((found.confidence > enough).tolist(), found.object_id.tolist(), strict=True))
    assert numbers == {True: 0, False: UNTRACKED}


def test_a_configuration_file_s_thresholds_are_its_own(tmp_path):
    path = tmp_path / "sort.yml"
    path.write_text("BaseConfig:\n  minDetectorConfidence: 0.6\nStateEstimator:\n  stateEstimatorType: 2\n")
    with Feed(f"sluicetracker keep-unconfirmed=true ll-config-file={path}") as feed:
        for number in range(5):
            found = objects(feed.push(Given([[10.0, 8.0, 20.0, 30.0, 0.5]], number=number)))
    assert found.object_id.tolist() == [UNTRACKED]
