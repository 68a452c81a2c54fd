"""What helps is said where the model is what holds the streams up, and nowhere else."""

from __future__ import annotations

import pytest

from sluice.app.pace import Pace, advice
from sluice.app.summary import StreamSummary, Summary


@pytest.mark.parametrize(
    ("busy", "dropped", "held_back", "said"),
    [
        (0.97, 0.4, False, "it is busy 97% of the time and 40% of the frames are dropped; a smaller model"),
        (1.9, 0.4, True, "it is busy 100% of the time and 40% of"),
        (0.97, 0.0, True, "frames wait for it; delivery=freshest"),
        (0.97, 0.0, False, ""),
        (0.3, 0.9, True, ""),
    ],
)
def test_advice(busy: float, dropped: float, held_back: bool, said: str) -> None:
    hint = advice(busy, dropped, held_back=held_back)
    assert said in hint
    assert bool(hint) == bool(said)


def test_a_summary_says_it_too() -> None:
    streams = [StreamSummary("rtsp://gate", frames_in=100, dropped=40, overtaken=30)]
    assert "30% of the frames are dropped; a smaller model" in str(Summary(streams, busy=0.95))
    assert "too slow" not in str(Summary(streams, busy=0.2))


def test_frames_that_only_a_rate_leaves_out_do_not_make_a_model_too_slow() -> None:
    streams = [StreamSummary("street.mp4", frames_in=100, dropped=50), StreamSummary("rtsp://gate", frames_in=100)]
    assert "too slow" not in str(Summary(streams, busy=0.95))


def paces(*, busy: float, came: float, overtaken: float, crowded: tuple[str, ...] = ()) -> list[Pace]:
    """Two looks, ten seconds apart, of a stream that has played for long and of what is told that came since."""
    return [
        Pace(100.0, 50.0, {"gate": (5000, 4000)}, {"gate", "yard"}),
        Pace(110.0, 50.0 + busy, {"gate": (5000 + came, 4000 + overtaken)}, set(crowded)),
    ]


def test_what_was_dropped_lately_counts_and_not_what_was_before() -> None:
    first, last = paces(busy=9.5, came=100, overtaken=30)
    assert "busy 95% of the time and 30% of the frames are dropped" in last.advice_since(first)
    first, last = paces(busy=9.5, came=100, overtaken=0)
    assert last.advice_since(first) == ""
    assert last.advice_since(last) == ""


def test_a_live_stream_whose_frames_wait_all_the_time_is_held_back() -> None:
    first, last = paces(busy=9.5, came=100, overtaken=0, crowded=("yard",))
    assert "frames wait for it" in last.advice_since(first)
    first, last = paces(busy=9.5, came=100, overtaken=0, crowded=("door",))  # by chance at one moment
    assert last.advice_since(first) == ""
