"""Counting and timing of tracked objects: lines, regions, crowds, directions; plain Python, without GStreamer."""

from sluice.analytics.config import (
    AnalyticsConfig,
    DirectionRule,
    LineRule,
    Mode,
    RegionRule,
    StreamRules,
    read_config,
)
from sluice.analytics.results import Crossing, FrameFindings, ObjectFindings, Seen
from sluice.analytics.stream import StreamAnalytics

__all__ = [
    "AnalyticsConfig",
    "Crossing",
    "DirectionRule",
    "FrameFindings",
    "LineRule",
    "Mode",
    "ObjectFindings",
    "RegionRule",
    "Seen",
    "StreamAnalytics",
    "StreamRules",
    "read_config",
]
