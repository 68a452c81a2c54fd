"""What goes into ``sluicemux``'s batches: which streams fit together, in what size; their caps and metadata."""

from typing import Any

import gi

gi.require_version("Gst", "1.0")
from gi.repository import Gst

from sluice.contract import batching
from sluice.contract.formats import FrameFormat, MemType
from sluice.contract.structures import required_structure
from sluice.errors import ConfigurationError


class BatchForm:
    """What the batches of one muxer have in common, between NULL→READY and READY→NULL.

    Args:
        values: the muxer's properties by name, as they are at NULL→READY.

    Attributes:
        capacity: frames a batch has room for.
        size: width and height that every frame is scaled to; None where they keep their own.
    """

    def __init__(self, values: dict[str, Any]) -> None:
        self.capacity: int = values["batch-size"]
        self.size = (values["width"], values["height"]) if values["width"] else None
        self._padding: bool = values["enable-padding"]
        self._as_nvmm = values["nvbuf-memory-type"] == MemType.SYSTEM
        self._gpu_id: int = values["gpu-id"]
        self.reset()

    def reset(self) -> None:
        """Forget the streams, as at READY→PAUSED."""
        self._memory: tuple[str, str, int] | None = None

    def accept(self, caps: Gst.Caps, number: int) -> tuple[FrameFormat | None, FrameFormat | None]:
        """Check the caps of stream ``number``; return the descriptions of its frames.

        Returns:
            The format as the frames come, and as they go into batches, after scaling; twice None for NvBufSurfaces.

        Raises:
            ContractError: the raw format cannot be batched, with the converter to add.
            ConfigurationError: not together with the other streams, or not with this muxer's properties.
        """
        memory = batching.memory_feature(caps)
        format = None if memory == batching.NVMM_FEATURE else FrameFormat.from_caps(caps)
        if memory != "memory:SystemMemory" and (self.size or self._as_nvmm):
            what = "width and height" if self.size else "nvbuf-memory-type=6"
            raise ConfigurationError(
                f"sink_{number}: {what} need frames in system memory, these are in {memory}; unset them"
            )
        self._check_alike(caps, memory, number)
        return format, self._scaled(format) if format and self.size else format

    def _scaled(self, format: FrameFormat) -> FrameFormat:
        from sluice.contract.scaling import scaled_format  # imports OpenCV, which only scaling needs

        assert self.size is not None
        return scaled_format(format, *self.size)

    def _check_alike(self, caps: Gst.Caps, memory: str, number: int) -> None:
        """Hold the memory of all streams, and in NVMM batches the pixel format, to the first stream's."""
        name = required_structure(caps, 0).get_string("format") if memory == "memory:NVMM" or self._as_nvmm else ""
        if self._memory is None:
            self._memory = (memory, name, number)
        if self._memory[:2] == (memory, name):
            return
        first_memory, first_name, first = self._memory
        if first_memory != memory:
            raise ConfigurationError(
                f"sink_{number} has frames in {memory} and sink_{first} in {first_memory}: a batch has one kind of "
                "memory; convert or decode them alike"
            )
        raise ConfigurationError(
            f"sink_{number} has format {name} and sink_{first} {first_name}: NVMM batches have one format; "
            f"add `videoconvert ! video/x-raw,format={first_name}` (nvvideoconvert for NVMM) before sink_{number}"
        )

    def stream_caps(self, caps: Gst.Caps) -> Gst.Caps:
        """Return a stream's caps as its frames go into batches: those it came with, but for the size after scaling."""
        if self.size is None:
            return caps
        scaled = caps.copy()
        width, height = self.size
        for field, value in (("width", width), ("height", height), ("pixel-aspect-ratio", Gst.Fraction(1, 1))):
            scaled.set_value(field, value)
        return scaled

    def scale(self, buffer: Gst.Buffer, format: FrameFormat | None) -> Gst.Buffer:
        """Return a frame in the size the muxer was told, copied only when it has another; else the frame itself.

        A copy has the metadata that the frame brought along, with their places in the copy's pixels.
        """
        if self.size is None:
            return buffer
        from sluice.contract.scaling import place, scale_frame

        scaled = scale_frame(buffer, format, *self.size, self._padding)
        if scaled is not buffer and format is not None:
            from sluice.elements.tiler_grid import Area
            from sluice.elements.tiler_metadata import copy_mapped

            area = Area(*place(format, *self.size, self._padding))
            copy_mapped(buffer, scaled, (format.width, format.height), area, self.size)
        return scaled

    def caps(self, first: Gst.Caps) -> Gst.Caps:
        """Return the caps of the batches, given those of the stream that came first."""
        structure = required_structure(first, 0)
        found, *rate = structure.get_fraction("framerate")
        framerate = (rate[0], rate[1]) if found else (0, 1)
        memory = batching.memory_feature(first)
        if memory != batching.NVMM_FEATURE and not self._as_nvmm:
            return batching.surface_caps(self.capacity, framerate)
        width, height = self.size or (structure.get_int("width")[1], structure.get_int("height")[1])
        return batching.nvmm_caps(
            structure.get_string("format"),
            width,
            height,
            self.capacity,
            framerate,
            memory_type="nvbuf-mem-system" if self._as_nvmm else structure.get_string("nvbuf-memory-type"),
            gpu_id=self._gpu_id,
        )
