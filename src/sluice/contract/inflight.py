"""The queue of an element whose buffers a thread of Python works on, with one entry into Python per buffer.

See ``native/inflight.h``: the threads of the element's pads run in C. A `Line` is what the working thread waits at, a
`Route` is which line is open for an element, an `Inflight` is the element's queue.
"""

import ctypes
import functools
import itertools
import weakref
from collections.abc import Callable
from typing import Any, NamedTuple

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


class _CallStruct(ctypes.Structure):
    """``Call`` of native/inflight.h."""

    _fields_ = (("kind", ctypes.c_int32), ("owner", ctypes.c_int32), ("value", ctypes.c_uint64))


class _ClaimedStruct(ctypes.Structure):
    """``Claimed`` of native/inflight.c."""

    _fields_ = (("buffer", ctypes.c_uint64), ("number", ctypes.c_uint64), ("mark", ctypes.c_int32))


class Call(NamedTuple):
    """What a thread is to do: `NOTHING`, a `NOTE` with its number, or an `ITEM` of the owner given."""

    kind: int
    owner: int = 0
    value: int = 0


class Claimed(NamedTuple):
    """What a working thread gets of an item.

    Attributes:
        buffer: address of the buffer, with a reference of the caller's; 0 where the item was abandoned.
        number: how many buffers came before it since the start.
        mark: the queue's mark when it arrived.
    """

    buffer: int
    number: int
    mark: int


_NOTHING = Call(NOTHING)
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
    ("item_claim", None, [ctypes.c_void_p, ctypes.c_void_p], True),
    ("item_wanted", ctypes.c_int, [ctypes.c_void_p], True),
    ("item_done", None, [ctypes.c_void_p, ctypes.c_int], True),
    ("item_let_go", ctypes.c_int, [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int], False),
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
    for name in ("line_next", "item_let_go"):  # which are short where they are told not to wait, and not to free
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
            the call; an item's reference is the caller's, to be given up with `done`. `NOTHING` at the timeout.
        """
        struct = _CallStruct()
        place = ctypes.byref(struct)
        # Where something stands there already the GIL need not be let go, and won again, to take it.
        found = self._functions.line_next_now(self.address, 0, place)
        if found == NOTHING and timeout != 0:
            wait = -1 if timeout is None else max(1, round(timeout * 1e6))
            found = self._functions.line_next(self.address, wait, place)
        return _NOTHING if found == NOTHING else Call(found, struct.owner, struct.value)

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


Work = Callable[[int, Any], Any]
_owners = itertools.count(1)
_queues: "weakref.WeakValueDictionary[int, Inflight]" = weakref.WeakValueDictionary()


class Inflight:
    """The queue of one element; see `sluice.elements.direct` for how it is used."""

    def __init__(self, work: "weakref.WeakMethod[Work]") -> None:
        """Make a stopped queue, on whose items the thread at a line calls `work`, see `work_on`."""
        self._functions = _functions()
        self.work = work
        owner = next(_owners)
        _queues[owner] = self
        self.address: int = self._functions.inflight_new(owner)
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
    """Have the element that an item belongs to work on it, and return what its method returns.

    The method is given the item, whose reference is its own from then on, and the model; it must not raise.
    """
    queue = _queues.get(call.owner)
    work = None if queue is None else queue.work()
    if work is not None:
        return work(call.value, model)
    done(call.value, DROP)
    return None


def claim(item: int) -> Claimed:
    """Take a reference of the buffer of an item, so that it stays even where the queue is flushed; see `let_go`."""
    struct = _ClaimedStruct()
    _functions().item_claim(item, ctypes.byref(struct))
    return Claimed(struct.buffer, struct.number, struct.mark)


def is_wanted(item: int) -> bool:
    """Whether an item was not abandoned."""
    return bool(_functions().item_wanted(item))


def let_go(item: int, buffer: int) -> None:
    """Give back the reference of `claim`."""
    if not _functions().item_let_go_now(item, buffer, 0):
        _functions().item_let_go(item, buffer, 1)


def done(item: int, state: int) -> None:
    """Say what becomes of an item, of `PUSH`, `DROP` and `FAILED`, and give up its reference."""
    _functions().item_done(item, state)


def drop(item: int) -> None:
    """`done` with `DROP`, for an item that nobody will work on."""
    done(item, DROP)
