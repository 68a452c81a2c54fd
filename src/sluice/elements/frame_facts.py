"""What a frame's metadata say of it, as plain values, for elements that watch streams."""

import time

import gi

gi.require_version("Gst", "1.0")
from gi.repository import Gst

from sluice.contract import bulk, user_meta
from sluice.contract.metadata import UNTRACKED, FrameMeta
from sluice.elements.analytics_frames import USER_META as ANALYTICS


def seen_objects(meta: FrameMeta) -> list[tuple[str, int | None]]:
    """Return label and id of each object on a frame; None for the id of an untracked one."""
    found = bulk.read_objects(meta)
    identities = found.object_id.tolist()
    return [
        (label, None if identity == UNTRACKED else identity)
        for label, identity in zip(found.labels, identities, strict=True)
    ]


def crossed_lines(meta: FrameMeta) -> list[str]:
    """Return the lines of sluiceanalytics that were crossed in a frame."""
    lines = []
    for user in user_meta.find(meta, ANALYTICS):
        said = user_meta.payload_json(user).get("analytics", {})
        lines += [crossing["line"] for crossing in said.get("crossings", ())]
    return lines


def pts_of(meta: FrameMeta) -> int | None:
    """Return a frame's time in its stream in nanoseconds; None where it has none."""
    return None if meta.buf_pts == Gst.CLOCK_TIME_NONE else meta.buf_pts


def utc_of(meta: FrameMeta) -> int | None:
    """Return a frame's wall-clock time in nanoseconds since 1970; None where it is not known."""
    return meta.ntp_timestamp if meta.ntp_timestamp not in (0, Gst.CLOCK_TIME_NONE) else None


def time_of(meta: FrameMeta) -> int:
    """Return a frame's time in ns: its timestamp, else its wall-clock time, else that of this machine's clock."""
    pts = pts_of(meta)
    return pts if pts is not None else utc_of(meta) or time.monotonic_ns()
