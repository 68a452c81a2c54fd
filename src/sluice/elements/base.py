"""The base classes of Sluice's elements. Imports gi and the standard library only, since GStreamer scans it.

`InFlightElement` is for work that takes time: a plain Gst.Element with one queue of buffers and serialized events and a
task on the source pad, which waits for the result of the oldest buffer and pushes. `InPlaceElement` is for work done at
once on the buffer given. `SourceTaskElement` is what `InFlightElement` and the mux share. Pad functions are static and
use the argument `parent`: a bound method as pad function would keep its element alive for ever.
"""

from concurrent.futures import CancelledError, Future
from typing import Any

import gi

gi.require_version("Gst", "1.0")
from gi.repository import Gst

from sluice.elements import queries
from sluice.elements.events import event_type
from sluice.elements.fifo import Entry, Fifo
from sluice.elements.flow import push, push_address, release
from sluice.elements.guard import guarded, post_error
from sluice.elements.in_place import InPlaceElement
from sluice.elements.lifecycle import SWITCH_INTERVAL, Lifecycle, set_switch_interval
from sluice.errors import SluiceError

_SERIALIZED = int(Gst.EventTypeFlags.SERIALIZED)  # a bit of the event's type number

__all__ = [
    "SWITCH_INTERVAL",
    "InFlightElement",
    "InPlaceElement",
    "Lifecycle",
    "Pending",
    "SourceTaskElement",
    "guarded",
    "post_error",
    "push",
    "push_address",
    "release",
    "set_switch_interval",
]

Pending = Future
"""What `InFlightElement.submit` returns: a future, completed by any thread with `set_result` or `set_exception`."""


class SourceTaskElement(Lifecycle, Gst.Element):  # type: ignore[misc]
    """A plain Gst.Element whose source pad ``src`` runs a task; abstract.

    A subclass has the template of ``src`` and overrides `activate`, `deactivate` and `iterate`.

    While ``__init__`` runs, GObject still takes the instance for one of the first Python class in its ancestry: what
    reads the C class (``get_pad_template``, GObject properties, signals) does not see the subclass there.
    """

    def __init__(self) -> None:
        super().__init__()
        self.srcpad = Gst.Pad.new_from_template(self.template("src"), "src")
        self.srcpad.set_event_function_full(_src_event, None)
        self.srcpad.set_query_function_full(_src_query, None)
        self.srcpad.set_activatemode_function_full(_src_activate, None)
        self.add_pad(self.srcpad)
        self.flow = Gst.FlowReturn.OK
        """What downstream returned last; the next chain call returns it. OK again after a flush or an activation."""

    @guarded(Gst.StateChangeReturn.FAILURE)
    def do_change_state(self, transition: Gst.StateChange) -> Gst.StateChangeReturn:
        return self.change_state(transition)

    @classmethod
    def template(cls, name: str) -> Gst.PadTemplate:
        """Return the pad template of this name from the class's ``__gsttemplates__``."""
        return next(template for template in cls.__gsttemplates__ if template.name_template == name)

    def activate(self) -> None:
        """Begin to accept data; called before the task starts."""
        raise NotImplementedError

    def deactivate(self) -> None:
        """Refuse data and wake every waiter, so that `iterate` and all chain functions return; then the task ends."""
        raise NotImplementedError

    def iterate(self) -> bool:
        """Do one step of the task: wait for something and push it. False ends the task until the next activation.

        An exception is posted, and refuses data until the next activation.
        """
        raise NotImplementedError

    def push_held(self, held: list[Gst.Buffer]) -> None:
        """Push a buffer as `push` does, and keep what downstream returns in `flow`."""
        self.flow = push(self.srcpad, held)

    def push_event(self, event: Gst.Event) -> None:
        """Push a serialized event; at EOS after a refused buffer, say so as no chain call is left to carry it."""
        refused = (Gst.FlowReturn.NOT_LINKED, Gst.FlowReturn.NOT_NEGOTIATED)
        if event_type(event) == Gst.EventType.EOS and self.flow in refused:
            text = f"the stream ended after downstream had refused a buffer: {self.flow.value_nick}"
            post_error(self, SluiceError(text))
        self.srcpad.push_event(event)

    def on_src_event(self, event: Gst.Event) -> bool:
        """Handle an upstream event; by default it goes on to every sink pad. QoS events never arrive here."""
        return bool(self.srcpad.event_default(self, event))

    def on_src_query(self, query: Gst.Query) -> bool:
        """Answer a query from downstream."""
        return bool(self.srcpad.query_default(self, query))

    def passes_qos(self) -> bool:
        """Whether QoS events go upstream, where they make decoders drop frames: only when the policy is freshest."""
        return False


