"""What gives detected objects an identity over time: the ``trackers`` library, and our form of it for many streams."""

from sluice.tracking.algorithms import ALGORITHMS, DEFAULT_ALGORITHM, parse_options, reads_pixels
from sluice.tracking.records import CLOCK_TIME_NONE, UNTRACKED, Detected, Predicted, Settings, StreamTracker
from sluice.tracking.streams import ResetMode, StreamTrackers, stream_tracker

__all__ = [
    "ALGORITHMS",
    "CLOCK_TIME_NONE",
    "DEFAULT_ALGORITHM",
    "UNTRACKED",
    "Detected",
    "Predicted",
    "ResetMode",
    "Settings",
    "StreamTracker",
    "StreamTrackers",
    "parse_options",
    "reads_pixels",
    "stream_tracker",
]
