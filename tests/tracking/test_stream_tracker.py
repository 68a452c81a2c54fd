"""The tracker of one stream against the library run directly, and its behaviour at gaps, jumps and intervals."""

import gc
import weakref

import numpy as np
import pytest

from sluice.tracking import ALGORITHMS, CLOCK_TIME_NONE, UNTRACKED, Detected, Settings, StreamTracker
from tracking.mot import read_detections, run_library

SEQUENCES = ["TUD-Campus", "TUD-Stadtmitte", "MOT17-05-SDP", "PETS09-S2L1"]
NS = 1_000_000_000


def rows(table, class_ids=None):
    table = np.asarray(table, dtype=np.float32).reshape(-1, 5)
    n = len(table)
    classes = np.zeros(n, dtype=np.int32) if class_ids is None else np.asarray(class_ids, dtype=np.int32)
    return Detected(table[:, :4], table[:, 4], classes, np.full(n, 1), ["person"] * n)


def walker(frame, x0=100.0, speed=4.0):
    """One person who walks to the right."""
    return [x0 + speed * frame, 50.0, 40.0, 100.0, 0.9]


def run(tracker, tables, start=0, step=40_000_000):
    ids = []
    for index, table in enumerate(tables):
        tracker.begin_frame(start + index * step)
        ids.append(tracker.update(rows(table)))
    return ids


@pytest.mark.parametrize("sequence", SEQUENCES)
def test_bytetrack_equals_the_library_on_real_detections(data, sequence):
    frames = read_detections(data / "mot" / sequence / "det" / "det.txt", 300)
    got = run(StreamTracker(Settings("bytetrack", {})), frames.values())
    expected = run_library(frames, "ByteTrackTracker")
    assert [ids.tolist() for ids in got] == [ids.tolist() for ids in expected]
    assert max(ids.max(initial=-1) for ids in got) > 3


@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_algorithm_equals_the_library(data, name):
    frames = read_detections(data / "mot" / "TUD-Stadtmitte" / "det" / "det.txt", 120)
    got = run(StreamTracker(Settings(name, {"lost_track_buffer": 20})), frames.values())
    expected = run_library(frames, ALGORITHMS[name].class_name, lost_track_buffer=20)
    assert [ids.tolist() for ids in got] == [ids.tolist() for ids in expected]
    assert max(ids.max(initial=-1) for ids in got) > 3


