"""What the contract costs: microseconds per object written and read, on each metadata provider.

    python bench/contract.py [BENCH ...] [--provider portable|nvidia|both] [--objects 50] [--seconds 2]

Each provider runs in a process of its own. Every figure is taken alone, and beside three threads that do Python
arithmetic all the time. Beside them the mean contains the turns of the other threads; the median is the call itself.
"""

import argparse
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable

from busy import busy_threads

BUSY_THREADS = 3
SWITCH_INTERVAL = 0.0002  # what Sluice's first element sets
GOAL = 2.0


def measure(call: Callable[[], None], after: Callable[[], None], seconds: float) -> list[float]:
    """Return the seconds each call took; `after` tidies up outside the time."""
    times = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
        after()
    return times


def report(name: str, times: list[float], objects: int) -> None:
    """Print one figure in microseconds per object."""
    scale = 1e6 / objects
    median, mean = statistics.median(times) * scale, statistics.fmean(times) * scale
    print(f"  {name:<42} median {median:8.2f}  mean {mean:8.2f}  ({len(times)} frames)", flush=True)


def metadata(objects: int, seconds: float) -> None:
    """Measure the provider of this process."""
    import gi
    import numpy as np

    gi.require_version("Gst", "1.0")
    from gi.repository import Gst

    from sluice.contract.bulk import LabelTable, fill_frames, read_objects, update_tracked, write_objects
    from sluice.contract.metadata import BatchMeta
    from sluice.contract.provider import provider

    batch = BatchMeta.attach(Gst.Buffer.new(), 1)
    fill_frames(batch, [(0,) * 9])
    frame = batch.frames[0]
    random = np.random.default_rng(0)
    boxes = random.uniform(1, 500, (objects, 4)).astype(np.float32)
    scores = random.uniform(0, 1, objects).astype(np.float32)
    classes = random.integers(0, 3, objects).astype(np.int32)
    names = ["person", "bicycle", "car"]
    labels, table = [names[i] for i in classes], LabelTable(names)
    ids = np.arange(objects, dtype=np.uint64)

    def clear() -> None:
        provider().clear_objects(frame.address)

    def keep() -> None:
        """Leave the objects for the next call."""

    def one_by_one() -> None:
        for row in range(objects):
            obj = frame.add_object()
            obj.unique_component_id, obj.confidence, obj.class_id = 1, float(scores[row]), int(classes[row])
            obj.box = obj.detector_box = tuple(boxes[row])
            obj.label = labels[row]
            rect, text = obj.rect, obj.text
            rect.border_width, rect.border_color = 3, (1, 0, 0, 1)
            text.display_text, text.x_offset, text.y_offset = labels[row], int(boxes[row][0]), int(boxes[row][1])
            text.font_name, text.font_size, text.font_color = "Serif", 11, (1, 1, 1, 1)
            text.set_bg_clr, text.text_bg_clr = True, (0, 0, 0, 1)

    def figures(where: str) -> None:
        for name, kind in (("bulk write, labels per object", labels), ("bulk write, labels by class", table)):
            write = measure(
                lambda kind=kind: write_objects(frame, boxes, scores, classes, kind, unique_id=1), clear, seconds
            )
            report(f"{name}, {where}", write, objects)
        report(f"one by one, {where}", measure(one_by_one, clear, seconds), objects)
        addresses = write_objects(frame, boxes, scores, classes, table, unique_id=1)
        report(f"bulk read, {where}", measure(lambda: len(read_objects(frame)), keep, seconds), objects)
        update = measure(
            lambda: update_tracked(frame, addresses, ids, boxes, boxes, scores, show_ids=False), keep, seconds
        )
        report(f"tracker update, {where}", update, objects)
        clear()

    sys.setswitchinterval(SWITCH_INTERVAL)
    print(f"{provider().name} provider, {objects} objects a frame, us per object (goal for the bulk write: {GOAL:g})")
    figures("alone")
    with busy_threads(BUSY_THREADS):
        figures(f"{BUSY_THREADS} busy threads")


BENCHES = {"metadata": metadata}


def main() -> int:
    """Run the benches named, each provider in its own process."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("benches", nargs="*", metavar="BENCH", help=f"of {', '.join(BENCHES)}; all by default")
    parser.add_argument("--provider", choices=["portable", "nvidia", "both"], default="both")
    parser.add_argument("--objects", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=2.0, help="time for each figure")
    arguments = parser.parse_args()
    benches = arguments.benches or list(BENCHES)
    if unknown := set(benches) - set(BENCHES):
        parser.error(f"no bench {', '.join(sorted(unknown))}; there are {', '.join(BENCHES)}")
    if arguments.provider != "both" and os.environ.get("SLUICE_PROVIDER") == arguments.provider:
        for name in benches:
            BENCHES[name](arguments.objects, arguments.seconds)
        return 0
    status = 0
    for name in ("portable", "nvidia") if arguments.provider == "both" else (arguments.provider,):
        command = [sys.executable, __file__, *benches, "--provider", name]
        command += ["--objects", str(arguments.objects), "--seconds", str(arguments.seconds)]
        status |= subprocess.run(command, env={**os.environ, "SLUICE_PROVIDER": name}).returncode
    return status


if __name__ == "__main__":
    sys.exit(main())
