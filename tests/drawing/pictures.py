"""Pictures in every pixel format for the drawing tests, and their way back to RGB."""

import numpy as np
import numpy.typing as npt

from sluice.contract.formats import Matrix, plane_shapes
from sluice.drawing.canvas import Canvas

FORMATS = ("I420", "NV12", "YUY2", "GRAY8", "RGB", "BGR", "RGBA", "BGRA", "RGBx", "BGRx")
PADDING = 13
CANARY = 0xA5

Bytes = npt.NDArray[np.uint8]


class Picture:
    """Planes with padding behind every row and rows above and below, all filled with a value that must survive."""

    def __init__(
        self, pixel_format: str, width: int, height: int, matrix: Matrix = Matrix.BT601, full_range: bool = False
    ) -> None:
        self.format, self.width, self.height, self.matrix, self.full_range = (
            pixel_format,
            width,
            height,
            matrix,
            full_range,
        )
        self.memory: list[Bytes] = []
        self.planes: list[Bytes] = []
        for shape in plane_shapes(pixel_format, width, height):
            memory = np.full((shape.height + 2, shape.row_bytes + PADDING), CANARY, np.uint8)
            rows = memory[1:-1, : shape.row_bytes]
            rows[...] = 128
            self.memory.append(memory)
            self.planes.append(rows.reshape(shape.height, shape.width, shape.bytes_per_pixel))

    def canvas(self) -> Canvas:
        """A canvas on these planes."""
        return Canvas(self.format, self.planes, self.width, self.height, matrix=self.matrix, full_range=self.full_range)

    def padding_is_untouched(self) -> bool:
        """Whether no byte outside the planes was written."""
        for memory, plane in zip(self.memory, self.planes, strict=True):
            row_bytes = plane.shape[1] * plane.shape[2]
            if (memory[[0, -1]] != CANARY).any() or (memory[1:-1, row_bytes:] != CANARY).any():
                return False
        return True

    def fill_gradient(self) -> None:
        """A grey ramp from left to right, so that blending shows."""
        ramp = np.linspace(60, 160, self.width).astype(np.uint8)
        if self.format == "YUY2":
            self.planes[0][:, : self.width, 0] = ramp
        elif self.format in ("I420", "NV12", "GRAY8"):
            self.planes[0][:, :, 0] = ramp
        else:
            self.planes[0][:, :, :3] = ramp[:, np.newaxis]

    def rgb(self) -> Bytes:
        """The picture as [h, w, 3] RGB; grey for GRAY8."""
        if self.format.startswith(("RGB", "BGR")):
            pixels = self.planes[0][:, :, :3]
            return np.ascontiguousarray(pixels if self.format.startswith("RGB") else pixels[:, :, ::-1])
        luma, cb, cr = (p.astype(np.float64) for p in self._yuv())
        kr, kb = self.matrix.luma
        scale, offset, chroma = (1.0, 0.0, 1.0) if self.full_range else (255 / 219, 16.0, 255 / 224)
        luma, cb, cr = (luma - offset) * scale, (cb - 128.0) * chroma, (cr - 128.0) * chroma
        red, blue = luma + 2 * (1 - kr) * cr, luma + 2 * (1 - kb) * cb
        green = (luma - kr * red - kb * blue) / (1 - kr - kb)
        return np.clip(np.rint(np.dstack([red, green, blue])), 0, 255).astype(np.uint8)

    def _yuv(self) -> list[Bytes]:
        size = slice(self.height), slice(self.width)
        if self.format == "GRAY8":
            luma = self.planes[0][:, :, 0]
            return [luma, np.full_like(luma, 128), np.full_like(luma, 128)]
        if self.format == "YUY2":
            packed = self.planes[0]
            return [packed[:, :, 0][size], *(packed[:, i::2, 1].repeat(2, 1)[size] for i in (0, 1))]
        luma = self.planes[0][:, :, 0]
        if self.format == "NV12":
            halves = [self.planes[1][:, :, 0], self.planes[1][:, :, 1]]
        else:
            halves = [self.planes[1][:, :, 0], self.planes[2][:, :, 0]]
        return [luma, *(half.repeat(2, 0).repeat(2, 1)[size] for half in halves)]
