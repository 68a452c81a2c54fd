"""Sluice's elements on one raw stream, with no mux before them."""

import gi
import pytest

gi.require_version("Gst", "1.0")
from gi.repository import Gst
from hash_model import __file__ as MODEL

from playing import play
from sluice.contract.formats import FORMATS
from sluice.contract.metadata import BatchMeta, Lease
from sluice.elements import register_all


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("size", [(1, 1), (65, 49)])
def test_every_element_that_takes_a_single_stream_works_in_a_row(name: str, size: tuple[int, int]) -> None:
    register_all()
    pipeline = Gst.parse_launch(
        f"videotestsrc num-buffers=12 ! video/x-raw,format={name},width={size[0]},height={size[1]} "
        f"! sluiceinfer model={MODEL}:Hash ! tee ! sluicetracker keep-unconfirmed=true ! sluicemsgconv "
        "! sluicemsgbroker location=/dev/null ! sluiceosd ! fakesink name=end"
    )
    seen: list[tuple[int, bool]] = []

    def look(_pad, info):
        with Lease() as lease:
            seen.extend((frame.frame_num, frame.infer_done) for frame in BatchMeta.of(info.get_buffer(), lease).frames)
        return Gst.PadProbeReturn.OK

    pipeline.get_by_name("end").get_static_pad("sink").add_probe(Gst.PadProbeType.BUFFER, look)
    play(pipeline)
    assert seen == [(number, True) for number in range(12)]
