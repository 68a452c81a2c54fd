"""What masks cost the model's thread, from the GPU's bits to the metadata: milliseconds per batch, on the processor.

    python bench/masks.py [--frames 8] [--boxes 20] [--cells 24 160] [--seconds 3]

Three figures for batches of random boxes whose masks have so many cells a side: reading what the GPU gives, attaching
that to the metadata, and attaching masks that a decoder made on the processor. The same again with Python threads that
count beside it, which tells how much waits for the interpreter's lock. It needs torch and triton, no GPU.
"""

import argparse
import statistics
import sys
from collections.abc import Callable

import gi
import numpy as np
from busy import busy_threads

from contract import measure

gi.require_version("Gst", "1.0")
from gi.repository import Gst

from sluice.contract.bulk import fill_frames
from sluice.contract.metadata import BatchMeta
from sluice.contract.provider import provider
from sluice.models.attach import attach_batch
from sluice.models.detections import Detections
from sluice.models.gpu.masks import BYTES, FACTS, MaskReader
from sluice.models.letterbox import Letterbox

INPUT = (640, 640)
FRAME = (1920, 1080)
SWITCH_INTERVAL = 0.0002  # what Sluice's first element sets
BUSY_THREADS = 1


def packed_results(frames: int, boxes: int, cells: tuple[int, int]) -> np.ndarray:
    """Rows of boxes and masks as the GPU gives them, see `sluice.models.gpu.masks`."""
    random = np.random.default_rng(0)
    packed = np.zeros((frames, boxes * FACTS * 4 + BYTES), np.uint8)
    packed[:, boxes * FACTS * 4 :] = random.integers(0, 256, (frames, BYTES))
    facts = packed[:, : boxes * FACTS * 4].view(np.float32).reshape(frames, boxes, FACTS)
    size = random.integers(cells[0], cells[1], (frames, boxes, 2), endpoint=True)
    if (((size.prod(-1) + 7) // 8).sum(-1) > BYTES).any():
        sys.exit(f"the masks of {boxes} boxes are more than {BYTES} bytes; right are fewer boxes or cells")
    corner = np.array([0, 140]) + random.uniform(0, 1, (frames, boxes, 2)) * (np.array([640, 360]) - size)
    facts[..., 0:2], facts[..., 2:4] = corner, corner + size
    facts[..., 4], facts[..., 5] = random.uniform(0.3, 1, (frames, boxes)), random.integers(0, 80, (frames, boxes))
    facts[..., 6:8], facts[..., 8] = size, 160
    return packed


def figure(name: str, call: Callable[[], object], after: Callable[[], None], seconds: float) -> None:
    """Print what a call takes; `after` tidies up outside the time."""
    times = measure(call, after, seconds)
    print(f"  {name:<44} median {statistics.median(times) * 1e3:7.2f}  mean {statistics.fmean(times) * 1e3:7.2f}")


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--frames", type=int, default=8)
    parser.add_argument("--boxes", type=int, default=20)
    parser.add_argument("--cells", type=int, nargs=2, default=(24, 160), metavar=("LEAST", "MOST"))
    parser.add_argument("--seconds", type=float, default=3.0, help="time for each figure")
    given = parser.parse_args()
    sys.setswitchinterval(SWITCH_INTERVAL)
    packed = packed_results(given.frames, given.boxes, given.cells)
    boxes = [Letterbox.fit(FRAME, INPUT)] * given.frames
    batch = BatchMeta.attach(Gst.Buffer.new(), given.frames)
    fill_frames(batch, [(0,) * 9] * given.frames)
    frames, sizes, read = batch.frames, [FRAME] * given.frames, MaskReader()
    labels = [f"class {number}" for number in range(80)]

    def clear() -> None:
        for frame in frames:
            provider().clear_objects(frame.address)

    def nothing() -> None:
        """There is nothing to tidy up."""

    found = read(packed, boxes)
    soft = [
        Detections(one.xyxy, one.scores, one.class_ids, box_masks=[mask * 0.8 + 0.1 for mask in one.box_masks or ()])
        for one in found
    ]
    cells = sum(mask.size for one in found for mask in one.box_masks or ())
    print(f"{given.frames} frames, {given.boxes} boxes each, {cells * 4 / 1e6:.1f} MB of masks, milliseconds per batch")

    def figures(where: str) -> None:
        figure(f"reading the GPU's bits, {where}", lambda: read(packed, boxes), nothing, given.seconds)
        figure(f"attaching them, {where}", lambda: attach_batch(frames, found, labels, 1, sizes), clear, given.seconds)
        figure(
            f"attaching a decoder's masks, {where}",
            lambda: attach_batch(frames, soft, labels, 1, sizes),
            clear,
            given.seconds,
        )

    figures("alone")
    with busy_threads(BUSY_THREADS):
        figures(f"{BUSY_THREADS} busy thread")


if __name__ == "__main__":
    main()
