"""When a tracked object is inferred again, and what is remembered of it."""

import pytest

from sluice.elements.infer_history import CLEANING_FRAMES, IDLE_FRAMES, History
from sluice.models.whole import Classification, WholeFrame

RESULT = WholeFrame([Classification(1)])


def classified(history: History, *, stream: int = 0, object_id: int = 7, area: float = 100, frame: int = 0) -> None:
    """Let an object be inferred once, by a model whose answers last."""
    known, now = history.look(stream, object_id, area, frame)
    assert now
    history.store(known, RESULT, ("a",), area=area, lasting=True)


def test_an_object_is_classified_once():
    history = History(None)
    classified(history)
    known, now = history.look(0, 7, 100, CLEANING_FRAMES - 1)
    assert not now
    assert (known.result, known.labels) == (RESULT, ("a",))


@pytest.mark.parametrize(("area", "again"), [(100, False), (120, False), (120.1, True), (20, False)])
def test_an_object_that_grew_is_inferred_again(area, again):
    history = History(None)
    classified(history, area=100)
    assert history.look(0, 7, area, 1)[1] is again


def test_growth_counts_from_the_last_inference():
    history = History(None)
    classified(history, area=100)
    assert [history.look(0, 7, area, frame)[1] for frame, area in enumerate((110, 120, 130, 140, 157), 1)] == [
        False,
        False,
        True,
        False,
        True,
    ]


@pytest.mark.parametrize(("interval", "expected"), [(0, "1111111"), (1, "1010101"), (2, "1001001")])
def test_an_interval_in_frames(interval, expected):
    history = History(interval)
    found = ""
    for frame in range(7):
        known, now = history.look(0, 7, 100, frame)
        history.store(known, RESULT, (), area=100, lasting=True)
        found += str(int(now))
    assert found == expected


def test_a_model_whose_answers_do_not_last_sees_every_frame():
    history = History(None)
    for frame in range(3):
        known, now = history.look(0, 7, 100, frame)
        assert now
        history.store(known, None, (), area=100, lasting=False)


def test_an_object_in_the_model_is_not_given_to_it_again():
    history = History(None)
    classified(history, object_id=1)  # from here on the answers are known to last
    assert history.look(0, 2, 100, 1)[1]
    known, now = history.look(0, 2, 100, 2)
    assert not now
    assert known.result is None


def test_a_failure_is_made_good_on_the_next_frame():
    history = History(None)
    classified(history)
    known, _ = history.look(0, 8, 100, 1)
    history.failed(known)
    assert history.look(0, 8, 100, 2)[1]
    assert not history.look(0, 8, 100, 3)[1]


def test_streams_have_objects_of_their_own():
    history = History(None)
    classified(history, stream=0)
    classified(history, stream=1)
    history.forget(0)
    assert history.look(0, 7, 100, 1)[1]
    assert not history.look(1, 7, 100, 1)[1]
    history.clear()
    assert len(history) == 0


def test_objects_that_stay_away_are_dropped():
    history = History(None)
    for frame in range(CLEANING_FRAMES):
        history.look(0, 1, 100, frame)
        if frame < CLEANING_FRAMES - IDLE_FRAMES:
            history.look(0, 2, 100, frame)
        if frame < CLEANING_FRAMES - IDLE_FRAMES - 1:
            history.look(0, 3, 100, frame)
    assert len(history) == 3
    history.look(0, 1, 100, CLEANING_FRAMES)
    assert len(history) == 1, "2 and 3 were last seen more than IDLE_FRAMES before"


def test_memory_is_bounded_when_ids_never_end():
    history = History(None)
    for frame in range(4 * CLEANING_FRAMES):
        history.look(0, frame, 100, frame)
    assert len(history) <= CLEANING_FRAMES + IDLE_FRAMES + 1


def test_an_answer_that_comes_late_counts():
    history = History(None)
    classified(history, object_id=1)
    known, _ = history.look(0, 2, 100, 1)
    history.look(0, 2, 140, 2)
    history.failed(known)  # the model was busy with frame 1
    history.store(known, RESULT, (), area=100, lasting=True)
    assert not history.look(0, 2, 110, 3)[1]
    assert history.look(0, 2, 121, 4)[1]


def test_a_stream_that_counts_from_0_again_has_new_objects():
    history = History(None)
    classified(history, frame=500)
    assert not history.look(0, 7, 100, 501)[1]
    assert history.look(0, 7, 100, 3)[1]
    assert not history.look(0, 7, 100, 4)[1]
