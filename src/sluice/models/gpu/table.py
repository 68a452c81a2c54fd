"""The pointer table: what the letterbox kernel has to know of every frame of a batch, as one array.

Any pixel format is three components (Y, U, V or red, green, blue), each with its own address, pitch, distance of
neighbours and subsampling, and a 3x4 matrix that makes red, green and blue of them. So one kernel reads all formats,
and the surfaces of a batch may differ in size and format.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sluice.contract.formats import DEEP_FORMATS, Layout, MemType, meaning
from sluice.contract.surface import SurfaceError
from sluice.models.letterbox import Letterbox
from sluice.models.pixels import YUV, PixelLayout, yuv_to_rgb_matrix
from sluice.models.preprocess import Preprocessing

if TYPE_CHECKING:
    from sluice.contract.surface import Surface

INTEGERS = 32
"""int64 places at the start of a row."""
FLOATS = 2 * INTEGERS
"""Place of the first float32 of a row, counted in float32s."""
ROW = 48
"""int64 places of a row; the last sixteen hold 32 float32."""
# Places of the integers, each of the first seven for three components; the kernel has the same numbers.
POINTER, PITCH, STEP, SHIFT_X, SHIFT_Y, LAST_X, LAST_Y = range(0, 21, 3)
WIDTH, HEIGHT, LEFT, TOP, BOX_WIDTH, BOX_HEIGHT, VALID = range(21, 28)
# Places of the floats behind FLOATS: matrix row by row, then factor and offset of each channel, then the padding.
FACTOR, OFFSET, PAD = 12, 15, 18

MOST_KNOWN = 1024
"""Layouts that are remembered; crops of moving objects have a new one for each."""
LARGEST = 1 << 31
"""Bytes of a plane that the kernel's 32-bit arithmetic cannot address any more."""

Rows = npt.NDArray[np.int64]


class Component(NamedTuple):
    """Where one component lies.

    Attributes:
        plane: number of its plane.
        offset: bytes from the plane's first to its own first sample.
        step: bytes from one sample to the next.
        shift_x, shift_y: binary logarithm of the pixels that share a sample, across and down.
    """

    plane: int
    offset: int
    step: int
    shift_x: int = 0
    shift_y: int = 0


COMPONENTS = {
    "I420": (Component(0, 0, 1), Component(1, 0, 1, 1, 1), Component(2, 0, 1, 1, 1)),
    "NV12": (Component(0, 0, 1), Component(1, 0, 2, 1, 1), Component(1, 1, 2, 1, 1)),
    # The most significant byte of 16-bit samples, whose lowest bits are empty.
    "P010_10LE": (Component(0, 1, 2), Component(1, 1, 4, 1, 1), Component(1, 3, 4, 1, 1)),
    "P012_LE": (Component(0, 1, 2), Component(1, 1, 4, 1, 1), Component(1, 3, 4, 1, 1)),
    "YUY2": (Component(0, 0, 2), Component(0, 1, 4, 1, 0), Component(0, 3, 4, 1, 0)),
    "GRAY8": (Component(0, 0, 1),) * 3,
    "RGB": tuple(Component(0, i, 3) for i in (0, 1, 2)),
    "BGR": tuple(Component(0, i, 3) for i in (2, 1, 0)),
    "RGBA": tuple(Component(0, i, 4) for i in (0, 1, 2)),
    "RGBx": tuple(Component(0, i, 4) for i in (0, 1, 2)),
    "BGRA": tuple(Component(0, i, 4) for i in (2, 1, 0)),
    "BGRx": tuple(Component(0, i, 4) for i in (2, 1, 0)),
}


