"""NVIDIA's converter of surfaces, for memory, layouts and pixel formats that nothing else here reads.

``NvBufSurfTransform`` writes each surface into one of its own making, in rows of RGBA in device memory, which kernels
read. It needs DeepStream's libraries (``libnvbufsurface.so``, ``libnvbufsurftransform.so``), which whoever made such
surfaces has loaded already.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Sequence
from enum import IntEnum
from pathlib import Path

from sluice.contract._native import library
from sluice.contract._pixels import call
from sluice.contract._surface import Lease, Surface, SurfaceError
from sluice.contract.formats import ColorFormat, MemType
from sluice.contract.provider import DEEPSTREAM, WHEEL, wheel_folder
from sluice.contract.surface import SURFACE_STRUCT
from sluice.errors import ContractError

LIBRARY = "libnvbufsurface.so"
MOST_KEPT = 256
"""Targets that are kept for later batches."""


class Filter(IntEnum):
    """``NvBufSurfTransform_Inter`` (nvbufsurftransform.h), which is nvinfer's ``scaling-filter`` too."""

    NEAREST = 0
    BILINEAR = 1
    ALGO1 = 2
    ALGO2 = 3
    ALGO3 = 4
    ALGO4 = 5
    DEFAULT = 6


class _Job(ctypes.Structure):
    """``Job`` of native/transform.c."""

    _fields_ = (("buffer", ctypes.c_void_p), ("index", ctypes.c_uint64), ("target", ctypes.c_void_p))


class Conversion:
    """Surfaces that are being converted.

    Attributes:
        surfaces: the targets, in the order of what was to be converted; what is queued on the same stream behind the
            conversion finds the pixels in them.
    """

    def __init__(self, surfaces: list[Surface], queued: int, sources: Sequence[Surface], opened: int) -> None:
        self.surfaces = surfaces
        self._queued, self._sources, self._opened = queued, sources, opened

    def finish(self) -> None:
        """Wait until it is over, and let the sources go; must be called once."""
        _functions().sluice_transform_finish(self._opened, self._queued)
        self._sources = ()


class SurfaceTransform:
    """Converts surfaces on one GPU, for one CUDA stream: a target is used again by the next conversion.

    Args:
        gpu: its number.

    Raises:
        ContractError: NVIDIA's libraries are not there, with what to do.
    """

    def __init__(self, gpu: int) -> None:
        self._gpu = gpu
        self._opened = _open(str(surface_library_folder()))
        self._targets: dict[tuple[int, int], list[tuple[int, tuple[int, ...]]]] = {}

    def begin(
        self,
        surfaces: Sequence[Surface],
        stream: int,
        *,
        size: tuple[int, int] | None = None,
        filter: Filter = Filter.DEFAULT,
    ) -> Conversion:
        """Queue a conversion on a CUDA stream and return without waiting for it.

        Args:
            surfaces: whole surfaces of one batch.
            stream: address of the stream, which is the same at every call.
            size: width and height of the targets; None leaves each surface its own.
            filter: how the pixels are scaled.

        Raises:
            SurfaceError: NVIDIA's converter refuses them, with its number.
        """
        if sum(map(len, self._targets.values())) > MOST_KEPT:
            self.close()
        taken: dict[tuple[int, int], int] = {}
        jobs = (_Job * len(surfaces))()
        found = []
        for job, surface in zip(jobs, surfaces, strict=True):
            wanted = size or (surface.width, surface.height)
            job.target, fields = self._target(wanted, taken.get(wanted, 0))
            taken[wanted] = taken.get(wanted, 0) + 1
            hold, job.index = surface.descriptor()
            job.buffer = hold.address
            found.append(Surface(Lease(MemType.CUDA_DEVICE, self._gpu, True, None), surface.index, fields, False))
        queue = _functions().sluice_transform_queue
        arguments = self._opened, self._gpu, stream, jobs, len(surfaces), int(filter)
        try:
            queued = call(queue, *arguments)
        except ContractError as error:
            raise SurfaceError(
                f"surface {surfaces[0].index} ({surfaces[0].format}, {surfaces[0].mem_type.name}) cannot be converted: "
                f"{error}; put `nvvideoconvert ! video/x-raw(memory:NVMM),format=NV12` before the mux"
            ) from error
        return Conversion(found, queued, surfaces, self._opened)

    def close(self) -> None:
        """Give the targets back, which waits for the GPU."""
        for targets in self._targets.values():
            for address, _ in targets:
                _functions().sluice_transform_release(self._opened, address)
        self._targets.clear()

    def _target(self, size: tuple[int, int], number: int) -> tuple[int, tuple[int, ...]]:
        """One of the targets of a size, made if there are not as many."""
        known = self._targets.setdefault(size, [])
        if number == len(known):
            info = ctypes.create_string_buffer(SURFACE_STRUCT.size)
            make = _functions().sluice_transform_target
            address = call(make, self._opened, self._gpu, *size, int(ColorFormat.RGBA), info)
            known.append((address, SURFACE_STRUCT.unpack(info)))
        return known[number]


def surface_library_folder() -> Path:
    """Where NVIDIA's surface libraries are: those of this process, of an installed DeepStream, or of the wheel.

    Raises:
        ContractError: nowhere.
    """
    for line in Path("/proc/self/maps").read_text().splitlines():
        path = Path(line.split(maxsplit=5)[-1])
        if path.name.startswith(LIBRARY):
            return path.parent
    for folder in (DEEPSTREAM, wheel_folder()):
        if folder is not None and (folder / LIBRARY).exists():
            return folder
    raise ContractError(
        f"no {LIBRARY}: it is neither mapped, nor in {DEEPSTREAM}, nor in an installed wheel; install DeepStream, or "
        f"`pip install --no-deps {WHEEL}`"
    )


@functools.cache
def _open(folder: str) -> int:
    return call(_functions().sluice_transform_open, folder.encode())


@functools.cache
def _functions() -> ctypes.CDLL:
    """The library with the types of this module's functions; calls release the GIL."""
    lib = ctypes.CDLL(library()._name)
    pointer, unsigned, failing = ctypes.c_void_p, ctypes.c_uint, (ctypes.c_char_p, ctypes.c_size_t)
    types = {
        "open": (pointer, ctypes.c_char_p, *failing),
        "target": (pointer, pointer, *(unsigned,) * 4, pointer, *failing),
        "release": (None, pointer, pointer),
        "queue": (pointer, pointer, unsigned, pointer, pointer, unsigned, unsigned, *failing),
        "finish": (None, pointer, pointer),
    }
    for name, (result, *arguments) in types.items():
        function = getattr(lib, f"sluice_transform_{name}")
        function.restype, function.argtypes = result, arguments
    return lib
