"""Pixel formats: what GStreamer calls them, which NvBufSurface colour format that is, and how their planes lie.

NvBufSurface's colour format carries matrix and range in its name (``NV12_709_ER``: BT.709, extended, that is full,
range), but has no value for some combinations (YUY2 in BT.709, full-range BT.2020). For those the nearest value is
taken, and every surface that Sluice makes also carries the exact pair in `colour_tag`, so that
`sluice.contract.surface.Surface.matrix` and ``full_range`` are always exact.
"""

import functools
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import gi

gi.require_version("Gst", "1.0")
gi.require_version("GstVideo", "1.0")
from gi.repository import Gst, GstVideo

from sluice.contract.gstref import address
from sluice.contract.structures import required_structure
from sluice.errors import ContractError


class MemType(IntEnum):
    """``NvBufSurfaceMemType`` (nvbufsurface.h)."""

    DEFAULT = 0
    CUDA_PINNED = 1
    CUDA_DEVICE = 2
    CUDA_UNIFIED = 3
    SURFACE_ARRAY = 4
    HANDLE = 5
    SYSTEM = 6
    CUDA_ARRAY = 7

    @property
    def on_host(self) -> bool:
        """Whether the processor can read ``dataPtr`` of such a surface without mapping it first."""
        return self in (MemType.SYSTEM, MemType.CUDA_PINNED, MemType.CUDA_UNIFIED)

    @property
    def on_cuda(self) -> bool:
        """Whether a CUDA kernel can read ``dataPtr`` of such a surface.

        DEFAULT is taken for device memory, which it is on a discrete GPU.
        """
        return self in (MemType.DEFAULT, MemType.CUDA_DEVICE, MemType.CUDA_UNIFIED)


class Layout(IntEnum):
    """``NvBufSurfaceLayout`` (nvbufsurface.h)."""

    PITCH = 0
    BLOCK_LINEAR = 1


class ColorFormat(IntEnum):
    """The values of ``NvBufSurfaceColorFormat`` (nvbufsurface.h) whose pixels Sluice reads.

    ``_ER`` is full range, no suffix limited range; ``_709`` and ``_2020`` name the matrix, no suffix is BT.601. Those
    of 10 and 12 bits (``_10LE``, ``_12LE``) are a GPU's only, see `DEEP_FORMATS`.
    """

    GRAY8 = 1
    YUV420 = 2
    YUV420_ER = 4
    NV12 = 6
    NV12_ER = 7
    YUYV = 14
    YUYV_ER = 15
    RGBA = 19
    BGRA = 20
    RGBX = 23
    BGRX = 24
    RGB = 27
    BGR = 28
    YUV420_709 = 31
    YUV420_709_ER = 32
    NV12_709 = 33
    NV12_709_ER = 34
    YUV420_2020 = 35
    NV12_2020 = 36
    GRAY8_ER = 88
    NV12_10LE = 29
    NV12_10LE_ER = 37
    NV12_10LE_709 = 38
    NV12_10LE_709_ER = 39
    NV12_10LE_2020 = 40
    NV12_12LE = 30
    NV12_12LE_ER = 85
    NV12_12LE_709 = 86
    NV12_12LE_709_ER = 87
    NV12_12LE_2020 = 49


class Matrix(IntEnum):
    """The matrix between YCbCr and RGB, with the values of ``GstVideoColorMatrix``; RGB is no matrix at all.

    FCC and SMPTE 240M are read as their neighbours BT.601 and BT.709, whose coefficients differ by less than 0.02.
    """

    RGB = 1
    BT709 = 3
    BT601 = 4
    BT2020 = 6

    @property
    def luma(self) -> tuple[float, float]:
        """The weights (Kr, Kb) of red and blue in luma (ITU-R BT.601, BT.709, BT.2020); RGB has none and raises."""
        if self is Matrix.RGB:
            raise ContractError("RGB pixels have no luma matrix; ask for `luma` only of YUV surfaces")
        return {Matrix.BT601: (0.299, 0.114), Matrix.BT709: (0.2126, 0.0722), Matrix.BT2020: (0.2627, 0.0593)}[self]


@dataclass(frozen=True)
class PlaneShape:
    """One plane: its size in samples and the bytes of one sample (2 for NV12's interleaved chroma and for YUY2)."""

    width: int
    height: int
    bytes_per_pixel: int

    @property
    def row_bytes(self) -> int:
        """Bytes of one row without padding."""
        return self.width * self.bytes_per_pixel


_SUFFIXES = {
    (Matrix.BT601, False): "",
    (Matrix.BT601, True): "_ER",
    (Matrix.BT709, False): "_709",
    (Matrix.BT709, True): "_709_ER",
    (Matrix.BT2020, False): "_2020",
}


def _values(name: str) -> dict[tuple[Matrix, bool], ColorFormat]:
    """The values of a pixel format by matrix and whether the range is full."""
    return {pair: ColorFormat[f"{name}{suffix}"] for pair, suffix in _SUFFIXES.items()}


