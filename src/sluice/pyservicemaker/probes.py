"""Operators and probes: a program's own code on the buffers that pass a pad.

    class Counter(BatchMetadataOperator):
        def handle_metadata(self, batch_meta):
            for frame in batch_meta.frame_items: ...

    Probe("counter", Counter()).attach(pipeline.get_by_name("infer"))

NVIDIA's package attaches probes through its own ``Pipeline``; here they go on any element or pad of GStreamer's. A
probe is also a function for ``pad.add_probe(Gst.PadProbeType.BUFFER, probe)``.
"""

from typing import Any

import gi

gi.require_version("Gst", "1.0")
from gi.repository import Gst

from sluice.elements.guard import post_error
from sluice.pyservicemaker.base import ApiError, refuse
from sluice.pyservicemaker.buffer import Buffer
from sluice.pyservicemaker.frames import BatchMetadata


class BatchMetadataOperator:
    """Looks at, or adds to, the metadata of each batch."""

    def handle_metadata(self, batch_meta: BatchMetadata, /) -> None:
        """Handle the metadata of one buffer; called for buffers that carry any. To be overridden."""
        raise NotImplementedError(f"{type(self).__name__} has no handle_metadata(batch_meta)")


class BufferOperator:
    """Handles each buffer, and may drop it."""

    def handle_buffer(self, buffer: Buffer, /) -> bool:
        """Handle one buffer; False (or None) drops it. To be overridden."""
        raise NotImplementedError(f"{type(self).__name__} has no handle_buffer(buffer)")


class BufferObserver:
    """Looks at each buffer."""

    def handle_buffer(self, buffer: Buffer, /) -> None:
        """Look at one buffer. To be overridden."""
        raise NotImplementedError(f"{type(self).__name__} has no handle_buffer(buffer)")


Operator = BatchMetadataOperator | BufferOperator | BufferObserver


class Probe:
    """An operator at a pad; it keeps the operator alive.

    The operator is called on the streaming thread, in place: no buffer is copied. What it is given is stale when it
    returns. An exception in it is posted as an error of the pad's element, with the traceback; that buffer and all
    later ones are dropped.
    """

    __slots__ = ("__weakref__", "_attached", "_detached", "_failed", "_name", "_operator")

    def __init__(self, name: str, operator: Operator, /) -> None:
        """Make a probe.

        Raises:
            TypeError: not an operator.
        """
        if not isinstance(operator, Operator):
            refuse("Probe", operator, "a BatchMetadataOperator, BufferOperator or BufferObserver")
        self._name, self._operator = name, operator
        self._attached = self._detached = self._failed = False

    @property
    def name(self) -> str:
        """The name."""
        return self._name

    def attach(self, target: "Gst.Element | Gst.Pad", tips: str = "") -> "Probe":
        """Begin to handle the buffers that pass a pad, and return the probe.

        Args:
            target: a pad; or an element, of which the last source pad is taken, or of a sink the sink pad.
            tips: name of the element's pad to take instead.

        Raises:
            TypeError: neither an element nor a pad.
            ApiError: the element has no such pad, or the probe is attached already.
        """
        if not isinstance(target, Gst.Element | Gst.Pad):
            refuse("Probe.attach", target, "a Gst.Element or a Gst.Pad")
        if self._attached:
            raise ApiError(f"the probe {self._name} is attached already; make another one")
        pad = target if isinstance(target, Gst.Pad) else _pad_of(target, tips)
        pad.add_probe(Gst.PadProbeType.BUFFER, self)
        self._attached = True
        return self

    def detach(self) -> None:
        """Handle no further buffer; the pad lets the probe go when the next one passes."""
        self._detached = True

    def __call__(self, pad: Gst.Pad, info: Gst.PadProbeInfo) -> Gst.PadProbeReturn:
        """Handle the buffer of a pad probe."""
        if self._detached:
            return Gst.PadProbeReturn.REMOVE
        if self._failed:
            return Gst.PadProbeReturn.DROP
        buffer = Buffer(info.get_buffer())
        try:
            kept = self._handle(buffer)
        except BaseException as error:
            self._failed, kept = True, False
            _post(pad, self._name, error)
        finally:
            buffer._release()
        return Gst.PadProbeReturn.OK if kept else Gst.PadProbeReturn.DROP

    def _handle(self, buffer: Buffer) -> bool:
        operator = self._operator
        if isinstance(operator, BatchMetadataOperator):
            batch = buffer.batch_meta
            if batch._view is not None:
                operator.handle_metadata(batch)
            return True
        answer: Any = operator.handle_buffer(buffer)
        return isinstance(operator, BufferObserver) or bool(answer)


def _pad_of(element: Gst.Element, name: str) -> Gst.Pad:
    if name:
        pad = element.get_static_pad(name)
        if pad is None:
            names = ", ".join(pad.get_name() for pad in element.pads)
            raise ApiError(f"{element.get_name()} has no pad {name}; it has {names or 'none'}")
        return pad
    pads = element.srcpads or element.sinkpads
    if not pads:
        raise ApiError(f"{element.get_name()} has no pad yet to put a probe on")
    return pads[-1]


def _post(pad: Gst.Pad, name: str, error: BaseException) -> None:
    element = pad.get_parent_element()
    if element is None:
        Gst.error(f"probe {name}: {type(error).__name__}: {error}")
    else:
        post_error(element, error)
