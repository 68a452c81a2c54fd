"""What is said when ``sluicemux`` has no stream at all: otherwise it waits for ever in silence."""

from __future__ import annotations

import threading

import gi

gi.require_version("Gst", "1.0")
from gi.repository import Gst

from sluice.elements.guard import post_warning

PATIENCE = 5.0
"""Seconds without a sink pad before it is said. Decoders get their pads late, and are linked when they have them."""


class UnlinkedWatch:
    """Posts one warning of an element that has had no sink pad for `PATIENCE` seconds since `begin`."""

    def __init__(self) -> None:
        """Prepare it; it holds no element before `begin` and after `end`."""
        self._timer: threading.Timer | None = None

    def begin(self, element: Gst.Element) -> None:
        """Begin to wait for a pad of an element."""
        self._timer = threading.Timer(PATIENCE, self._warn, [element])
        self._timer.daemon = True
        self._timer.start()

    def end(self) -> None:
        """Wait no longer: there is a pad, or the element stops."""
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()

    def _warn(self, element: Gst.Element) -> None:
        if self._timer is None:
            return
        text = (
            f"{element.get_name()} has no stream, and gives nothing until it gets one: link a source to a pad sink_%u; "
            "where streams come later, drop-pipeline-eos=true keeps this silent"
        )
        post_warning(element, text, code=Gst.CoreError.PAD)