_YUV_VALUES = {
    "I420": _values("YUV420"),
    "NV12": _values("NV12"),
    "YUY2": {(Matrix.BT601, False): ColorFormat.YUYV, (Matrix.BT601, True): ColorFormat.YUYV_ER},
    "GRAY8": {(Matrix.BT601, False): ColorFormat.GRAY8, (Matrix.BT601, True): ColorFormat.GRAY8_ER},
}
_RGB_VALUES = {
    "RGB": ColorFormat.RGB,
    "BGR": ColorFormat.BGR,
    "RGBA": ColorFormat.RGBA,
    "BGRA": ColorFormat.BGRA,
    "RGBx": ColorFormat.RGBX,
    "BGRx": ColorFormat.BGRX,
}
_DEEP_VALUES = {"P010_10LE": _values("NV12_10LE"), "P012_LE": _values("NV12_12LE")}
# NvBufSurface's values that nothing here reads, by matrix BT.601, BT.709, BT.2020 and range limited, full.
_FOREIGN_VALUES = {
    "NV21": ((8, 9), (), ()),
    "UYVY": ((10, 11), (89, 90), (91,)),
    "VYUY": ((12, 13), (), ()),
    "YVYU": ((16, 17), (), ()),
    "Y444": ((18, 71), (72, 73), (74,)),
    "NV16": ((50, 54), (56, 58), (94,)),
    "NV24": ((52, 55), (57, 59), (104,)),
}
FORMATS = (*_YUV_VALUES, *_RGB_VALUES)
"""GStreamer's names of the raw formats that can be in a batch."""
DEEP_FORMATS = tuple(_DEEP_VALUES)
"""Formats of NVMM surfaces that a GPU's kernels read, by the eight most significant bits; nothing else here does."""
FOREIGN_FORMATS = tuple(_FOREIGN_VALUES)
"""Formats of NVMM surfaces whose pixels are read by nothing here, but which NVIDIA's own converter reads."""

_MEANING: dict[int, tuple[str, Matrix, bool]] = {
    int(value): (name, *pair) for name, values in (_YUV_VALUES | _DEEP_VALUES).items() for pair, value in values.items()
}
_MEANING |= {int(value): (name, Matrix.RGB, True) for name, value in _RGB_VALUES.items()}
_MEANING |= {
    value: (name, matrix, full_range)
    for name, matrices in _FOREIGN_VALUES.items()
    for matrix, ranges in zip((Matrix.BT601, Matrix.BT709, Matrix.BT2020), matrices, strict=True)
    for value, full_range in zip(ranges, (False, True), strict=False)
}
_PACKED_BYTES = {"RGB": 3, "BGR": 3, "RGBA": 4, "BGRA": 4, "RGBx": 4, "BGRx": 4}
# GstVideoColorMatrix: 2 is FCC and 5 SMPTE 240M (see Matrix), 0 unknown, 1 RGB. GstVideoColorRange: see the names.
_MATRICES = {2: Matrix.BT601, 3: Matrix.BT709, 4: Matrix.BT601, 5: Matrix.BT709, 6: Matrix.BT2020}
_RANGE_UNKNOWN, _RANGE_FULL = 0, 1
_TAG_MAGIC = 0x534C5543  # "SLUC"; no pointer or zero looks like this in the upper half of a reserved field


def require_supported(name: str) -> str:
    """Return a GStreamer raw format name unchanged if it can be in a batch.

    Raises:
        ContractError: it cannot, with the converter that makes it one that can.
    """
    if name not in FORMATS:
        raise ContractError(
            f"raw video in format {name} cannot be batched ({', '.join(FORMATS)} can); "
            "add `videoconvert ! video/x-raw,format=I420` before it"
        )
    return name


def color_format(name: str, matrix: Matrix, full_range: bool) -> ColorFormat:
    """Return the NvBufSurface value of a GStreamer format, or the nearest one where the exact pair has none.

    The nearest value keeps the range before the matrix: a wrong range changes every pixel, a wrong matrix only hues.
    """
    if name in _RGB_VALUES:
        return _RGB_VALUES[name]
    values = _DEEP_VALUES[name] if name in _DEEP_VALUES else _YUV_VALUES[require_supported(name)]
    candidates = ((candidate, full_range) for candidate in (matrix, Matrix.BT709, Matrix.BT601))
    return next(values[pair] for pair in candidates if pair in values)


def meaning(value: int) -> tuple[str, Matrix, bool]:
    """Return (GStreamer's format name, matrix, full range) of an NvBufSurface colour format.

    Raises:
        ContractError: it is not known, with the formats whose pixels can be read.
    """
    known = _MEANING.get(value)
    if known is None:
        raise ContractError(
            f"a surface has NvBufSurface colour format {value}, which cannot be read; "
            f"these can: {', '.join(f'{item.name} ({item.value})' for item in ColorFormat)}"
        )
    return known


def readable_format(value: int) -> ColorFormat:
    """Return an NvBufSurface colour format whose pixels can be read.

    Raises:
        ContractError: they cannot, with the converter.
    """
    name = meaning(value)[0]
    if name in FOREIGN_FORMATS:
        raise ContractError(
            f"pixels in format {name} cannot be read; put `nvvideoconvert ! video/x-raw(memory:NVMM),format=NV12` "
            "before this element"
        )
    return ColorFormat(value)


