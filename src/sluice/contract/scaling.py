"""Scaling of raw frames to one size, as the legacy ``nvstreammux`` does when it is given a width and a height.

The pixel format stays; every plane is scaled by itself with bilinear interpolation (``interpolation-method`` 1).
"""

import functools
from typing import Any, NamedTuple

import cv2
import gi
import numpy as np
import numpy.typing as npt

gi.require_version("Gst", "1.0")
from gi.repository import Gst

from sluice.contract._pixels import functions
from sluice.contract.formats import FrameFormat, Matrix
from sluice.contract.surface import Surface, SurfaceBatch, writable_raw
from sluice.errors import ContractError

_LIMITED_BLACK = 16
_NEUTRAL_CHROMA = 128

Pixels = npt.NDArray[np.uint8]


class Placement(NamedTuple):
    """Where a scaled picture lies in the output frame, in pixels from its top left corner."""

    x: int
    y: int
    width: int
    height: int


def place(format: FrameFormat, width: int, height: int, padding: bool) -> Placement:
    """Return where a frame comes to lie in a width x height output with square pixels.

    Without padding it is stretched over all of it. With padding it keeps its display aspect ratio (size times pixel
    aspect ratio), is centred, and has even size and position, all rounded down, as in nvstreammux.
    """
    if not padding:
        return Placement(0, 0, width, height)
    par_n, par_d = format.pixel_aspect_ratio
    fitted_width, fitted_height = width, width * format.height * par_d // (format.width * par_n)
    if fitted_height > height:
        fitted_width, fitted_height = height * format.width * par_n // (format.height * par_d), height
    fitted_width, fitted_height = max(_even(fitted_width), 2), max(_even(fitted_height), 2)
    return Placement(
        _even((width - fitted_width) // 2), _even((height - fitted_height) // 2), fitted_width, fitted_height
    )


def _even(value: int) -> int:
    return value - value % 2


@functools.lru_cache(maxsize=256)
def scaled_format(format: FrameFormat, width: int, height: int) -> FrameFormat:
    """Return the format of a frame scaled to width x height: the same pixels, matrix and range, square pixels.

    Raises:
        ContractError: a side is below 2 pixels.
    """
    if min(width, height) < 2:
        raise ContractError(f"frames cannot be scaled to {width}x{height}; both sides must be at least 2")
    caps = format.info.to_caps()
    for field, value in (("width", width), ("height", height), ("pixel-aspect-ratio", Gst.Fraction(1, 1))):
        caps.set_value(field, value)
    return FrameFormat.from_caps(caps)


def scale_frame(buffer: Gst.Buffer, info: Any, width: int, height: int, padding: bool = False) -> Gst.Buffer:
    """Return a frame scaled to width x height: a new buffer, counted as a copy, of format `scaled_format`.

    A frame that has the size already is returned itself. The new buffer has the flags and timestamps of the old one,
    but not its metas, whose coordinates would be wrong.

    Args:
        buffer: a raw frame in system memory.
        info: its `FrameFormat` or ``GstVideo.VideoInfo``.
        width: of the output in pixels, at least 2.
        height: see width.
        padding: keep the aspect ratio, with black bars (alpha 0, luma 0 or 16 by range, chroma 128); else stretch.

    Raises:
        ContractError: an impossible size, or a buffer that is not what its format says.
    """
    format = FrameFormat.of(info)
    if (format.width, format.height) == (width, height):
        return buffer
    target_format = scaled_format(format, width, height)
    area = place(format, width, height, padding)
    source = SurfaceBatch.of_raw(buffer, format)[0]
    scaled = Gst.Buffer.new_allocate(None, target_format.info.size, None)
    with writable_raw(scaled, target_format) as target:
        if (area.width, area.height) != (width, height):
            _fill_black(target)
        _scale_planes(source, target, area)
    scaled.copy_into(buffer, Gst.BufferCopyFlags.FLAGS | Gst.BufferCopyFlags.TIMESTAMPS, 0, 2**64 - 1)
    functions().count_copy()
    return scaled


def _fill_black(target: Surface) -> None:
    luma, *chroma = target.host_planes()
    if target.matrix is Matrix.RGB:
        luma[:] = 0
        return
    black = 0 if target.full_range else _LIMITED_BLACK
    if target.format == "YUY2":
        luma[:] = (black, _NEUTRAL_CHROMA)
        return
    luma[:] = black
    for plane in chroma:
        plane[:] = _NEUTRAL_CHROMA


def _scale_planes(source: Surface, target: Surface, area: Placement) -> None:
    if source.format == "YUY2":
        _scale_yuy2(source, target.host_plane(0), area)
        return
    for index, (pixels, out) in enumerate(zip(source.host_planes(), target.host_planes(), strict=True)):
        _resize_into(pixels, _halved(out, area) if index else _part(out, area))


def _part(plane: Pixels, area: Placement) -> Pixels:
    return plane[area.y : area.y + area.height, area.x : area.x + area.width]


def _halved(plane: Pixels, area: Placement) -> Pixels:
    """Return the area's part of a chroma plane of half the size; the area's position is even."""
    top, left = area.y // 2, area.x // 2
    return plane[top : top + (area.height + 1) // 2, left : left + (area.width + 1) // 2]


def _resize_into(pixels: Pixels, out: Pixels) -> None:
    """Scale straight into a part of the output plane."""
    cv2.resize(pixels, (out.shape[1], out.shape[0]), dst=out, interpolation=cv2.INTER_LINEAR)


def _scale_yuy2(source: Surface, out: Pixels, area: Placement) -> None:
    """Scale luma and the interleaved chroma (U and V alternate, one of each for two pixels) apart from each other."""
    pairs = source.host_plane(0)
    luma = np.empty((area.height, area.width), np.uint8)
    _resize_into(np.ascontiguousarray(pairs[:, : source.width, 0]), luma)
    _part(out, area)[:, :, 0] = luma
    chroma = np.empty((area.height, (area.width + 1) // 2, 2), np.uint8)
    _resize_into(np.ascontiguousarray(pairs[:, :, 1]).reshape(source.height, -1, 2), chroma)
    end = area.x + 2 * chroma.shape[1]
    out[area.y : area.y + area.height, area.x : end, 1] = chroma.reshape(area.height, -1)
    if area.width % 2:  # the luma beside the last pixel of an odd row is no pixel, but should not be noise
        out[area.y : area.y + area.height, area.x + area.width, 0] = luma[:, -1]
