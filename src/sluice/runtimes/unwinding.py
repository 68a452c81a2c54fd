"""Imports C++ modules so that their exceptions are caught, whatever was imported before.

GStreamer brings libunwind into the process, which has functions of the same names as libgcc's unwinder. Each C++
library is bound to the one that the loader sees first when it is loaded. When libstdc++ came with, say, cv2 before
GStreamer, and another C++ module comes after it, libstdc++ throws by libgcc and the module resumes by libunwind: its
first exception (a model file that is broken is enough) ends the process with SIGABRT or SIGSEGV.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import os
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any


class _LibraryInfo(ctypes.Structure):
    """The head of ``struct dl_phdr_info`` (link.h)."""

    _fields_ = (("address", ctypes.c_void_p), ("name", ctypes.c_char_p))


def import_compiled(name: str) -> ModuleType:
    """Import a module with C++ code, bound to the same unwinder as libstdc++.

    A module that was imported before is returned as it is.
    """
    if name in sys.modules:
        return sys.modules[name]
    with one_unwinder():
        return importlib.import_module(name)


@contextlib.contextmanager
def one_unwinder() -> Iterator[None]:
    """What is imported inside is bound to the same unwinder as libstdc++."""
    if not _throws_by_libgcc_behind_libunwind():
        yield
        return
    flags = sys.getdlopenflags()
    # The module's own libraries, libgcc among them, are searched before those of the process.
    sys.setdlopenflags(flags | os.RTLD_DEEPBIND)
    try:
        yield
    finally:
        sys.setdlopenflags(flags)


def _throws_by_libgcc_behind_libunwind() -> bool:
    """Whether libstdc++ was loaded before libunwind, so that what is loaded now would be bound to the other one."""
    names = [name.rsplit("/", 1)[-1] for name in loaded_libraries()]
    standard = next((i for i, name in enumerate(names) if name.startswith("libstdc++.so")), None)
    unwind = next((i for i, name in enumerate(names) if name.startswith("libunwind.so")), None)
    return standard is not None and unwind is not None and standard < unwind


def loaded_libraries() -> list[str]:
    """Paths of the libraries in the process, in the order they were loaded."""
    names: list[str] = []

    def note(info: Any, _size: int, _data: Any) -> int:
        names.append(os.fsdecode(info.contents.name or b""))
        return 0

    callback = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(_LibraryInfo), ctypes.c_size_t, ctypes.c_void_p)(note)
    ctypes.CDLL(None).dl_iterate_phdr(callback, None)
    return names
