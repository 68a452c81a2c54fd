"""Every frame's metadata belongs to that frame: a model that detects the frame's own checksum proves it.

The checksum is taken three times: of the frame as it enters the mux, by the model, and of the surface that the metadata
points to behind sluiceinfer. Streams of different size, format, rate and length go through batches of every size.
"""

from collections import defaultdict
from pathlib import Path

import gi
import pytest

gi.require_version("Gst", "1.0")
from gi.repository import Gst
from hash_model import checksum

from sluice.contract.metadata import BatchMeta, Lease
from sluice.contract.provider import provider
from sluice.contract.surface import SurfaceBatch
from sluice.elements import register

MODEL = Path(__file__).with_name("hash_model.py")
PATTERNS = [
    ("I420", 160, 120, "30/1", 40),
    ("NV12", 64, 48, "5/1", 12),
    ("GRAY8", 101, 77, "25/1", 25),
    ("RGB", 320, 180, "60/1", 70),
]
CLIPS = {
    "derived_853x479_vp9.webm": 80,
    "derived_vfr_gaps.mp4": 100,
    "asl_walk.mkv": 89,
    "decord_video_0.mov": 3,
}


class Ledger:
    """What entered the mux and what left sluiceinfer, per stream, as (timestamp, checksum)."""

    def __init__(self) -> None:
        self.entered = defaultdict(list)
        self.left = defaultdict(list)
        self.faults = []
        self.batches = []

    def enters(self, pad, info, stream):
        buffer = info.get_buffer()
        surface = SurfaceBatch.of_raw(buffer, pad.get_current_caps())[0]
        self.entered[stream].append((buffer.pts, checksum(surface.host_planes())))
        return Gst.PadProbeReturn.OK

    def is_given(self, _pad, info):
        self.batches.append(provider().find(info.get_buffer()))
        return Gst.PadProbeReturn.OK

    def leaves(self, _pad, info):
        buffer = info.get_buffer()
        surfaces = SurfaceBatch.of(buffer)
        if provider().find(buffer) != self.batches.pop(0):
            self.faults.append("the batch's metadata is another than the one that entered")
        with Lease() as lease:
            for frame in BatchMeta.of(buffer, lease).frames:
                surface = surfaces[frame.batch_id]
                (found,) = frame.objects
                if found.class_id != checksum(surface.host_planes()):
                    self.faults.append(f"stream {frame.source_id} frame {frame.frame_num}: metadata of other pixels")
                if found.box != (0, 0, surface.width, surface.height):
                    self.faults.append(f"stream {frame.source_id} frame {frame.frame_num}: box of another size")
                if frame.frame_num != len(self.left[frame.source_id]):
                    self.faults.append(f"stream {frame.source_id} frame {frame.frame_num}: out of order")
                self.left[frame.source_id].append((frame.buf_pts, found.class_id))
        return Gst.PadProbeReturn.OK


def run(mux: str, infer: str, sources: list[str]) -> Ledger:
    """Run the sources through mux and model to EOS and return the ledger."""
    for name in ("sluicemux", "sluiceinfer"):
        register(name)
    branches = " ".join(f"{source} ! identity name=in{i} ! m.sink_{i}" for i, source in enumerate(sources))
    pipeline = Gst.parse_launch(f"sluicemux name=m {mux} ! sluiceinfer name=infer {infer} ! fakesink {branches}")
    ledger = Ledger()
    for i in range(len(sources)):
        pad = pipeline.get_by_name(f"in{i}").get_static_pad("src")
        pad.add_probe(Gst.PadProbeType.BUFFER, ledger.enters, i)
    element = pipeline.get_by_name("infer")
    element.get_static_pad("sink").add_probe(Gst.PadProbeType.BUFFER, ledger.is_given)
    element.get_static_pad("src").get_peer().add_probe(Gst.PadProbeType.BUFFER, ledger.leaves)
    pipeline.set_state(Gst.State.PLAYING)
    kinds = Gst.MessageType.EOS | Gst.MessageType.ERROR
    message = pipeline.get_bus().timed_pop_filtered(60 * Gst.SECOND, kinds)
    pipeline.set_state(Gst.State.NULL)
    assert message is not None, "no end"
    assert message.type == Gst.MessageType.EOS, message.parse_error()
    return ledger


def check(ledger: Ledger, counts: list[int]) -> None:
    """Nothing mixed up, nothing lost, nothing twice."""
    assert ledger.faults == []
    assert [len(ledger.entered[i]) for i in range(len(counts))] == counts
    assert ledger.left == ledger.entered


@pytest.mark.parametrize("batch_size", range(1, 9))
def test_four_streams_of_different_size_rate_and_length(batch_size):
    sources = [
        f"videotestsrc pattern=snow num-buffers={n} ! video/x-raw,format={form},width={w},height={h},framerate={rate}"
        for form, w, h, rate, n in PATTERNS
    ]
    in_flight = 9 - batch_size
    mux = f"batch-size={batch_size} batched-push-timeout=20000"
    ledger = run(mux, f"model={MODEL}:HashAfterAWhile in-flight={in_flight}", sources)
    check(ledger, [n for *_, n in PATTERNS])


@pytest.mark.parametrize("batch_size", [1, 3, 8])
def test_four_clips(data, batch_size):
    missing = [name for name in CLIPS if not (data / "videos" / name).is_file()]
    assert missing == []
    sources = [f"filesrc location={data / 'videos' / name} ! decodebin" for name in CLIPS]
    ledger = run(f"batch-size={batch_size} batched-push-timeout=20000", f"model={MODEL}:Hash in-flight=4", sources)
    check(ledger, list(CLIPS.values()))


def test_model_calls_smaller_than_the_batch():
    sources = [
        f"videotestsrc pattern=snow num-buffers=10 ! video/x-raw,format=GRAY8,width={32 + i},height=24,framerate=25/1"
        for i in range(5)
    ]
    check(run("batch-size=5", f"model={MODEL}:Hash batch-size=2", sources), [10] * 5)


def test_batches_of_one_format_as_nvidias_elements_take_them():
    """With nvbuf-memory-type the mux makes memory:NVMM batches, here in system memory."""
    sources = [
        f"videotestsrc pattern=snow num-buffers=10 ! video/x-raw,format=NV12,width={64 + 2 * i},height=48"
        for i in range(3)
    ]
    check(run("batch-size=3 nvbuf-memory-type=6", f"model={MODEL}:Hash", sources), [10] * 3)
