"""Many streams in one pass: apart from each other, freed when they end, and told apart by looks where asked."""

import numpy as np
import pytest

from sluice.errors import ConfigurationError
from sluice.tracking import UNTRACKED, Detected, Settings, StreamTrackers, stream_tracker
from sluice.tracking.history import History
from tracking.mot import read_detections

DEEPSORT = Settings("deepsort", {"minimum_consecutive_frames": 2})
RED, BLUE = [1.0, 0.0, 0.1], [0.0, 1.0, 0.1]


def rows(table, features=None, class_ids=None):
    table = np.asarray(table, dtype=np.float32).reshape(-1, 5)
    n = len(table)
    classes = np.zeros(n, np.int32) if class_ids is None else np.asarray(class_ids, np.int32)
    looks = None if features is None or not n else np.asarray(features, np.float32).reshape(n, -1)
    return Detected(table[:, :4], table[:, 4], classes, np.ones(n, np.int32), ["person"] * n, looks)


@pytest.mark.parametrize("class_aware", [False, True])
@pytest.mark.parametrize("name", ["bytetrack", "sort", "botsort", "ocsort", "iou"])
def test_streams_in_one_pass_have_the_ids_that_they_have_alone(data, name, class_aware):
    sequences = ["TUD-Campus", "TUD-Stadtmitte", "PETS09-S2L1"]
    tables = [list(read_detections(data / "mot" / name / "det" / "det.txt", 100).values()) for name in sequences]
    settings = Settings(name, {"enable_cmc": False} if name == "botsort" else {}, class_aware=class_aware)

    def detected(table):
        return rows(table, class_ids=table[:, 0] > 300)

    alone = []
    for of_stream in tables:
        tracker = stream_tracker(settings)
        alone.append([tracker.update(detected(table)).tolist() for table in of_stream])
    trackers = StreamTrackers(settings)
    together = [[] for _ in tables]
    for frame in range(100):
        # Streams take turns to be absent, and shorter ones end, which must not move the others.
        present = [k for k, of_stream in enumerate(tables) if len(together[k]) < len(of_stream) and (frame + k) % 7]
        step = [(trackers.of(k), detected(tables[k][len(together[k])]), None) for k in present]
        for k, ids in zip(present, trackers.update(step), strict=True):
            together[k].append(ids.tolist())
    for ids, expected in zip(together, alone, strict=True):
        assert ids == expected[: len(ids)]
        assert len(ids) > 50


def test_a_stream_that_ends_takes_its_tracks_and_slots_with_it():
    trackers = StreamTrackers(Settings("bytetrack", {}, class_aware=True))
    for stream in range(300):
        for frame in range(3):
            table = [[10.0 + frame, 10.0, 50.0, 90.0, 0.9], [300.0 + frame, 10.0, 50.0, 90.0, 0.9]]
            (ids,) = trackers.update([(trackers.of(stream), rows(table, class_ids=[1, 5]), None)])
        assert ids.tolist() == [0, 1]
        trackers.forget(stream)
    assert len(trackers._batched._tracks) == 0
    assert len(trackers._batched._owners) == 2
    assert len(trackers) == 0


