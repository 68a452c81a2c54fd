"""sluiceinfer behind a mux one of whose streams stalls: the other goes on, and no frame stays inside."""

import time

import gi
import pytest

gi.require_version("Gst", "1.0")
gi.require_version("GstApp", "1.0")
from gi.repository import Gst, GstApp  # noqa: F401 - GstApp gives appsrc its methods
from hash_model import __file__ as MODEL

from sluice.contract.metadata import BatchMeta, Lease
from sluice.elements import register

CAPS = "video/x-raw,format=GRAY8,width=64,height=48,framerate=50/1"
STALL = 1.0


@pytest.mark.parametrize("in_flight", [1, 3, 8])
def test_a_stalled_stream_neither_stops_the_other_nor_keeps_its_last_frame(in_flight):
    for name in ("sluicemux", "sluiceinfer"):
        register(name)
    source = f"appsrc name=s{{}} is-live=true format=time do-timestamp=true caps={CAPS}"
    pipeline = Gst.parse_launch(
        f"sluicemux name=m batch-size=2 batched-push-timeout=30000 ! sluiceinfer model={MODEL}:Hash "
        f"in-flight={in_flight} ! fakesink name=end sync=false "
        f"{source.format(0)} ! m.sink_0 {source.format(1)} ! m.sink_1"
    )
    left: list[tuple[int, int]] = []

    def look(_pad, info):
        with Lease() as lease:
            left.extend((f.source_id, f.frame_num) for f in BatchMeta.of(info.get_buffer(), lease).frames)
        return Gst.PadProbeReturn.OK

    pipeline.get_by_name("end").get_static_pad("sink").add_probe(Gst.PadProbeType.BUFFER, look)
    sources = [pipeline.get_by_name(f"s{i}") for i in range(2)]

    def push(stream: int) -> None:
        sources[stream].push_buffer(Gst.Buffer.new_allocate(None, 64 * 48, None))

    def wait_for(frame: tuple[int, int]) -> None:
        deadline = time.monotonic() + 10
        while frame not in left and time.monotonic() < deadline:
            time.sleep(0.005)
        assert frame in left

    pipeline.set_state(Gst.State.PLAYING)
    try:
        for _ in range(5):
            push(0)
            push(1)
            time.sleep(0.02)
        wait_for((1, 4))  # the last frame before the stall, with nothing of its stream behind it
        pushed = 5
        end = time.monotonic() + STALL
        while time.monotonic() < end:
            push(0)
            pushed += 1
            time.sleep(0.02)
        wait_for((0, pushed - 1))  # and the other stream went on without it
        push(1)
        wait_for((1, 5))
    finally:
        pipeline.set_state(Gst.State.NULL)
    assert [n for stream, n in left if stream == 0] == list(range(pushed))
    assert [n for stream, n in left if stream == 1] == list(range(6))
