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
from waiting import PATIENCE, until

CAPS = "video/x-raw,format=GRAY8,width=64,height=48,framerate=50/1"
SIZE = 64 * 48
STALL = 10.0
POOL = 4
BEFORE = 5  # frames of each stream before one of them stalls


class Line:
    """Two sources with a pool of four buffers each, a mux, sluiceinfer, and what left."""

    def __init__(self, in_flight: int) -> None:
        source = f"appsrc name=s{{}} is-live=true format=time do-timestamp=true caps={CAPS}"
        self.pipeline = Gst.parse_launch(
            f"sluicemux name=m batch-size=2 batched-push-timeout=30000 ! sluiceinfer model={MODEL}:Hash "
            f"in-flight={in_flight} ! fakesink name=end sync=false enable-last-sample=false "
            f"{source.format(0)} ! m.sink_0 {source.format(1)} ! m.sink_1"
        )
        self.left: list[tuple[int, int]] = []
        self.pushed = [0, 0]
        self.sources = [self.pipeline.get_by_name(f"s{i}") for i in range(2)]
        self.pools = [self._pool() for _ in self.sources]
        self.pipeline.get_by_name("end").get_static_pad("sink").add_probe(Gst.PadProbeType.BUFFER, self._look)
        self.pipeline.set_state(Gst.State.PLAYING)

    @staticmethod
    def _pool() -> Gst.BufferPool:
        pool = Gst.BufferPool.new()
        settings = pool.get_config()
        Gst.BufferPool.config_set_params(settings, Gst.Caps.from_string(CAPS), SIZE, POOL, POOL)
        pool.set_config(settings)
        assert pool.set_active(True)
        return pool

    def _look(self, _pad: Gst.Pad, info: Gst.PadProbeInfo) -> Gst.PadProbeReturn:
        with Lease() as lease:
            self.left.extend((f.source_id, f.frame_num) for f in BatchMeta.of(info.get_buffer(), lease).frames)
        return Gst.PadProbeReturn.OK

    def push(self, stream: int) -> None:
        """Push a frame of the pool once there is one, for which nothing but this line's going on can be needed."""
        settings = Gst.BufferPoolAcquireParams()
        settings.flags = Gst.BufferPoolAcquireFlags.DONTWAIT
        deadline = time.monotonic() + PATIENCE
        while (found := self.pools[stream].acquire_buffer(settings))[0] == Gst.FlowReturn.EOS:
            assert time.monotonic() < deadline, f"stream {stream} stalls behind frame {self.pushed[stream]}"
            time.sleep(0.005)
        self.sources[stream].push_buffer(found[1])
        self.pushed[stream] += 1

    def wait_for_last(self, stream: int) -> None:
        frame = stream, self.pushed[stream] - 1
        until(lambda: frame in self.left, f"frame {frame[1]} of stream {stream} leaves")

    def stop(self) -> None:
        self.pipeline.set_state(Gst.State.NULL)
        for pool in self.pools:
            pool.set_active(False)


@pytest.fixture
def lines():
    """One line for each number of batches in flight, side by side, so that the stall takes its time but once."""
    for name in ("sluicemux", "sluiceinfer"):
        register(name)
    made = [Line(in_flight) for in_flight in (1, 2, 3, 8)]
    yield made
    for line in made:
        line.stop()


def test_a_stalled_stream_neither_stops_the_other_nor_keeps_its_last_frame(lines):
    for _ in range(BEFORE):
        for line in lines:
            line.push(0)
            line.push(1)
        time.sleep(0.02)
    for line in lines:
        line.wait_for_last(1)  # the last frame before the stall, with nothing of its stream behind it
    end = time.monotonic() + STALL
    while time.monotonic() < end:
        for line in lines:
            line.push(0)
        time.sleep(0.02)
    for line in lines:
        line.wait_for_last(0)  # and the other stream went on without it
        line.push(1)
        line.wait_for_last(1)
    for line in lines:
        line.stop()
        assert line.pushed[0] > BEFORE
        assert line.pushed[1] == BEFORE + 1
        for stream, pushed in enumerate(line.pushed):
            assert [number for source, number in line.left if source == stream] == list(range(pushed))
