"""What helps is said where the model is what holds the streams up, and nowhere else."""

from __future__ import annotations

import pytest

from sluice.app.pace import advice
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
