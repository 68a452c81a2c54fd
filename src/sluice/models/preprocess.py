"""From a surface's own pixels to a network's input: colour, scale, pad, normalise and lay out.

The result is, to the bit, that of the usual way, which is to convert the whole frame to RGB and then to resize it. But
only those rows of the frame are converted that the resizing reads: a third of 1080 for 360.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import gcd
from typing import TYPE_CHECKING, Any, Literal

import cv2
import numpy as np
import numpy.typing as npt

from sluice.errors import ConfigurationError
from sluice.models.antialias import antialiased
from sluice.models.letterbox import FITS, Fit, Letterbox
from sluice.models.pixels import (
    ALL_ROWS,
    YUV,
    Image,
    Rows,
    Scratch,
    layout_of,
    packed_to_packed,
    yuv_planes,
    yuv_to_packed,
    yuv_to_rgb_matrix,
)

if TYPE_CHECKING:
    from sluice.contract.surface import Surface

Triple = tuple[float, float, float]
ANTIALIAS, TEXTURE = -1, -2  # no interpolations of OpenCV's
MOST_SLICES = 12  # of rows that are converted: so many times the calls' own time is still less than copying rows takes
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
            which is Pillow's and torchvision's linear, for classifiers (some 10 ms for a 1080p frame).
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
        self._scratch = Scratch()
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
        pixels = shrink(surface, (box.width, box.height), spec.order, INTERPOLATION[spec.interpolation], self._scratch)
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


def shrink(
    surface: Surface,
    size: tuple[int, int],
    order: str,
    interpolation: int = cv2.INTER_LINEAR,
    scratch: Scratch | None = None,
) -> Image:
    """A surface as uint8 [height,width,3] in `order` ("RGB" or "BGR") and of another size (width, height).

    What converting the whole frame (`to_packed`) and resizing it gives, to the bit. Only with `ANTIALIAS`, which costs
    by the pixel, are the planes resized first, which is apart from that by roundings. With `scratch` it may lie there,
    good until that is used again.
    """
    layout = layout_of(surface)
    width, height = surface.width, surface.height
    if interpolation == cv2.INTER_AREA and (size[0] > width or size[1] > height):
        interpolation = cv2.INTER_LINEAR  # OpenCV's area interpolation enlarges in blocks
    if layout.name == "GRAY8":
        return resize(packed_to_packed(surface.host_plane(0), layout, order), size, interpolation)
    if layout.name not in YUV:
        return packed_to_packed(resize(surface.host_plane(0), size, interpolation), layout, order)
    if interpolation != ANTIALIAS:
        rows = _rows_read(height, size[1], interpolation)
        return resize(yuv_to_packed(surface, layout, order, rows, scratch), size, interpolation)
    luma, chroma = yuv_planes(surface, layout)
    yuv = cv2.merge([resize(plane, size, ANTIALIAS) for plane in (luma, *chroma)])
    image: Image = cv2.transform(yuv, yuv_to_rgb_matrix(layout.matrix, layout.full_range, order))
    return image


def resize(plane: Image, size: tuple[int, int], interpolation: int) -> Image:
    """A uint8 plane [h,w] or [h,w,channels] in another size (width, height)."""
    if (plane.shape[1], plane.shape[0]) == size:
        return plane
    if interpolation == ANTIALIAS:
        return antialiased(plane, size)
    if interpolation == TEXTURE:
        return _as_texture(plane, size)
    image: Image = cv2.resize(plane, size, interpolation=interpolation)
    return image


def _as_texture(plane: Image, size: tuple[int, int]) -> Image:
    """Linear interpolation as NVIDIA's converter has it: pixel x of the new picture is read at x times the scale - 1/2.

    That is half a pixel above and left of the old picture's corner, where OpenCV keeps the centres in place.
    """
    height, width = plane.shape[:2]
    matrix = np.array([[width / size[0], 0, -0.5], [0, height / size[1], -0.5]])
    flags = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
    image: Image = cv2.warpAffine(plane, matrix, size, flags=flags, borderMode=cv2.BORDER_REPLICATE)
    return image


@lru_cache(maxsize=64)
def _rows_read(source: int, target: int, interpolation: int) -> tuple[Rows, ...]:
    """Which of `source` rows `cv2.resize` reads to make `target` rows.

    Linear interpolation reads the two rows beside a position, and only one where it lies on it; that is also what
    OpenCV's shortcut by averages reads when it shrinks by 2.
    """
    if interpolation not in (cv2.INTER_LINEAR, cv2.INTER_NEAREST) or source == target:
        return ALL_ROWS
    near = 1e-4  # OpenCV's weights are multiples of 1/2048; its floor of a position may be another than ours
    if interpolation == cv2.INTER_NEAREST:
        position = np.arange(target) * (source / target)
        read = np.floor(position - near), np.floor(position + near)
    else:
        position = np.clip((np.arange(target) + 0.5) * (source / target) - 0.5, 0, source - 1)
        read = np.floor(position + near), np.ceil(position - near)
    above, below = (np.unique(np.clip(rows, 0, source - 1).astype(np.intp)) for rows in read)
    every = np.union1d(above, below)
    if len(every) > 0.8 * source:
        return ALL_ROWS
    if len(every) == len(above) + len(below):
        first, second = _as_slice(above), _as_slice(below)
        if isinstance(first, slice) and isinstance(second, slice):
            return first, second
    return _repeated(every, source, target) or (_as_slice(every),)


def _repeated(rows: npt.NDArray[np.intp], source: int, target: int) -> tuple[Rows, ...]:
    """Rows as slices where their pattern comes again after so few that these cost less than numbers; () elsewhere.

    A pair of rows has its chroma in common, so the slices step over pairs.
    """
    period = source // gcd(source, target)
    period *= 1 + period % 2
    first = np.unique(rows % period)
    return tuple(slice(int(row), source, period) for row in first) if len(first) <= MOST_SLICES else ()


def _as_slice(rows: npt.NDArray[np.intp]) -> Rows:
    """Rows as a slice where they lie equally far apart."""
    steps = np.unique(np.diff(rows))
    return rows if len(steps) > 1 else slice(int(rows[0]), int(rows[-1]) + 1, int(steps[0]) if len(steps) else 1)
