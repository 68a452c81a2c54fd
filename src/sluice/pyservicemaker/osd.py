"""What can be drawn: boxes, texts, lines, arrows, circles, masks, and their colours and fonts.

An object made here is a C struct of its own; one got from metadata (``object_meta.rect_params``) is a reference, and
setting its fields changes the metadata. Sizes and places are in pixels of the surface, colours 0 to 1. Unsigned fields
refuse floats and negative numbers with ``TypeError``, as in NVIDIA's package.
"""

import ctypes
from enum import IntEnum
from typing import Any

import numpy as np
import numpy.typing as npt

from sluice.contract.metadata import (
    ArrowParams,
    CircleParams,
    LineParams,
    ObjectMeta,
    RectParams,
    View,
)
from sluice.contract.metadata import (
    TextParams as _TextParams,
)
from sluice.pyservicemaker.shapes import Color, ColorField, Field, Flag, Shape, TextField, real, text_of, unsigned

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


class Rect(Shape[RectParams]):
    """A rectangle; an object's is also its box."""

    __slots__ = ()
    _kind = RectParams
    _shown = ("left", "top", "width", "height")
    left = Field("left", real, "Left edge.")
    top = Field("top", real, "Top edge.")
    width = Field("width", real, "Width.")
    height = Field("height", real, "Height.")
    rotation_angle = Field("rotation_angle", real, "Degrees, clockwise, about the centre.")
    border_width = Field("border_width", unsigned, "Width of the border; 0 draws none.")
    border_color = ColorField("border_color", "Colour of the border.")
    has_bg_color = Flag("has_bg_color", "1 to fill the rectangle.")
    bg_color = ColorField("bg_color", "Colour of the filling.")


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
        self._view.font_color = ColorField._values(value)

    def _assign(self, other: Any) -> None:
        if not isinstance(other, Font):
            raise TypeError(f"an osd.Font is needed, not {type(other).__name__}")
        self._view.font_name = other._view.font_name
        self._view.font_size, self._view.font_color = other._view.font_size, other._view.font_color

    def __repr__(self) -> str:
        return f"Font(name={self.name!r}, size={self.size}, color={self.color!r})"


class _FontField(Field):
    """The font of a text."""

    def __init__(self, doc: str) -> None:
        super().__init__("", text_of, doc)

    def _read(self, view: View) -> Font:
        assert isinstance(view, _TextParams)
        return Font._refer(view)

    def __set__(self, shape: Shape[Any], value: Any) -> None:
        Font._refer(shape._view)._assign(value)


class _AnyText(Shape[_TextParams]):
    """What the two kinds of text share."""

    __slots__ = ()
    _kind = _TextParams
    _shown = ("display_text", "x_offset", "y_offset")
    display_text = TextField("display_text", "The text; set with str or bytes.")
    x_offset = Field("x_offset", unsigned, "Left edge.")
    y_offset = Field("y_offset", unsigned, "Top edge.")

    def _store(self, target: _TextParams) -> None:
        text = self._view.display_text  # read before: the target may be this very struct
        target.display_text = None  # freed by its owner before the struct is copied over it
        super()._store(target)
        cell = target.address + target.provider.layout.offset("NvOSD_TextParams.display_text")
        ctypes.c_size_t.from_address(cell).value = 0
        target.display_text = text

    def __del__(self) -> None:
        if getattr(self, "_memory", None) is not None:
            self._view.display_text = None


class Text(_AnyText):
    """A text for `DisplayMetadata.add_text`, which copies it."""

    __slots__ = ()
    font = _FontField("The font, a reference.")
    set_bg_color = Flag("set_bg_clr", "1 to give the text a background.")
    bg_color = ColorField("text_bg_clr", "Colour of the background.")


class TextParams(_AnyText):
    """The text beside an object's box; the same as `Text` under other names."""

    __slots__ = ()
    font_params = _FontField("The font, a reference.")
    set_bg_clr = Flag("set_bg_clr", "1 to give the text a background.")
    text_bg_clr = ColorField("text_bg_clr", "Colour of the background.")


class Line(Shape[LineParams]):
    """A line."""

    __slots__ = ()
    _kind = LineParams
    _shown = ("x1", "y1", "x2", "y2")
    x1 = Field("x1", unsigned, "Start.")
    y1 = Field("y1", unsigned, "Start.")
    x2 = Field("x2", unsigned, "End.")
    y2 = Field("y2", unsigned, "End.")
    width = Field("line_width", unsigned, "Width.")
    color = ColorField("line_color", "Colour.")


class Arrow(Shape[ArrowParams]):
    """An arrow."""

    __slots__ = ()
    _kind = ArrowParams
    _shown = ("x1", "y1", "x2", "y2", "head")
    x1 = Field("x1", unsigned, "Start.")
    y1 = Field("y1", unsigned, "Start.")
    x2 = Field("x2", unsigned, "End.")
    y2 = Field("y2", unsigned, "End.")
    width = Field("arrow_width", unsigned, "Width.")
    color = ColorField("arrow_color", "Colour.")

    @property
    def head(self) -> ArrowHead:
        """Where the head is."""
        return ArrowHead(self._view.arrow_head)

    @head.setter
    def head(self, value: ArrowHead) -> None:
        self._view.arrow_head = int(ArrowHead(value))


class Circle(Shape[CircleParams]):
    """A circle."""

    __slots__ = ()
    _kind = CircleParams
    _shown = ("xc", "yc", "radius")
    xc = Field("xc", unsigned, "Centre.")
    yc = Field("yc", unsigned, "Centre.")
    radius = Field("radius", unsigned, "Radius.")
    width = Field("circle_width", unsigned, "Width of the line.")
    color = ColorField("circle_color", "Colour of the line.")
    has_bg_color = Flag("has_bg_color", "1 to fill the circle.")
    bg_color = ColorField("bg_color", "Colour of the filling.")


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
