"""Policies refuse by name what cannot be used."""

from __future__ import annotations

from typing import Any

import pytest

from sluice.app.streams import RetryPolicy, StreamPolicy
from sluice.errors import ConfigurationError


@pytest.mark.parametrize(
    ("kind", "values", "named"),
    [
        (StreamPolicy, {"delivery": "newest"}, "delivery is 'newest'; it is one of auto, every, freshest"),
        (StreamPolicy, {"decoder": "cuda"}, "decoder is 'cuda'"),
        (StreamPolicy, {"transport": "http"}, "transport"),
        (StreamPolicy, {"fps": 0}, "fps is 0"),
        (StreamPolicy, {"fps": True}, "fps is True"),
        (StreamPolicy, {"stall_seconds": float("nan")}, "stall_seconds"),
        (StreamPolicy, {"region": (0, 0, 10)}, "region"),
        (StreamPolicy, {"region": (0, 0, 10, 0)}, "region"),
        (StreamPolicy, {"region": (0, -1, 10, 10)}, "region"),
        (StreamPolicy, {"region": 5}, "region"),
        (StreamPolicy, {"region": (0, 0, 10, 2**33)}, "each at most 32767"),
        (StreamPolicy, {"retry": "never"}, "retry is 'never'"),
        (RetryPolicy, {"first": -1}, "retry.first"),
        (RetryPolicy, {"first": 10, "most": 5}, "retry.most is 5; it is a number from 10"),
        (RetryPolicy, {"factor": 0.5}, "retry.factor"),
        (RetryPolicy, {"jitter": 2}, "retry.jitter"),
        (RetryPolicy, {"limit": 0}, "retry.limit"),
        (RetryPolicy, {"limit": 1.5}, "retry.limit"),
    ],
)
def test_wrong_values_are_refused_by_name(kind: Any, values: dict[str, Any], named: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        kind(**values)
    assert named in str(caught.value)


def test_a_wait_stays_finite_however_often_a_stream_has_failed() -> None:
    assert RetryPolicy(jitter=0).wait(10_000, lambda: 0.5) == 30


@pytest.mark.parametrize(
    ("delivery", "live", "freshest"),
    [("auto", True, True), ("auto", False, False), ("every", True, False), ("freshest", False, True)],
)
def test_cameras_give_the_freshest_frame_unless_told_otherwise(delivery: Any, live: bool, freshest: bool) -> None:
    assert StreamPolicy(delivery=delivery).freshest(live) == freshest
