"""Copies to and within GPU memory, through CUDA's driver (libcuda) and each device's primary context.

https://docs.nvidia.com/cuda/cuda-driver-api: the primary context is the one that torch and the runtime API use, so no
context of our own is ever current. The library is opened at the first use.
"""

import ctypes
import functools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from sluice.contract.dlpack import KDL_CPU, KDL_CUDA
from sluice.pyservicemaker.base import ApiError
from sluice.pyservicemaker.dlpack import KDL_CUDA_HOST, Memory, packed

_HOST, _DEVICE = 1, 2  # CUmemorytype


class _Copy2D(ctypes.Structure):
    """``CUDA_MEMCPY2D``."""

    _fields_ = (
        ("src_x", ctypes.c_size_t),
        ("src_y", ctypes.c_size_t),
        ("src_type", ctypes.c_uint),
        ("src_host", ctypes.c_void_p),
        ("src_device", ctypes.c_uint64),
        ("src_array", ctypes.c_void_p),
        ("src_pitch", ctypes.c_size_t),
        ("dst_x", ctypes.c_size_t),
        ("dst_y", ctypes.c_size_t),
        ("dst_type", ctypes.c_uint),
        ("dst_host", ctypes.c_void_p),
        ("dst_device", ctypes.c_uint64),
        ("dst_array", ctypes.c_void_p),
        ("dst_pitch", ctypes.c_size_t),
        ("width", ctypes.c_size_t),
        ("height", ctypes.c_size_t),
    )


class _Block:
    """Memory of a GPU, freed with this object."""

    __slots__ = ("address", "device")

    def __init__(self, device: int, size: int) -> None:
        self.device = device
        self.address = 0
        address = ctypes.c_uint64()
        with _current(device):
            _check("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(max(size, 1)))
        self.address = address.value

    def __del__(self) -> None:
        if self.address:
            with _current(self.device):
                _driver().cuMemFree_v2(ctypes.c_uint64(self.address))


def owns(memory: Memory) -> bool:
    """Whether the memory was allocated here and is packed."""
    return isinstance(memory.keep, _Block) and memory.strides == packed(memory.shape)


def clone(memory: Memory, device: int) -> Memory:
    """Return a packed copy of host or GPU memory on a GPU; it is complete when this returns.

    Raises:
        ApiError: more than the outermost axis is padded, or the GPU refused.
    """
    shape, itemsize = memory.shape, memory.dtype.itemsize
    inner = int(np.prod(shape[1:], dtype=np.int64))
    if shape[1:] and memory.strides[1:] != packed(shape)[1:]:
        raise ApiError(
            f"a tensor {shape} with strides {memory.strides} cannot be copied to a GPU; only rows may be padded"
        )
    rows, row_bytes = (shape[0], inner * itemsize) if shape else (1, itemsize)
    block = _Block(device, rows * row_bytes)
    if rows and row_bytes:
        pitch = max(memory.strides[0] * itemsize, row_bytes) if shape else row_bytes
        with _current(device):
            _copy(memory, block.address, rows, row_bytes, pitch)
    return Memory(block.address, shape, packed(shape), memory.dtype, (KDL_CUDA, device), block)


def _copy(memory: Memory, target: int, rows: int, row_bytes: int, pitch: int) -> None:
    on_host = memory.device[0] in (KDL_CPU, KDL_CUDA_HOST)
    plan = _Copy2D(
        src_type=_HOST if on_host else _DEVICE,
        src_host=memory.address if on_host else None,
        src_device=0 if on_host else memory.address,
        src_pitch=pitch,
        dst_type=_DEVICE,
        dst_device=target,
        dst_pitch=row_bytes,
        width=row_bytes,
        height=rows,
    )
    _check("cuMemcpy2DUnaligned_v2", ctypes.byref(plan))
    # Copies within a device are asynchronous on the legacy default stream.
    _check("cuStreamSynchronize", ctypes.c_void_p(None))


@functools.cache
def _driver() -> ctypes.CDLL:
    try:
        library = ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        raise ApiError(f"there is no CUDA driver on this machine ({error}); tensors stay on the host") from error
    status = library.cuInit(0)
    if status:
        raise ApiError(f"the CUDA driver cannot be initialised: error {status}")
    return library


@functools.cache
def _context(device: int) -> int:
    """Return the primary context of a GPU, retained for the life of the process."""
    handle, context = ctypes.c_int(), ctypes.c_void_p()
    _check("cuDeviceGet", ctypes.byref(handle), device)
    _check("cuDevicePrimaryCtxRetain", ctypes.byref(context), handle)
    return context.value or 0


@contextmanager
def _current(device: int) -> Iterator[None]:
    _check("cuCtxPushCurrent_v2", ctypes.c_void_p(_context(device)))
    try:
        yield
    finally:
        _check("cuCtxPopCurrent_v2", ctypes.byref(ctypes.c_void_p()))


def _check(name: str, *arguments: Any) -> None:
    driver = _driver()
    status = getattr(driver, name)(*arguments)
    if status:
        text = ctypes.c_char_p()
        driver.cuGetErrorString(status, ctypes.byref(text))
        raise ApiError(f"{name} failed: {(text.value or b'unknown error').decode()} ({status})")
