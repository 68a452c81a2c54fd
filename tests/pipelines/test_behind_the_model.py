"""Everything behind the model while the pipeline plays: sources that come and go, swaps during a replay, a crowd."""

import itertools
import time

import gi
import numpy as np
import pytest

gi.require_version("Gst", "1.0")
from gi.repository import Gst

from playing import reaches_its_end
from sluice import elements
from sluice.contract import bulk
from sluice.contract.metadata import BatchMeta, Lease

WAIT = 30 * Gst.SECOND


@pytest.fixture(autouse=True)
def registered():
    elements.register_all()


@pytest.fixture
def play():
    """Start pipelines, and stop them all at the end."""
    started = []

    def start(description):
        started.append(Gst.parse_launch(description))
        started[-1].set_state(Gst.State.PLAYING)
        return started[-1]

    yield start
    for pipeline in started:
        pipeline.set_state(Gst.State.NULL)


def fail_on_error(pipeline):
    message = pipeline.get_bus().pop_filtered(Gst.MessageType.ERROR)
    assert message is None, message.parse_error()


def eventually(pipeline, condition, seconds=30):
    end = time.monotonic() + seconds
    while not condition():
        fail_on_error(pipeline)
        assert time.monotonic() < end, "did not come true"
        time.sleep(0.01)


def source():
    """A bin with an endless source of 64 by 48 pixels, at 50 frames a second of the clock."""
    return Gst.parse_bin_from_description(
        "videotestsrc is-live=true pattern=ball ! video/x-raw,format=I420,width=64,height=48,framerate=50/1 ! identity",
        True,
    )


def add(pipeline, mux, number):
    entry = source()
    pipeline.add(entry)
    pad = mux.request_pad_simple(f"sink_{number}")
    entry.get_static_pad("src").link(pad)
    entry.sync_state_with_parent()
    return entry, pad


def remove(pipeline, mux, entry, pad):
    entry.set_state(Gst.State.NULL)
    entry.get_static_pad("src").unlink(pad)
    mux.release_request_pad(pad)
    pipeline.remove(entry)


class Seen:
    """Which frames come by a pad: their stream and number, with the objects' classes."""

    def __init__(self, pad):
        self.rows = []
        self.ended = False
        pad.add_probe(Gst.PadProbeType.BUFFER | Gst.PadProbeType.EVENT_DOWNSTREAM, self._note)

    def _note(self, _pad, info):
        if not info.type & Gst.PadProbeType.BUFFER:
            self.ended |= info.get_event().type == Gst.EventType.EOS
            return Gst.PadProbeReturn.OK
        with Lease() as lease:
            for frame in BatchMeta.of(info.get_buffer(), lease).frames:
                self.rows.append((frame.pad_index, frame.frame_num, len(frame.objects)))
        return Gst.PadProbeReturn.OK

    def of(self, stream):
        return [number for pad, number, _ in self.rows if pad == stream]


def test_sources_come_and_go_before_a_tiler_while_it_plays(play):
    pipeline = play(
        "sluicemux name=m batch-size=4 batched-push-timeout=40000 ! sluicetiler name=t width=128 height=96 "
        "! video/x-raw,format=RGB ! appsink name=s max-buffers=2 drop=true sync=false"
    )
    mux, sink = pipeline.get_by_name("m"), pipeline.get_by_name("s")

    def bright(left, top):
        """Whether something is seen in a quarter of the picture; the sources' background is black."""
        sample = sink.emit("try-pull-sample", WAIT)
        assert sample is not None, fail_on_error(pipeline)
        with_padding = np.frombuffer(sample.get_buffer().extract_dup(0, sample.get_buffer().get_size()), np.uint8)
        picture = with_padding.reshape(96, 128, 3)
        return picture[top : top + 48, left : left + 64].max() > 200

    places = [(0, 0), (64, 0), (0, 48), (64, 48)]
    here = [add(pipeline, mux, number) for number in range(4)]
    for place in places:
        eventually(pipeline, lambda place=place: bright(*place))
    for _ in range(5):  # the last one goes and comes back; the others stay where they are
        remove(pipeline, mux, *here.pop())
        eventually(pipeline, lambda: not bright(64, 48))
        assert bright(0, 0)
        here.append(add(pipeline, mux, 3))
        eventually(pipeline, lambda: bright(64, 48))
    for entry in here:
        remove(pipeline, mux, *entry)
    fail_on_error(pipeline)


def branch(pipeline, demux):
    """Add a branch for stream 1; a sink that has seen the end of a stream takes no other."""
    end = Gst.parse_bin_from_description("queue ! fakesink async=false", True)
    pipeline.add(end)
    pad = demux.request_pad_simple("src_1")
    pad.link(end.get_static_pad("sink"))
    end.sync_state_with_parent()
    return end, pad


def cut(pipeline, demux, end, pad):
    demux.release_request_pad(pad)
    end.set_state(Gst.State.NULL)
    pipeline.remove(end)


