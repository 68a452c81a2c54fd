"""What ``sluiceanalytics`` does with a buffer's frames: read their objects, and write what was found."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import gi

gi.require_version("Gst", "1.0")
from gi.repository import Gst

from sluice.analytics import AnalyticsConfig, FrameFindings, ObjectFindings, Seen, StreamAnalytics
from sluice.contract import bulk, user_meta
from sluice.contract.analytics_meta import (
    FrameAnalytics,
    ObjectAnalytics,
    attach_frame_analytics,
    attach_object_analytics,
)
from sluice.contract.metadata import UNTRACKED, BatchMeta, FrameMeta, Lease, ObjectMeta
from sluice.elements.analytics_display import show
from sluice.elements.surface_sizes import SurfaceSizes
from sluice.errors import ContractError

USER_META = "SLUICE.ANALYTICS"
"""Descriptor of the user metas with the findings as JSON text; messages carry them under ``user``."""

_TEXT_RISE = 10.0


@dataclass
class Counters:
    """What the element did since it was started; see the property ``stats``."""

    frames: int = 0
    crossings: int = 0


class FrameAnalysis:
    """Finds and writes; one per start of the element."""

    def __init__(self, config: AnalyticsConfig, counters: Counters, *, unique_id: int, hysteresis: float, json: bool):
        """Analyse by the element's properties of the same names."""
        self._config = config
        self._counters = counters
        self._unique_id = unique_id
        self._hysteresis = hysteresis
        self._json = json
        self._streams: dict[int, StreamAnalytics] = {}
        self._sizes: SurfaceSizes | None = None

    def set_caps(self, caps: Gst.Caps) -> None:
        """Take the caps of the buffers that follow."""
        self._sizes = SurfaceSizes(caps)

    def configure(self, config: AnalyticsConfig) -> None:
        """Count by another configuration from now on, from 0."""
        self._config = config
        self._streams.clear()

    def jump(self, source: int | None = None) -> None:
        """Forget the objects of a stream, or of all; the totals go on."""
        for number, stream in self._streams.items():
            if source in (None, number):
                stream.forget()

    def remove(self, source: int) -> None:
        """Forget a stream that is gone."""
        self._streams.pop(source, None)

    def analyse(self, buffer: Gst.Buffer) -> None:
        """Analyse the frames of a buffer, in their order.

        Raises:
            ContractError: the buffer carries no batch metadata.
        """
        with Lease() as lease:
            batch = BatchMeta.of(buffer, lease)
            if batch is None or self._sizes is None:
                raise ContractError(
                    "the buffer carries no batch metadata; sluicemux or sluiceinfer must stand before sluiceanalytics"
                )
            frames = [frame for frame in batch.frames if frame.source_id in self._config.streams]
            if self._config.enable and frames:
                sizes = self._sizes.of(buffer, [frame.batch_id for frame in frames])
                for frame, size in zip(frames, sizes, strict=True):
                    self._analyse_frame(frame, size)

    def _analyse_frame(self, frame: FrameMeta, size: tuple[int, int]) -> None:
        source, rules = frame.source_id, self._config.streams[frame.source_id]
        if source not in self._streams:
            self._streams[source] = StreamAnalytics(
                rules, (self._config.width, self._config.height), hysteresis=self._hysteresis
            )
        rows = bulk.read_objects(frame).rows[::-1]
        seen = [
            Seen(None if identity == UNTRACKED else identity, class_id, box)
            for identity, class_id, box in zip(
                *(rows[name].tolist() for name in ("object_id", "class_id", "box")), strict=True
            )
        ]
        found = self._streams[source].update(seen, size, _time(frame))
        self._counters.frames += 1
        self._counters.crossings += len(found.crossings)
        self._write_frame(frame, found)
        for address, item, findings in zip(rows["address"].tolist(), seen, found.objects, strict=True):
            if findings:
                self._write_object(ObjectMeta(address, frame.lease, frame.provider), item, findings)
        if self._config.osd_mode:
            show(frame, rules, found, self._config, size)

    def _write_frame(self, frame: FrameMeta, found: FrameFindings) -> None:
        current = {line: found.current(line) for line in found.totals}
        analytics = FrameAnalytics(found.overcrowded, found.in_region, current, found.totals, found.classes)
        attach_frame_analytics(frame, analytics, unique_id=self._unique_id)
        if self._json:
            user_meta.attach_json(frame, USER_META, {"analytics": _frame_members(found)})

    def _write_object(self, obj: ObjectMeta, seen: Seen, found: ObjectFindings) -> None:
        status = found.status()
        analytics = ObjectAnalytics(found.regions, found.crowds, found.lines, found.direction_text(), status)
        attach_object_analytics(obj, analytics, unique_id=self._unique_id)
        if self._json:
            user_meta.attach_json(obj, USER_META, {"analytics": _object_members(found)})
        if self._config.osd_mode == 2 and status:
            _append_text(obj, status, seen.box)


def _append_text(obj: ObjectMeta, status: str, box: Sequence[float]) -> None:
    text = obj.text
    shown = text.display_text
    text.display_text = f"{shown or ''}{status}"
    if shown is None:
        text.x_offset, text.y_offset = max(0, int(box[0])), max(0, int(box[1] - _TEXT_RISE))
        text.font_name, text.font_size, text.font_color = "Serif", bulk.DETECTOR_FONT_SIZE, (1.0, 1.0, 1.0, 1.0)


def _time(frame: FrameMeta) -> int:
    """The frame's time in ns: its timestamp, else its wall-clock time, else that of this machine's clock."""
    if frame.buf_pts != Gst.CLOCK_TIME_NONE:
        return frame.buf_pts
    return frame.ntp_timestamp or time.monotonic_ns()


def _frame_members(found: FrameFindings) -> dict[str, Any]:
    regions: dict[str, dict[str, Any]] = {name: {"count": count} for name, count in found.in_region.items()}
    for name, overcrowded in found.overcrowded.items():
        regions[name]["overcrowded"] = overcrowded
    return {
        "regions": regions,
        "lines": found.totals,
        "crossings": [{"line": item.line, "id": item.id, "class_id": item.class_id} for item in found.crossings],
        "classes": {str(class_id): count for class_id, count in found.classes.items()},
    }


def _object_members(found: ObjectFindings) -> dict[str, Any]:
    members: dict[str, Any] = {"regions": list(dict.fromkeys([*found.regions, *found.crowds]))}
    if found.dwell:
        members["dwell"] = {name: round(nanoseconds / 1e9, 3) for name, nanoseconds in found.dwell.items()}
    if found.lines:
        members["lines"] = found.lines
    if found.direction:
        members["direction"] = found.direction
    return members