@guarded(failure=False)
def _src_event(_pad: Gst.Pad, parent: SourceTaskElement, event: Gst.Event) -> bool:
    if event_type(event) == Gst.EventType.QOS and not parent.passes_qos():
        return True
    return parent.on_src_event(event)


@guarded(failure=False)
def _src_query(_pad: Gst.Pad, parent: SourceTaskElement, query: Gst.Query) -> bool:
    return parent.on_src_query(query)


@guarded(failure=False)
def _src_activate(pad: Gst.Pad, parent: SourceTaskElement, mode: Gst.PadMode, active: bool) -> bool:
    if mode != Gst.PadMode.PUSH:
        return False
    if active:
        parent.activate()
        return bool(pad.start_task(_src_task, parent))
    parent.deactivate()
    return bool(pad.stop_task())


@guarded(failure=None)
def _src_task(parent: SourceTaskElement) -> None:
    goes_on = False
    try:
        goes_on = parent.iterate()
    except BaseException as error:
        parent.deactivate()
        post_error(parent, error)
    if not goes_on:
        parent.srcpad.pause_task()


class InFlightElement(SourceTaskElement):
    """One sink pad, one source pad, up to `in_flight` buffers being worked on; all leave in the order they came.

    A subclass has templates named ``sink`` and ``src`` and overrides `submit` and `finish`, and of the other hooks what
    it needs. For each buffer the sink pad's thread calls `submit`, which starts the work and returns a future; once
    the buffer is the oldest and its future is done, the source task calls `finish` and pushes. Serialized events keep
    their place between the buffers. A future that never completes does not delay a flush or a stop: it is cancelled
    and abandoned.

    Hooks must not keep the buffer's wrapper after the future is done, else downstream finds the buffer shared.
    """

    def __init__(self) -> None:
        super().__init__()
        self.sinkpad = Gst.Pad.new_from_template(self.template("sink"), "sink")
        self.sinkpad.set_chain_function_full(_sink_chain, None)
        self.sinkpad.set_event_function_full(_sink_event, None)
        self.sinkpad.set_query_function_full(_sink_query, None)
        self.add_pad(self.sinkpad)
        self._fifo: Fifo = self.make_fifo()
        self._caps: Gst.Caps | None = None
        self.discarded = 0
        """Buffers that came in and did not leave because downstream had refused an earlier one."""

    def make_fifo(self) -> Fifo:
        """Return the element's queue; called while it is made."""
        return Fifo(self.in_flight)

    def in_flight(self) -> int:
        """How many buffers may wait for their results at the same time, at least 1."""
        return 1

    def on_caps(self, caps: Gst.Caps) -> Gst.Caps:
        """Take the caps of the buffers that follow; return the caps to send downstream, or raise.

        Called on the sink pad's thread, in order with `submit`.
        """
        return caps

    def on_event(self, event: Gst.Event) -> Gst.Event | None:
        """Look at a serialized event other than CAPS; return it (or another) to pass on, None to swallow it.

        Called on the sink pad's thread, in order with `submit`.
        """
        return event

    def submit(self, buffer: Gst.Buffer, caps: Gst.Caps) -> "Pending[Any] | None":
        """Start the work on a buffer and return its future, or None when the buffer needs none.

        Called on the sink pad's thread; an exception ends the stream.
        """
        raise NotImplementedError

    def finish(self, buffer: Gst.Buffer, result: Any) -> bool:
        """Use the result of `submit`'s future (None when there was none) on its buffer; False drops the buffer.

        Called on the source task, in order of arrival; an exception ends the stream.
        """
        raise NotImplementedError

    def on_failure(self, buffer: Gst.Buffer, error: BaseException) -> bool:  # noqa: ARG002 - for overriding hooks
        """Handle the exception of `submit`'s future: raise it to end the stream, or return True to pass the buffer on.

        Called on the source task, in order of arrival. By default it raises.
        """
        raise error

    def on_flush(self) -> None:
        """Forget what belongs to the stream before a flush; called between the flush's two events."""

    def latency(self) -> int:
        """Nanoseconds a live buffer may spend inside: by default `in_flight` frame durations (0 without framerate)."""
        return self.in_flight() * queries.frame_duration(self._caps)

    def activate(self) -> None:
        """Forget what downstream returned before, and open the FIFO."""
        self.flow = Gst.FlowReturn.OK
        self._fifo.start()

    def deactivate(self) -> None:
        """Close the FIFO: whoever waits at either end of it returns."""
        self._fifo.stop()

    def iterate(self) -> bool:
        """Send what is at the FIFO's head once it is ready; see `send`."""
        entry = self._fifo.take()
        if entry is None:
            return False
        self.send(entry)
        return True

    def send(self, entry: Entry) -> None:
        """Push an event, or what its hook makes of a buffer; called on the source task."""
        if entry.event is not None:
            self.push_event(entry.event)
        elif self.flow != Gst.FlowReturn.OK:
            self.discarded += 1
        else:
            try:
                if self._complete(entry):
                    self.push_held(entry.held)
            except BaseException as error:
                # Posted first: upstream, once told, posts an error of its own, which says less.
                post_error(self, error)
                self.flow = Gst.FlowReturn.ERROR

    def _complete(self, entry: Entry) -> bool:
        """Call the hook that belongs to the outcome of a buffer; return whether the buffer is to be pushed."""
        result = None
        if entry.pending is not None:
            error = CancelledError() if entry.pending.cancelled() else entry.pending.exception()
            if error is not None:
                return self.on_failure(entry.held[0], error)
            result = entry.pending.result()
            entry.pending = None
        return self.finish(entry.held[0], result)

    def on_src_query(self, query: Gst.Query) -> bool:
        """Answer a query from downstream: LATENCY by upstream's and `latency`, CAPS by what upstream can give."""
        if query.type == Gst.QueryType.LATENCY:
            return queries.add_latency(self.sinkpad, query, self.latency())
        if query.type == Gst.QueryType.CAPS:
            return bool(self.srcpad.proxy_query_caps(query))
        return super().on_src_query(query)

    def on_sink_query(self, query: Gst.Query) -> bool:
        """Answer a query from upstream. ALLOCATION and DRAIN wait until the buffers before them have left.

        What caps may come is what downstream takes, within the template.
        """
        if query.type == Gst.QueryType.CAPS:
            return bool(self.sinkpad.proxy_query_caps(query))
        if query.type in (Gst.QueryType.ALLOCATION, Gst.QueryType.DRAIN):
            if not self._fifo.drain():
                return False
            answered = bool(self.srcpad.peer_query(query))
            if query.type == Gst.QueryType.ALLOCATION:
                return queries.raise_pool_minimum(query, self.in_flight()) or answered
            return answered
        return bool(self.sinkpad.query_default(self, query))


