"""Hands Python's own functions to the C library, which lets Python objects go on GStreamer's threads."""

import atexit
import ctypes
import functools

from sluice.contract._native import library


class _Python(ctypes.Structure):
    """SluicePython of native/python_memory.c."""

    _fields_ = tuple(
        (name, ctypes.c_void_p)
        for name in (
            "PyGILState_Ensure",
            "PyGILState_Release",
            "PyErr_Fetch",
            "PyErr_Restore",
            "Py_DecRef",
            "PyCapsule_IsValid",
            "PyCapsule_GetPointer",
        )
    )


_tables: list[_Python] = []  # two threads may make one each at the first use, and the library may have either


@functools.cache
def use_python() -> _Python:
    """Tell the C library where Python's functions are, once; return the table, which lives as long as the process.

    Buffers may outlive the interpreter on GStreamer's threads: once it ends, their objects are leaked.
    """
    lib = library()
    table = _Python(*(ctypes.cast(getattr(ctypes.pythonapi, field[0]), ctypes.c_void_p) for field in _Python._fields_))
    _tables.append(table)
    lib.sluice_python_use.restype, lib.sluice_python_use.argtypes = None, [ctypes.c_void_p]
    lib.sluice_python_use(ctypes.addressof(table))
    atexit.register(lib.sluice_python_use, None)
    return table
