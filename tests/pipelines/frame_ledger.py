"""Writes down what enters the mux and what leaves sluiceinfer behind it, and compares contents."""

from collections import defaultdict

import gi

gi.require_version("Gst", "1.0")
from gi.repository import Gst
from hash_model import checksum

from sluice.contract.metadata import BatchMeta, Lease
from sluice.contract.provider import provider
from sluice.contract.surface import SurfaceBatch


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
                found = self.detection(frame)
                content = checksum(surface.host_planes())
                if found is not None and found.class_id != content:
                    self.faults.append(f"stream {frame.source_id} frame {frame.frame_num}: metadata of other pixels")
                if found is not None and found.box != (0, 0, surface.width, surface.height):
                    self.faults.append(f"stream {frame.source_id} frame {frame.frame_num}: box of another size")
                if frame.frame_num != len(self.left[frame.source_id]):
                    self.faults.append(f"stream {frame.source_id} frame {frame.frame_num}: out of order")
                self.left[frame.source_id].append((frame.buf_pts, content))
        return Gst.PadProbeReturn.OK

    def detection(self, frame):
        """The detection that the frame must have: its only object. None if it may have none."""
        (found,) = frame.objects
        return found

    def watch(self, pipeline, streams):
        """Watch the elements in0, in1, ... before the mux and the element ``infer``."""
        for i in range(streams):
            pad = pipeline.get_by_name(f"in{i}").get_static_pad("src")
            pad.add_probe(Gst.PadProbeType.BUFFER, self.enters, i)
        element = pipeline.get_by_name("infer")
        element.get_static_pad("sink").add_probe(Gst.PadProbeType.BUFFER, self.is_given)
        element.get_static_pad("src").get_peer().add_probe(Gst.PadProbeType.BUFFER, self.leaves)
