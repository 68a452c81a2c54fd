"""Runs a launch line with real decoders, and tells what arrived at the element ``seen`` and what was copied on the way.

A process of its own, since a wrong address in a copy ends CUDA for its whole process.

    python host_pipeline.py FRAMES PICTURES.npz LAUNCH-LINE

Every frame that leaves ``mux`` is given a box; those of stream 0 in GPU memory are also downloaded by PyTorch, to
compare with. What is printed as JSON: for each frame at ``seen`` its PTS, memory, caps, the address of its pixels and
the counters of copies at that moment. Pictures go into the file: ``seen_NUMBER_PLANE`` in system memory, and
``mux_PTS_PLANE``. Without a frame for fifteen seconds it ends, and tells how many buffers left each element.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
import traceback
from collections import Counter

import gi
import numpy as np

gi.require_version("Gst", "1.0")
from gi.repository import Gst

Gst.init(None)
with contextlib.suppress(ImportError):  # before anything plays: it takes seconds
    import torch
import sluice.elements
from sluice.contract import bulk, counters
from sluice.contract.batching import NVMM_FEATURE, SURFACE_FEATURE, memory_feature
from sluice.contract.formats import FrameFormat
from sluice.contract.metadata import BatchMeta, Lease
from sluice.contract.surface import SurfaceBatch

PATIENCE = 15.0
BOX = (100, 60, 300, 200)

sluice.elements.register_all()
wanted, path, line = int(sys.argv[1]), sys.argv[2], sys.argv[3]
downloads = "sluicetiler" not in line and "sluicemsgbroker" not in line
pipeline = Gst.parse_launch(line)
seen: list[dict] = []
batched: list[int] = []
pictures: dict[str, np.ndarray] = {}
passed: Counter[str] = Counter()
failures: list[str] = []


def probe(function):
    """A probe that keeps what it raises: an exception would drop the buffer without a word."""

    def guarded(pad, info):
        try:
            function(pad, info.get_buffer())
        except Exception:
            failures.append(traceback.format_exc(limit=4))
        return Gst.PadProbeReturn.OK

    return guarded


def surfaces_of(buffer, caps):
    if memory_feature(caps) in (NVMM_FEATURE, SURFACE_FEATURE):
        return SurfaceBatch.of(buffer)
    return SurfaceBatch.of_raw(buffer, FrameFormat.from_caps(caps))


def count():
    read = counters.read()
    return {name: getattr(read, name) for name in ("host_frames", "host_bytes", "host_maps", "copies")}


@probe
def left_the_mux(_pad, buffer):
    surfaces = SurfaceBatch.of(buffer)
    batched.extend(surface.address for surface in surfaces)
    with Lease() as lease:
        for frame in BatchMeta.of(buffer, lease).frames:
            box = np.array([BOX], np.float32)
            bulk.write_objects(frame, box, np.ones(1, np.float32), np.zeros(1, np.int32), ["box"], unique_id=1)
            if frame.pad_index == 0 and downloads and len(pictures) < 6 * wanted:
                download(surfaces[frame.batch_id], frame.buf_pts)
    surfaces.close()


def download(surface, pts):
    if not surface.mem_type.on_cuda:
        return
    for index in range(len(surface.planes)):
        pictures[f"mux_{pts}_{index}"] = torch.from_dlpack(surface.dlpack(index)).cpu().numpy()


@probe
def arrived(pad, buffer):
    if len(seen) == wanted:
        return
    note, caps = count(), pad.get_current_caps()  # counted before this looks at the pixels itself
    surfaces = surfaces_of(buffer, caps)
    note |= {"pts": buffer.pts, "memory": surfaces.mem_type.name, "caps": caps.to_string()}
    note["addresses"] = [surface.address for surface in surfaces]
    if surfaces.mem_type.name == "SYSTEM":
        for index, plane in enumerate(surfaces[0].host_planes()):
            pictures[f"seen_{len(seen)}_{index}"] = np.array(plane)
    surfaces.close()
    seen.append(note)


def count_buffers():
    """Count the buffers that leave each element."""
    elements = pipeline.iterate_elements()
    while (item := elements.next())[0] == Gst.IteratorResult.OK:
        for pad in item[1].srcpads:
            name = f"{item[1].get_factory().get_name()}.{pad.get_name()}"
            pad.add_probe(Gst.PadProbeType.BUFFER, lambda _pad, _info, name=name: tally(name))


def tally(name):
    passed[name] += 1
    return Gst.PadProbeReturn.OK


count_buffers()
pipeline.get_by_name("mux").get_static_pad("src").add_probe(Gst.PadProbeType.BUFFER, left_the_mux)
if (sink := pipeline.get_by_name("seen")) is not None:
    sink.get_static_pad("sink").add_probe(Gst.PadProbeType.BUFFER, arrived)
pipeline.set_state(Gst.State.PLAYING)
bus, error, told = pipeline.get_bus(), None, []
arrivals = seen if sink is not None else batched
last, until = 0, time.monotonic() + PATIENCE
while len(arrivals) < wanted and error is None and not failures:
    if len(arrivals) > last:
        last, until = len(arrivals), time.monotonic() + PATIENCE
    message = bus.timed_pop(50 * Gst.MSECOND)
    if message is not None and message.type == Gst.MessageType.ERROR:
        error = " ".join(map(str, message.parse_error()))
    elif message is not None and message.type == Gst.MessageType.WARNING:
        told.append(" ".join(map(str, message.parse_warning()))[:300])
    elif message is not None and message.type == Gst.MessageType.EOS:
        error = f"it ended after {len(arrivals)} frames; buffers that left: {dict(passed)}"
    elif time.monotonic() > until:
        _, now, pending = pipeline.get_state(0)
        error = f"no frame for {PATIENCE} s, {len(arrivals)} before, {now.value_nick} to {pending.value_nick}; "
        error += f"buffers that left: {dict(passed)}; {told}"
if failures:
    error = failures[0]
read = count()
np.savez(path, **pictures)
print(json.dumps({"error": error, "seen": seen, "batched": batched, **read}), flush=True)
if error is None:
    pipeline.set_state(Gst.State.NULL)
else:  # an element that hangs would keep the change of state, and with it the test
    os._exit(0)
