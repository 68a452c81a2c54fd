"""References of ``Gst.Buffer`` and other GStreamer mini objects by their C address.

PyGObject's wrapper of a buffer always holds a reference of its own, so a buffer pushed from Python arrives downstream
shared, and every in-place element behind it copies it. The functions here work on the C object itself. `address` is the
only place where ``hash(buffer)`` is taken for the struct's address; that is true of PyGObject 3.42 to 3.58 and is
checked when this module is imported.

`unref`, `make_writable` and `copy_memory` may free metadata and therefore release the GIL while they run.
"""

import ctypes
import ctypes.util
from typing import Any

import gi

gi.require_version("Gst", "1.0")
from gi.repository import GObject, Gst

from sluice.errors import ContractError

_REFCOUNT_OFFSET = 8  # GstMiniObject {GType type; gint refcount; gint lockstate; guint flags; ...}
_PTS_OFFSET = 72  # GstBuffer {GstMiniObject mini_object (64 bytes); GstBufferPool *pool; GstClockTime pts; ...}
_PROBE_PTS = 0x5EED_0BAD_CAFE


def _open(name: str) -> ctypes.CDLL:
    try:
        return ctypes.CDLL(name)
    except OSError as error:
        raise ContractError(f"{name} cannot be opened ({error}); install libgstreamer1.0-0 and libglib2.0-0") from error


_gst = _open("libgstreamer-1.0.so.0")
_gobject = _open("libgobject-2.0.so.0")
_SIGNATURES: tuple[tuple[Any, Any, list[Any]], ...] = (
    (_gst.gst_mini_object_ref, ctypes.c_void_p, [ctypes.c_void_p]),
    (_gst.gst_mini_object_unref, None, [ctypes.c_void_p]),
    (_gst.gst_mini_object_is_writable, ctypes.c_int, [ctypes.c_void_p]),
    (_gst.gst_mini_object_make_writable, ctypes.c_void_p, [ctypes.c_void_p]),
    (_gst.gst_buffer_is_all_memory_writable, ctypes.c_int, [ctypes.c_void_p]),
    (
        _gst.gst_buffer_copy_region,
        ctypes.c_void_p,
        [ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t, ctypes.c_size_t],
    ),
    (_gobject.g_value_set_boxed, None, [ctypes.c_void_p, ctypes.c_void_p]),
)
for _function, _result, _arguments in _SIGNATURES:
    _function.restype = _result
    _function.argtypes = _arguments
_short = ctypes.PyDLL(_gst._name)
_unref_now = _short.gst_mini_object_unref
_unref_now.restype, _unref_now.argtypes = None, [ctypes.c_void_p]


def address(gst_object: Any) -> int:
    """Return the C address of the GStreamer object behind a PyGObject wrapper (a buffer, event, caps, pad or element).

    The address is good only while somebody holds a reference; the wrapper holds one.

    Raises:
        TypeError: the argument is not a wrapper of a GStreamer boxed type or object.
    """
    if not isinstance(gst_object, GObject.GBoxed | GObject.Object):
        raise TypeError(f"a GStreamer object is needed, not {type(gst_object).__name__}")
    return hash(gst_object)


def buffer_address(buffer: Any) -> int:
    """Return the C address of a ``Gst.Buffer``.

    Raises:
        TypeError: the argument is anything but a ``Gst.Buffer``.
    """
    if not isinstance(buffer, Gst.Buffer):
        raise TypeError(f"a Gst.Buffer is needed, not {type(buffer).__module__}.{type(buffer).__qualname__}")
    return hash(buffer)


def ref(mini_object: int) -> int:
    """Take a reference of the mini object at this address and return the address."""
    _gst.gst_mini_object_ref(mini_object)
    return mini_object


def unref(mini_object: int) -> None:
    """Drop one reference of the mini object at this address; the last one frees it, with its metadata."""
    _gst.gst_mini_object_unref(mini_object)


def unref_shared(mini_object: int) -> None:
    """`unref` that keeps the GIL: for what frees no metadata and nothing of a device, and so is over at once."""
    _unref_now(mini_object)


def refcount(mini_object: int) -> int:
    """Return how many references the mini object at this address has; a live Python wrapper counts as one."""
    return ctypes.c_int.from_address(mini_object + _REFCOUNT_OFFSET).value


def steal(buffer: Gst.Buffer) -> int:
    """Take a C reference of a buffer and return its address, for a C call that takes ownership of it.

    The wrapper keeps its own reference until the caller drops it: ``taken = steal(buffer); del buffer``. Only then,
    and if nobody else holds the buffer, is the reference count 1.
    """
    return ref(buffer_address(buffer))


def wrap(mini_object: int, kind: Any = Gst.Buffer) -> Any:
    """Return a Python wrapper, with a reference of its own, of the GstBuffer (or other ``kind``) at this address."""
    value = GObject.Value()
    value.init(kind.__gtype__)
    _gobject.g_value_set_boxed(hash(value), mini_object)
    return value.get_boxed()


def take(mini_object: int, kind: Any = Gst.Buffer) -> Any:
    """Return a Python wrapper of the mini object at this address, which takes over the caller's reference."""
    taken = wrap(mini_object, kind)
    unref(mini_object)
    return taken


def is_writable(mini_object: int) -> bool:
    """Return whether the mini object at this address has exactly one reference and may be changed."""
    return bool(_gst.gst_mini_object_is_writable(mini_object))


def is_memory_writable(buffer: int) -> bool:
    """Return whether every memory of the buffer at this address may be written, even if the buffer is shared."""
    return bool(_gst.gst_buffer_is_all_memory_writable(buffer))


def make_writable(mini_object: int) -> int:
    """Give up one reference of a mini object and return one of a writable object with the same content.

    That is the same address when the reference was the only one, otherwise a copy.
    """
    return int(_gst.gst_mini_object_make_writable(mini_object))


def copy_memory(buffer: int) -> int:
    """Return a new buffer that shares only the memory of the one at this address: it keeps pixels alive, nothing else.

    The original stays writable, its memory does not (``gst_buffer_copy_region`` with ``GST_BUFFER_COPY_MEMORY``).
    """
    flags = int(Gst.BufferCopyFlags.MEMORY)
    return int(_gst.gst_buffer_copy_region(buffer, flags, 0, ctypes.c_size_t(-1).value))


def _check_hash_is_address() -> None:
    """Compare the hash of a known buffer with the pointer in its wrapper, then read the buffer's timestamp there."""
    if not Gst.is_initialized():
        Gst.init(None)
    buffer = Gst.Buffer.new()
    buffer.pts = _PROBE_PTS
    # PyGBoxed {PyObject_HEAD; gpointer boxed; ...}: reading the wrapper is safe whatever hash() returns.
    pointer = ctypes.c_void_p.from_address(id(buffer) + object.__basicsize__).value
    found = pointer == hash(buffer) and ctypes.c_uint64.from_address(hash(buffer) + _PTS_OFFSET).value
    if found != _PROBE_PTS:
        raise ContractError(
            f"PyGObject {gi.__version__} does not give a Gst.Buffer's address as its hash (hash {hash(buffer):#x}, "
            f"pointer {pointer or 0:#x}); PyGObject 3.42 to 3.58 does"
        )


_check_hash_is_address()
