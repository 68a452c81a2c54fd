"""The relay between pipelines: who gets what, when something is lost, and which times it has."""

from time import time as wall_clock

import gi
import pytest

gi.require_version("Gst", "1.0")
from gi.repository import Gst

from sluice.app.outputs.relay import Relay
from waiting import PATIENCE

Gst.init(None)
CAPS = Gst.Caps.from_string("video/x-h264, stream-format=byte-stream")


class Feeder:
    """A sink pad that is pushed to, with a relay on it."""

    def __init__(self, *, keyed: bool = True, ring_ns: int = 0, ring_bytes: int = 2**20) -> None:
        self._source = Gst.Pad.new("src", Gst.PadDirection.SRC)
        self.sink = Gst.ElementFactory.make("fakesink")
        self.sink.set_property("async", False)
        self.sink.set_state(Gst.State.PLAYING)
        pad = self.sink.get_static_pad("sink")
        self.relay = Relay(pad, keyed=keyed, ring_ns=ring_ns, ring_bytes=ring_bytes)
        self._source.link(pad)
        self._source.set_active(True)
        self.begin()

    def begin(self, start: int = 0) -> None:
        self._source.push_event(Gst.Event.new_stream_start("x"))
        self._source.push_event(Gst.Event.new_caps(CAPS))
        segment = Gst.Segment()
        segment.init(Gst.Format.TIME)
        segment.start = start
        self._source.push_event(Gst.Event.new_segment(segment))

    def push(self, *times: int, group: int = 1, size: int = 10) -> None:
        """Push buffers with these times in seconds; every group-th second is a key frame."""
        for time in times:
            buffer = Gst.Buffer.new_wrapped(bytes(size))
            buffer.pts, buffer.duration = time * Gst.SECOND, Gst.SECOND
            if time % group:
                buffer.set_flags(Gst.BufferFlags.DELTA_UNIT)
            self._source.push(buffer)

    def end(self) -> None:
        self._source.push_event(Gst.Event.new_eos())

    def stop(self) -> None:
        self.sink.set_state(Gst.State.NULL)


