"""The queue of an element whose buffers a thread of Python works on, with one entry into Python per buffer.

See ``native/inflight.h``: the threads of the element's pads run in C. A `Line` is what the working thread waits at, a
`Route` is which line is open for an element, an `Inflight` is the element's queue.
"""

import ctypes
import functools
import itertools
import weakref
from typing import Any, Protocol

import gi

gi.require_version("Gst", "1.0")
from gi.repository import Gst

from sluice.contract import gstref
from sluice.contract._native import library

NOTHING, NOTE, ITEM = range(3)
"""What stands at the head of a `Line`."""

PUSH, DROP, FAILED = range(1, 4)
"""What becomes of an item: its buffer leaves, is dropped, or ends the stream once those before it have left."""

END, ENTRY, FAILURE = range(3)
"""What `Inflight.take` returns."""


class Call(ctypes.Structure):
    """What a thread is to do: ``Call`` of native/inflight.h.

    Attributes:
        kind: `NOTHING`, a `NOTE`, or an `ITEM`: a buffer of an element's queue.
        owner: which queue an item belongs to.
        value: the note; address of the item, with a reference of the caller's.
        buffer: address of an item's buffer, with a reference of the caller's; 0 where it was abandoned.
        number: how many buffers came before an item since the start.
        mark: the queue's mark when an item arrived.
    """

    kind: int
    owner: int
    value: int
    buffer: int
    number: int
    mark: int
    _fields_ = (
        ("kind", ctypes.c_int32),
        ("owner", ctypes.c_int32),
        ("value", ctypes.c_uint64),
        ("buffer", ctypes.c_uint64),
        ("number", ctypes.c_uint64),
        ("mark", ctypes.c_int32),
    )


class Worker(Protocol):
    """An element as its queue knows it: something that works on buffers, see `work_on`."""

    def work(self, call: Call, model: Any) -> Any:
        """Work on a buffer; must not raise."""


_SIGNATURES: tuple[tuple[str, Any, list[Any], bool], ...] = (
    # name, result, arguments, whether the call is so short that the GIL is kept
    ("line_new", ctypes.c_void_p, [], True),
    ("line_unref", None, [ctypes.c_void_p], False),
    ("line_note", None, [ctypes.c_void_p, ctypes.c_uint64], True),
    ("line_next", ctypes.c_int, [ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p], False),
    ("line_length", ctypes.c_uint, [ctypes.c_void_p], True),
    ("route_new", ctypes.c_void_p, [], True),
    ("route_unref", None, [ctypes.c_void_p], False),
    ("route_set", None, [ctypes.c_void_p, ctypes.c_void_p], False),
    ("inflight_new", ctypes.c_void_p, [ctypes.c_int32], True),
    ("inflight_unref", None, [ctypes.c_void_p], False),
    ("inflight_start", None, [ctypes.c_void_p], False),
    ("inflight_end", None, [ctypes.c_void_p, ctypes.c_int], False),
    ("inflight_settle", ctypes.c_int, [ctypes.c_void_p], False),
    ("inflight_resume", None, [ctypes.c_void_p], False),
    ("inflight_set_limit", None, [ctypes.c_void_p, ctypes.c_uint], False),
    ("inflight_set_mark", None, [ctypes.c_void_p, ctypes.c_int32], False),
    ("inflight_set_flow", None, [ctypes.c_void_p, ctypes.c_int], False),
    ("inflight_set_route", None, [ctypes.c_void_p, ctypes.c_void_p], False),
    ("inflight_flow", ctypes.c_int, [ctypes.c_void_p], False),
    ("inflight_arrived", ctypes.c_uint64, [ctypes.c_void_p], False),
    ("inflight_discarded", ctypes.c_uint64, [ctypes.c_void_p], False),
    ("inflight_length", ctypes.c_uint, [ctypes.c_void_p], False),
    ("inflight_drain", ctypes.c_int, [ctypes.c_void_p], False),
    ("inflight_reserve", ctypes.c_int, [ctypes.c_void_p], False),
    ("inflight_release", None, [ctypes.c_void_p], False),
    ("inflight_put", ctypes.c_int, [ctypes.c_void_p, ctypes.c_uint64, ctypes.c_int], False),
    ("inflight_ready", None, [ctypes.c_void_p, ctypes.c_uint64], False),
    ("inflight_bind", None, [ctypes.c_void_p, ctypes.c_void_p], False),
    ("inflight_take", ctypes.c_int, [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p], False),
    ("item_wanted", ctypes.c_int, [ctypes.c_void_p], True),
    ("item_finish", ctypes.c_int, [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_int], False),
)


@functools.cache
def _functions() -> Any:
    """Return the C functions. The short ones keep the GIL, for which a thread beside busy ones would wait long."""
    found = {}
    holding = ctypes.PyDLL(library()._name)
    for name, result, arguments, short in _SIGNATURES:
        function = getattr(holding if short else library(), f"sluice_{name}")
        function.restype, function.argtypes = result, arguments
        found[name] = function
    for name in ("line_next", "item_finish"):  # which are short where they are told not to wait, and not to free
        function = getattr(holding, f"sluice_{name}")
        function.restype, function.argtypes = found[name].restype, found[name].argtypes
        found[f"{name}_now"] = function
    return type("Functions", (), {name: staticmethod(function) for name, function in found.items()})


