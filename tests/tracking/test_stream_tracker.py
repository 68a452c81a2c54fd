"""The tracker of one stream against the library run directly, and its behaviour at gaps, jumps and intervals."""

import gc
import weakref

import numpy as np
import pytest

from sluice.tracking import ALGORITHMS, CLOCK_TIME_NONE, UNTRACKED, Detected, Settings, stream_tracker
from sluice.tracking.batched import BatchedStream
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


@pytest.fixture(params=["batched", "library"])
def make(request):
    """Make the tracker of one stream in each of the two ways."""

    def make(name, options=None, **settings):
        return stream_tracker(Settings(name, options or {}, implementation=request.param, **settings))

    return make


def same(got, expected):
    assert [ids.tolist() for ids in got] == [ids.tolist() for ids in expected]
    assert max(ids.max(initial=-1) for ids in got) > 3


@pytest.mark.parametrize("sequence", SEQUENCES)
@pytest.mark.parametrize("name", ["bytetrack", "sort", "botsort", "ocsort"])
def test_ids_equal_those_of_the_library_on_real_detections(data, sequence, name):
    frames = read_detections(data / "mot" / sequence / "det" / "det.txt", 200)
    options = {"enable_cmc": False} if name == "botsort" else {}
    got = run(stream_tracker(Settings(name, options, implementation="batched")), frames.values())
    same(got, run_library(frames, ALGORITHMS[name].class_name, **options))


@pytest.mark.parametrize("name", [row.name for row in ALGORITHMS.values() if row.class_name])
def test_every_algorithm_equals_the_library(data, name):
    frames = read_detections(data / "mot" / "TUD-Stadtmitte" / "det" / "det.txt", 120)
    settings = Settings(name, {"lost_track_buffer": 20}, implementation="library")
    got = run(stream_tracker(settings), frames.values())
    same(got, run_library(frames, ALGORITHMS[name].class_name, lost_track_buffer=20))


