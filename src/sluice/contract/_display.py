"""Views of what is drawn: rectangles, texts, lines, arrows, circles, and the display meta that holds them."""

import ctypes

from sluice.contract._views import Floats, Text, V, View, bool_field, float_field, int_field


class RectParams(View):
    """A rectangle to draw; an object's is also its box."""

    __slots__ = ()
    struct = "NvOSD_RectParams"
    box = Floats("left", ctypes.c_float, "Left, top, width, height in pixels.")
    left = float_field("left", "Left edge in pixels.")
    top = float_field("top", "Top edge in pixels.")
    width = float_field("width", "Width in pixels.")
    height = float_field("height", "Height in pixels.")
    border_width = int_field("border_width", "Width of the border in pixels; 0 draws none.")
    border_color = Floats("border_color", ctypes.c_double, "Red, green, blue, alpha, 0 to 1.")
    has_bg_color = bool_field("has_bg_color", "Whether the box is filled.")
    bg_color = Floats("bg_color", ctypes.c_double, "Red, green, blue, alpha of the fill, 0 to 1.")
    rotation_angle = float_field("rotation_angle", "Degrees, clockwise, about the box's centre.")


class TextParams(View):
    """A text to draw."""

    __slots__ = ()
    struct = "NvOSD_TextParams"
    display_text = Text("display_text", True, "The text, or None.")
    x_offset = int_field("x_offset", "Left edge in pixels.")
    y_offset = int_field("y_offset", "Top edge in pixels.")
    font_name = Text("font_params.font_name", False, "Name of the font; kept for the life of the process.")
    font_size = int_field("font_params.font_size", "Size of the font in points.")
    font_color = Floats("font_params.font_color", ctypes.c_double, "Red, green, blue, alpha, 0 to 1.")
    set_bg_clr = bool_field("set_bg_clr", "Whether the text has a background.")
    text_bg_clr = Floats("text_bg_clr", ctypes.c_double, "Red, green, blue, alpha of the background, 0 to 1.")


class LineParams(View):
    """A line to draw."""

    __slots__ = ()
    struct = "NvOSD_LineParams"
    x1 = int_field("x1", "Start, pixels.")
    y1 = int_field("y1", "Start, pixels.")
    x2 = int_field("x2", "End, pixels.")
    y2 = int_field("y2", "End, pixels.")
    line_width = int_field("line_width", "Width in pixels.")
    line_color = Floats("line_color", ctypes.c_double, "Red, green, blue, alpha, 0 to 1.")


class ArrowParams(View):
    """An arrow to draw."""

    __slots__ = ()
    struct = "NvOSD_ArrowParams"
    x1 = int_field("x1", "Start, pixels.")
    y1 = int_field("y1", "Start, pixels.")
    x2 = int_field("x2", "End, pixels.")
    y2 = int_field("y2", "End, pixels.")
    arrow_width = int_field("arrow_width", "Width in pixels.")
    arrow_head = int_field("arrow_head", "0 head at the start, 1 at the end, 2 at both.")
    arrow_color = Floats("arrow_color", ctypes.c_double, "Red, green, blue, alpha, 0 to 1.")


class CircleParams(View):
    """A circle to draw."""

    __slots__ = ()
    struct = "NvOSD_CircleParams"
    xc = int_field("xc", "Centre, pixels.")
    yc = int_field("yc", "Centre, pixels.")
    radius = int_field("radius", "Radius in pixels.")
    circle_width = int_field("circle_width", "Width of the line in pixels.")
    circle_color = Floats("circle_color", ctypes.c_double, "Red, green, blue, alpha, 0 to 1.")
    has_bg_color = bool_field("has_bg_color", "Whether the circle is filled.")
    bg_color = Floats("bg_color", ctypes.c_double, "Red, green, blue, alpha of the fill, 0 to 1.")


class DisplayMeta(View):
    """Up to 16 rectangles, texts, lines, arrows and circles to draw on a frame, whatever the objects are."""

    __slots__ = ()
    struct = "NvDsDisplayMeta"
    num_rects = int_field("num_rects", "Rectangles in use.")
    num_labels = int_field("num_labels", "Texts in use.")
    num_lines = int_field("num_lines", "Lines in use.")
    num_arrows = int_field("num_arrows", "Arrows in use.")
    num_circles = int_field("num_circles", "Circles in use.")

    @property
    def rects(self) -> list[RectParams]:
        """The rectangles in use."""
        return self._slots("rect_params", self.num_rects, RectParams)

    @property
    def texts(self) -> list[TextParams]:
        """The texts in use."""
        return self._slots("text_params", self.num_labels, TextParams)

    @property
    def lines(self) -> list[LineParams]:
        """The lines in use."""
        return self._slots("line_params", self.num_lines, LineParams)

    @property
    def arrows(self) -> list[ArrowParams]:
        """The arrows in use."""
        return self._slots("arrow_params", self.num_arrows, ArrowParams)

    @property
    def circles(self) -> list[CircleParams]:
        """The circles in use."""
        return self._slots("circle_params", self.num_circles, CircleParams)

    def _slots(self, path: str, count: int, kind: type[V]) -> list[V]:
        size = self._provider.layout.struct(kind.struct).size
        limit = self._provider.layout.struct(self.struct).field(path).count
        start = self._field(path)
        return [kind(start + i * size, self._lease, self._provider) for i in range(min(count, limit))]
