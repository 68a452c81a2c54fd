"""The network's input as nvinfer makes it: which rectangle is read, where it lies, and ``scale * (x - mean)``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import cv2
import numpy as np
import numpy.typing as npt

from sluice.contract.formats import plane_shapes
from sluice.errors import ConfigurationError
from sluice.models.letterbox import Letterbox
from sluice.models.pixels import Scratch, layout_of
from sluice.models.preprocess import TEXTURE, shrink

if TYPE_CHECKING:
    from sluice.contract.surface import Surface
    from sluice.models.nvinfer.keys import Properties

Float = npt.NDArray[np.float32]

GRAY = 2  # model-color-format
ORDERS = {0: "RGB", 1: "BGR"}

#: scaling-filter to the interpolation nearest to what NvBufSurfTransform does on a GPU, measured with DeepStream 9.0
#: (tests/gpu/test_gpu_transform.py): 0, 3, 5 and 6 are OpenCV's to the bit, 2 and 4 its kin with other coefficients.
FILTERS = {
    0: cv2.INTER_NEAREST,
    1: TEXTURE,
    2: cv2.INTER_CUBIC,
    3: cv2.INTER_AREA,
    4: cv2.INTER_LANCZOS4,
    5: cv2.INTER_NEAREST_EXACT,
    6: cv2.INTER_NEAREST,
}


def source_rectangle(left: float, top: float, width: float, height: float) -> tuple[int, int, int, int]:
    """The pixels that nvinfer reads of a frame or an object: left and top rounded up, sizes down, to even numbers."""
    return (int(left) + 1) // 2 * 2, (int(top) + 1) // 2 * 2, int(width) // 2 * 2, int(height) // 2 * 2


def placement(source: tuple[int, int], network: tuple[int, int], *, keep_aspect: bool, symmetric: bool) -> Letterbox:
    """Where a picture lies in the input; see `source_rectangle` for the size of the picture that counts.

    Args:
        source: width and height of what is read.
        network: width and height of the input.
        keep_aspect: maintain-aspect-ratio.
        symmetric: symmetric-padding; without `keep_aspect` of no meaning.
    """
    (width, height), (across, down) = source, network
    if not keep_aspect:
        return Letterbox(width, height, 0, 0, across, down)
    filled = across * height / width
    size = (across, int(filled)) if filled <= down else (int(down * width / height), down)
    size = max(1, size[0]), max(1, size[1])
    # An odd rest leaves the extra row or column of padding right or below.
    left, top = ((across - size[0]) // 2, (down - size[1]) // 2) if symmetric else (0, 0)
    return Letterbox(width, height, left, top, *size)


class EvenSurface:
    """A surface without its last row or column where their number is odd."""

    def __init__(self, surface: Surface) -> None:
        _, _, self.width, self.height = source_rectangle(0, 0, surface.width, surface.height)
        self.color_format, self.matrix, self.full_range = surface.color_format, surface.matrix, surface.full_range
        self._surface = surface
        self._shapes = plane_shapes(layout_of(surface).name, self.width, self.height)

    def host_plane(self, index: int) -> npt.NDArray[np.uint8]:
        """A plane, cut."""
        shape = self._shapes[index]
        plane: npt.NDArray[np.uint8] = self._surface.host_plane(index)
        return plane[: shape.height, : shape.width]


@dataclass(frozen=True)
class InputSpec:
    """What the configuration and the network say of the input.

    Attributes:
        width, height, channels: size of the input.
        channels_last: NHWC rather than NCHW.
        dtype: "float32" or "float16".
        color_format: 0 RGB, 1 BGR, 2 gray.
        scale: net-scale-factor; at 0 or below pixels go in as they are.
        mean: per channel, [H,W,C] of a mean picture, or None.
        keep_aspect, symmetric: maintain-aspect-ratio and symmetric-padding.
        interpolation: OpenCV's filter.
    """

    width: int
    height: int
    channels: int
    channels_last: bool
    dtype: str
    color_format: int
    scale: float
    mean: Float | None
    keep_aspect: bool
    symmetric: bool
    interpolation: int

    @classmethod
    def make(
        cls, properties: Properties, size: tuple[int, int, int], channels_last: bool, dtype: str, path: Path
    ) -> InputSpec:
        """From the configuration, and the network's size (channels, height, width).

        Raises:
            ConfigurationError: the colour format, the offsets or the mean picture do not fit the network.
        """
        channels, height, width = size
        wanted = 1 if properties.model_color_format == GRAY else 3
        if channels != wanted:
            raise ConfigurationError(
                f"{path}: model-color-format is {properties.model_color_format}, which gives {wanted} channels, but "
                f"the network's input has {channels}"
            )
        return cls(
            width,
            height,
            channels,
            channels_last,
            dtype,
            properties.model_color_format,
            properties.net_scale_factor,
            _mean(properties, size, path),
            properties.maintain_aspect_ratio,
            properties.symmetric_padding,
            FILTERS[properties.scaling_filter],
        )

    def shape(self, batch: int) -> tuple[int, int, int, int]:
        """Shape of the input for `batch` pictures."""
        if self.channels_last:
            return batch, self.height, self.width, self.channels
        return batch, self.channels, self.height, self.width

    def normalise(self, pixels: npt.NDArray[Any]) -> Float:
        """``scale * (x - mean)`` of pixels [H,W,C] of the whole input; float32."""
        values = pixels.astype(np.float32)
        if self.scale <= 0:
            return values
        if self.mean is not None:
            values -= self.mean
        values *= np.float32(self.scale)
        return values


def _mean(properties: Properties, size: tuple[int, int, int], path: Path) -> Float | None:
    """The mean: a picture goes before offsets."""
    channels, height, width = size
    if properties.mean_file is not None:
        # OpenCV gives blue first; the file has red first, and nvinfer takes its channels as they come.
        picture = cv2.imread(properties.mean_file, cv2.IMREAD_COLOR)
        if picture is None:
            raise ConfigurationError(f"{path}: mean-file {properties.mean_file!r} is no PPM picture that can be read")
        if picture.shape != (height, width, channels):
            raise ConfigurationError(
                f"{path}: mean-file is a picture of {picture.shape[1]}x{picture.shape[0]}, the network's input is "
                f"{width}x{height} with {channels} channels"
            )
        return np.asarray(picture[..., ::-1], np.float32)
    if properties.offsets is None:
        return None
    if len(properties.offsets) != channels:
        raise ConfigurationError(
            f"{path}: offsets has {len(properties.offsets)} values; right are {channels}, one per channel"
        )
    return np.array(properties.offsets, np.float32)


class InputWriter:
    """Writes pictures into the slots of one preallocated input. Not for use by two threads at once.

    Padding is written when a slot's geometry changes, not for every picture.

    Attributes:
        spec: what is wanted.
        input: array of the spec's shape and dtype; slot i belongs to the i-th picture of a batch.
    """

    def __init__(self, spec: InputSpec, batch: int) -> None:
        self.spec = spec
        self.input: npt.NDArray[Any] = np.zeros(spec.shape(batch), spec.dtype)
        self._geometry: list[Letterbox | None] = [None] * batch
        self._scratch = Scratch()

    def write(self, slot: int, surface: Surface) -> Letterbox:
        """Write one surface into a slot and return how it lies there.

        Raises:
            SurfaceError: the surface is not in host memory.
            ContractError: its pixel format is not one that Sluice reads.
            ConfigurationError: it has less than two rows or columns.
        """
        spec = self.spec
        even: Any = EvenSurface(surface)
        if min(even.width, even.height) < 1:
            raise ConfigurationError(f"a picture of {surface.width}x{surface.height} is too small for nvinfer's input")
        size = even.width, even.height
        box = placement(size, (spec.width, spec.height), keep_aspect=spec.keep_aspect, symmetric=spec.symmetric)
        order = ORDERS.get(spec.color_format, "RGB")
        pixels = shrink(even, (box.width, box.height), order, spec.interpolation, self._scratch)
        if spec.color_format == GRAY:
            pixels = cv2.cvtColor(pixels, cv2.COLOR_RGB2GRAY)
        target = self.channels_last(slot)
        if self._geometry[slot] != box:
            # Padding is black before the normalisation.
            target[...] = spec.normalise(np.zeros((spec.height, spec.width, spec.channels), np.uint8))
            self._geometry[slot] = box
        self._normalise(pixels, target, box)
        return box

    def write_input(self, slot: int, pixels: npt.NDArray[np.uint8]) -> None:
        """Write pixels [H,W,C] of the input's own size and order of channels into a slot."""
        self.channels_last(slot)[...] = self.spec.normalise(pixels)
        self._geometry[slot] = None

    def channels_last(self, slot: int) -> npt.NDArray[Any]:
        """A slot as a view [H,W,C]."""
        target: npt.NDArray[Any] = self.input[slot]
        return target if self.spec.channels_last else target.transpose(1, 2, 0)

    def _normalise(self, pixels: npt.NDArray[Any], target: npt.NDArray[Any], box: Letterbox) -> None:
        """Write uint8 [h,w,C] into its place in a slot; per channel, so that rows are contiguous."""
        spec = self.spec
        area = slice(box.top, box.top + box.height), slice(box.left, box.left + box.width)
        for channel, plane in enumerate(cv2.split(pixels)):
            view = target[(*area, channel)]
            if spec.scale <= 0:
                view[...] = plane
                continue
            mean: Any = np.float32(0) if spec.mean is None else spec.mean[..., channel]
            np.subtract(plane, mean[area] if mean.ndim else mean, out=view, casting="same_kind")
            view *= np.float32(spec.scale)