def colour_tag(matrix: Matrix, full_range: bool) -> int:
    """Return the 64-bit word that Sluice writes to ``NvBufSurfaceParams._reserved[3]`` of the surfaces it makes."""
    return _TAG_MAGIC << 32 | int(full_range) << 8 | int(matrix)


def read_colour_tag(tag: int) -> tuple[Matrix, bool] | None:
    """Return (matrix, full range) from a word written by `colour_tag`, or None where it is something else."""
    if tag >> 32 != _TAG_MAGIC:
        return None
    return Matrix(tag & 0xFF), bool(tag >> 8 & 1)


@functools.lru_cache(maxsize=512)
def plane_shapes(name: str, width: int, height: int) -> tuple[PlaneShape, ...]:
    """Return the planes of a width x height picture; chroma of odd sizes is rounded up, as GStreamer does.

    YUY2's only plane is counted in (luma, chroma) pairs of 2 bytes and has an even number of them in a row.
    """
    half_width, half_height = (width + 1) // 2, (height + 1) // 2
    if name in DEEP_FORMATS:
        return PlaneShape(width, height, 2), PlaneShape(half_width, half_height, 4)
    if require_supported(name) == "I420":
        chroma = PlaneShape(half_width, half_height, 1)
        return PlaneShape(width, height, 1), chroma, chroma
    if name == "NV12":
        return PlaneShape(width, height, 1), PlaneShape(half_width, half_height, 2)
    if name == "YUY2":
        return (PlaneShape(half_width * 2, height, 2),)
    return (PlaneShape(width, height, _PACKED_BYTES.get(name, 1)),)


@dataclass(frozen=True)
class FrameFormat:
    """One stream's raw video format, worked out once per CAPS event so that a batch costs no look-ups.

    Attributes:
        info: GStreamer's own description; it must not be changed, its address is handed to C.
        address: the address of ``info``'s struct.
        name: GStreamer's format name.
        tag: see `colour_tag`.
        on_cuda: the frames are in CUDA memory (``memory:CUDAMemory``).
    """

    info: Any
    address: int
    name: str
    width: int
    height: int
    matrix: Matrix
    full_range: bool
    color_format: ColorFormat
    tag: int
    on_cuda: bool = False

    @staticmethod
    def from_caps(caps: Gst.Caps) -> "FrameFormat":
        """Read fixed ``video/x-raw`` caps in system or CUDA memory.

        Raises:
            ContractError: the caps are not fixed raw video, or the format cannot be batched.
        """
        info = _video_info(caps)
        if info is None:
            raise ContractError(f"these are not fixed raw video caps: {caps.to_string()}")
        return _describe(info, on_cuda=caps.get_features(0).contains("memory:CUDAMemory"))

    @staticmethod
    def of(info: "GstVideo.VideoInfo | FrameFormat") -> "FrameFormat":
        """Return the description of a ``GstVideo.VideoInfo`` in system memory; kept, so that asking again is cheap."""
        return info if isinstance(info, FrameFormat) else _describe_kept(info)

    @property
    def planes(self) -> tuple[PlaneShape, ...]:
        """The planes' shapes, without a buffer's padding."""
        return plane_shapes(self.name, self.width, self.height)

    @property
    def pixel_aspect_ratio(self) -> tuple[int, int]:
        """Width to height of one pixel, as (numerator, denominator)."""
        return int(self.info.par_n) or 1, int(self.info.par_d) or 1


def _video_info(caps: Gst.Caps) -> Any:
    """Return the ``GstVideo.VideoInfo`` of caps, or None where they are not fixed raw video."""
    if not caps.is_fixed() or required_structure(caps, 0).get_name() != "video/x-raw":
        return None
    try:
        return GstVideo.VideoInfo.new_from_caps(caps)
    except TypeError:  # PyGObject's way of saying that the constructor returned NULL
        return None


def _describe(info: Any, *, on_cuda: bool = False) -> FrameFormat:
    name = info.finfo.name
    if not (on_cuda and name in DEEP_FORMATS):
        require_supported(name)
    matrix, full_range = _colorimetry(info, name)
    return FrameFormat(
        info=info,
        address=address(info),
        name=name,
        width=info.width,
        height=info.height,
        matrix=matrix,
        full_range=full_range,
        color_format=color_format(name, matrix, full_range),
        tag=colour_tag(matrix, full_range),
        on_cuda=on_cuda,
    )


_describe_kept = functools.lru_cache(maxsize=512)(_describe)


def _colorimetry(info: Any, name: str) -> tuple[Matrix, bool]:
    """Return matrix and range; what the caps leave unknown is what GStreamer takes for video of this height."""
    if name in _RGB_VALUES:
        return Matrix.RGB, True
    default = Matrix.BT601 if info.height <= 576 or name == "GRAY8" else Matrix.BT709
    matrix = _MATRICES.get(int(info.colorimetry.matrix), default)
    span = int(info.colorimetry.range)
    return matrix, name == "GRAY8" if span == _RANGE_UNKNOWN else span == _RANGE_FULL
