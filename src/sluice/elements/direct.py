"""An in-flight element whose buffers go from thread to thread in C, with one entry into Python for each.

`DirectElement` is an `InFlightElement`; the way that class describes stays open. Where a route is set and a line is
open on it (see `sluice.contract.inflight`), buffers take a shorter one: the thread at the line calls `work`, which says
what becomes of the buffer, and neither pad's thread enters Python.

Imports gi and the standard library only, since GStreamer scans it.
"""

import itertools
import threading
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import gi

gi.require_version("Gst", "1.0")
from gi.repository import Gst

from sluice.elements.base import InFlightElement, post_error
from sluice.elements.fifo import Entry, Fifo

if TYPE_CHECKING:
    from sluice.contract.inflight import Call, Inflight, Route


class DirectFifo(Fifo):
    """A `Fifo` whose order and limit are kept in C, together with those buffers that take the short way."""

    def __init__(self, limit: Callable[[], int]) -> None:
        super().__init__(limit)
        self._queue: Inflight | None = None
        self._inside: dict[int, Entry] = {}
        self._numbers = itertools.count()

    def open(self, pad: Gst.Pad, element: "DirectElement") -> None:
        """Make the queue in C, for the buffers of an element's sink pad; first of all, and without effect later."""
        from sluice.contract.inflight import Inflight

        if self._queue is None:
            self._queue = Inflight(element)
            self._queue.take_buffers_of(pad)

    @property
    def is_open(self) -> bool:
        """Whether there is a queue in C."""
        return self._queue is not None

    @property
    def queue(self) -> "Inflight":
        """The queue in C."""
        assert self._queue is not None
        return self._queue

    def start(self) -> None:
        self._inside.clear()
        self.queue.set_limit(self._limit())
        self.queue.start()

    def _end(self, *, stopped: bool) -> None:
        self.queue.end(stopped=stopped)
        while self._inside:
            entry = self._inside.popitem()[1]
            if entry.pending is not None:
                entry.pending.cancel()

    def settle(self) -> None:
        self.queue.settle()

    def resume(self) -> None:
        self.queue.resume()

    def reserve(self) -> bool:
        return self.queue.reserve()

    def put(self, entry: Entry) -> bool:
        number = next(self._numbers)
        self._inside[number] = entry
        accepted = self.queue.put(number, ready=entry.pending is None)
        if not accepted:
            self._inside.pop(number, None)
        if entry.pending is not None:
            if accepted:
                entry.pending.add_done_callback(lambda _: self.queue.ready(number))
            else:
                entry.pending.cancel()
        return accepted

    def take_for(self, pad: Gst.Pad) -> Entry | int | None:
        """Push buffers that took the short way, until there is something else.

        Returns:
            an entry as `take` does; the number of a buffer that failed; None when stopped.
        """
        from sluice.contract.inflight import END, FAILURE

        while True:
            found, number = self.queue.take(pad)
            if found == END:
                return None
            if found == FAILURE:
                return number
            entry = self._inside.pop(number, None)  # None: abandoned meanwhile
            if entry is not None:
                if entry.event is None:
                    self.queue.release()
                return entry

    def drain(self) -> bool:
        return self.queue.drain()

    def __len__(self) -> int:
        return 0 if self._queue is None else len(self._queue)


class DirectElement(InFlightElement):
    """The element; abstract. A subclass overrides `work` besides what `InFlightElement` asks for.

    Actions that belong between two buffers, such as those of events, are given to `in_turn`.
    """

    _fifo: DirectFifo

    def __init__(self) -> None:
        super().__init__()
        self._errors: dict[int, BaseException] = {}
        self._later: deque[tuple[int, Callable[[], Any]]] = deque()
        self._later_lock = threading.Lock()  # held for a look at them only
        self._direct = False

    def make_fifo(self) -> Fifo:
        return DirectFifo(self.in_flight)

    def set_route(self, route: "Route | None") -> None:
        """Have buffers take the short way where a line of this route is open; None: never. Called at NULL→READY."""
        self._direct = route is not None
        self._fifo.open(self.sinkpad, self)
        self._fifo.queue.set_route(route)

    def work(self, call: "Call", model: Any) -> Any:  # noqa: ARG002 - for overriding methods
        """Work on a buffer and end with `sluice.contract.inflight.finish` or `fail`; must not raise.

        This one drops it, as a buffer is that comes when the element has stopped.

        Args:
            call: the buffer, with a reference that goes to this method.
            model: what the thread at the line works with.

        Returns:
            None, or an `sluice.models.instance.Unfinished` where that is not said yet.
        """
        from sluice.contract.inflight import drop

        drop(call)

    def fail(self, call: "Call", error: BaseException) -> None:
        """End the stream with an exception once the buffers before this one have left."""
        from sluice.contract.inflight import FAILED, finish

        self._errors[call.number] = error
        finish(call, FAILED)

    def in_turn(self, action: Callable[[], Any]) -> None:
        """Do something between the buffers that have arrived and those that come, whose work is not begun yet."""
        if self._direct and len(self._fifo):
            self._later.append((self._fifo.queue.arrived, action))
        else:
            self.catch_up()
            action()

    def catch_up(self, number: int | None = None) -> None:
        """Do what was to be done before the buffer of this number; None: all of it."""
        while (action := self._due(number)) is not None:
            action()

    def _due(self, number: int | None) -> Callable[[], Any] | None:
        """Take the next of it; two threads may ask, while one model takes the place of another, or at a flush."""
        with self._later_lock:
            if self._later and (number is None or self._later[0][0] <= number):
                return self._later.popleft()[1]
        return None

    def activate(self) -> None:
        """Forget what the last run left: exceptions that nobody fetched, and work put off."""
        self._errors.clear()
        self._later.clear()
        super().activate()

    def iterate(self) -> bool:
        """Send the next entry, or post the exception of work whose result would have been the next."""
        found = self._fifo.take_for(self.srcpad)
        if found is None:
            return False
        if isinstance(found, Entry):
            self.send(found)
        else:
            # Posted first: upstream, once told, posts an error of its own, which says less.
            post_error(self, self._errors.pop(found))
            self.flow = Gst.FlowReturn.ERROR
        return True

    # What downstream returned is kept where the sink pad's thread finds it without Python.

    @property
    def flow(self) -> Gst.FlowReturn:
        """What downstream returned last, kept in the C queue; OK where there is none yet."""
        return Gst.FlowReturn(self._fifo.queue.flow) if self._is_open() else Gst.FlowReturn.OK

    @flow.setter
    def flow(self, flow: Gst.FlowReturn) -> None:
        if self._is_open():
            self._fifo.queue.flow = int(flow)

    def _is_open(self) -> bool:
        return hasattr(self, "_fifo") and self._fifo.is_open  # the queue is made after the source pad
