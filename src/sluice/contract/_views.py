"""What views of metadata are made of: a struct in C memory under a lease, and descriptors for its fields."""

import ctypes
import functools
import math
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, Generic, TypeVar, overload

import gi

gi.require_version("Gst", "1.0")
from gi.repository import Gst

from sluice.contract.layout import layout
from sluice.contract.provider import Provider, interned
from sluice.errors import ContractError, StaleBufferError

Box = tuple[float, float, float, float]
Color = tuple[float, float, float, float]

MAX_LABEL_BYTES = 127

glib = ctypes.CDLL("libglib-2.0.so.0")
glib.g_free.restype, glib.g_free.argtypes = None, [ctypes.c_void_p]
glib.g_malloc.restype, glib.g_malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
glib.g_strdup.restype, glib.g_strdup.argtypes = ctypes.c_void_p, [ctypes.c_char_p]

T = TypeVar("T")
V = TypeVar("V", bound="View")


class Lease:
    """The time in which views of one buffer may be used; a context manager that ends it."""

    __slots__ = ("_buffer", "_ended")

    def __init__(self, buffer: Gst.Buffer | None = None) -> None:
        """Begin a lease. With `buffer` the lease keeps it alive until the end; without, the caller does."""
        self._buffer = buffer
        self._ended = False

    def check(self) -> None:
        """Raise ``StaleBufferError`` if the lease has ended."""
        if self._ended:
            raise StaleBufferError(
                "the metadata was used after its buffer had left the element; copy the values you need before"
            )

    def end(self) -> None:
        """End the lease: every view under it becomes stale, and the buffer is let go."""
        self._ended = True
        self._buffer = None

    @property
    def ended(self) -> bool:
        """Whether the lease has ended."""
        return self._ended

    def __enter__(self) -> "Lease":
        return self

    def __exit__(self, *_: object) -> None:
        self.end()


def c_text(text: str) -> bytes:
    """Encode a text as UTF-8 up to a NUL; what UTF-8 has no bytes for, half a surrogate pair, becomes "?"."""
    return text.encode("utf-8", "replace").partition(b"\0")[0]


def cut_label(text: str, limit: int = MAX_LABEL_BYTES) -> bytes:
    """Encode a label as UTF-8, cut to at most `limit` bytes between two characters, and at a NUL."""
    encoded = c_text(text)
    if len(encoded) <= limit:
        return encoded
    return encoded[:limit].decode("utf-8", "ignore").encode()


@functools.cache
def field_offset(struct: str, path: str) -> int:
    """Return how many bytes from the beginning of a struct a field lies, by its dotted path, in the layout in use.

    Raises:
        ContractError: the layout has no such struct or field.
    """
    return layout().struct(struct).offset(path)


class View:
    """A struct in C memory under a lease."""

    __slots__ = ("_address", "_lease", "_provider")
    struct: ClassVar[str]

    def __init__(self, address: int, lease: Lease, owner: Provider) -> None:
        """Look at the struct at `address`; `owner` is the provider whose functions change its lists."""
        self._address = address
        self._lease = lease
        self._provider = owner

    @property
    def address(self) -> int:
        """The C address of the struct.

        Raises:
            StaleBufferError: the lease has ended.
        """
        self._lease.check()
        return self._address

    @property
    def lease(self) -> Lease:
        """The lease this view lives under."""
        return self._lease

    @property
    def provider(self) -> Provider:
        """The provider whose functions change this view's lists."""
        return self._provider

    def __eq__(self, other: object) -> bool:
        return isinstance(other, View) and type(self) is type(other) and self._address == other._address

    def __hash__(self) -> int:
        return hash((type(self), self._address))

    def __repr__(self) -> str:
        return f"<{type(self).__name__} at {self._address:#x}{' (stale)' if self._lease.ended else ''}>"

    def _field(self, path: str) -> int:
        self._lease.check()
        return self._address + field_offset(self.struct, path)

    def _list(self, path: str) -> Iterator[int]:
        """Yield the data of a GList field."""
        link = ctypes.c_size_t.from_address(self._field(path)).value
        while link:
            data, link = (ctypes.c_size_t * 2).from_address(link)
            yield data

    def _views(self, path: str, kind: type[V]) -> list[V]:
        return [kind(element, self._lease, self._provider) for element in self._list(path)]


class Number(Generic[T]):
    """A number field at a dotted path of the view's struct."""

    def __init__(self, path: str, kind: Callable[[Any], T], doc: str) -> None:
        self.path, self.kind, self.__doc__ = path, kind, doc
        self._offset = -1
        self._limits = (0, 0)
        self._ctype: Any = None

    @overload
    def __get__(self, view: None, owner: type[View]) -> "Number[T]": ...
    @overload
    def __get__(self, view: View, owner: type[View]) -> T: ...
    def __get__(self, view: View | None, owner: type[View]) -> "T | Number[T]":
        if view is None:
            return self
        return self.kind(self._cell(view).value)

    def __set__(self, view: View, value: T) -> None:
        cell = self._cell(view)
        if self.kind is float:
            if not math.isfinite(value):  # type: ignore[arg-type]
                raise ContractError(f"{view.struct}.{self.path} is {value!r}; it needs a finite number")
        elif not self._limits[0] <= int(value) <= self._limits[1]:  # type: ignore[call-overload]
            low, high = self._limits
            raise ContractError(f"{view.struct}.{self.path} is {value!r}; it can be {low} to {high}")
        cell.value = value

    def _cell(self, view: View) -> Any:
        view._lease.check()
        if self._ctype is None:
            ctype = layout().struct(view.struct).ctype(self.path)
            bits = 8 * ctypes.sizeof(ctype)
            signed = self.kind is not float and ctype(-1).value < 0
            self._limits = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
            self._offset = field_offset(view.struct, self.path)
            self._ctype = ctype
        return self._ctype.from_address(view._address + self._offset)


