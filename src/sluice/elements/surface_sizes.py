"""The size of each frame's surface in a buffer, from the caps where they tell it, from the surfaces where not."""

import gi

gi.require_version("Gst", "1.0")
from gi.repository import Gst

from sluice.contract.batching import NVMM_FEATURE, SURFACE_FEATURE, memory_feature
from sluice.contract.structures import required_structure
from sluice.contract.surface import SurfaceBatch


class SurfaceSizes:
    """Made anew for every CAPS event."""

    def __init__(self, caps: Gst.Caps) -> None:
        """Read what the caps tell."""
        structure = required_structure(caps, 0)
        _, width = structure.get_int("width")
        _, height = structure.get_int("height")
        batched = memory_feature(caps) in (SURFACE_FEATURE, NVMM_FEATURE)
        self._size = None if batched else (width, height)

    def of(self, buffer: Gst.Buffer, batch_ids: list[int]) -> list[tuple[int, int]]:
        """Return width and height of the surfaces with these numbers, in pixels.

        Raises:
            ContractError: the buffer's surfaces cannot be read.
        """
        if self._size is not None:
            return [self._size] * len(batch_ids)
        surfaces = SurfaceBatch.of(buffer)
        sizes = [(surface.width, surface.height) for surface in (surfaces[index] for index in batch_ids)]
        surfaces.close()
        return sizes
