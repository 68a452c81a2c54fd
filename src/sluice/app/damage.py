"""What shows that a stream was damaged, from what was counted in front of its decoder and behind it."""

from __future__ import annotations

from collections.abc import Sequence

from sluice.app.flow import FlowCounts

# What may be missing of a container's duration, or at its start, without being called damage: streams of one file do
# not begin and end together to the frame, and durations are rounded.
_TOLERANCE_NS = 500 * 1_000_000
_TOLERANCE_SHARE = 0.05


def marked(decoded: FlowCounts) -> list[str]:
    """Say how many frames the decoder itself called damaged; nothing where none."""
    return [f"the decoder marked {decoded.corrupted} frames as damaged"] if decoded.corrupted else []


def missing_at_start(decoded: FlowCounts, demuxed: Sequence[FlowCounts]) -> list[str]:
    """Say what lies between the first packet that is to be shown and the first frame decoded.

    Args:
        decoded: what left the decoder.
        demuxed: what left the demuxer, by its pads that gave anything; at least one.
    """
    if decoded.first_pts is None:
        return []
    late = decoded.first_pts - min(max(c.segment_start or 0, c.first_pts or 0) for c in demuxed)
    if late <= _TOLERANCE_NS:
        return []
    return [f"the first {late / 1e9:.1f} s cannot be decoded: the stream begins between key frames"]


def missing_at_end(demuxed: Sequence[FlowCounts], duration: int) -> list[str]:
    """Say what a file has less than its header says.

    Args:
        demuxed: as for `missing_at_start`.
        duration: by the header, in nanoseconds.
    """
    missing = duration - max((c.last_end or 0) - (c.segment_start or c.first_pts or 0) for c in demuxed)
    if missing <= max(_TOLERANCE_NS, _TOLERANCE_SHARE * duration):
        return []
    return [f"the file ends {missing / 1e9:.1f} s early: its header says {duration / 1e9:.1f} s"]
