"""One question for the latency of a pipeline with many ends, instead of one for each."""

from __future__ import annotations

import gi

gi.require_version("Gst", "1.0")
from gi.repository import Gst

from sluice.elements.guard import guarded


def ask_once(pipeline: Gst.Pipeline, pad: Gst.Pad) -> None:
    """Have a pipeline ask for its latency at one pad only, and tell the sources of it from there.

    GStreamer itself asks from every sink, each of which asks every source, and has every sink tell every source: with a
    sink for each stream that is the square of the streams. For pipelines none of whose sinks waits for a clock.

    Args:
        pipeline: the pipeline.
        pad: the source pad of the last element that all streams share.
    """
    pipeline.connect("do-latency", _ask, pad)


@guarded(failure=False)
def _ask(_pipeline: Gst.Pipeline, pad: Gst.Pad) -> bool:
    query = Gst.Query.new_latency()
    if not pad.query(query):
        return False
    _live, least, _most = query.parse_latency()
    pad.send_event(Gst.Event.new_latency(least))
    return True
