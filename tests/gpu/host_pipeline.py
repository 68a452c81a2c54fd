"""Runs a launch line with real decoders, and tells what arrived at the element ``seen`` and what was copied on the way.

A process of its own, since a wrong address in a copy ends CUDA for its whole process.

    python host_pipeline.py FRAMES SECONDS PICTURES.npz LAUNCH-LINE

Every frame that leaves ``mux`` is given a box. What is printed as JSON: for each frame at ``seen`` its PTS, memory,
caps, the address of its pixels and the counters of copies at that moment; pictures in system memory go into the file.
"""

from __future__ import annotations

import json
import sys
import time

import gi
import numpy as np

gi.require_version("Gst", "1.0")
from gi.repository import Gst

Gst.init(None)
import sluice.elements
from sluice.contract import bulk, counters
from sluice.contract.batching import NVMM_FEATURE, SURFACE_FEATURE, memory_feature
from sluice.contract.formats import FrameFormat
from sluice.contract.metadata import BatchMeta, Lease
from sluice.contract.surface import SurfaceBatch

sluice.elements.register_all()
wanted, seconds, path, line = int(sys.argv[1]), float(sys.argv[2]), sys.argv[3], sys.argv[4]
pipeline = Gst.parse_launch(line)
seen: list[dict] = []
batched: list[int] = []
pictures: dict[str, np.ndarray] = {}


def surfaces_of(buffer, caps):
    if memory_feature(caps) in (NVMM_FEATURE, SURFACE_FEATURE):
        return SurfaceBatch.of(buffer)
    return SurfaceBatch.of_raw(buffer, FrameFormat.from_caps(caps))


def count():
    read = counters.read()
    return {name: getattr(read, name) for name in ("host_frames", "host_bytes", "host_maps", "copies")}


def left_the_mux(_pad, info):
    with Lease() as lease:
        for frame in BatchMeta.of(info.get_buffer(), lease).frames:
            box = np.array([[100, 60, 300, 200]], np.float32)
            bulk.write_objects(frame, box, np.ones(1, np.float32), np.zeros(1, np.int32), ["box"], unique_id=1)
    surfaces = SurfaceBatch.of(info.get_buffer())
    batched.extend(surface.address for surface in surfaces)
    surfaces.close()
    return Gst.PadProbeReturn.OK


def arrived(pad, info):
    if len(seen) == wanted:
        return Gst.PadProbeReturn.OK
    note, caps = count(), pad.get_current_caps()  # counted before this looks at the pixels itself
    surfaces = surfaces_of(info.get_buffer(), caps)
    note |= {"pts": info.get_buffer().pts, "memory": surfaces.mem_type.name, "caps": caps.to_string()}
    note["addresses"] = [surface.address for surface in surfaces]
    if surfaces.mem_type.name == "SYSTEM":
        for index, plane in enumerate(surfaces[0].host_planes()):
            pictures[f"{len(seen)}_{index}"] = np.array(plane)
    surfaces.close()
    seen.append(note)
    return Gst.PadProbeReturn.OK


pipeline.get_by_name("mux").get_static_pad("src").add_probe(Gst.PadProbeType.BUFFER, left_the_mux)
if (sink := pipeline.get_by_name("seen")) is not None:
    sink.get_static_pad("sink").add_probe(Gst.PadProbeType.BUFFER, arrived)
pipeline.set_state(Gst.State.PLAYING)
bus, end, error = pipeline.get_bus(), time.monotonic() + seconds, None
while time.monotonic() < end and len(seen if sink is not None else batched) < wanted:
    message = bus.timed_pop_filtered(50 * Gst.MSECOND, Gst.MessageType.ERROR | Gst.MessageType.EOS)
    if message is not None:
        error = " ".join(map(str, message.parse_error())) if message.type == Gst.MessageType.ERROR else None
        break
read = count()
pipeline.set_state(Gst.State.NULL)
np.savez(path, **pictures)
print(json.dumps({"error": error, "seen": seen, "batched": batched, **read}))
