"""Runs a launch line until the element ``infer`` has seen enough frames, and prints what became of it as JSON.

A process of its own, since a kernel that reads a wrong address ends CUDA for its whole process.

    python run_pipeline.py FRAMES SECONDS LAUNCH-LINE
"""

from __future__ import annotations

import json
import sys
import time

import gi

gi.require_version("Gst", "1.0")
from gi.repository import Gst

Gst.init(None)
import sluice.elements
from sluice.contract import counters
from sluice.contract.metadata import BatchMeta, Lease

sluice.elements.register_all()
wanted, seconds, line = int(sys.argv[1]), float(sys.argv[2]), sys.argv[3]
pipeline = Gst.parse_launch(line)
infer = pipeline.get_by_name("infer")
objects: list[dict] = []


def left(_pad, info):
    with Lease() as lease:
        for frame in BatchMeta.of(info.get_buffer(), lease).frames:
            found = [[*(round(value, 2) for value in item.box), round(item.confidence, 4)] for item in frame.objects]
            objects.append({"stream": frame.source_id, "number": frame.frame_num, "objects": found})
    return Gst.PadProbeReturn.OK


infer.get_static_pad("src").add_probe(Gst.PadProbeType.BUFFER, left)
pipeline.set_state(Gst.State.PLAYING)
bus, end, error, warnings = pipeline.get_bus(), time.monotonic() + seconds, None, []
wait = Gst.MessageType.ERROR | Gst.MessageType.EOS | Gst.MessageType.WARNING
while time.monotonic() < end and len(objects) < wanted:
    message = bus.timed_pop_filtered(100 * Gst.MSECOND, wait)
    if message is None:
        continue
    if message.type == Gst.MessageType.WARNING:
        warnings.append(" ".join(map(str, message.parse_warning()))[:500])
        continue
    error = message.parse_error()[0].message if message.type == Gst.MessageType.ERROR else None
    break
read = counters.read()
pipeline.set_state(Gst.State.NULL)
print(
    json.dumps(
        {
            "error": error,
            "warnings": warnings,
            "frames": len(objects),
            "objects": objects[:wanted],
            "host_maps": read.host_maps,
            "copies": read.copies,
        }
    )
)
