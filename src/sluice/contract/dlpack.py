"""Planes of surfaces as DLPack tensors: consumed without a copy by numpy, torch, cupy and whatever else speaks it.

https://dmlc.github.io/dlpack/latest/python_spec.html. A tensor keeps the batch's memory alive until its consumer drops
it; that deleter is C code, needs no GIL, and may run on any thread, also after the pipeline or the interpreter is gone.
"""

import ctypes
import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sluice.contract import gstref
from sluice.contract._native import library

KDL_CPU = 1
KDL_CUDA = 2
LEGACY_STREAM = 1
NO_STREAM = -1
_MAX_RANK = 3


class Hold:
    """One reference of a GStreamer mini object, dropped when this object is."""

    __slots__ = ("address", "unref")

    def __init__(self, address: int, unref: Callable[[int], None] = gstref.unref) -> None:
        """Take over a reference that the caller owns, to be dropped with `unref`."""
        self.address, self.unref = address, unref

    def __del__(self) -> None:
        self.unref(self.address)


class _TensorRequest(ctypes.Structure):
    """``TensorRequest`` of native/dlpack.c."""

    _fields_ = (
        ("data", ctypes.c_uint64),
        ("keep", ctypes.c_uint64),
        ("shape", ctypes.c_int64 * _MAX_RANK),
        ("strides", ctypes.c_int64 * _MAX_RANK),
        ("stream", ctypes.c_uint64),
        ("ndim", ctypes.c_int32),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("read_only", ctypes.c_int32),
        ("versioned", ctypes.c_int32),
        ("has_stream", ctypes.c_int32),
    )


@functools.cache
def _functions() -> tuple[Any, Any, Any]:
    """Return (export, PyCapsule_New, destructor), with Python's capsule functions handed to the C library."""
    lib, python = library(), ctypes.pythonapi
    lib.sluice_dlpack_use_capsules(
        ctypes.cast(python.PyCapsule_IsValid, ctypes.c_void_p),
        ctypes.cast(python.PyCapsule_GetPointer, ctypes.c_void_p),
    )
    export = lib.sluice_dlpack_export
    export.restype, export.argtypes = ctypes.c_void_p, (ctypes.POINTER(_TensorRequest),)
    # A prototype of our own: restype and argtypes of ctypes.pythonapi's functions are shared by the whole process.
    new = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)(
        ("PyCapsule_New", python)
    )
    return export, new, ctypes.cast(lib.sluice_dlpack_destroy_capsule, ctypes.c_void_p)


@dataclass(frozen=True)
class PlaneTensor:
    """A plane that can be exported, any number of times, through the DLPack protocol.

    Attributes:
        hold: what keeps the memory alive.
        address: of the first byte, on the device if `on_cuda`.
        shape: (h, w) or (h, w, channels), of bytes.
        strides: in bytes, which are elements here.
        on_cuda: CUDA memory of GPU `device_id`, else host memory.
        device_id: the GPU.
        writable: a consumer that understands DLPack 1.0 gets a read-only tensor if False.
    """

    hold: Hold
    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    on_cuda: bool
    device_id: int
    writable: bool

    def __dlpack_device__(self) -> tuple[int, int]:
        """Return DLPack's (device type, device id): (1, 0) for the host, (2, n) for GPU n."""
        return (KDL_CUDA, self.device_id) if self.on_cuda else (KDL_CPU, 0)

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """Return a capsule, "dltensor" or, for a consumer of version 1.0 or later, "dltensor_versioned".

        A frame is complete before it is in a batch, so no stream has to wait for it. But a consumer may drop the tensor
        while its kernels are queued: the memory of a CUDA tensor is kept until `stream` has done them. None is the
        legacy default stream; with -1 the consumer sees to that itself.

        Raises:
            BufferError: a copy, or another device than the plane's, was asked for, or the stream is 0.
        """
        if self.on_cuda and stream == 0:
            raise BufferError("stream 0 is ambiguous; right is 1 (the legacy default stream), 2, or a stream's handle")
        has_stream = self.on_cuda and stream != NO_STREAM
        if copy:
            raise BufferError("a plane is exported as it is; copy the tensor made from it")
        if dl_device is not None and tuple(map(int, dl_device)) != self.__dlpack_device__():
            raise BufferError(f"the plane is on DLPack device {self.__dlpack_device__()}, not on {dl_device}")
        versioned = max_version is not None and max_version[0] >= 1
        export, new_capsule, destructor = _functions()
        device_type, device_id = self.__dlpack_device__()
        request = _TensorRequest(
            data=self.address,
            keep=self.hold.address,
            shape=(ctypes.c_int64 * _MAX_RANK)(*self.shape),
            strides=(ctypes.c_int64 * _MAX_RANK)(*self.strides),
            ndim=len(self.shape),
            device_type=device_type,
            device_id=device_id,
            read_only=not self.writable,
            versioned=versioned,
            has_stream=has_stream,
            stream=(LEGACY_STREAM if stream is None else int(stream)) if has_stream else 0,
        )
        tensor = export(ctypes.byref(request))
        return new_capsule(tensor, b"dltensor_versioned" if versioned else b"dltensor", destructor)
