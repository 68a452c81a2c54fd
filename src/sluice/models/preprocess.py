"""From a surface's own pixels to a network's input: scale, pad, colour, normalise and lay out, in one pass.

No full-size frame is converted to RGB. Each plane is first resized on its own; what follows (chroma to colour, order of
channels, scale and mean) happens at the network's size, and ends in the preallocated input.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal

import cv2
import numpy as np
import numpy.typing as npt

from sluice.errors import ConfigurationError
from sluice.models.antialias import antialiased
from sluice.models.letterbox import FITS, Fit, Letterbox
from sluice.models.pixels import YUV, Image, layout_of, packed_to_packed, yuv_planes, yuv_to_rgb_matrix

if TYPE_CHECKING:
    from sluice.contract.surface import Surface

Triple = tuple[float, float, float]
ANTIALIAS = -1  # no interpolation of OpenCV's
INTERPOLATION = {"linear": cv2.INTER_LINEAR, "area": cv2.INTER_AREA, "antialias": ANTIALIAS}


@dataclass(frozen=True)
class Preprocessing:
    """What a network wants of its input: ``(pixel * scale - mean) / std`` per channel, in the order of the channels.

    Attributes:
        width, height: size of the input in pixels.
        fit: how the frame lies in it, see `Letterbox.fit`.
        pad: pixel value 0..255 of the padding, before scale and mean.
        order: order of the channels.
        scale, mean, std: the normalisation; mean and std in the order of the channels, after the scale.
        layout: "NCHW" or "NHWC".
        dtype: "float32", "float16" or "uint8" (pixels as they are; scale, mean and std must be neutral).
        interpolation: "linear", which nearly all detectors were trained and are exported with; "area"; or "antialias",
            which is Pillow's and torchvision's linear, for classifiers (some 40 ms for a 1080p frame).
    """

    width: int
    height: int
    fit: Fit = "centre"
    pad: int = 114
    order: Literal["RGB", "BGR"] = "RGB"
    scale: float = 1 / 255
    mean: Triple = (0.0, 0.0, 0.0)
    std: Triple = (1.0, 1.0, 1.0)
    layout: Literal["NCHW", "NHWC"] = "NCHW"
    dtype: Literal["float32", "float16", "uint8"] = "float32"
    interpolation: Literal["linear", "area", "antialias"] = "linear"

    def __post_init__(self) -> None:
        allowed: dict[str, tuple[str, ...]] = {
            "fit": FITS,
            "order": ("RGB", "BGR"),
            "layout": ("NCHW", "NHWC"),
            "dtype": ("float32", "float16", "uint8"),
            "interpolation": tuple(INTERPOLATION),
        }
        for name, right in allowed.items():
            if getattr(self, name) not in right:
                raise ConfigurationError(f"{name} is {getattr(self, name)!r}; right is one of {', '.join(right)}")
        if self.width < 1 or self.height < 1:
            raise ConfigurationError(f"the network's input is {self.width}x{self.height}; right is at least 1x1 pixels")
        if not 0 <= self.pad <= 255:
            raise ConfigurationError(f"pad is {self.pad}; right is a pixel value, 0 to 255")
        if not np.isfinite((self.scale, *self.mean, *self.std)).all() or 0 in self.std:
            raise ConfigurationError(
                f"scale is {self.scale}, mean {self.mean} and std {self.std}; right are finite numbers, none of std 0"
            )
        if self.dtype == "uint8" and not self.neutral:
            raise ConfigurationError("a uint8 input takes pixels as they are; right are scale 1, mean 0 and std 1")

    @property
    def neutral(self) -> bool:
        """Whether pixels go in unchanged."""
        return self.scale == 1 and self.mean == (0.0, 0.0, 0.0) and self.std == (1.0, 1.0, 1.0)

    def shape(self, batch: int) -> tuple[int, int, int, int]:
        """Shape of the input for `batch` frames."""
        if self.layout == "NCHW":
            return batch, 3, self.height, self.width
        return batch, self.height, self.width, 3


class Preprocessor:
    """Writes surfaces into the slots of one preallocated input.

    Padding is written when a slot's geometry changes, not for every frame. Not for use by two threads at once.

    Attributes:
        spec: what the network wants.
        input: array of the spec's dtype and shape; slot i belongs to the i-th frame of a batch.
    """

    def __init__(self, spec: Preprocessing, batch: int) -> None:
        self.spec = spec
        self.input: npt.NDArray[Any] = np.zeros(spec.shape(batch), spec.dtype)
        self._geometry: list[Letterbox | None] = [None] * batch
        self._factor = np.array([spec.scale / s for s in spec.std], np.float32)
        self._offset = np.array([-m / s for m, s in zip(spec.mean, spec.std, strict=True)], np.float32)

    def write(self, slot: int, surface: Surface) -> Letterbox:
        """Write one surface into a slot and return how it lies there.

        Raises:
            SurfaceError: the surface is not in host memory.
            ContractError: its pixel format is not one that Sluice reads.
        """
        spec = self.spec
        box = Letterbox.fit((surface.width, surface.height), (spec.width, spec.height), spec.fit)
        target = self.input[slot]
        channels_last = target.transpose(1, 2, 0) if spec.layout == "NCHW" else target
        if self._geometry[slot] != box:
            channels_last[...] = spec.pad * self._factor + self._offset
            self._geometry[slot] = box
        inside = channels_last[max(0, box.top) : box.top + box.height, max(0, box.left) : box.left + box.width]
        pixels = shrink(surface, (box.width, box.height), spec.order, INTERPOLATION[spec.interpolation])
        lines, columns = max(0, -box.top), max(0, -box.left)
        self._normalise(pixels[lines : lines + len(inside), columns : columns + inside.shape[1]], inside)
        return box

    def _normalise(self, pixels: Image, target: npt.NDArray[Any]) -> None:
        """Write uint8 [h,w,3] into a [h,w,3] view of the input; per channel, so that rows are contiguous."""
        if self.spec.neutral:
            for channel, plane in enumerate(cv2.split(pixels)):
                np.copyto(target[..., channel], plane)
            return
        for channel, plane in enumerate(cv2.split(pixels)):
            view = target[..., channel]
            np.multiply(plane, self._factor[channel], out=view, casting="same_kind")
            if self._offset[channel]:
                view += self._offset[channel]


def shrink(surface: Surface, size: tuple[int, int], order: str, interpolation: int = cv2.INTER_LINEAR) -> Image:
    """A surface as uint8 [height,width,3] in `order` ("RGB" or "BGR") and of another size (width, height).

    Planes are resized before colours are made, so it costs what the small picture costs. The result is what converting
    the whole frame and resizing it gives, but for rounding (on average less than half a level).
    """
    layout = layout_of(surface)
    width, height = surface.width, surface.height
    if interpolation == cv2.INTER_AREA and (size[0] > width or size[1] > height):
        interpolation = cv2.INTER_LINEAR  # OpenCV's area interpolation enlarges in blocks
    if layout.name not in YUV:
        return packed_to_packed(_resize(surface.host_plane(0), size, interpolation), layout, order)
    luma, chroma = yuv_planes(surface, layout)
    if interpolation != cv2.INTER_LINEAR:
        planes = [_resize(plane, size, interpolation) for plane in chroma]
    else:
        maps = _chroma_maps((width, height), size, 1 if layout.name == "YUY2" else 2)
        planes = [
            cv2.remap(plane, *maps, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)
            for plane in (chroma if len(chroma) == 2 else cv2.split(chroma[0]))
        ]
    yuv = cv2.merge([_resize(luma, size, interpolation), *planes])
    image: Image = cv2.transform(yuv, yuv_to_rgb_matrix(layout.matrix, layout.full_range, order))
    return image


def _resize(plane: Image, size: tuple[int, int], interpolation: int) -> Image:
    if (plane.shape[1], plane.shape[0]) == size:
        return plane
    if interpolation == ANTIALIAS:
        return antialiased(plane, size)
    image: Image = cv2.resize(plane, size, interpolation=interpolation)
    return image


@lru_cache(maxsize=64)
def _chroma_maps(frame: tuple[int, int], size: tuple[int, int], rows: int) -> tuple[Image, Image]:
    """Where `cv2.remap` has to read a chroma plane to give what a linear resize of the repeated plane would give.

    Detectors are trained on pictures whose chroma was repeated over two columns (and `rows` rows) before they were
    resized. Reading chroma linearly instead gives softer edges of colour, enough to move 1 in 40 of YOLOX-nano's
    scores by more than 0.02.
    """
    columns = _chroma_positions(frame[0], size[0], 2)
    lines = _chroma_positions(frame[1], size[1], rows)
    maps: tuple[Image, Image] = cv2.convertMaps(*np.meshgrid(columns, lines), cv2.CV_16SC2)
    return maps


def _chroma_positions(source: int, target: int, repeat: int) -> npt.NDArray[np.float32]:
    """Per target pixel the position in chroma samples, each of which stands for `repeat` source pixels.

    A linear resize reads between source pixels i and i + 1. Both have one chroma sample where they lie on the same
    one; else the two samples are mixed as the pixels are.
    """
    position = np.clip((np.arange(target) + 0.5) * (source / target) - 0.5, 0, source - 1)
    pixel = np.floor(position)
    sample = pixel // repeat
    mixed = (pixel + 1) // repeat != sample
    result: npt.NDArray[np.float32] = np.where(mixed, sample + position - pixel, sample).astype(np.float32)
    return result
