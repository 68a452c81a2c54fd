"""Which frames are chosen: by time, with overlap, by triggers, on request; without GStreamer."""

import pytest

from sluice.errors import ConfigurationError
from sluice.vlm.selection import MOST_ASKED, SECOND, Seen, Selection, StreamSelector, parse_triggers


def play(selector, times, seen=lambda time: Seen(), refuse=()):
    """Give frames at these seconds; return (number, cause, times of the pictures) of each segment."""
    segments = []
    for time in times:
        nanoseconds = round(time * SECOND)
        if selector.goes_back(nanoseconds):
            segments += [("abandoned", one.cause, one.pictures) for one in selector.abandon()]
        if selector.wants(nanoseconds, seen(time)) and time not in refuse:
            segments += [(one.number, one.cause, one.pictures) for one in selector.take(time)]
    return segments


def at(rate, seconds):
    return [number / rate for number in range(int(rate * seconds) + 1)]


def test_one_picture_every_so_often_from_the_first_frame_on() -> None:
    chosen = play(StreamSelector(Selection(every=2)), at(25, 6))
    assert chosen == [(0, "time", [0.0]), (1, "time", [2.0]), (2, "time", [4.0]), (3, "time", [6.0])]


def test_a_slow_stream_is_shown_whole() -> None:
    assert [pictures for _, _, pictures in play(StreamSelector(Selection(every=2)), [0, 5, 10])] == [[0], [5], [10]]


def test_segments_follow_each_other_without_a_gap() -> None:
    chosen = play(StreamSelector(Selection(every=4, frames=4)), at(10, 8))
    assert [pictures for *_, pictures in chosen] == [[0, 1, 2, 3], [4, 5, 6, 7]]


def test_overlapping_segments_share_pictures() -> None:
    chosen = play(StreamSelector(Selection(every=4, frames=3, overlap=1)), at(10, 12))
    assert [pictures for *_, pictures in chosen] == [[0, 2, 4], [4, 6, 8], [8, 10, 12]]


def test_pictures_closer_than_their_segments() -> None:
    chosen = play(StreamSelector(Selection(every=10, frames=3, spacing=0.5)), at(10, 21))
    assert [pictures for *_, pictures in chosen] == [[0, 0.5, 1], [10, 10.5, 11], [20, 20.5, 21]]


def test_a_gap_is_not_made_up_for_by_a_burst() -> None:
    chosen = play(StreamSelector(Selection(every=1)), [*at(10, 2), 7.3, 7.4, 7.5, 8.0, 8.1])
    assert [pictures for *_, pictures in chosen] == [[0], [1], [2], [7.3], [8]]


def test_a_frame_whose_picture_cannot_be_taken_is_replaced_by_the_next() -> None:
    chosen = play(StreamSelector(Selection(every=2)), at(10, 4), refuse=(2.0, 2.1))
    assert [pictures for *_, pictures in chosen] == [[0], [2.2], [4]]


def test_a_jump_back_abandons_what_was_gathered_and_begins_anew() -> None:
    selector = StreamSelector(Selection(every=4, frames=4))
    assert play(selector, [0, 1, 2, 0, 1, 2, 3]) == [("abandoned", "time", [0, 1, 2]), (1, "time", [0, 1, 2, 3])]


def test_no_overlap_across_a_jump() -> None:
    selector = StreamSelector(Selection(every=2, frames=2, overlap=1))
    assert [pictures for *_, pictures in play(selector, [0, 2, 0, 2])] == [[0, 2], [0, 2]]


def appearing(*events):
    """Objects by time: (seconds, label, id)."""
    return lambda time: Seen([(label, identity) for moment, label, identity in events if abs(moment - time) < 1e-6])


