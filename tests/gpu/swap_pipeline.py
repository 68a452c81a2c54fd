"""Plays a launch line, changes the model of the element ``infer`` on the way, and prints what became of the frames.

    python swap_pipeline.py FRAMES SECONDS LAUNCH-LINE MODEL

FRAMES go through before the change begins, and as many after it has ended.
"""

from __future__ import annotations

import json
import sys
import time

import gi

gi.require_version("Gst", "1.0")
from gi.repository import Gst

Gst.init(None)
import itertools

import sluice.elements
from sluice.contract.bulk_objects import read_batch
from sluice.contract.metadata import BatchMeta, Lease

sluice.elements.register_all()
wanted, seconds, line, model = int(sys.argv[1]), float(sys.argv[2]), sys.argv[3], sys.argv[4]
pipeline = Gst.parse_launch(line)
infer = pipeline.get_by_name("infer")
numbers: dict[int, list[int]] = {}
without_model = 0
times: list[float] = []
updates: list[list] = []


def left(_pad, info):
    global without_model
    times.append(time.monotonic())
    with Lease() as lease:
        frames, _ = read_batch(BatchMeta.of(info.get_buffer(), lease))
    for stream, number, done in zip(
        frames["pad_index"].tolist(), frames["frame_num"].tolist(), frames["infer_done"].tolist(), strict=True
    ):
        numbers.setdefault(stream, []).append(number)
        without_model += not done
    return Gst.PadProbeReturn.OK


infer.get_static_pad("src").add_probe(Gst.PadProbeType.BUFFER, left)
infer.connect("model-updated", lambda _element, status, path: updates.append([status, path]))
pipeline.set_state(Gst.State.PLAYING)
bus, end, texts, error = pipeline.get_bus(), time.monotonic() + seconds, [], None
begun = ended = 0.0
after = 0
wait = Gst.MessageType.ERROR | Gst.MessageType.EOS | Gst.MessageType.WARNING
while time.monotonic() < end:
    message = bus.timed_pop_filtered(20 * Gst.MSECOND, wait)
    if message is not None and message.type == Gst.MessageType.WARNING:
        texts.append(" ".join(map(str, message.parse_warning()))[:1000])
    elif message is not None:
        error = message.parse_error()[0].message if message.type == Gst.MessageType.ERROR else "end of stream"
        break
    seen = sum(map(len, numbers.values()))
    if not begun and seen >= wanted:
        begun = time.monotonic()
        updates.clear()
        infer.set_property("model", model)
    elif begun and not ended and updates:
        ended, after = time.monotonic(), seen
    elif ended and seen >= after + wanted:
        break
steady = [later - one for one, later in itertools.pairwise(times) if later < begun]
changing = [later - one for one, later in itertools.pairwise(times) if begun <= later]
print(
    json.dumps(
        {
            "error": error,
            "warnings": texts,
            "updates": updates,
            "streams": len(numbers),
            "frames": sum(map(len, numbers.values())),
            "whole": all(found == list(range(found[0], found[0] + len(found))) for found in numbers.values()),
            "without_model": without_model,
            "seconds_of_change": round(ended - begun, 2),
            "longest_gap_before_ms": round(1000 * max(steady[20:], default=0), 1),
            "longest_gap_ms": round(1000 * max(changing, default=0), 1),
        }
    )
)
sys.stdout.flush()
pipeline.set_state(Gst.State.NULL)
