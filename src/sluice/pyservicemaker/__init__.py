"""Buffers, metadata and tensors under the names of NVIDIA's ``pyservicemaker``, on Sluice's contract.

Programs written against that package run with another import::

    from sluice.pyservicemaker import BatchMetadataOperator, Buffer, Probe, osd

and both packages can work on one pipeline. What is different, on purpose:

* only a real ``Gst.Buffer`` is taken as one; anything else is a ``TypeError``;
* where NVIDIA's package crashes (an empty wrapper, an index out of range, the shape of an empty tensor) there is an
  ``IndexError`` or an `ApiError` that says why;
* what is used after its time raises ``StaleBufferError``: see `Buffer` for how long a buffer is held;
* what is acquired and never appended goes back to its pool, and what is appended twice is refused;
* a tensor tells its true device, keeps a frame's pixels alive, and may come from host memory;
* there are also ``FrameMetadata.infer_done``, ``ObjectMetadata.parent`` and ``ObjectMetadata.detector_bbox_info``;
* a `Probe` is attached to an element or pad of GStreamer's, since there is no ``Pipeline`` or ``Flow`` here.
"""

import gi

gi.require_version("Gst", "1.0")

from sluice.errors import StaleBufferError
from sluice.pyservicemaker import osd
from sluice.pyservicemaker.base import ApiError
from sluice.pyservicemaker.buffer import Buffer
from sluice.pyservicemaker.probes import BatchMetadataOperator, BufferObserver, BufferOperator, Probe
from sluice.pyservicemaker.tensor import ColorFormat, as_tensor

__all__ = [
    "ApiError",
    "BatchMetadataOperator",
    "Buffer",
    "BufferObserver",
    "BufferOperator",
    "ColorFormat",
    "Probe",
    "StaleBufferError",
    "as_tensor",
    "osd",
]
