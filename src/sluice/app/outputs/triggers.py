"""Which frames begin a clip: those with an object of a class, or on which a line is crossed."""

from __future__ import annotations

from collections.abc import Callable

import gi

gi.require_version("Gst", "1.0")
from gi.repository import Gst

from sluice.app.outputs.options import ClipOptions
from sluice.contract import user_meta
from sluice.contract._views import cut_label
from sluice.contract.bulk import read_objects
from sluice.contract.metadata import BatchMeta, FrameMeta, Lease
from sluice.elements.analytics_frames import USER_META
from sluice.elements.guard import guarded


class Triggers:
    """Looks at the metadata of every frame of a stream, with one entry into Python per frame."""

    def __init__(self, options: ClipOptions, found: Callable[[str, int], object]) -> None:
        """Call `found` with the reason and the frame's running time in nanoseconds; it must return at once."""
        self._classes = frozenset(cut_label(label) for label in options.classes)
        self._confidence = options.confidence
        self._lines = frozenset(options.lines)
        self._found = found

    @property
    def any(self) -> bool:
        """Whether there is anything to look for."""
        return bool(self._classes or self._lines)

    def watch(self, pad: Gst.Pad) -> None:
        """Look at what passes this pad, behind the relay that gives it its running time."""
        pad.add_probe(Gst.PadProbeType.BUFFER, _look, self)

    def look(self, buffer: Gst.Buffer) -> None:
        """Look at one frame."""
        with Lease() as lease:
            batch = BatchMeta.of(buffer, lease)
            for frame in batch.frames if batch is not None else []:
                reason = self._object(frame) or self._crossing(frame)
                if reason:
                    self._found(reason, buffer.pts)
                    return

    def _object(self, frame: FrameMeta) -> str | None:
        if not self._classes or not frame.num_objects:
            return None
        rows = read_objects(frame).rows
        for label, confidence in zip(rows["label"].tolist(), rows["confidence"].tolist(), strict=True):
            # Objects that the tracker predicts have no confidence of a detection (-0.1); they are there all the same.
            if label in self._classes and (confidence >= self._confidence or confidence < 0):
                return str(label.decode(errors="replace"))
        return None

    def _crossing(self, frame: FrameMeta) -> str | None:
        if not self._lines:
            return None
        for found in user_meta.find(frame, USER_META):
            for crossing in user_meta.payload_json(found).get("analytics", {}).get("crossings", []):
                if crossing["line"] in self._lines:
                    return f"line-{crossing['line']}"
        return None


@guarded(failure=Gst.PadProbeReturn.OK)
def _look(_pad: Gst.Pad, info: Gst.PadProbeInfo, triggers: Triggers) -> Gst.PadProbeReturn:
    triggers.look(info.get_buffer())
    return Gst.PadProbeReturn.OK
