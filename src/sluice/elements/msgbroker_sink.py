"""What makes ``sluicemsgbroker`` a sink: the flag that bins look for, and the asynchronous change to PAUSED.

Imports gi and the standard library only.
"""

import ctypes
import threading
import weakref
from typing import Any

import gi

gi.require_version("Gst", "1.0")
from gi.repository import Gst

from sluice.errors import SluiceError


class Preroll:
    """A sink's asynchronous change to PAUSED, complete at its first buffer; without effect unless begun.

    GstBin forwards EOS only after it has told its own PLAYING. The thread that completes a pipeline's preroll tells
    PAUSED some time after it has woken the application, and where that has set PLAYING meanwhile, EOS never comes. Real
    sinks prevent it: their change to PLAYING waits until the completing thread is done, and so does this one.
    """

    def __init__(self, element: Gst.Element) -> None:
        # A proxy of the element, which owns this object: a reference would be a cycle.
        self._element = weakref.ref(element)
        self._pending = False
        self._thread = 0
        self._done = threading.Event()
        self._done.set()

    def begin(self) -> None:
        """Tell that the change takes until the first buffer; called before the pads are activated."""
        self._pending = True
        self._done.clear()
        self._post(Gst.Message.new_async_start)

    def finish(self) -> None:
        """Complete the change; called on the streaming thread at a buffer, a gap or the end."""
        if not self._pending:
            return
        self._pending = False
        self._thread = threading.get_ident()
        element = self._element()
        if element is not None:
            element.continue_state(Gst.StateChangeReturn.SUCCESS)
            self._post(Gst.Message.new_async_done, Gst.CLOCK_TIME_NONE)
        self._done.set()

    def wait(self) -> None:
        """Wait, in the change to PLAYING, for a completion that is under way; at most a second."""
        if not self._pending and self._thread != threading.get_ident():
            self._done.wait(1)

    def give_up(self) -> None:
        """End a change that no buffer has completed."""
        if self._pending:
            self._pending = False
            self._post(Gst.Message.new_async_done, Gst.CLOCK_TIME_NONE)
        self._done.set()

    def _post(self, make: Any, *arguments: Any) -> None:
        element = self._element()
        if element is not None:
            element.post_message(make(element, *arguments))


def make_sink(element: Gst.Element) -> None:
    """Set the flag that makes bins count an element as a sink, which PyGObject has no way to set.

    Raises:
        SluiceError: the flags are not where GstObject has them on every 64-bit platform.
    """
    from sluice.contract import gstref

    # GstObject {GInitiallyUnowned object (24); GMutex lock (8); gchar *name (8); GstObject *parent (8); guint32 flags}
    flags = ctypes.c_uint32.from_address(gstref.address(element) + 48)
    if flags.value != element.flags:
        raise SluiceError(
            f"GstObject's flags are not at offset 48: {flags.value:#x} lies there, not {element.flags:#x}"
        )
    flags.value |= int(Gst.ElementFlags.SINK)
