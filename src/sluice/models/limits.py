"""How much of one frame's result is attached where nobody asked for more.

Any element behind draws, tracks or tells far less within a frame's time; a model that gives more has most likely lost
its threshold.
"""

from __future__ import annotations

from dataclasses import replace

from sluice.models.detections import Detections

MOST_DETECTIONS = 10_000
MOST_KEYPOINTS = 50_000  # 100 faces of 478 points, 3,000 people of 17


def within_limits(found: Detections) -> tuple[Detections, str]:
    """What of a frame's detections is attached, and what to say of the rest; empty if all of it is.

    Args:
        found: validated detections.

    Returns:
        The best detections: at most `MOST_DETECTIONS`, with at most `MOST_KEYPOINTS` key points together. If a single
        one has more, or the frame as a whole, they are left out.
    """
    whole = found.whole
    if whole is not None and whole.keypoints is not None and len(whole.keypoints) > MOST_KEYPOINTS:
        kept, _ = within_limits(replace(found, whole=replace(whole, keypoints=None)))
        return kept, f"{len(whole.keypoints)} key points for the frame; more than {MOST_KEYPOINTS} are left out"
    points = 0 if found.keypoints is None else found.keypoints.shape[1]
    if len(found) and points > MOST_KEYPOINTS:
        kept, _ = within_limits(replace(found, keypoints=None))
        return kept, f"{points} key points for one object; more than {MOST_KEYPOINTS} are left out"
    most = min(MOST_DETECTIONS, MOST_KEYPOINTS // points) if points else MOST_DETECTIONS
    if len(found) <= most:
        return found, ""
    beside = f" with {points} key points each" if points else ""
    return found.filter(max_detections=most), (
        f"{len(found)} detections{beside} for one frame; the {most} best are attached"
    )
