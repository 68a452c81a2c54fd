"""Copies of frames for a model that answers after they are gone."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import numpy.typing as npt

from sluice.contract.surface import Surface
from sluice.errors import ContractError
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
        read = surface.host_plane if surface.mem_type.on_host else lambda index: _downloaded(surface, index)
        self._planes: list[Bytes] = [np.array(read(index), order="C") for index in range(len(surface.planes))]

    def host_plane(self, index: int = 0) -> Bytes:
        return self._planes[index]


def copied(surface: Surface) -> Callable[[], Bytes]:
    """Copy a frame's planes as they are, and return what makes uint8 [height, width, 3] of them, red first, later.

    Raises:
        ContractError: the pixels are in GPU memory and PyTorch, which downloads them, is not installed.
    """
    copy = _Copy(surface)
    return lambda: pixels.to_packed(cast(Surface, copy), "RGB")


def _downloaded(surface: Surface, index: int) -> Any:
    try:
        import torch
    except ImportError as error:
        raise ContractError(
            f"the frames are in GPU memory, which sluicevlm reads through PyTorch, and it cannot be imported: {error}; "
            "pip install 'sluice-video[torch]', or put nvvideoconvert ! video/x-raw before this element"
        ) from error
    return torch.from_dlpack(surface.dlpack(index)).cpu().numpy()
