"""sluiceinfer whose stream changes its caps again and again, and that starts and stops many times."""

import gc
from collections.abc import Iterator

import gi
import pytest

gi.require_version("Gst", "1.0")
from gi.repository import Gst
from hash_model import __file__ as MODEL

from playing import play
from sluice.contract.metadata import BatchMeta, Lease
from sluice.contract.structures import required_structure
from sluice.elements import register
from sluice.models.detections import Detections

FRAMES = 80
FORMATS = ("RGB", "NV12", "GRAY8", "I420")


def test_each_frame_is_inferred_in_the_format_it_came_in_when_caps_change_every_ten_frames():
    register("sluiceinfer")
    pipeline = Gst.parse_launch(
        f"videotestsrc name=source num-buffers={FRAMES} ! capsfilter name=caps "
        f"caps=video/x-raw,format=I420,width=64,height=48 ! sluiceinfer model={MODEL}:Hash in-flight=3 ! "
        "fakesink name=end"
    )
    come, left, announced = [0], [], []

    def change(_pad: Gst.Pad, _info: Gst.PadProbeInfo) -> Gst.PadProbeReturn:
        come[0] += 1
        if come[0] % 10 == 0:
            pixels = f"format={FORMATS[come[0] // 10 % 4]},width={16 + come[0]},height={33 + come[0]}"
            pipeline.get_by_name("caps").set_property("caps", Gst.Caps.from_string(f"video/x-raw,{pixels}"))
        return Gst.PadProbeReturn.OK

    def look(pad: Gst.Pad, info: Gst.PadProbeInfo) -> Gst.PadProbeReturn:
        with Lease() as lease:
            (frame,) = BatchMeta.of(info.get_buffer(), lease).frames
            size = frame.source_width, frame.source_height
            left.append((frame.frame_num, frame.infer_done, size))
            caps = required_structure(pad.get_current_caps(), 0)
            announced.append((caps["width"], caps["height"]))
        return Gst.PadProbeReturn.OK

    pipeline.get_by_name("source").get_static_pad("src").add_probe(Gst.PadProbeType.BUFFER, change)
    pipeline.get_by_name("end").get_static_pad("sink").add_probe(Gst.PadProbeType.BUFFER, look)
    play(pipeline)
    assert [(number, done) for number, done, _ in left] == [(number, True) for number in range(FRAMES)]
    assert [size for *_, size in left] == announced
    assert len(set(announced)) > 4


class Collecting:
    """Looks for garbage on every call."""

    labels = ("thing",)

    def infer(self, frames):
        gc.collect()
        return [Detections([[4, 4, 40, 30]], [0.9], [0]) for _ in frames]


@pytest.fixture
def only_new_garbage() -> Iterator[None]:
    """Keeps what earlier tests left from being looked through at each collection, which then takes a second."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.mark.usefixtures("only_new_garbage")
def test_what_runs_is_held_by_whoever_runs_it_not_by_chance():
    """Callbacks and structures that C code calls and reads are there though all garbage is taken away each frame."""
    for name in ("sluicemux", "sluiceinfer", "sluicetracker", "sluiceosd", "sluicemsgconv", "sluicedemux"):
        register(name)
    ends = " ".join(f"d.src_{i} ! queue ! fakesink name=end{i}" for i in range(4))
    sources = " ".join(
        f"videotestsrc num-buffers=25 ! video/x-raw,format=I420,width=64,height=48 ! m.sink_{i}" for i in range(4)
    )
    pipeline = Gst.parse_launch(
        f"sluicemux name=m batch-size=4 ! sluiceinfer model={__name__}:Collecting in-flight=3 ! sluicetracker ! "
        f"sluiceosd ! sluicemsgconv ! sluicedemux name=d {ends} {sources}"
    )
    left = [0] * 4

    def look(_pad: Gst.Pad, info: Gst.PadProbeInfo, stream: int) -> Gst.PadProbeReturn:
        gc.collect()
        with Lease() as lease:
            left[stream] += BatchMeta.of(info.get_buffer(), lease).frames[0].infer_done
        return Gst.PadProbeReturn.OK

    for stream in range(4):
        pad = pipeline.get_by_name(f"end{stream}").get_static_pad("sink")
        pad.add_probe(Gst.PadProbeType.BUFFER, look, stream)
    play(pipeline)
    assert left == [25] * 4


def test_fifty_starts_and_stops_leave_it_working():
    register("sluiceinfer")
    pipeline = Gst.parse_launch(
        f"videotestsrc ! video/x-raw,format=I420,width=64,height=48 ! sluiceinfer model={MODEL}:Hash in-flight=4 ! "
        "queue ! fakesink"
    )
    try:
        for _ in range(50):
            assert pipeline.set_state(Gst.State.PLAYING) != Gst.StateChangeReturn.FAILURE
            assert pipeline.get_state(30 * Gst.SECOND)[0] == Gst.StateChangeReturn.SUCCESS
            assert pipeline.set_state(Gst.State.READY) == Gst.StateChangeReturn.SUCCESS
    finally:
        pipeline.set_state(Gst.State.NULL)
    assert pipeline.get_bus().pop_filtered(Gst.MessageType.ERROR) is None
