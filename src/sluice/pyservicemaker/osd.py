"""What can be drawn: boxes, texts, lines, arrows, circles, masks, and their colours and fonts.

An object made here is a C struct of its own; one got from metadata (``object_meta.rect_params``) is a reference, and
setting its fields changes the metadata. Sizes and places are in pixels of the surface, colours 0 to 1. Unsigned fields
refuse floats and negative numbers with ``TypeError``, as in NVIDIA's package.
"""

import ctypes
import operator
from collections.abc import Callable
from enum import IntEnum
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from sluice.contract.metadata import (
    ArrowParams,
    CircleParams,
    Lease,
    LineParams,
    ObjectMeta,
    RectParams,
    View,
)
from sluice.contract.metadata import (
    TextParams as _TextParams,
)
from sluice.contract.provider import provider
from sluice.errors import StaleBufferError

__all__ = [
    "Arrow",
    "ArrowHead",
    "Circle",
    "Color",
    "Font",
    "FontFamily",
    "Line",
    "Mask",
    "Rect",
    "Text",
    "TextParams",
]

V = TypeVar("V", bound=View)
S = TypeVar("S", bound="_Shape[Any]")
Values = tuple[float, float, float, float]


class FontFamily(IntEnum):
    """The fonts that are always there."""

    Serif = 0
    Sans = 1
    Mono = 2


class ArrowHead(IntEnum):
    """At which end of an arrow the head is."""

    Start = 0
    End = 1
    Both = 2


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


class _Field:
    """A field of a shape, by its name in the view."""

    def __init__(self, name: str, check: Callable[[Any], Any], doc: str) -> None:
        self._name, self._check, self.__doc__ = name, check, doc

    def __get__(self, shape: "_Shape[Any] | None", owner: type) -> Any:
        return self if shape is None else self._read(shape._view)

    def __set__(self, shape: "_Shape[Any]", value: Any) -> None:
        setattr(shape._view, self._name, self._check(value))

    def _read(self, view: View) -> Any:
        return getattr(view, self._name)


class _Flag(_Field):
    """A yes or no, read as 0 or 1."""

    def __init__(self, name: str, doc: str) -> None:
        super().__init__(name, unsigned, doc)

    def _read(self, view: View) -> int:
        return int(getattr(view, self._name))


class _TextField(_Field):
    """A text, read as "" when there is none."""

    def __init__(self, name: str, doc: str) -> None:
        super().__init__(name, text_of, doc)

    def _read(self, view: View) -> str:
        return getattr(view, self._name) or ""


class _ColorField(_Field):
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


class _Shape(Generic[V]):
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


class Rect(_Shape[RectParams]):
    """A rectangle; an object's is also its box."""

    __slots__ = ()
    _kind = RectParams
    _shown = ("left", "top", "width", "height")
    left = _Field("left", real, "Left edge.")
    top = _Field("top", real, "Top edge.")
    width = _Field("width", real, "Width.")
    height = _Field("height", real, "Height.")
    rotation_angle = _Field("rotation_angle", real, "Degrees, clockwise, about the centre.")
    border_width = _Field("border_width", unsigned, "Width of the border; 0 draws none.")
    border_color = _ColorField("border_color", "Colour of the border.")
    has_bg_color = _Flag("has_bg_color", "1 to fill the rectangle.")
    bg_color = _ColorField("bg_color", "Colour of the filling.")


class Font:
    """The font of a text: a reference to the text's own."""

    __slots__ = ("_view",)
    _view: _TextParams

    def __init__(self) -> None:
        raise TypeError("Font: no constructor defined; a Text has a font")

    @classmethod
    def _refer(cls, view: _TextParams) -> "Font":
        font = cls.__new__(cls)
        font._view = view
        return font

    @property
    def name(self) -> str:
        """The name; set with a `FontFamily` or the name of an installed font, which is kept as long as the process."""
        return self._view.font_name or ""

    @name.setter
    def name(self, value: FontFamily | str) -> None:
        self._view.font_name = value.name if isinstance(value, FontFamily) else text_of(value)

    @property
    def size(self) -> int:
        """Size in points."""
        return self._view.font_size

    @size.setter
    def size(self, value: int) -> None:
        self._view.font_size = unsigned(value)

    @property
    def color(self) -> Color:
        """Colour of the letters."""
        return Color._of(self._view.font_color, lambda values: setattr(self._view, "font_color", values))

    @color.setter
    def color(self, value: Color) -> None:
        self._view.font_color = _ColorField._values(value)

    def _assign(self, other: Any) -> None:
        if not isinstance(other, Font):
            raise TypeError(f"an osd.Font is needed, not {type(other).__name__}")
        self._view.font_name = other._view.font_name
        self._view.font_size, self._view.font_color = other._view.font_size, other._view.font_color

    def __repr__(self) -> str:
        return f"Font(name={self.name!r}, size={self.size}, color={self.color!r})"


class _FontField(_Field):
    """The font of a text."""

    def __init__(self, doc: str) -> None:
        super().__init__("", text_of, doc)

    def _read(self, view: View) -> Font:
        assert isinstance(view, _TextParams)
        return Font._refer(view)

    def __set__(self, shape: _Shape[Any], value: Any) -> None:
        Font._refer(shape._view)._assign(value)