def test_with_timestamps_equals_the_library_given_the_same_times(data):
    frames = read_detections(data / "mot" / "PETS09-S2L1" / "det" / "det.txt", 200)
    settings = Settings("bytetrack", {"frame_rate": 10.0}, timestamps=True)
    got = run(StreamTracker(settings), frames.values(), start=NS // 10, step=NS // 10)
    expected = run_library(frames, "ByteTrackTracker", seconds_per_frame=0.1, frame_rate=10.0)
    assert [ids.tolist() for ids in got] == [ids.tolist() for ids in expected]


def test_interval_frames_neither_age_nor_move_a_track(data):
    frames = read_detections(data / "mot" / "PETS09-S2L1" / "det" / "det.txt", 150)
    tracker = StreamTracker(Settings("ocsort", {}))
    got = []
    for index, table in enumerate(frames.values()):
        tracker.begin_frame(index * 3 * NS)
        got.append(tracker.update(rows(table)).tolist())
        for skipped in (1, 2):
            tracker.begin_frame((index * 3 + skipped) * NS)
            tracker.predict()
    assert got == [ids.tolist() for ids in run_library(frames, "OCSORTTracker")]


def test_a_track_is_predicted_between_the_frames_that_the_model_saw():
    tracker = StreamTracker(Settings("bytetrack", {}))
    for frame in range(0, 30, 3):
        tracker.begin_frame(frame)
        ids = tracker.update(rows([walker(frame)]))
        if frame < 27:
            assert len(tracker.predict()) == len(tracker.predict()) == (frame > 0)
    first, second = tracker.predict()[0], tracker.predict()[0]
    assert (first.id, first.label, first.class_id, first.unique_id) == (ids[0], "person", 0, 1)
    assert first.box[0] == pytest.approx(walker(28)[0], abs=1.5)
    assert second.box[0] == pytest.approx(walker(29)[0], abs=1.5)
    assert first.confidence == pytest.approx(0.9)


def test_the_prediction_follows_timestamps_when_asked():
    tracker = StreamTracker(Settings("bytetrack", {"frame_rate": 10.0}, timestamps=True))
    for frame in range(12):
        tracker.begin_frame(frame * NS // 10)
        tracker.update(rows([walker(frame)]))
    tracker.begin_frame(13 * NS // 10)
    assert tracker.predict()[0].box[0] == pytest.approx(walker(13)[0], abs=2)


def test_nothing_is_predicted_before_a_track_is_confirmed_or_after_it_is_lost():
    tracker = StreamTracker(Settings("bytetrack", {}))
    assert tracker.predict() == []
    run(tracker, [[walker(0)]])
    assert tracker.predict() == []
    run(tracker, [[walker(1)], [walker(2)], []], start=NS)
    assert tracker.predict() == []


def test_timestamps_that_do_not_advance_are_taken_without_a_warning(recwarn):
    tracker = StreamTracker(Settings("bytetrack", {}, timestamps=True))
    for pts in (0, 0, 0, CLOCK_TIME_NONE, 5, 5):
        tracker.begin_frame(pts)
        ids = tracker.update(rows([walker(0)]))
    assert ids.tolist() == [0]
    assert [str(warning.message) for warning in recwarn] == []


def test_a_jump_back_in_time_ends_all_tracks_and_ids_go_on():
    tracker = StreamTracker(Settings("bytetrack", {}))
    assert run(tracker, [[walker(0)]] * 3, start=NS)[-1].tolist() == [0]
    assert tracker.begin_frame(CLOCK_TIME_NONE) is False
    assert tracker.begin_frame(NS // 2) is True
    assert tracker.update(rows([walker(0)])).tolist() == [UNTRACKED]
    assert run(tracker, [[walker(0)]], start=NS)[-1].tolist() == [1]
    assert tracker.tracks_started == 2


def test_frames_without_detections_are_frames():
    tracker = StreamTracker(Settings("bytetrack", {"lost_track_buffer": 3}))
    got = run(tracker, [[], [walker(0)], [walker(1)], [], [], [walker(4)], [], [], [], [], [walker(9)]])
    assert [ids.tolist() for ids in got] == [[], [-1], [0], [], [], [0], [], [], [], [], [-1]]
    assert all(ids.dtype == np.int64 for ids in got)


def test_a_track_takes_over_another_class_only_when_classes_do_not_count():
    person, dog = rows([walker(0)], [0]), rows([walker(0)], [16])
    for class_aware, expected in ((False, [0]), (True, [UNTRACKED])):
        tracker = StreamTracker(Settings("bytetrack", {}, class_aware=class_aware))
        tracker.update(person)
        tracker.update(person)
        assert tracker.update(dog).tolist() == expected


def test_classes_tracked_apart_share_one_series_of_ids():
    tracker = StreamTracker(Settings("bytetrack", {}, class_aware=True))
    frame = rows([walker(0), walker(0), walker(0, x0=300)], [16, 0, 16])
    for _ in range(3):
        ids = tracker.update(frame)
    assert sorted(ids.tolist()) == [0, 1, 2]


def test_memory_is_bounded_by_the_objects_in_view():
    tracker = StreamTracker(Settings("bytetrack", {"lost_track_buffer": 2, "minimum_consecutive_frames": 1}))
    for frame in range(200):
        # Every frame shows another object, far from the last one: each becomes a track of its own and is lost.
        tracker.begin_frame(frame)
        tracker.update(rows([[(frame % 20) * 300.0, 0.0, 50.0, 50.0, 0.9], walker(0, x0=9000)]))
    (group,) = tracker._groups.values()
    assert len(group.tracker.tracks) < 10
    assert len(group.ids) < 10


def test_a_dropped_tracker_leaves_nothing():
    tracker = StreamTracker(Settings("bytetrack", {}))
    run(tracker, [[walker(0)]] * 3)
    group = weakref.ref(next(iter(tracker._groups.values())).tracker)
    del tracker
    gc.collect()
    assert group() is None
