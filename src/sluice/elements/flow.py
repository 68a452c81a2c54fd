"""Pushing buffers from Python so that they arrive downstream with a reference count of 1."""

import ctypes
import functools
import sys
import time

import gi

gi.require_version("Gst", "1.0")
from gi.repository import Gst

# How long a push waits for other threads to let go of the buffer's wrapper, in steps of `_STEP` seconds. The thread
# that delivered the buffer lets go within microseconds of running again; a hook that keeps it is not waited for.
_PATIENCE = 0.02
_STEP = 0.0001


@functools.cache
def _gst_pad_push() -> "ctypes._NamedFuncPointer":
    """Return gst_pad_push as a C function; calls through it release the GIL."""
    function = ctypes.CDLL("libgstreamer-1.0.so.0").gst_pad_push
    function.restype = ctypes.c_int
    function.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
    return function


def push(pad: Gst.Pad, held: list[Gst.Buffer]) -> Gst.FlowReturn:
    """Push a buffer whose only Python wrapper is the one item of ``held``, and empty that list.

    A wrapper holds a reference, with which every in-place element downstream would copy the buffer and its metadata.
    Therefore a C reference is taken, the wrapper is dropped and gst_pad_push is called through C. The caller must keep
    no other name of the buffer (``held = [buffer]; del buffer``); a wrapper that another thread is about to drop is
    waited for, at most 20 ms.

    Returns:
        What downstream returned.
    """
    return push_address(pad, release(held))


def release(held: list[Gst.Buffer]) -> int:
    """Empty ``held`` and return the address of its only buffer, with one reference that the caller now owns."""
    from sluice.contract import gstref

    buffer = held.pop()
    address = gstref.steal(buffer)
    deadline = time.monotonic() + _PATIENCE
    # Two references are ours: the local name and getrefcount's argument.
    while sys.getrefcount(buffer) > 2 and time.monotonic() < deadline:
        time.sleep(_STEP)
    return address


def push_address(pad: Gst.Pad, buffer: int) -> Gst.FlowReturn:
    """Push the GstBuffer at an address, giving away one reference; return what downstream returned."""
    from sluice.contract import gstref

    return Gst.FlowReturn(_gst_pad_push()(gstref.address(pad), buffer))