def int_field(path: str, doc: str) -> Number[int]:
    """Make the descriptor of a whole number at a dotted path; setting one that does not fit raises ContractError."""
    return Number(path, int, doc)


def float_field(path: str, doc: str) -> Number[float]:
    """Make the descriptor of a floating number at a dotted path; setting NaN or infinity raises ContractError."""
    return Number(path, float, doc)


def bool_field(path: str, doc: str) -> Number[bool]:
    """Make the descriptor of a flag, which C holds as a whole number, at a dotted path."""
    return Number(path, bool, doc)


class Floats:
    """Four numbers in a row: a box (``f4``) or a colour (``f8``), as a tuple."""

    def __init__(self, path: str, ctype: type[ctypes.c_float] | type[ctypes.c_double], doc: str) -> None:
        self.path, self.array, self.__doc__ = path, ctype * 4, doc

    @overload
    def __get__(self, view: None, owner: type[View]) -> "Floats": ...
    @overload
    def __get__(self, view: View, owner: type[View]) -> Box: ...
    def __get__(self, view: View | None, owner: type[View]) -> "Box | Floats":
        if view is None:
            return self
        a, b, c, d = self.array.from_address(view._field(self.path))
        return (a, b, c, d)

    def __set__(self, view: View, value: Box) -> None:
        numbers = [float(number) for number in value]
        if len(numbers) != 4 or not all(map(math.isfinite, numbers)):
            raise ContractError(f"{view.struct}.{self.path} needs four finite numbers, not {value!r}")
        self.array.from_address(view._field(self.path))[:] = numbers


class Misc:
    """The four 64-bit numbers that every kind of meta leaves to its users, as a tuple."""

    def __init__(self, path: str) -> None:
        self.path, self.__doc__ = path, f"The four numbers of ``{path}``, free for users."

    @overload
    def __get__(self, view: None, owner: type[View]) -> "Misc": ...
    @overload
    def __get__(self, view: View, owner: type[View]) -> tuple[int, ...]: ...
    def __get__(self, view: View | None, owner: type[View]) -> "tuple[int, ...] | Misc":
        if view is None:
            return self
        return tuple((ctypes.c_int64 * 4).from_address(view._field(self.path)))

    def __set__(self, view: View, value: tuple[int, ...]) -> None:
        if len(value) != 4:
            raise ContractError(f"{view.struct}.{self.path} holds 4 numbers, not {len(value)}")
        (ctypes.c_int64 * 4).from_address(view._field(self.path))[:] = list(value)


class Label:
    """A ``char[128]`` field as text, cut at 127 bytes between two characters."""

    def __init__(self, path: str, doc: str) -> None:
        self.path, self.__doc__ = path, doc

    @overload
    def __get__(self, view: None, owner: type[View]) -> "Label": ...
    @overload
    def __get__(self, view: View, owner: type[View]) -> str: ...
    def __get__(self, view: View | None, owner: type[View]) -> "str | Label":
        if view is None:
            return self
        text = (ctypes.c_char * (MAX_LABEL_BYTES + 1)).from_address(view._field(self.path)).value
        return text.decode("utf-8", "replace")

    def __set__(self, view: View, value: str) -> None:
        encoded = cut_label(value)
        ctypes.memmove(view._field(self.path), encoded + b"\0", len(encoded) + 1)


class Text:
    """A ``char *`` field: owned by the element (allocated with GLib, freed when replaced), or interned for ever."""

    def __init__(self, path: str, owned: bool, doc: str) -> None:
        self.path, self.owned, self.__doc__ = path, owned, doc

    @overload
    def __get__(self, view: None, owner: type[View]) -> "Text": ...
    @overload
    def __get__(self, view: View, owner: type[View]) -> str | None: ...
    def __get__(self, view: View | None, owner: type[View]) -> "str | Text | None":
        if view is None:
            return self
        text = ctypes.c_char_p.from_address(view._field(self.path)).value
        return None if text is None else text.decode("utf-8", "replace")

    def __set__(self, view: View, value: str | None) -> None:
        cell = ctypes.c_size_t.from_address(view._field(self.path))
        if not self.owned:
            cell.value = 0 if value is None else interned(value)
            return
        old = cell.value
        cell.value = 0 if value is None else glib.g_strdup(value.encode("utf-8", "replace"))
        glib.g_free(old)