class TableWriter:
    """Fills pointer tables for one network's input; rows of a layout seen before cost a copy.

    Args:
        spec: what the network wants.
        device: number of the GPU that reads the surfaces.
    """

    def __init__(self, spec: Preprocessing, device: int) -> None:
        self._spec = spec
        self._device = device
        self._known: dict[tuple[int, ...], tuple[Rows, Letterbox]] = {}

    def reads(self, surface: Surface) -> bool:
        """Whether the kernel can read a surface's memory, layout and pixel format, on whichever GPU it is."""
        if surface.layout_key in self._known:
            return True
        memory = surface.mem_type.on_cuda or surface.mem_type is MemType.CUDA_PINNED
        return memory and surface.layout is Layout.PITCH and surface.format in COMPONENTS

    def write(self, table: Rows, surfaces: Sequence[Surface]) -> list[Letterbox]:
        """Describe surfaces in the first rows of a table and mark the rest of its rows as padding.

        Args:
            table: int64 [capacity, ROW], at least as many rows as surfaces; wholly overwritten where it counts.
            surfaces: what is to be read.

        Returns:
            How each surface lies in the network's input.

        Raises:
            SurfaceError: a surface is not in memory of this GPU, by name, with what would make it so.
        """
        boxes = []
        for place, surface in enumerate(surfaces):
            known = self._known.get(surface.layout_key)
            if known is None:
                self._check(surface)
                if len(self._known) >= MOST_KNOWN:
                    self._known.clear()
                known = self._known[surface.layout_key] = self._describe(surface)
            row, box = known
            table[place] = row
            table[place, POINTER : POINTER + 3] += surface.address
            boxes.append(box)
        table[len(surfaces) :, VALID] = 0
        return boxes

    def _check(self, surface: Surface) -> None:
        if not self.reads(surface):
            raise SurfaceError(
                f"surface {surface.index}, {surface.format} in memory type {surface.mem_type.name} and layout "
                f"{surface.layout.name}, is nothing that a kernel can read; put `nvvideoconvert ! "
                "video/x-raw(memory:NVMM)`, or nvcodec's `cudaupload`, before the mux"
            )
        if any(plane.pitch * plane.height >= LARGEST for plane in surface.planes):
            raise SurfaceError(
                f"a plane of surface {surface.index}, {surface.width}x{surface.height}, has 2 GiB or more, which the "
                "kernel cannot address; scale it down before the mux"
            )
        if surface.gpu_id != self._device:
            raise SurfaceError(
                f"surface {surface.index} is on GPU {surface.gpu_id} and the network on GPU {self._device}; right is "
                f"device=cuda:{surface.gpu_id}, or gpu-id={self._device} on the decoder"
            )

    def _describe(self, surface: Surface) -> tuple[Rows, Letterbox]:
        spec = self._spec
        layout = PixelLayout(meaning(surface.color_format)[0], surface.matrix, surface.full_range)
        box = Letterbox.fit((surface.width, surface.height), (spec.width, spec.height), spec.fit)
        row = np.zeros(ROW, np.int64)
        for i, part in enumerate(COMPONENTS[layout.name]):
            plane = surface.planes[part.plane]
            # YUY2's plane is counted in samples of two bytes, of which each has one of luma and every second one of u.
            narrow = 1 if layout.name == "YUY2" and part.shift_x else 0
            row[POINTER + i] = plane.offset + part.offset
            row[PITCH + i], row[STEP + i] = plane.pitch, part.step
            row[SHIFT_X + i], row[SHIFT_Y + i] = part.shift_x, part.shift_y
            row[LAST_X + i], row[LAST_Y + i] = (plane.width >> narrow) - 1, plane.height - 1
        row[WIDTH], row[HEIGHT], row[VALID] = surface.width, surface.height, 1
        row[LEFT], row[TOP], row[BOX_WIDTH], row[BOX_HEIGHT] = box.left, box.top, box.width, box.height
        floats = row.view(np.float32)[FLOATS:]
        floats[:FACTOR] = _matrix(layout.name, layout.matrix, layout.full_range, spec.order).ravel()
        floats[FACTOR:OFFSET] = [spec.scale / std for std in spec.std]
        floats[OFFSET:PAD] = [-mean / std for mean, std in zip(spec.mean, spec.std, strict=True)]
        floats[PAD] = spec.pad
        return row, box


def _matrix(name: str, matrix: Any, full_range: bool, order: str) -> npt.NDArray[np.float64]:
    """float64 [3,4] from a format's components to red, green, blue (reversed for "BGR"), all of 0..255."""
    if name in (*YUV, *DEEP_FORMATS):
        return yuv_to_rgb_matrix(matrix, full_range, order)
    result = np.eye(3, 4)
    if name == "GRAY8" and not full_range:
        result *= 255 / 219
        result[:, 3] = -16 * 255 / 219
    return result if order == "RGB" else result[::-1]
