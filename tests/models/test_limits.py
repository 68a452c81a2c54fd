"""What of a frame's detections is attached where nobody asked for more."""

from __future__ import annotations

import numpy as np
import pytest

from sluice.models.detections import Detections
from sluice.models.limits import MOST_DETECTIONS, MOST_KEYPOINTS, within_limits
from sluice.models.whole import WholeFrame


def found(count, points=0):
    """Detections whose scores grow."""
    keypoints = np.zeros((count, points, 3), np.float32) if points else None
    boxes = np.tile(np.array([0, 0, 4, 4], np.float32), (count, 1))
    return Detections(boxes, np.linspace(0, 1, count), np.arange(count), keypoints=keypoints)


@pytest.mark.parametrize(("count", "points"), [(0, 0), (MOST_DETECTIONS, 0), (1, MOST_KEYPOINTS), (2_941, 17)])
def test_as_much_as_there_may_be_is_left_as_it_is(count, points):
    given = found(count, points)
    kept, text = within_limits(given)
    assert kept is given
    assert text == ""


@pytest.mark.parametrize(
    ("count", "points", "left"), [(MOST_DETECTIONS + 1, 0, MOST_DETECTIONS), (9_000, 17, 2_941), (2, MOST_KEYPOINTS, 1)]
)
def test_of_more_the_best_are_kept(count, points, left):
    kept, text = within_limits(found(count, points))
    assert len(kept) == left
    assert kept.class_ids.min() == count - left
    assert f"{count} detections" in text
    assert f"the {left} best are attached" in text


def test_an_object_of_more_key_points_than_a_frame_may_have_goes_on_without_them():
    kept, text = within_limits(found(3, MOST_KEYPOINTS + 1))
    assert len(kept) == 3
    assert kept.keypoints is None
    assert text == "50001 key points for one object; more than 50000 are left out"


def test_a_frame_of_more_key_points_goes_on_without_them():
    given = found(1)
    given.whole = WholeFrame(keypoints=np.zeros((MOST_KEYPOINTS + 1, 2), np.float32), text="a crowd")
    kept, text = within_limits(given)
    assert (len(kept), kept.whole.keypoints, kept.whole.text) == (1, None, "a crowd")
    assert "50001 key points for the frame" in text
    assert given.whole.keypoints is not None
