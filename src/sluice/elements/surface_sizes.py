"""The size of each frame's surface in a buffer, from the caps where they tell it, from the surfaces where not."""

import gi
import numpy as np
import numpy.typing as npt

gi.require_version("Gst", "1.0")
from gi.repository import Gst

from sluice.contract.batching import NVMM_FEATURE, SURFACE_FEATURE, memory_feature
from sluice.contract.structures import required_structure
from sluice.contract.surface import SurfaceBatch
from sluice.errors import ContractError


class SurfaceSizes:
    """Made anew for every CAPS event.

    Attributes:
        common: width and height of all surfaces in pixels, where the caps tell them; None where each has its own.
    """

    def __init__(self, caps: Gst.Caps, *, from_surfaces: bool = True) -> None:
        """Read what the caps tell.

        Args:
            caps: of any kind of buffers.
            from_surfaces: read the sizes of batches from their surfaces; otherwise their caps have to do, which tell
                0 by 0 where the frames keep their own sizes.
        """
        structure = required_structure(caps, 0)
        _, width = structure.get_int("width")
        _, height = structure.get_int("height")
        batched = structure.get_name() == "video/x-raw" and memory_feature(caps) in (SURFACE_FEATURE, NVMM_FEATURE)
        self.common = None if batched and from_surfaces else (width, height)

    def table(self, buffer: Gst.Buffer, most: int) -> npt.NDArray[np.uint32]:
        """Return width and height of every surface of a buffer, [N, 2], in pixels.

        Args:
            buffer: a buffer with the caps.
            most: how many surfaces it has at most, as many rows there are where the caps tell the size.

        Raises:
            ContractError: the buffer's surfaces cannot be read.
        """
        if self.common is not None:
            return np.full((max(1, most), 2), self.common, np.uint32)
        surfaces = SurfaceBatch.of(buffer, lent=True)
        sizes = surfaces.sizes()
        surfaces.close()
        return sizes

    def of(self, buffer: Gst.Buffer, batch_ids: list[int]) -> list[tuple[int, int]]:
        """Return width and height of the surfaces with these numbers, in pixels.

        Raises:
            ContractError: the buffer's surfaces cannot be read, or there is no such surface.
        """
        if self.common is not None:
            return [self.common] * len(batch_ids)
        sizes: list[tuple[int, int]] = list(map(tuple, self.table(buffer, 0).tolist()))
        for number in batch_ids:
            if number >= len(sizes):
                raise ContractError(f"a frame says that it has surface {number}, but the batch has {len(sizes)}")
        return [sizes[number] for number in batch_ids]
