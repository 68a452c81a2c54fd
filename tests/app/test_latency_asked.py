"""The latency of a pipeline with many ends: asked for once, and every source is told."""

from __future__ import annotations

import gi

gi.require_version("Gst", "1.0")
from gi.repository import Gst

Gst.init(None)

from sluice.app.latency import ask_once
from sluice.elements import register

STREAMS = 8
QUERY, EVENT = Gst.PadProbeType.QUERY_UPSTREAM | Gst.PadProbeType.PUSH, Gst.PadProbeType.EVENT_UPSTREAM


def test_each_source_is_asked_and_told_once_however_many_ends_there_are() -> None:
    for element in ("sluicemux", "sluicedemux"):
        register(element)
    sources = " ".join(
        f"videotestsrc is-live=true ! video/x-raw,width=16,height=16,framerate=10/1 ! identity name=i{n} ! m.sink_{n}"
        for n in range(STREAMS)
    )
    ends = " ".join(f"d.src_{n} ! fakesink sync=false async=false" for n in range(STREAMS))
    line = f"sluicemux name=m batch-size={STREAMS} ! sluicedemux name=d {ends} {sources}"
    pipeline = Gst.parse_launch(line)
    asked, told = [0] * STREAMS, [0] * STREAMS
    for number in range(STREAMS):
        pad = pipeline.get_by_name(f"i{number}").get_static_pad("src")
        pad.add_probe(QUERY, _count, asked, number)
        pad.add_probe(EVENT, _count, told, number)
    ask_once(pipeline, pipeline.get_by_name("m").get_static_pad("src"))
    try:
        pipeline.set_state(Gst.State.PLAYING)
        assert pipeline.get_state(20 * Gst.SECOND)[0] != Gst.StateChangeReturn.FAILURE
        asked[:], told[:] = [0] * STREAMS, [0] * STREAMS
        assert pipeline.recalculate_latency()
        assert asked == [1] * STREAMS
        assert told == [1] * STREAMS
    finally:
        pipeline.set_state(Gst.State.NULL)


def _count(_pad: Gst.Pad, info: Gst.PadProbeInfo, counts: list[int], number: int) -> Gst.PadProbeReturn:
    if info.type & Gst.PadProbeType.QUERY_UPSTREAM:
        counts[number] += info.get_query().type == Gst.QueryType.LATENCY
    else:
        counts[number] += info.get_event().type == Gst.EventType.LATENCY
    return Gst.PadProbeReturn.OK