@pytest.mark.parametrize("lasting", [True, False])
def test_sources_come_and_go_between_a_muxer_and_a_demuxer_while_they_play(play, lasting):
    """The branch of a stream that comes and goes may stay, if its end is not told to it, or come and go too."""
    pipeline = play(
        "sluicemux name=m batch-size=4 batched-push-timeout=40000 ! sluicetracker "
        f"! sluicedemux name=d per-stream-eos={not lasting} d.src_0 ! queue ! fakesink name=s async=false"
    )
    mux, demux = pipeline.get_by_name("m"), pipeline.get_by_name("d")
    stays = Seen(pipeline.get_by_name("s").get_static_pad("sink"))
    first = add(pipeline, mux, 0)
    eventually(pipeline, lambda: len(stays.rows) > 5)
    other = branch(pipeline, demux) if lasting else None
    for _ in range(5):
        end = other or branch(pipeline, demux)
        seen = Seen(end[0].get_static_pad("sink"))
        entry = add(pipeline, mux, 1)
        eventually(pipeline, lambda seen=seen: len(seen.rows) > 5)
        remove(pipeline, mux, *entry)
        if not lasting:
            eventually(pipeline, lambda seen=seen: seen.ended)
            cut(pipeline, demux, *end)
        assert {pad for pad, *_ in seen.rows} == {1}
    count = len(stays.rows)
    eventually(pipeline, lambda: len(stays.rows) > count + 5)
    numbers = stays.of(0)
    assert numbers == list(range(len(numbers))), "the stream that stayed lost nothing"
    remove(pipeline, mux, *first)
    fail_on_error(pipeline)


MODEL = """
from sluice import Detections

class Once:
    labels = ("{label}",)

    def infer(self, frames):
        return [Detections([[4, 4, 20, 20]], [0.9], [0]) for _ in frames]
"""


def test_a_model_is_replaced_while_a_recording_is_replayed(play, tmp_path):
    """The replayed objects come with every frame, and behind each stand those of the model that saw it."""
    for label in ("old", "new"):
        (tmp_path / f"{label}.py").write_text(MODEL.format(label=label))
    video = "videotestsrc num-buffers=200 pattern=ball ! video/x-raw,format=I420,width=64,height=48,framerate=50/1"
    recording = tmp_path / "run.jsonl"
    recorded = play(
        f"{video} ! m.sink_0 sluicemux name=m batch-size=1 ! sluiceinfer unique-id=1 model={tmp_path / 'old.py'}:Once "
        f"! sluicemetafile record-to={recording} ! fakesink"
    )
    reaches_its_end(recorded)
    recorded.set_state(Gst.State.NULL)
    pipeline = play(
        f"{video} ! m.sink_0 sluicemux name=m batch-size=1 ! sluicemetafile replay-from={recording} "
        f"! sluiceinfer name=i unique-id=7 model={tmp_path / 'old.py'}:Once ! sluicetracker keep-unconfirmed=true "
        "! fakesink name=s sync=true"
    )
    labels = []

    def note(_pad, info):
        with Lease() as lease:
            (frame,) = BatchMeta.of(info.get_buffer(), lease).frames
            labels.append({item.unique_component_id: item.label for item in frame.objects})
        return Gst.PadProbeReturn.OK

    pipeline.get_by_name("s").get_static_pad("sink").add_probe(Gst.PadProbeType.BUFFER, note)
    eventually(pipeline, lambda: len(labels) > 20)
    pipeline.get_by_name("i").set_property("model", f"{tmp_path / 'new.py'}:Once")
    reaches_its_end(pipeline)
    assert len(labels) == 200
    assert {found[1] for found in labels} == {"old"}
    of_model = [found[7] for found in labels]
    turns = sum(before != after for before, after in itertools.pairwise(of_model))
    assert turns == 1, "old until the change, new from then on"
    assert of_model[-1] == "new"


def test_ten_thousand_objects_go_through_everything_behind_the_model(play, tmp_path):
    pipeline = play(
        "videotestsrc num-buffers=2 ! video/x-raw,format=I420,width=1280,height=720,framerate=5/1 ! m.sink_0 "
        "sluicemux name=m batch-size=1 ! identity name=i ! sluicetracker algorithm=iou "
        "tracker-options=minimum_consecutive_frames=1 ! sluicemsgconv "
        f"! sluicemsgbroker location={tmp_path / 'm.jsonl'} ! sluicedemux name=d "
        "d.src_0 ! sluiceosd trail-length=5 ! fakesink name=s async=false"
    )
    rows, columns = np.divmod(np.arange(10_000, dtype=np.float32), 100)
    boxes = np.stack([columns * 12.8, rows * 7.2, np.full(10_000, 11), np.full(10_000, 6)], axis=1).astype(np.float32)

    def write(_pad, info):
        (frame,) = BatchMeta.of(info.get_buffer()).frames
        scores, classes = np.full(10_000, 0.9, np.float32), np.zeros(10_000, np.int32)
        bulk.write_objects(frame, boxes, scores, classes, ["é"] * 10_000, unique_id=1)
        return Gst.PadProbeReturn.OK

    pipeline.get_by_name("i").get_static_pad("src").add_probe(Gst.PadProbeType.BUFFER, write)
    seen = Seen(pipeline.get_by_name("s").get_static_pad("sink"))
    reaches_its_end(pipeline)
    assert [count for _, _, count in seen.rows] == [0, 10_000], "tracks are confirmed on their second frame"
    assert len((tmp_path / "m.jsonl").read_text().splitlines()) == 2