def test_an_object_that_appears_begins_a_segment_once() -> None:
    selection = Selection(every=0, triggers=parse_triggers("object:person"), cooldown=0)
    seen = appearing((1, "car", 1), (2, "person", 7), (3, "person", 7), (4, "person", 8), (5, "person", 7))
    assert play(StreamSelector(selection), range(7), seen) == [(0, "object:person", [2]), (1, "object:person", [4])]


def test_untracked_objects_appear_after_a_frame_without() -> None:
    selection = Selection(every=0, triggers=parse_triggers("object:person"), cooldown=0)
    seen = appearing((1, "person", None), (2, "person", None), (4, "person", None))
    assert [pictures for *_, pictures in play(StreamSelector(selection), range(6), seen)] == [[1], [4]]


def test_any_object_and_any_line() -> None:
    selection = Selection(every=0, triggers=parse_triggers("object:*; line:*"), cooldown=0)
    selector = StreamSelector(selection)
    seen = {1: Seen([("cat", 3)]), 2: Seen([("cat", 3)], ["exit"])}
    chosen = play(selector, range(4), lambda time: seen.get(time, Seen()))
    assert chosen == [(0, "object:*", [1]), (1, "line:*", [2])]


def test_cooldown_and_gathering_suppress_triggers_by_name() -> None:
    selection = Selection(every=0, frames=2, spacing=1, triggers=parse_triggers("line:exit"), cooldown=5)
    selector = StreamSelector(selection)
    chosen = play(selector, range(12), lambda time: Seen(lines=["exit"]))
    assert chosen == [(0, "line:exit", [0, 1]), (1, "line:exit", [5, 6]), (2, "line:exit", [10, 11])]
    assert selector.suppressed == {"line:exit": 9}


def test_triggers_and_time_share_the_numbers_of_segments() -> None:
    selection = Selection(every=2, triggers=parse_triggers("line:exit"))
    chosen = play(StreamSelector(selection), range(4), lambda time: Seen(lines=["exit"] if time == 2 else []))
    assert sorted(chosen) == [(0, "time", [0]), (1, "line:exit", [2]), (2, "time", [2])]


def test_what_a_program_asks_for_comes_in_turn() -> None:
    selector = StreamSelector(Selection(every=0))
    assert selector.ask("first")
    assert selector.ask(None)
    taken = []
    for time in range(4):
        if selector.wants(time * SECOND):
            taken += [(one.cause, one.prompt, one.pictures) for one in selector.take(time)]
    assert taken == [("ask", "first", [0]), ("ask", None, [1])]


def test_requests_that_wait_are_bounded() -> None:
    selector = StreamSelector(Selection(every=0))
    assert [selector.ask(None) for _ in range(MOST_ASKED + 2)] == [True] * MOST_ASKED + [False] * 2


def test_ids_that_a_trigger_remembers_are_bounded() -> None:
    selector = StreamSelector(Selection(every=0, triggers=parse_triggers("object:a"), cooldown=0))
    for identity in range(20_000):
        selector.wants(identity, Seen([("a", identity)]))
    assert len(selector._appearances._known) == 10_000


@pytest.mark.parametrize("text", ["person", "object:", "objects:person", "object:person;;line", "zone:a"])
def test_triggers_that_cannot_be_read(text: str) -> None:
    with pytest.raises(ConfigurationError, match="object:LABEL or line:NAME"):
        parse_triggers(text)


def test_labels_may_hold_spaces_and_colons() -> None:
    assert [str(one) for one in parse_triggers(" object: traffic light ;line:a:b;")] == [
        "object:traffic light",
        "line:a:b",
    ]


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({"every": -1}, "every"),
        ({"every": float("nan")}, "every"),
        ({"cooldown": 1e9}, "cooldown"),
        ({"frames": 0}, "frames"),
        ({"frames": 65}, "frames"),
        ({"frames": 4, "overlap": 4}, "overlap is 4; right is a number from 0 to 3"),
    ],
)
def test_values_that_cannot_be_used(values, text) -> None:
    with pytest.raises(ConfigurationError, match=text):
        Selection(**values)
