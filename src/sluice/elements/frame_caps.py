"""The caps that elements have in common, and the pad templates of those with one pad on either side.

Imports gi only.
"""

import gi

gi.require_version("Gst", "1.0")
from gi.repository import Gst

RAW_FORMATS = "{ I420, NV12, RGB, BGR, RGBA, BGRA, BGRx, RGBx, GRAY8, YUY2 }"
"""The formats of single frames that can be batched: those of `sluice.contract.formats`, the preferred ones first."""

DEVICE_FORMATS = f"{RAW_FORMATS[:-2]}, P010_10LE, P012_LE }}"
"""The same in a GPU's memory, whose kernels also read more than eight bits."""

NVMM_FORMATS = (
    "{ NV12, RGBA, I420, RGB, BGR, BGRx, GRAY8, P010_10LE, P012_LE, NV16, NV24, Y444, NV21, UYVY, VYUY, YVYU }"
)
"""The formats of NvBufSurfaces: first those that models read, then those that NVIDIA's converter makes so."""

FRAME_CAPS = (
    "video/x-raw(memory:SluiceSurface); video/x-raw(memory:NVMM); "
    f"video/x-raw(memory:CUDAMemory), format={DEVICE_FORMATS}; video/x-raw, format={RAW_FORMATS}"
)
"""Batches of any kind, and single frames of which a batch of one can be made."""

ANY_FRAMES = "video/x-raw(ANY)"
"""For elements that only look at metadata which are there already."""


def pad_template(name: str, direction: Gst.PadDirection, caps: str = FRAME_CAPS) -> Gst.PadTemplate:
    """Return the template of a pad that is always there."""
    return Gst.PadTemplate.new(name, direction, Gst.PadPresence.ALWAYS, Gst.Caps.from_string(caps))
