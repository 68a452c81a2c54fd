"""Calls of the C functions that take the meta lock: with the GIL when the lock is free, otherwise without it."""

import ctypes
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

from sluice.contract._native import library

_BUSY = -(1 << 63)


class _Function(NamedTuple):
    holding: Callable[..., int]
    released: Callable[..., int]


@functools.cache
def _function(name: str, arguments: int) -> _Function:
    pair = []
    for lib in (ctypes.PyDLL(library()._name), library()):
        function = getattr(lib, name)
        function.restype = ctypes.c_int64
        function.argtypes = [ctypes.c_void_p] * arguments + [ctypes.c_int]
        pair.append(function)
    return _Function(*pair)


def call(name: str, short: bool, *arguments: Any) -> int:
    """Call a function of native/*.c whose last parameter is `wait` and whose others are pointers or unsigned numbers.

    A thread that held the GIL while it waited for the meta lock could block the thread that has the lock and wants the
    GIL. So with the GIL the lock is only tried. That spares a short call the wait for the GIL afterwards, which is
    long beside busy Python threads.

    Args:
        name: the function.
        short: whether the work is well under the interpreter's switch interval.
        *arguments: all parameters but the last.

    Returns:
        What the function returned; a fault is negative.
    """
    function = _function(name, len(arguments))
    result = function.holding(*arguments, 0) if short else _BUSY
    return function.released(*arguments, 1) if result == _BUSY else result
