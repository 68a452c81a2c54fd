"""Loads the contract's C library (``native/*.c``), which works on GStreamer's threads without the GIL."""

import ctypes
import functools
from pathlib import Path

from sluice.errors import ContractError


@functools.cache
def library() -> ctypes.CDLL:
    """Return the C library; calls through it release the GIL.

    Raises:
        ContractError: the library was not built, with the command that builds it.
    """
    path = Path(__file__).with_name("_libsluice.so")
    if not path.exists():
        raise ContractError(
            f"no {path.name} in {path.parent}: it is built when Sluice is installed; run `pip install -e .` with gcc, "
            "pkg-config, libgstreamer1.0-dev and libgstreamer-plugins-base1.0-dev installed"
        )
    return ctypes.CDLL(str(path))
