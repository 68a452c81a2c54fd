"""The C functions of native/surface_*.c with their types; calls release the GIL, but those of `short_functions`."""

import ctypes
import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sluice.contract._native import library
from sluice.errors import ContractError

_ERROR_BYTES = 512


class RawFrameStruct(ctypes.Structure):
    """``RawFrame`` of native/surface.h: one buffer and what it is; without info it maps to an NvBufSurface."""

    _fields_ = (
        ("buffer", ctypes.c_void_p),
        ("info", ctypes.c_void_p),
        ("tag", ctypes.c_uint64),
        ("color_format", ctypes.c_uint32),
        ("on_cuda", ctypes.c_uint32),
    )


@dataclass(frozen=True)
class PixelFunctions:
    """Callables of the C library. Buffers are addresses; those returned are references the caller owns.

    The ones that can fail end with (error text, its room), which `call` supplies.
    """

    counter: Callable[[int], int]
    count_copy: Callable[[], None]
    batch_frames: Callable[..., int]
    batch_read: Callable[..., int]
    raw_read: Callable[..., int]
    batch_original: Callable[[int, int], int | None]
    batch_frame: Callable[..., int | None]
    batch_make_writable: Callable[..., int]
    batch_end_writing: Callable[..., int]
    raw_write: Callable[..., int | None]
    raw_end_writing: Callable[[int], None]
    is_readable: Callable[[int, int], int]
    host_copy: Callable[..., int | None]
    host_buffer: Callable[[int, int | None], int]
    host_replace: Callable[..., int]
    is_host_batch: Callable[[int], int]


def functions() -> PixelFunctions:
    """Return the functions of the loaded library, which release the GIL."""
    return _declared(ctypes.CDLL)


def short_functions() -> PixelFunctions:
    """Return the same functions, which keep the GIL: for calls that are over at once, on memory of the host."""
    return _declared(ctypes.PyDLL)


@functools.cache
def _declared(kind: type[ctypes.CDLL]) -> PixelFunctions:
    lib = kind(library()._name)
    pointer, unsigned, size, text = ctypes.c_void_p, ctypes.c_uint, ctypes.c_size_t, ctypes.c_char_p

    def declare(name: str, result: Any, *arguments: Any) -> Any:
        function = getattr(lib, f"sluice_{name}")
        function.restype, function.argtypes = result, arguments
        return function

    failing = (text, size)
    return PixelFunctions(
        counter=declare("counter", ctypes.c_int64, ctypes.c_int),
        count_copy=declare("count_copy", None),
        batch_frames=declare("batch_frames", ctypes.c_int, pointer, pointer, unsigned, unsigned, *failing),
        batch_read=declare("batch_read", ctypes.c_int, pointer, pointer, pointer, unsigned, pointer, *failing),
        raw_read=declare("raw_read", ctypes.c_int, pointer, pointer, *failing),
        batch_original=declare("batch_original", pointer, pointer, unsigned),
        batch_frame=declare("batch_frame", pointer, pointer, unsigned, *failing),
        batch_make_writable=declare("batch_make_writable", ctypes.c_int, pointer, pointer, unsigned, *failing),
        batch_end_writing=declare("batch_end_writing", ctypes.c_int, pointer, *failing),
        raw_write=declare("raw_write", pointer, pointer, pointer, pointer, *failing),
        raw_end_writing=declare("raw_end_writing", None, pointer),
        is_readable=declare("is_readable", ctypes.c_int, pointer, size),
        host_copy=declare("host_copy", pointer, unsigned, ctypes.c_int, pointer, unsigned, size, pointer, *failing),
        host_buffer=declare("host_buffer", pointer, pointer, pointer),
        host_replace=declare("host_replace", ctypes.c_int, pointer, pointer, *failing),
        is_host_batch=declare("is_host_batch", ctypes.c_int, pointer),
    )


def call(function: Callable[..., int | None], *arguments: Any, failed: int = 0) -> int:
    """Call a C function that can fail and return its result.

    Raises:
        ContractError: it returned `failed` or a null pointer, with the reason it gave.
    """
    error = ctypes.create_string_buffer(_ERROR_BYTES)
    result = function(*arguments, error, _ERROR_BYTES)
    if result is None or result == failed:
        raise ContractError(error.value.decode(errors="replace"))
    return result