def test_nothing_grows_over_many_objects_that_come_and_go():
    tracker = stream_tracker(Settings("deepsort", {"minimum_consecutive_frames": 1, "lost_track_buffer": 3}))
    history = History(longest=5)
    random = np.random.default_rng(0)
    most = 0
    for frame in range(600):
        step = rows([[(frame // 2 % 40) * 400.0, 0, 50, 90, 0.9], [20_000, 0, 50, 90, 0.9]], random.normal(size=(2, 8)))
        ids = tracker.update(step)
        history.observe(tracker, frame, step, ids)
        engine = tracker.tracker
        most = max(most, len(engine._tracks), len(engine._looks), len(history))
        assert all(len(kept.moments) <= 5 for kept in history._kept.values())
    assert tracker.tracks_started > 200
    assert most <= 12


def test_two_who_turn_round_out_of_sight_keep_their_ids_by_their_looks():
    """Red and blue walk towards each other, turn while hidden, and appear where motion expects the other one."""

    def run(looks):
        tracker = stream_tracker(DEEPSORT)
        for frame in range(32):
            ahead = min(frame, 20)
            table = [[100 + 2 * ahead, 50, 40, 100, 0.9], [200 - 2 * ahead, 50, 40, 100, 0.9]]
            ids = tracker.update(rows([]) if 20 <= frame < 30 else rows(table, [RED, BLUE] if looks else None))
            if frame == 19:
                before = ids.tolist()
        return before, ids.tolist()

    assert run(looks=True) == ([0, 1], [0, 1])
    assert run(looks=False) == ([0, 1], [1, 0]), "without looks the test would show nothing"


def test_objects_without_an_embedding_are_tracked_by_motion_beside_those_with_one():
    tracker = stream_tracker(DEEPSORT)
    for frame in range(5):
        table = [[100 + frame, 50, 40, 100, 0.9], [400 + frame, 50, 40, 100, 0.9]]
        ids = tracker.update(rows(table, [RED, [0, 0, 0]] if frame % 2 else None))
    assert ids.tolist() == [0, 1]


def test_looks_do_not_match_what_cannot_have_moved_so_far():
    tracker = stream_tracker(DEEPSORT)
    for frame in range(6):
        tracker.update(rows([[100 + frame, 50, 40, 100, 0.9]], [RED]))
    assert tracker.update(rows([[1500, 600, 40, 100, 0.9]], [RED])).tolist() == [UNTRACKED]


def test_embeddings_of_two_models_are_refused_by_name():
    tracker = stream_tracker(DEEPSORT)
    tracker.update(rows([[100, 50, 40, 100, 0.9]], [RED]))
    with pytest.raises(ConfigurationError, match="embeddings of 3 and 4 values cannot be compared"):
        tracker.update(rows([[100, 50, 40, 100, 0.9]], [[1, 2, 3, 4]]))


def test_tracks_go_on_by_other_options_of_the_same_algorithm():
    trackers = StreamTrackers(Settings("bytetrack", {}))
    person = rows([[100, 50, 40, 100, 0.9]])
    for _ in range(2):
        (ids,) = trackers.update([(trackers.of(0), person, None)])
    trackers.change(Settings("bytetrack", {"lost_track_buffer": 0}))
    assert trackers.update([(trackers.of(0), person, None)])[0].tolist() == ids.tolist() == [0]
    trackers.update([(trackers.of(0), rows([]), None)])
    assert len(trackers._batched._tracks) == 0, "a track of no patience ends at its first miss"
    with pytest.raises(ConfigurationError, match="tracks of bytetrack cannot go on as those of sort"):
        trackers.change(Settings("sort", {}))


def test_the_history_tells_the_frames_before_the_lost_ones_and_the_end():
    tracker = stream_tracker(Settings("bytetrack", {"minimum_consecutive_frames": 3, "lost_track_buffer": 2}))
    history = History()
    told = []
    for frame, x in enumerate([10, 12, 14, None, 18, None, None, None, None]):
        step = rows([] if x is None else [[x, 50, 40, 100, 0.9]])
        told.append(history.observe(tracker, frame, step, tracker.update(step)))
    (late,) = told[2].past
    assert (late.id, late.label, [moment.frame for moment in late.moments]) == (0, "person", [0, 1])
    assert [moment.confirmed for moment in late.moments] == [False, False]
    assert [[path.moments[0].frame for path in one.shadow] for one in told[3:8]] == [[3], [], [5], [6], []]
    (again,) = told[4].past
    assert [(moment.frame, moment.matched) for moment in again.moments] == [(3, False)]
    (ended,) = told[7].terminated
    assert [moment.frame for moment in ended.moments] == [0, 1, 2, 3, 4, 5, 6]
    assert ended.moments[2].box == pytest.approx((14, 50, 40, 100), abs=0.5)
    assert [len(one.terminated) for one in told] == [0, 0, 0, 0, 0, 0, 0, 1, 0]
    assert history.end() == []