@pytest.mark.parametrize("name", ["bytetrack", "sort", "botsort", "ocsort"])
def test_with_timestamps_equals_the_library_given_the_same_times(data, make, name):
    frames = read_detections(data / "mot" / "PETS09-S2L1" / "det" / "det.txt", 200)
    options = {"frame_rate": 10.0} | ({"enable_cmc": False} if name == "botsort" else {})
    tracker = make(name, options, timestamps=True)
    # Every 30th frame comes late, which is a longer step of the motion.
    times = {number: number / 10 + number // 30 for number in frames}
    got = []
    for number, table in frames.items():
        tracker.begin_frame(round(times[number] * NS))
        got.append(tracker.update(rows(table)))
    same(got, run_library(frames, ALGORITHMS[name].class_name, times=times, **options))


@pytest.mark.parametrize("name", ["bytetrack", "ocsort"])
def test_classes_apart_give_the_same_ids_in_both_ways(data, name):
    frames = read_detections(data / "mot" / "PETS09-S2L1" / "det" / "det.txt", 150)
    got = []
    for implementation in ("batched", "library"):
        tracker = stream_tracker(Settings(name, {}, class_aware=True, implementation=implementation))
        of_frames = []
        for table in frames.values():
            of_frames.append(tracker.update(rows(table, (table[:, 0] > 300).astype(int))))
        got.append(of_frames)
    same(*got)


def test_boxes_that_are_not_finite_and_weak_detections_are_left_out(make):
    tracker = make("sort", {"minimum_consecutive_frames": 1}, minimum_confidence=0.5)
    table = [walker(0), [float("nan"), 0, 5, 5, 0.9], [0, 0, float("inf"), 5, 0.9], [500, 0, 40, 40, 0.4]]
    tracker.update(rows(table))
    assert tracker.update(rows(table)).tolist() == [0, -1, -1, -1]


def test_interval_frames_neither_age_nor_move_a_track(data, make):
    frames = read_detections(data / "mot" / "PETS09-S2L1" / "det" / "det.txt", 150)
    tracker = make("sort", {})
    got = []
    for index, table in enumerate(frames.values()):
        tracker.begin_frame(index * 3 * NS)
        got.append(tracker.update(rows(table)).tolist())
        for skipped in (1, 2):
            tracker.begin_frame((index * 3 + skipped) * NS)
            tracker.predict()
    assert got == [ids.tolist() for ids in run_library(frames, "SORTTracker")]


def test_a_track_is_predicted_between_the_frames_that_the_model_saw(make):
    tracker = make("bytetrack", {})
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


def test_the_prediction_follows_timestamps_when_asked(make):
    tracker = make("bytetrack", {"frame_rate": 10.0}, timestamps=True)
    for frame in range(12):
        tracker.begin_frame(frame * NS // 10)
        tracker.update(rows([walker(frame)]))
    tracker.begin_frame(13 * NS // 10)
    assert tracker.predict()[0].box[0] == pytest.approx(walker(13)[0], abs=2)


def test_nothing_is_predicted_before_a_track_is_confirmed_or_after_it_is_lost(make):
    tracker = make("bytetrack", {})
    assert tracker.predict() == []
    run(tracker, [[walker(0)]])
    assert tracker.predict() == []
    run(tracker, [[walker(1)], [walker(2)], []], start=NS)
    assert tracker.predict() == []


def test_timestamps_that_do_not_advance_are_taken_without_a_warning(recwarn, make):
    tracker = make("bytetrack", {}, timestamps=True)
    for pts in (0, 0, 0, CLOCK_TIME_NONE, 5, 5):
        tracker.begin_frame(pts)
        ids = tracker.update(rows([walker(0)]))
    assert ids.tolist() == [0]
    assert [str(warning.message) for warning in recwarn] == []


def test_a_jump_back_in_time_ends_all_tracks_and_ids_go_on(make):
    tracker = make("bytetrack", {})
    assert run(tracker, [[walker(0)]] * 3, start=NS)[-1].tolist() == [0]
    assert tracker.begin_frame(CLOCK_TIME_NONE) is False
    assert tracker.begin_frame(NS // 2) is True
    assert tracker.update(rows([walker(0)])).tolist() == [UNTRACKED]
    assert run(tracker, [[walker(0)]], start=NS)[-1].tolist() == [1]
    assert tracker.tracks_started == 2


def test_frames_without_detections_are_frames(make):
    tracker = make("bytetrack", {"lost_track_buffer": 3})
    got = run(tracker, [[], [walker(0)], [walker(1)], [], [], [walker(4)], [], [], [], [], [walker(9)]])
    assert [ids.tolist() for ids in got] == [[], [-1], [0], [], [], [0], [], [], [], [], [-1]]
    assert all(ids.dtype == np.int64 for ids in got)


def test_a_track_takes_over_another_class_only_when_classes_do_not_count(make):
    person, dog = rows([walker(0)], [0]), rows([walker(0)], [16])
    for class_aware, expected in ((False, [0]), (True, [UNTRACKED])):
        tracker = make("bytetrack", {}, class_aware=class_aware)
        tracker.update(person)
        tracker.update(person)
        assert tracker.update(dog).tolist() == expected


def test_classes_tracked_apart_share_one_series_of_ids(make):
    tracker = make("bytetrack", {}, class_aware=True)
    frame = rows([walker(0), walker(0), walker(0, x0=300)], [16, 0, 16])
    for _ in range(3):
        ids = tracker.update(frame)
    assert sorted(ids.tolist()) == [0, 1, 2]


def test_memory_is_bounded_by_the_objects_in_view(make):
    tracker = make("bytetrack", {"lost_track_buffer": 2, "minimum_consecutive_frames": 1}, class_aware=True)
    for frame in range(400):
        # Every frame shows another object, far from the last one: each becomes a track of its own and is lost.
        tracker.begin_frame(frame)
        tracker.update(rows([[(frame % 20) * 300.0, 0.0, 50.0, 50.0, 0.9], walker(0, x0=9000)], [frame % 3, 0]))
    if isinstance(tracker, BatchedStream):
        assert len(tracker.tracker.tracks_of(tracker)) < 10
        assert len(tracker.slots) == 3
    else:
        assert sum(len(group.tracker.tracks) for group in tracker._groups.values()) < 10
        assert sum(len(group.ids) for group in tracker._groups.values()) < 10


def test_a_dropped_tracker_leaves_nothing():
    tracker = stream_tracker(Settings("bytetrack", {}, implementation="library"))
    run(tracker, [[walker(0)]] * 3)
    group = weakref.ref(next(iter(tracker._groups.values())).tracker)
    del tracker
    gc.collect()
    assert group() is None
