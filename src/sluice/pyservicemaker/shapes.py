"""What the shapes of `sluice.pyservicemaker.osd` share: checked fields, colours, and the C struct behind them."""

import ctypes
import operator
from collections.abc import Callable
from typing import Any, ClassVar, Generic, TypeVar

from sluice.contract.metadata import Lease, View
from sluice.contract.provider import provider
from sluice.errors import StaleBufferError

V = TypeVar("V", bound=View)
S = TypeVar("S", bound="Shape[Any]")
Values = tuple[float, float, float, float]


def unsigned(value: Any) -> int:
    """Return a whole number from 0 to 2³²-1.

    Raises:
        TypeError: it is anything else.
    """
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"a whole number is needed, not {value!r}; write int(...)") from None
    if not 0 <= number < 1 << 32:
        raise TypeError(f"a number from 0 to {(1 << 32) - 1} is needed, not {value!r}; write max(..., 0)")
    return number


def real(value: Any) -> float:
    """Return a number as a float.

    Raises:
        TypeError: it is no number.
    """
    if isinstance(value, str | bytes):
        raise TypeError(f"a number is needed, not {value!r}")
    return float(value)


def text_of(value: Any) -> str:
    """Return a text given as str or as UTF-8 bytes.

    Raises:
        TypeError: it is neither.
    """
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if not isinstance(value, str):
        raise TypeError(f"a str or bytes is needed, not {type(value).__name__}")
    return value


class Color:
    """Red, green, blue and alpha, each 0 to 1. A colour got from a shape writes through to it."""

    __slots__ = ("_changed", "_values")

    def __init__(self, r: float, g: float, b: float, a: float, /) -> None:
        """Make a colour."""
        self._values: Values = (real(r), real(g), real(b), real(a))
        self._changed: Callable[[Values], None] | None = None

    @classmethod
    def _of(cls, values: Values, changed: Callable[[Values], None]) -> "Color":
        color = cls(*values)
        color._changed = changed
        return color

    def _set(self, place: int, value: Any) -> None:
        a, b, c, d = (real(value) if i == place else old for i, old in enumerate(self._values))
        self._values = (a, b, c, d)
        if self._changed is not None:
            self._changed(self._values)

    r = property(lambda self: self._values[0], lambda self, value: self._set(0, value), doc="Red.")
    g = property(lambda self: self._values[1], lambda self, value: self._set(1, value), doc="Green.")
    b = property(lambda self: self._values[2], lambda self, value: self._set(2, value), doc="Blue.")
    a = property(lambda self: self._values[3], lambda self, value: self._set(3, value), doc="Alpha, 1 is opaque.")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Color) and self._values == other._values

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return "Color(r={:g}, g={:g}, b={:g}, a={:g})".format(*self._values)


class Field:
    """A field of a shape, by its name in the view."""

    def __init__(self, name: str, check: Callable[[Any], Any], doc: str) -> None:
        self._name, self._check, self.__doc__ = name, check, doc

    def __get__(self, shape: "Shape[Any] | None", owner: type) -> Any:
        return self if shape is None else self._read(shape._view)

    def __set__(self, shape: "Shape[Any]", value: Any) -> None:
        setattr(shape._view, self._name, self._check(value))

    def _read(self, view: View) -> Any:
        return getattr(view, self._name)


class Flag(Field):
    """A yes or no, read as 0 or 1."""

    def __init__(self, name: str, doc: str) -> None:
        super().__init__(name, unsigned, doc)

    def _read(self, view: View) -> int:
        return int(getattr(view, self._name))


class TextField(Field):
    """A text, read as "" when there is none."""

    def __init__(self, name: str, doc: str) -> None:
        super().__init__(name, text_of, doc)

    def _read(self, view: View) -> str:
        return getattr(view, self._name) or ""


class ColorField(Field):
    """A colour."""

    def __init__(self, name: str, doc: str) -> None:
        super().__init__(name, self._values, doc)

    @staticmethod
    def _values(value: Any) -> Values:
        if not isinstance(value, Color):
            raise TypeError(f"an osd.Color is needed, not {type(value).__name__}")
        return value._values

    def _read(self, view: View) -> Color:
        return Color._of(getattr(view, self._name), lambda values: setattr(view, self._name, values))


class Shape(Generic[V]):
    """A struct that can be drawn: its own, or a reference into metadata."""

    __slots__ = ("_memory", "_view")
    _kind: ClassVar[type[View]]
    _shown: ClassVar[tuple[str, ...]] = ()
    _view: V

    def __init__(self) -> None:
        """Make an empty one: all fields 0."""
        owner = provider()
        self._memory: ctypes.Array[ctypes.c_char] | None = ctypes.create_string_buffer(
            owner.layout.struct(self._kind.struct).size
        )
        self._view = self._kind(ctypes.addressof(self._memory), Lease(), owner)  # type: ignore[assignment]

    @classmethod
    def _refer(cls: type[S], view: Any) -> S:
        shape = cls.__new__(cls)
        shape._memory, shape._view = None, view
        return shape

    def _store(self, target: V) -> None:
        """Copy this struct over another of its kind."""
        size = target.provider.layout.struct(target.struct).size
        ctypes.memmove(target.address, self._view.address, size)

    def __repr__(self) -> str:
        name = type(self).__name__
        try:
            return f"{name}({', '.join(f'{field}={getattr(self, field)!r}' for field in self._shown)})"
        except StaleBufferError:
            return f"<{name} (stale)>"