@guarded(Gst.FlowReturn.ERROR)
def _sink_chain(pad: Gst.Pad, parent: InFlightElement, buffer: Gst.Buffer) -> Gst.FlowReturn:
    if parent.flow != Gst.FlowReturn.OK:
        parent.discarded += 1
        return parent.flow
    caps = pad.get_current_caps()
    if caps is None:
        return Gst.FlowReturn.NOT_NEGOTIATED
    if not parent._fifo.reserve():
        return Gst.FlowReturn.FLUSHING
    entry = Entry(buffer=buffer)
    entry.pending = parent.submit(buffer, caps)
    return Gst.FlowReturn.OK if parent._fifo.put(entry) else Gst.FlowReturn.FLUSHING


@guarded(failure=False)
def _sink_event(_pad: Gst.Pad, parent: InFlightElement, event: Gst.Event) -> bool:
    kind = event_type(event)
    if kind == Gst.EventType.FLUSH_START:
        parent._fifo.flush()
        return bool(parent.srcpad.push_event(event))
    if kind == Gst.EventType.FLUSH_STOP:
        parent._fifo.settle()
        parent.on_flush()
        parent.flow = Gst.FlowReturn.OK
        done = parent.srcpad.push_event(event)
        parent._fifo.resume()
        return bool(done)
    if not kind & _SERIALIZED:
        return bool(parent.srcpad.push_event(event))
    if kind == Gst.EventType.CAPS:
        caps = event.parse_caps()
        outgoing = parent.on_caps(caps)
        parent._caps = caps
        forwarded = event if outgoing is caps else Gst.Event.new_caps(outgoing)
    else:
        forwarded = parent.on_event(event)
    return forwarded is None or parent._fifo.put(Entry(event=forwarded))


@guarded(failure=False)
def _sink_query(_pad: Gst.Pad, parent: InFlightElement, query: Gst.Query) -> bool:
    return parent.on_sink_query(query)
