"""What the wrappers of this package have in common: a view of the contract's metadata, under a session."""

import ctypes
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, Generic, NoReturn, TypeVar

from gi.repository import Gst

from sluice.contract.metadata import BatchMeta, Lease, UserMeta, View
from sluice.errors import ContractError, StaleBufferError

V = TypeVar("V", bound=View)
W = TypeVar("W", bound="Wrapper[Any]")
T = TypeVar("T")


class ApiError(ContractError, RuntimeError):
    """A call that NVIDIA's package answers with ``RuntimeError``, or with a crash."""


class Session:
    """The time in which the wrappers of one buffer may be used.

    It keeps the buffer alive, and with it everything a wrapper points to, until it ends or the last wrapper is gone.
    Elements that were acquired and never appended go back to their pools then: an overlay that draws whatever a batch
    has acquired would otherwise draw them.
    """

    __slots__ = ("_acquired", "_batch", "lease")

    def __init__(self, buffer: Gst.Buffer) -> None:
        """Begin a session, holding a reference of the buffer."""
        self.lease = Lease(buffer)
        self._acquired: dict[int, str] = {}
        self._batch: BatchMeta | None = None
        self._batch = BatchMeta.of(buffer, self.lease)

    @property
    def batch(self) -> BatchMeta | None:
        """The buffer's metadata, or None when it carries none."""
        self.lease.check()
        return self._batch

    def acquired(self, view: View) -> None:
        """Note that an element was acquired and is in no list yet."""
        self._acquired[view.address] = view.struct

    def is_acquired(self, view: View) -> bool:
        """Whether an element was acquired here and not yet appended."""
        return view.address in self._acquired

    def appended(self, view: View) -> None:
        """Note that an acquired element is in a list now."""
        del self._acquired[view.address]

    def end(self) -> None:
        """Give back what was not appended, let the buffer go, and make all wrappers stale."""
        if not self.lease.ended:
            self._give_back()
            self._batch = None
            self.lease.end()

    def _give_back(self) -> None:
        """Put each element into a list and remove it: the only way back into a pool."""
        batch = self._batch
        frames = batch.frames if batch is not None and self._acquired else []
        while batch is not None and self._acquired:
            element, struct = self._acquired.popitem()
            functions = batch.provider
            if struct == "NvDsUserMeta":
                functions.add_user_to_batch(batch.address, element)
                functions.remove_user_from_batch(batch.address, element)
            elif frames and struct == "NvDsObjectMeta":
                functions.add_object(frames[0].address, element, 0)
                functions.remove_object(frames[0].address, element)
            elif frames:
                functions.add_display(frames[0].address, element)
                functions.remove_display(frames[0].address, element)

    def __del__(self) -> None:
        self.end()


class Wrapper(Generic[V]):
    """A piece of metadata of a buffer. Programs get wrappers from this package and do not construct them.

    A wrapper may stand for nothing (a buffer without metadata, a user meta of another type): it can be asked what it
    is, and raises `ApiError` where a value cannot be had.
    """

    __slots__ = ("_session", "_view")
    _shown: ClassVar[tuple[str, ...]] = ()
    _absent: ClassVar[str] = "there is no such metadata here"

    _view: V | None
    _session: Session | None

    def __init__(self) -> None:
        raise TypeError(f"{type(self).__name__}: no constructor defined; such objects come from a Buffer's metadata")

    @classmethod
    def _wrap(cls: type[W], view: Any, session: Session | None) -> W:
        wrapper = cls.__new__(cls)
        wrapper._view, wrapper._session = view, session
        return wrapper

    def _need(self) -> V:
        """Return the view, which stands for something and is not stale."""
        if self._view is None:
            raise ApiError(f"this {type(self).__name__} is empty: {self._absent}")
        self._view.lease.check()
        return self._view

    def _owner(self) -> Session:
        self._need()
        assert self._session is not None
        return self._session

    def _items(self, kind: type[W], views: list[Any]) -> Iterator[W]:
        """Return a one-shot iterator of wrappers over a list as it is now."""
        session = self._session
        return (kind._wrap(view, session) for view in views)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Wrapper) and type(self) is type(other) and self._view == other._view

    def __hash__(self) -> int:
        return hash((type(self), self._view))

    def __repr__(self) -> str:
        name = type(self).__name__
        if self._view is None:
            return f"<{name} (empty)>"
        try:
            return f"<{name} {', '.join(f'{field}={getattr(self, field)!r}' for field in self._shown)}>"
        except StaleBufferError:
            return f"<{name} (stale)>"


def refuse(function: str, given: object, wanted: str) -> NoReturn:
    """Raise the ``TypeError`` for an argument of the wrong type."""
    raise TypeError(f"{function}() takes {wanted}, not {type(given).__name__}")


def index(value: int, count: int, what: str) -> int:
    """Return an index unchanged if there are that many.

    Raises:
        IndexError: it is out of range, with the range.
    """
    if not 0 <= value < count:
        raise IndexError(f"there is no {what} {value}; there are {count}, counted from 0")
    return value


class Reading(Generic[V, T]):
    """A read-only member of a wrapper that is one field of its view."""

    def __init__(self, read: Callable[[V], T], doc: str) -> None:
        self._read, self.__doc__ = read, doc

    def __get__(self, wrapper: "Wrapper[V] | None", owner: type) -> Any:
        return self if wrapper is None else self._read(wrapper._need())


class Writing(Reading[V, T]):
    """A member that is one field of the view and can be set."""

    def __init__(self, name: str, check: Callable[[Any], T], doc: str) -> None:
        super().__init__(lambda view: getattr(view, name), doc)
        self._name, self._check = name, check

    def __set__(self, wrapper: Wrapper[V], value: Any) -> None:
        setattr(wrapper._need(), self._name, self._check(value))


def meta_types(view: View) -> dict[str, int]:
    """Return the numbers of ``NvDsMetaType`` in the layout in use."""
    return view.provider.layout.enum("NvDsMetaType")


def of_type(users: list[UserMeta], number: int) -> list[UserMeta]:
    """Return the user metas of one type, in list order."""
    return [user for user in users if user.meta_type == number]


def pointer_list(head: int) -> list[int]:
    """Return the data pointers of a GList."""
    found = []
    while head:
        data, head = (ctypes.c_size_t * 2).from_address(head)
        found.append(data)
    return found
