"""Streams are apart, and their ids follow nvtracker's tracking-id-reset-mode."""

import numpy as np
import pytest

from sluice.tracking import Detected, ResetMode, Settings, StreamTrackers

SETTINGS = Settings("bytetrack", {})


def person(x=100.0):
    one = np.array([[x, 50.0, 40.0, 100.0]], dtype=np.float32)
    return Detected(one, np.array([0.9], dtype=np.float32), np.array([0]), np.array([1]), ["person"])


def confirmed_id(trackers, stream):
    """Show one person on two frames, which confirms a track, and return its id."""
    tracker = trackers.of(stream)
    tracker.update(person())
    return int(tracker.update(person())[0])


def test_each_stream_counts_from_zero():
    trackers = StreamTrackers(SETTINGS)
    assert [confirmed_id(trackers, stream) for stream in (0, 1, 7)] == [0, 0, 0]


def test_ids_over_all_streams_tell_the_stream_in_their_upper_half():
    trackers = StreamTrackers(SETTINGS, global_ids=True)
    assert [confirmed_id(trackers, stream) for stream in (0, 1, 7)] == [0, 1 << 32, 7 << 32]


def test_interleaved_streams_do_not_touch_each_other():
    trackers = StreamTrackers(SETTINGS)
    for frame in range(5):
        ids = [trackers.of(stream).update(person(100.0 + 500 * stream * (frame % 2))) for stream in (0, 1)]
    assert ids[0].tolist() == [0]
    assert ids[1].tolist() == [-1], "stream 1's person jumps about and is never confirmed"


@pytest.mark.parametrize(
    ("mode", "after_reset", "after_end"),
    [(0, 0, 1), (1, 1, 2), (2, 0, 0), (3, 1, 0)],
)
def test_ids_after_a_reset_and_after_the_end(mode, after_reset, after_end):
    trackers = StreamTrackers(SETTINGS, reset_mode=ResetMode(mode))
    assert confirmed_id(trackers, 4) == 0
    trackers.reset(4)
    assert confirmed_id(trackers, 4) == after_reset
    trackers.end(4)
    assert confirmed_id(trackers, 4) == after_end


def test_an_ended_stream_is_freed_and_a_removed_one_forgotten():
    trackers = StreamTrackers(SETTINGS)
    confirmed_id(trackers, 0)
    confirmed_id(trackers, 1)
    trackers.end(0)
    assert len(trackers) == 1
    assert trackers.tracks_started == 2
    trackers.forget(1)
    assert len(trackers) == 0
    assert confirmed_id(trackers, 0) == 1
    assert confirmed_id(trackers, 1) == 0


def test_a_flush_ends_every_track_and_ids_go_on():
    trackers = StreamTrackers(SETTINGS)
    confirmed_id(trackers, 0)
    confirmed_id(trackers, 1)
    trackers.clear()
    assert len(trackers) == 0
    assert [confirmed_id(trackers, stream) for stream in (0, 1)] == [1, 1]