class Line:
    """What a thread waits at. Any thread may put notes; buffers are announced by the `Route` that is set to it."""

    def __init__(self) -> None:
        self._functions = _functions()
        self.address: int = self._functions.line_new()
        weakref.finalize(self, self._functions.line_unref, self.address).atexit = False

    def note(self, number: int) -> None:
        """Put a number at the end of the line."""
        self._functions.line_note(self.address, number)

    def next(self, timeout: float | None = None) -> Call:
        """Take what stands at the head.

        Args:
            timeout: seconds to wait for it; None for as long as it takes.

        Returns:
            the call; what an item holds is the caller's, to be given up with `finish`. `NOTHING` at the timeout.
        """
        call = Call()
        place = ctypes.byref(call)
        # Where something stands there already the GIL need not be let go, and won again, to take it.
        if self._functions.line_next_now(self.address, 0, place) == NOTHING and timeout != 0:
            self._functions.line_next(self.address, -1 if timeout is None else max(1, round(timeout * 1e6)), place)
        return call

    def __len__(self) -> int:
        return int(self._functions.line_length(self.address))


class Route:
    """Which line is open for the elements that share a model; none at first."""

    def __init__(self) -> None:
        self._functions = _functions()
        self.address: int = self._functions.route_new()
        weakref.finalize(self, self._functions.route_unref, self.address).atexit = False

    def open(self, line: Line | None) -> None:
        """Have buffers announced at another line from now on, or at none: then they go through Python."""
        self._functions.route_set(self.address, None if line is None else line.address)


_numbers = itertools.count(1)
_owners: dict[int, "weakref.ref[Worker]"] = {}


class Inflight:
    """The queue of one element; see `sluice.elements.direct` for how it is used."""

    def __init__(self, owner: Worker) -> None:
        """Make a stopped queue, whose buffers this owner works on as long as it lives, see `work_on`."""
        self._functions = _functions()
        number = next(_numbers)
        _owners[number] = weakref.ref(owner, lambda _: _owners.pop(number, None))
        self.address: int = self._functions.inflight_new(number)
        self._number = ctypes.c_uint64()
        weakref.finalize(self, self._functions.inflight_unref, self.address).atexit = False

    def start(self) -> None:
        """Begin to accept and deliver, empty."""
        self._functions.inflight_start(self.address)

    def end(self, *, stopped: bool) -> None:
        """Refuse everything, abandon what is inside and wake every waiter; but for a stop not the taking thread."""
        self._functions.inflight_end(self.address, stopped)

    def settle(self) -> None:
        """During a flush, wait until the taking thread has finished with what it took before."""
        self._functions.inflight_settle(self.address)

    def resume(self) -> None:
        """Accept again after a flush."""
        self._functions.inflight_resume(self.address)

    def set_limit(self, limit: int) -> None:
        """Set how many buffers may be inside."""
        self._functions.inflight_set_limit(self.address, limit)

    def set_mark(self, mark: int) -> None:
        """Set the number that buffers carry which arrive from now on."""
        self._functions.inflight_set_mark(self.address, mark)

    def set_route(self, route: Route | None) -> None:
        """Have buffers announced on the line that is open for a route; None: they go through Python."""
        self._functions.inflight_set_route(self.address, None if route is None else route.address)

    @property
    def flow(self) -> int:
        """What downstream returned last, which the next chain calls return."""
        return int(self._functions.inflight_flow(self.address))

    @flow.setter
    def flow(self, flow: int) -> None:
        self._functions.inflight_set_flow(self.address, flow)

    @property
    def arrived(self) -> int:
        """How many buffers have arrived since the start."""
        return int(self._functions.inflight_arrived(self.address))

    @property
    def discarded(self) -> int:
        """How many arrived and did not leave, since downstream had refused one."""
        return int(self._functions.inflight_discarded(self.address))

    def __len__(self) -> int:
        return int(self._functions.inflight_length(self.address))

    def drain(self) -> bool:
        """Wait until everything inside has left; False when flushing or stopped."""
        return bool(self._functions.inflight_drain(self.address))

    def reserve(self) -> bool:
        """Wait for room for a buffer of Python's and take it; False when flushing or stopped."""
        return bool(self._functions.inflight_reserve(self.address))

    def release(self) -> None:
        """Note that a buffer of Python's has left."""
        self._functions.inflight_release(self.address)

    def put(self, number: int, *, ready: bool) -> bool:
        """Put an entry of Python's; one that is not ready holds up those behind it. False when flushing or stopped."""
        return bool(self._functions.inflight_put(self.address, number, ready))

    def ready(self, number: int) -> None:
        """Let an entry of Python's leave."""
        self._functions.inflight_ready(self.address, number)

    def take_buffers_of(self, pad: Gst.Pad) -> None:
        """Let the buffers that arrive at a sink pad go past its chain function, where a line is open for them."""
        self._functions.inflight_bind(self.address, gstref.address(pad))

    def take(self, pad: Gst.Pad) -> tuple[int, int]:
        """Push buffers to a source pad until there is something for Python; for one thread.

        Returns:
            `ENTRY` and the number of an entry of Python's, `FAILURE` and that of a buffer, or `END` when stopped.
        """
        found = self._functions.inflight_take(self.address, gstref.address(pad), ctypes.byref(self._number))
        return found, self._number.value


def work_on(call: Call, model: Any) -> Any:
    """Have the element that a buffer belongs to work on it, and return what its method ``work`` returns.

    What the call holds is the method's from then on.
    """
    reference = _owners.get(call.owner)
    owner = None if reference is None else reference()
    if owner is None:
        drop(call)
        return None
    return owner.work(call, model)


def is_wanted(call: Call) -> bool:
    """Whether a buffer was not abandoned."""
    return bool(_functions().item_wanted(call.value))


def finish(call: Call, state: int) -> None:
    """Say what becomes of a buffer, of `PUSH`, `DROP` and `FAILED`, and give up what the call holds."""
    if not _functions().item_finish_now(call.value, call.buffer, state, 0):
        _functions().item_finish(call.value, call.buffer, state, 1)


def drop(call: Call) -> None:
    """`finish` with `DROP`, for a buffer that nobody will work on."""
    finish(call, DROP)
