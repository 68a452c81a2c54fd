"""What gives detected objects an identity over time: one tracker per stream, from the ``trackers`` library."""

from sluice.tracking.algorithms import ALGORITHMS, DEFAULT_ALGORITHM, parse_options, reads_pixels
from sluice.tracking.stream import CLOCK_TIME_NONE, UNTRACKED, Detected, Predicted, Settings, StreamTracker
from sluice.tracking.streams import ResetMode, StreamTrackers

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
]