class _AnyText(_Shape[_TextParams]):
    """What the two kinds of text share."""

    __slots__ = ()
    _kind = _TextParams
    _shown = ("display_text", "x_offset", "y_offset")
    display_text = _TextField("display_text", "The text; set with str or bytes.")
    x_offset = _Field("x_offset", unsigned, "Left edge.")
    y_offset = _Field("y_offset", unsigned, "Top edge.")

    def _store(self, target: _TextParams) -> None:
        target.display_text = None  # freed by its owner before the struct is copied over it
        super()._store(target)
        cell = target.address + target.provider.layout.offset("NvOSD_TextParams.display_text")
        ctypes.c_size_t.from_address(cell).value = 0
        target.display_text = self._view.display_text

    def __del__(self) -> None:
        if getattr(self, "_memory", None) is not None:
            self._view.display_text = None


class Text(_AnyText):
    """A text for `DisplayMetadata.add_text`, which copies it."""

    __slots__ = ()
    font = _FontField("The font, a reference.")
    set_bg_color = _Flag("set_bg_clr", "1 to give the text a background.")
    bg_color = _ColorField("text_bg_clr", "Colour of the background.")


class TextParams(_AnyText):
    """The text beside an object's box; the same as `Text` under other names."""

    __slots__ = ()
    font_params = _FontField("The font, a reference.")
    set_bg_clr = _Flag("set_bg_clr", "1 to give the text a background.")
    text_bg_clr = _ColorField("text_bg_clr", "Colour of the background.")


class Line(_Shape[LineParams]):
    """A line."""

    __slots__ = ()
    _kind = LineParams
    _shown = ("x1", "y1", "x2", "y2")
    x1 = _Field("x1", unsigned, "Start.")
    y1 = _Field("y1", unsigned, "Start.")
    x2 = _Field("x2", unsigned, "End.")
    y2 = _Field("y2", unsigned, "End.")
    width = _Field("line_width", unsigned, "Width.")
    color = _ColorField("line_color", "Colour.")


class Arrow(_Shape[ArrowParams]):
    """An arrow."""

    __slots__ = ()
    _kind = ArrowParams
    _shown = ("x1", "y1", "x2", "y2", "head")
    x1 = _Field("x1", unsigned, "Start.")
    y1 = _Field("y1", unsigned, "Start.")
    x2 = _Field("x2", unsigned, "End.")
    y2 = _Field("y2", unsigned, "End.")
    width = _Field("arrow_width", unsigned, "Width.")
    color = _ColorField("arrow_color", "Colour.")

    @property
    def head(self) -> ArrowHead:
        """Where the head is."""
        return ArrowHead(self._view.arrow_head)

    @head.setter
    def head(self, value: ArrowHead) -> None:
        self._view.arrow_head = int(ArrowHead(value))


class Circle(_Shape[CircleParams]):
    """A circle."""

    __slots__ = ()
    _kind = CircleParams
    _shown = ("xc", "yc", "radius")
    xc = _Field("xc", unsigned, "Centre.")
    yc = _Field("yc", unsigned, "Centre.")
    radius = _Field("radius", unsigned, "Radius.")
    width = _Field("circle_width", unsigned, "Width of the line.")
    color = _ColorField("circle_color", "Colour of the line.")
    has_bg_color = _Flag("has_bg_color", "1 to fill the circle.")
    bg_color = _ColorField("bg_color", "Colour of the filling.")


class Mask:
    """A mask over an object's box: values in rows, and from which value on a pixel belongs to the object."""

    __slots__ = ("_array", "_threshold", "_view")

    def __init__(self) -> None:
        """Make an empty mask."""
        self._view: ObjectMeta | None = None
        self._threshold = 0.0
        self._array = np.zeros((0, 0), np.float32)

    @classmethod
    def _refer(cls, view: ObjectMeta) -> "Mask":
        mask = cls()
        mask._view = view
        return mask

    @property
    def threshold(self) -> float:
        """From which value on a pixel belongs to the object."""
        return self._threshold if self._view is None else self._view.mask_threshold

    @threshold.setter
    def threshold(self, value: float) -> None:
        if self._view is None:
            self._threshold = real(value)
        else:
            self._view.mask_threshold = real(value)

    @property
    def mask_array(self) -> npt.NDArray[np.float32]:
        """A copy of the values, float32 (height, width), (0, 0) when there is no mask. Setting it copies, too."""
        if self._view is None:
            return self._array.copy()
        mask = self._view.mask
        return np.zeros((0, 0), np.float32) if mask is None else mask

    @mask_array.setter
    def mask_array(self, value: npt.ArrayLike) -> None:
        array = np.array(value, np.float32)
        if array.ndim != 2:
            raise TypeError(f"a mask is an array (height, width), not of shape {array.shape}")
        if self._view is None:
            self._array = array
        else:
            self._view.mask = array

    def __repr__(self) -> str:
        return f"Mask(threshold={self.threshold:g}, shape={self.mask_array.shape})"
