"""Every frame's metadata belongs to that frame: a model that detects the frame's own checksum proves it.

The checksum is taken three times: of the frame as it enters the mux, by the model, and of the surface that the metadata
points to behind sluiceinfer. Streams of different size, format, rate and length go through batches of every size.
"""

from pathlib import Path

import gi
import pytest

gi.require_version("Gst", "1.0")
from frame_ledger import Ledger
from gi.repository import Gst

from playing import play
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


def run(mux: str, infer: str, sources: list[str]) -> Ledger:
    """Run the sources through mux and model to EOS and return the ledger."""
    for name in ("sluicemux", "sluiceinfer"):
        register(name)
    branches = " ".join(f"{source} ! identity name=in{i} ! m.sink_{i}" for i, source in enumerate(sources))
    pipeline = Gst.parse_launch(f"sluicemux name=m {mux} ! sluiceinfer name=infer {infer} ! fakesink {branches}")
    ledger = Ledger()
    ledger.watch(pipeline, len(sources))
    play(pipeline)
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
