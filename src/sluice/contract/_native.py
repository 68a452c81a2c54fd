"""Loads the contract's C library (``native/*.c``), which works on GStreamer's threads without the GIL."""

import ctypes
import functools
import importlib.machinery
from pathlib import Path

from sluice.errors import ContractError


@functools.cache
def library() -> ctypes.CDLL:
    """Return the C library; calls through it release the GIL.

    Raises:
        ContractError: the library was not built, with the command that builds it.
    """
    folder = Path(__file__).parent
    for suffix in importlib.machinery.EXTENSION_SUFFIXES:
        path = folder / f"_libsluice{suffix}"
        if path.exists():
            return ctypes.CDLL(str(path))
    raise ContractError(
        f"no _libsluice library in {folder}: it is built when Sluice is installed; run `pip install -e .` with gcc, "
        "pkg-config, libgstreamer1.0-dev and libgstreamer-plugins-base1.0-dev installed"
    )
