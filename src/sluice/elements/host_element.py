"""The base class of elements that bring frames from GPU memory to the host; see `sluice.contract.host`.

Imports gi and the standard library only, since GStreamer scans it.
"""

import enum
from typing import TYPE_CHECKING

import gi

gi.require_version("Gst", "1.0")
from gi.repository import Gst

from sluice.elements import host_caps
from sluice.elements.base import InPlaceElement
from sluice.elements.frame_caps import pad_template
from sluice.elements.guard import guarded

if TYPE_CHECKING:
    from sluice.contract.formats import FrameFormat

SINK_CAPS = f"{host_caps.HOST_CAPS}; {host_caps.GPU_CAPS}"


class _Way(enum.Enum):
    """What is done with the frames of the present caps."""

    NOTHING = enum.auto()
    FRAMES = enum.auto()
    BATCHES = enum.auto()


class HostElement(InPlaceElement):
    """Frames leave in system memory, however they come: those in GPU memory are copied once; abstract.

    A subclass that can do without pixels overrides `stays`, and calls `review` where that has changed. Batches keep
    their caps feature ``memory:SluiceSurface`` while their frames change memory.
    """

    def __init__(self) -> None:
        super().__init__()
        self._way = _Way.NOTHING
        self._stays = False
        self._from_gpu = False
        self._incoming: FrameFormat | None = None  # of single frames; None for surfaces
        self._held = 0  # see `keep_apart`

    def stays(self) -> bool:
        """Whether frames in GPU memory may leave as they came, where downstream takes them so."""
        return False

    @guarded(failure=Gst.Caps.new_empty())
    def do_transform_caps(self, direction: Gst.PadDirection, caps: Gst.Caps, restriction: Gst.Caps | None) -> Gst.Caps:
        """Return the other side's caps: frames in GPU memory leave in system memory, or as they came if `stays`."""
        change = host_caps.outgoing if direction == Gst.PadDirection.SINK else host_caps.incoming
        result = change(caps, stays=self.stays())
        return result if restriction is None else restriction.intersect_full(result, Gst.CapsIntersectMode.FIRST)

    @guarded(failure=False)
    def do_set_caps(self, incoming: Gst.Caps, outgoing: Gst.Caps) -> bool:
        """Settle from both sides' caps what is done with frames: nothing, one copied, or those of a batch."""
        from sluice.contract.batching import CUDA_FEATURE, memory_feature
        from sluice.contract.formats import FrameFormat

        self._stays, self._from_gpu = self.stays(), host_caps.on_gpu(incoming)
        if host_caps.is_batch(outgoing):
            self._way = _Way.BATCHES
        elif self._from_gpu and not host_caps.on_gpu(outgoing):
            self._way = _Way.FRAMES
        else:
            self._way = _Way.NOTHING
        in_cuda = memory_feature(incoming) == CUDA_FEATURE
        self._incoming = FrameFormat.from_caps(incoming) if in_cuda and self._way is _Way.FRAMES else None
        if self._way is _Way.FRAMES:  # negotiated anew after `do_before_transform` has decided for this frame
            self.set_passthrough(False)
        self.on_caps(outgoing)
        return True

    def review(self) -> bool:
        """Negotiate anew where `stays` has changed, from this frame or the next one on; return whether that is so."""
        changed = self._from_gpu and self.stays() != self._stays
        if changed:
            self._stays = self.stays()
            self.reconfigure_src()
        return changed

    def brings(self, buffer: Gst.Buffer) -> bool:
        """Whether a buffer's pixels are to be brought to the host."""
        if self._way is _Way.BATCHES:
            return not self.stays() and not _is_host_batch(buffer)
        return self._way is _Way.FRAMES

    def leaves_on_gpu(self, buffer: Gst.Buffer) -> bool:
        """Whether a buffer is in GPU memory and stays there."""
        if self._way is _Way.BATCHES:
            return self.stays() and not _is_host_batch(buffer)
        return self._from_gpu and self._way is _Way.NOTHING

    def keep_apart(self, buffer: Gst.Buffer) -> None:
        """Have the base class copy a pool's buffer (its metadata, not its pixels) before it is brought to the host.

        Such a buffer goes back to its decoder as it was. The base class copies what others hold too, so until `to_host`
        this element does; called in ``do_before_transform`` for buffers that `brings` says so of.
        """
        from sluice.contract import gstref

        self.let_go()
        if buffer.pool is not None:
            self._held = gstref.ref(gstref.buffer_address(buffer))

    def let_go(self) -> None:
        """Give up what `keep_apart` holds."""
        from sluice.contract import gstref

        held, self._held = self._held, 0
        if held:
            gstref.unref(held)

    def stop(self) -> None:
        self.let_go()

    def to_host(self, buffer: Gst.Buffer) -> None:
        """Bring a buffer's pixels to the host where `brings` says so; the caller is its sole holder.

        Raises:
            SurfaceError, ContractError: see `sluice.contract.host`.
        """
        from sluice.contract.host import batch_on_host, frame_on_host

        try:
            if self._way is _Way.FRAMES:
                frame_on_host(buffer, self._incoming)
            elif self.brings(buffer):
                batch_on_host(buffer)
        finally:
            self.let_go()


def _is_host_batch(buffer: Gst.Buffer) -> bool:
    from sluice.contract import gstref
    from sluice.contract.host import is_host_batch

    return is_host_batch(gstref.buffer_address(buffer))


class SluiceHost(HostElement):
    """The element ``sluicehost``: it brings frames from GPU memory to the host and does nothing else."""

    __gtype_name__ = "SluiceHost"
    __gstmetadata__ = (
        "Sluice GPU download",
        "Filter/Converter/Video",
        "Brings frames and batches from GPU memory (NVMM, CUDAMemory) to system memory, in the same format",
        "The Sluice developers",
    )
    __gsttemplates__ = (
        pad_template("sink", Gst.PadDirection.SINK, SINK_CAPS),
        pad_template("src", Gst.PadDirection.SRC, host_caps.HOST_CAPS),
    )

    @guarded(failure=None)
    def do_before_transform(self, buffer: Gst.Buffer) -> None:
        """Leave passthrough mode only for a buffer that has to be brought to the host."""
        brings = self.brings(buffer)
        if brings:
            self.keep_apart(buffer)
        self.set_passthrough(not brings)

    def process(self, buffer: Gst.Buffer) -> bool:
        self.to_host(buffer)
        return True
