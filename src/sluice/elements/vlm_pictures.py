"""Copies of frames for a model that answers after they are gone."""

from collections.abc import Callable
from typing import TYPE_CHECKING, cast

import numpy as np
import numpy.typing as npt

from sluice.contract.host import on_host
from sluice.contract.surface import Surface
from sluice.models import pixels

if TYPE_CHECKING:
    from sluice.contract.formats import ColorFormat, Matrix

Bytes = npt.NDArray[np.uint8]


class _Copy:
    """A surface's planes, copied to the host, with what `pixels.to_packed` needs to know of it."""

    def __init__(self, surface: Surface) -> None:
        self.width: int = surface.width
        self.height: int = surface.height
        self.color_format: ColorFormat = surface.color_format
        self.matrix: Matrix = surface.matrix
        self.full_range: bool = surface.full_range
        self._planes: list[Bytes] = [np.array(plane, order="C") for plane in on_host(surface).host_planes()]

    def host_plane(self, index: int = 0) -> Bytes:
        return self._planes[index]


def copied(surface: Surface) -> Callable[[], Bytes]:
    """Copy a frame's planes as they are, and return what makes uint8 [height, width, 3] of them, red first, later.

    Raises:
        ContractError: the pixels are in GPU memory and cannot be brought to the host.
    """
    copy = _Copy(surface)
    return lambda: pixels.to_packed(cast(Surface, copy), "RGB")