class Reader:
    """An appsrc and an appsink, and what came through."""

    def __init__(self, *, playing: bool = True) -> None:
        self.pipeline = Gst.parse_launch("appsrc name=in format=time max-bytes=0 ! appsink name=out sync=false")
        self.entry = self.pipeline.get_by_name("in")
        if playing:
            self.pipeline.set_state(Gst.State.PLAYING)

    def times(self) -> list[int]:
        """The times in seconds of what came, which is ended here where it has no end of its own."""
        self.pipeline.set_state(Gst.State.PLAYING)
        self.entry.emit("end-of-stream")
        found, out = [], self.pipeline.get_by_name("out")
        while (sample := out.emit("try-pull-sample", int(PATIENCE * Gst.SECOND))) is not None:
            found.append(sample.get_buffer().pts // Gst.SECOND)
        assert out.get_property("eos")
        self.pipeline.set_state(Gst.State.NULL)
        return found


def test_when_key_frames_arrived_is_known_of_the_last_thousand() -> None:
    feeder = Feeder()
    before = wall_clock()
    feeder.push(0, 1, 2, 3, group=2)
    after = wall_clock()
    arrivals = [feeder.relay.arrival(seconds * Gst.SECOND) for seconds in range(4)]
    assert [arrival is None for arrival in arrivals] == [False, True, False, True]  # keys only
    assert before - 1e-3 <= arrivals[0] <= arrivals[2] <= after + 1e-3
    feeder.push(*range(4, 1100))
    assert feeder.relay.arrival(0) is None
    assert feeder.relay.arrival(1099 * Gst.SECOND) >= after - 1e-3
    assert Feeder(keyed=False).relay.arrival(0) is None
    feeder.stop()


def test_every_target_gets_every_buffer() -> None:
    feeder, one, two = Feeder(), Reader(), Reader()
    targets = [feeder.relay.attach(reader.entry, most=50) for reader in (one, two)]
    feeder.push(0, 1, 2)
    feeder.end()
    assert one.times() == two.times() == [0, 1, 2]
    assert [(target.pushed, target.dropped, target.ended) for target in targets] == [(3, 0, True)] * 2
    feeder.stop()


def test_a_target_begins_with_a_key_frame() -> None:
    feeder, reader = Feeder(), Reader()
    target = feeder.relay.attach(reader.entry, most=50)
    feeder.push(1, 2, 3, 4, 5, group=3)
    target.detach()
    assert reader.times() == [3, 4, 5]
    assert target.dropped == 0
    feeder.stop()


def test_a_target_that_lags_loses_whole_groups() -> None:
    feeder, reader = Feeder(), Reader(playing=False)
    reader.pipeline.set_state(Gst.State.READY)
    target = feeder.relay.attach(reader.entry, most=4)
    reader.pipeline.set_state(Gst.State.PAUSED)
    feeder.push(*range(12), group=3)
    # Nothing is taken: one buffer or two have left for the sink, and there is room for four more.
    assert target.dropped > 0
    assert target.pushed + target.dropped == 12
    feeder.push(12, 13, group=3)
    got = reader.times()
    assert got[:2] == [0, 1]
    assert all(time % 3 == 0 or time - 1 in got for time in got)  # what is there can be decoded
    feeder.stop()


def test_raw_frames_that_lag_lose_the_oldest() -> None:
    feeder = Feeder(keyed=False)
    pipeline = Gst.parse_launch("appsrc name=in format=time max-bytes=0 max-buffers=2 leaky-type=downstream ! fakesink")
    pipeline.set_state(Gst.State.PAUSED)
    pipeline.get_by_name("in").get_static_pad("src").add_probe(
        Gst.PadProbeType.BLOCK | Gst.PadProbeType.BUFFER, lambda *_: Gst.PadProbeReturn.OK
    )
    target = feeder.relay.attach(pipeline.get_by_name("in"), most=2)
    feeder.push(*range(10))
    assert target.pushed == 10
    assert 6 <= target.dropped <= 8
    pipeline.set_state(Gst.State.NULL)
    target.detach()
    feeder.stop()


def test_a_target_may_begin_in_the_past() -> None:
    feeder, reader = Feeder(ring_ns=5 * Gst.SECOND), Reader()
    feeder.push(*range(20), group=4)
    target = feeder.relay.attach(reader.entry, most=50, since=17 * Gst.SECOND)
    feeder.push(20)
    target.detach()
    assert reader.times() == [16, 17, 18, 19, 20]
    feeder.stop()


def test_the_ring_is_bounded_by_time_and_by_bytes() -> None:
    feeder = Feeder(ring_ns=5 * Gst.SECOND, ring_bytes=1000)
    feeder.push(*range(100), group=2)
    assert 5 <= feeder.relay.read().ring_buffers <= 8
    feeder.push(*range(100, 150), group=2, size=200)
    assert feeder.relay.read().ring_bytes <= 1000
    feeder.push(*range(151, 160), group=1000, size=200)  # one group alone is too much
    assert feeder.relay.read().ring_bytes <= 1000
    feeder.stop()


def test_a_target_ends_at_its_time_which_may_be_put_off() -> None:
    feeder, reader = Feeder(), Reader()
    target = feeder.relay.attach(reader.entry, most=50, until=3 * Gst.SECOND)
    feeder.push(0, 1)
    target.extend(5 * Gst.SECOND)
    target.extend(2 * Gst.SECOND)
    feeder.push(*range(2, 9))
    assert target.ended
    assert reader.times() == [0, 1, 2, 3, 4, 5]
    feeder.stop()


def test_times_never_go_back() -> None:
    feeder, reader = Feeder(), Reader()
    target = feeder.relay.attach(reader.entry, most=50)
    feeder.push(5, 6, 7)
    feeder.begin(start=100 * Gst.SECOND)
    feeder.push(100, 101)
    target.detach()
    assert reader.times() == [5, 6, 7, 8, 9]
    feeder.stop()


def test_raw_frames_come_no_more_often_than_wanted() -> None:
    feeder, reader = Feeder(keyed=False), Reader()
    target = feeder.relay.attach(reader.entry, most=50, interval=3 * Gst.SECOND)
    feeder.push(*range(10))
    target.detach()
    assert reader.times() == [0, 3, 6, 9]
    assert target.dropped == 0
    feeder.stop()


def test_a_target_that_comes_after_the_end_has_ended() -> None:
    feeder, reader = Feeder(), Reader()
    feeder.push(0)
    feeder.end()
    assert feeder.relay.read().ended
    assert feeder.relay.attach(reader.entry, most=5).ended
    feeder.stop()


@pytest.mark.parametrize("keyed", [True, False])
def test_nothing_is_held_after_all(keyed: bool) -> None:
    feeder, reader = Feeder(keyed=keyed, ring_ns=10**10), Reader()
    freed = []
    reader.entry.weak_ref(lambda: freed.append(True))
    target = feeder.relay.attach(reader.entry, most=5)
    feeder.push(0, 1)
    target.detach()
    reader.pipeline.set_state(Gst.State.NULL)
    del target, reader
    assert freed
    assert feeder.relay.read().targets == 0
    feeder.stop()
