"""Tensors of any type and rank through the DLPack protocol: reading those of others, exporting our own.

https://dmlc.github.io/dlpack/latest/python_spec.html and c_api.html. Planes of surfaces are exported by
`sluice.contract.dlpack`, whose deleter needs no GIL; what is exported here is memory of Python objects. Its deleter is
C, too: it takes the GIL, and may run while an exception unwinds the stack.
"""

import ctypes
import functools
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sluice.contract._native import library
from sluice.contract._python_memory import use_python
from sluice.contract.dlpack import KDL_CPU, KDL_CUDA

KDL_CUDA_HOST = 3
KDL_CUDA_MANAGED = 13
MAX_RANK = 15
_NAMES = (b"dltensor", b"dltensor_versioned")
_READ_ONLY = 1
_KINDS = {0: "i", 1: "u", 2: "f", 6: "u"}
"""DLDataTypeCode to numpy's kind; 6 is bool, which NVIDIA's package reads as unsigned."""
_CODES = {"i": 0, "u": 1, "f": 2, "b": 6}


class _Tensor(ctypes.Structure):
    """``DLTensor``."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


@dataclass(frozen=True)
class _Functions:
    """The C functions."""

    export: Any
    drop: int
    destroy_capsule: int
    new_capsule: Any
    incref: Any
    is_valid: Any
    pointer_of: Any


@functools.cache
def _functions() -> _Functions:
    lib, python = library(), ctypes.pythonapi
    use_python()
    # Functions that work on Python objects keep the GIL.
    export = ctypes.PyDLL(lib._name, handle=lib._handle).sluice_python_export
    export.restype = ctypes.c_void_p
    export.argtypes = [ctypes.POINTER(_Tensor), ctypes.c_void_p, ctypes.c_int, ctypes.c_int]
    drop, destroy = (
        ctypes.cast(getattr(lib, f"sluice_python_{name}"), ctypes.c_void_p).value or 0
        for name in ("drop", "destroy_capsule")
    )

    # Prototypes of our own: restype and argtypes of ctypes.pythonapi's functions are shared by the whole process.
    def prototype(name: str, result: Any, *arguments: Any) -> Any:
        return ctypes.PYFUNCTYPE(result, *arguments)((name, python))

    pointer, text, thing = ctypes.c_void_p, ctypes.c_char_p, ctypes.py_object
    return _Functions(
        export=export,
        drop=drop,
        destroy_capsule=destroy,
        new_capsule=prototype("PyCapsule_New", thing, pointer, text, pointer),
        incref=prototype("Py_IncRef", None, thing),
        is_valid=prototype("PyCapsule_IsValid", ctypes.c_int, thing, text),
        pointer_of=prototype("PyCapsule_GetPointer", pointer, thing, text),
    )


class _Plain(ctypes.Structure):
    """``DLManagedTensor``."""

    _fields_ = (("tensor", _Tensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p))


class _Versioned(ctypes.Structure):
    """``DLManagedTensorVersioned``."""

    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", _Tensor),
    )


@dataclass(frozen=True)
class Memory:
    """Where the elements of a tensor lie.

    Attributes:
        address: of the first element, on the host or on the device.
        shape: of the tensor.
        strides: in elements.
        dtype: of the elements.
        device: DLPack's (device type, device id).
        keep: what keeps the memory alive.
        writable: False for elements that must not be changed.
    """

    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: np.dtype[Any]
    device: tuple[int, int]
    keep: Any = field(repr=False)
    writable: bool = True


def export(memory: Memory, versioned: bool) -> Any:
    """Return a capsule, "dltensor" or "dltensor_versioned", that keeps the memory alive."""
    rank = len(memory.shape)
    tensor = _Tensor(
        data=memory.address,
        device_type=memory.device[0],
        device_id=memory.device[1],
        ndim=rank,
        code=_CODES[memory.dtype.kind],
        bits=8 * memory.dtype.itemsize,
        lanes=1,
        shape=(ctypes.c_int64 * rank)(*memory.shape),
        strides=(ctypes.c_int64 * rank)(*memory.strides),
    )
    functions = _functions()
    address = functions.export(ctypes.byref(tensor), hold(memory), not memory.writable, versioned)
    return functions.new_capsule(address, _NAMES[versioned], functions.destroy_capsule)


def hold(thing: Any) -> int:
    """Take a reference of a Python object for C, which lets it go with the function at `drop_function()`."""
    _functions().incref(thing)
    return id(thing)


def drop_function() -> int:
    """Return the address of the C function (a ``GDestroyNotify``) that lets a held object go, on any thread."""
    return _functions().drop


def read(source: Any) -> Memory:
    """Return the memory of an object that speaks DLPack; it keeps the object's tensor alive.

    CUDA producers are asked to make their work visible to the legacy default stream.

    Raises:
        ValueError: an unsupported device, dtype or rank, by name.
    """
    device = tuple(int(number) for number in source.__dlpack_device__())
    capsule = _ask(source, 1 if device[0] in (KDL_CUDA, KDL_CUDA_MANAGED) else None)
    versioned = bool(_functions().is_valid(capsule, _NAMES[1]))
    address = _functions().pointer_of(capsule, _NAMES[versioned])
    managed = (_Versioned if versioned else _Plain).from_address(address)
    tensor = managed.tensor
    if tensor.device_type not in (KDL_CPU, KDL_CUDA, KDL_CUDA_HOST, KDL_CUDA_MANAGED):
        raise ValueError(
            f"a tensor on DLPack device type {tensor.device_type} cannot be used; host and CUDA memory can"
        )
    if tensor.ndim > MAX_RANK:
        raise ValueError(f"a tensor of rank {tensor.ndim} cannot be used; the rank is at most {MAX_RANK}")
    shape = tuple(tensor.shape[: tensor.ndim])
    return Memory(
        address=(tensor.data or 0) + tensor.byte_offset,
        shape=shape,
        strides=tuple(tensor.strides[: tensor.ndim]) if tensor.strides else packed(shape),
        dtype=_dtype(tensor),
        device=(tensor.device_type, tensor.device_id),
        keep=(capsule, source),
        writable=not (versioned and managed.flags & _READ_ONLY),
    )


def packed(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the strides, in elements, of rows without padding."""
    strides, step = [], 1
    for length in reversed(shape):
        strides.append(step)
        step *= length
    return tuple(reversed(strides))


def _ask(source: Any, stream: int | None) -> Any:
    words = {} if stream is None else {"stream": stream}
    try:
        return source.__dlpack__(max_version=(1, 0), **words)
    except TypeError:  # a producer from before DLPack 1.0
        return source.__dlpack__(**words)


def _dtype(tensor: Any) -> np.dtype[Any]:
    kind = _KINDS.get(tensor.code)
    if kind is None or tensor.lanes != 1 or tensor.bits not in (8, 16, 32, 64) or (kind == "f" and tensor.bits == 8):
        raise ValueError(
            f"a tensor of DLPack type code {tensor.code}, {tensor.bits} bits, {tensor.lanes} lanes cannot be used; "
            "integers and floats of numpy's sizes can"
        )
    return np.dtype(f"{kind}{tensor.bits // 8}")
