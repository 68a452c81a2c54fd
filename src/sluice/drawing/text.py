"""Glyphs by Pango and Cairo, which nvdsosd draws with too: every script, in its direction, with fallback fonts.

The C libraries are called directly. They come with GStreamer's own plugins, so nothing else needs to be installed, and
the GIL is free while they work. Pango keeps one font map per thread, so any thread may call.
"""

import ctypes
import threading
import weakref
from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt

from sluice.errors import ConfigurationError

MAX_CHARACTERS = 1024
"""Longer texts are cut here: nobody can read more in a picture."""

MAX_SIDE = 4096
"""The largest side of a rendered text in pixels; the rest is cut off."""

_CAIRO_FORMAT_A8 = 2
_PANGO_SCALE = 1024  # Pango's units in a pixel
_WRAP_WORD_CHAR = 2
_ELLIPSIZE_NONE, _ELLIPSIZE_END = 0, 3

# name: (result, arguments). All objects are plain addresses.
_SIGNATURES: dict[str, dict[str, tuple[Any, list[Any]]]] = {
    "libcairo.so.2": {
        "cairo_image_surface_create": (ctypes.c_void_p, [ctypes.c_int] * 3),
        "cairo_image_surface_get_data": (ctypes.c_void_p, [ctypes.c_void_p]),
        "cairo_image_surface_get_stride": (ctypes.c_int, [ctypes.c_void_p]),
        "cairo_surface_flush": (None, [ctypes.c_void_p]),
        "cairo_surface_destroy": (None, [ctypes.c_void_p]),
        "cairo_create": (ctypes.c_void_p, [ctypes.c_void_p]),
        "cairo_destroy": (None, [ctypes.c_void_p]),
    },
    "libpango-1.0.so.0": {
        "pango_font_description_from_string": (ctypes.c_void_p, [ctypes.c_char_p]),
        "pango_font_description_free": (None, [ctypes.c_void_p]),
        "pango_layout_set_font_description": (None, [ctypes.c_void_p] * 2),
        "pango_layout_set_text": (None, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int]),
        "pango_layout_set_width": (None, [ctypes.c_void_p, ctypes.c_int]),
        "pango_layout_set_height": (None, [ctypes.c_void_p, ctypes.c_int]),
        "pango_layout_set_wrap": (None, [ctypes.c_void_p, ctypes.c_int]),
        "pango_layout_set_ellipsize": (None, [ctypes.c_void_p, ctypes.c_int]),
        "pango_layout_get_pixel_size": (
            None,
            [ctypes.c_void_p, ctypes.POINTER(ctypes.c_int), ctypes.POINTER(ctypes.c_int)],
        ),
    },
    "libpangocairo-1.0.so.0": {
        "pango_cairo_create_layout": (ctypes.c_void_p, [ctypes.c_void_p]),
        "pango_cairo_show_layout": (None, [ctypes.c_void_p] * 2),
    },
    "libgobject-2.0.so.0": {"g_object_unref": (None, [ctypes.c_void_p])},
}


@cache
def _library() -> SimpleNamespace:
    """The functions of `_SIGNATURES`, as attributes."""
    namespace = SimpleNamespace()
    for file, functions in _SIGNATURES.items():
        try:
            library = ctypes.CDLL(file)
        except OSError as error:
            raise ConfigurationError(
                f"texts are drawn with Pango, but {file} cannot be loaded ({error}); "
                "on Debian: apt-get install libpangocairo-1.0-0"
            ) from error
        for name, (result, arguments) in functions.items():
            function = getattr(library, name)
            function.restype, function.argtypes = result, arguments
            setattr(namespace, name, function)
    return namespace


class _Typesetter:
    """A layout that one thread sets one text after the other in."""

    def __init__(self) -> None:
        library = self._library = _library()
        surface = library.cairo_image_surface_create(_CAIRO_FORMAT_A8, 1, 1)
        context = library.cairo_create(surface)
        self._layout = library.pango_cairo_create_layout(context)
        self._set: tuple[str, int, tuple[int, int] | None] | None = None
        library.cairo_destroy(context)
        library.cairo_surface_destroy(surface)
        weakref.finalize(self, library.g_object_unref, self._layout).atexit = False

    def set(self, text: str, font: str, size: int, fit: tuple[int, int] | None) -> npt.NDArray[np.uint8]:
        """See `render`."""
        library, layout = self._library, self._layout
        if self._set != (font, size, fit):
            self._prepare(font, size, fit)
        content = _encode(text[:MAX_CHARACTERS])
        library.pango_layout_set_text(layout, content, len(content))
        width, height = ctypes.c_int(), ctypes.c_int()
        library.pango_layout_get_pixel_size(layout, ctypes.byref(width), ctypes.byref(height))
        return _paint(library, layout, min(max(width.value, 0), MAX_SIDE), min(max(height.value, 0), MAX_SIDE))

    def _prepare(self, font: str, size: int, fit: tuple[int, int] | None) -> None:
        library, layout = self._library, self._layout
        description = library.pango_font_description_from_string(_encode(font) + b" %d" % size)
        library.pango_layout_set_font_description(layout, description)
        library.pango_font_description_free(description)
        limits = (-1, -1) if fit is None else (min(max(side, 1), MAX_SIDE) * _PANGO_SCALE for side in fit)
        width_limit, height_limit = limits
        library.pango_layout_set_width(layout, width_limit)
        library.pango_layout_set_height(layout, height_limit)
        library.pango_layout_set_wrap(layout, _WRAP_WORD_CHAR)
        library.pango_layout_set_ellipsize(layout, _ELLIPSIZE_NONE if fit is None else _ELLIPSIZE_END)
        self._set = font, size, fit


_of_thread = threading.local()


def render(text: str, font: str, size: int, fit: tuple[int, int] | None = None) -> npt.NDArray[np.uint8]:
    """Draw a text: uint8 [height, width] of coverage, 255 where a glyph covers the pixel, as large as its layout.

    `font` is a family as Pango knows it ("Serif", "DejaVu Sans Bold"); `size` is in points at 96 dpi. Characters that
    no installed font has are drawn as boxes with their code. An empty text is one line high and has no width.

    With `fit`, a width and a height in pixels, lines are wrapped to the width, between words where there is room, and
    what does not fit into the height is cut with an ellipsis (the first line always stays).
    """
    typesetter: _Typesetter | None = getattr(_of_thread, "typesetter", None)
    if typesetter is None:
        typesetter = _of_thread.typesetter = _Typesetter()
    return typesetter.set(text, font, size, fit)


def _encode(text: str) -> bytes:
    """UTF-8 without the NUL that would end it; what cannot be encoded, such as half a surrogate pair, becomes "?"."""
    return text.replace("\0", "").encode("utf-8", "replace")


def _paint(library: SimpleNamespace, layout: int, width: int, height: int) -> npt.NDArray[np.uint8]:
    """The coverage of a layout on a surface of this size, which may be empty."""
    if not width or not height:
        return np.zeros((height, width), np.uint8)
    surface = library.cairo_image_surface_create(_CAIRO_FORMAT_A8, width, height)
    context = library.cairo_create(surface)
    library.pango_cairo_show_layout(context, layout)
    library.cairo_surface_flush(surface)
    stride = library.cairo_image_surface_get_stride(surface)
    raw = ctypes.string_at(library.cairo_image_surface_get_data(surface), stride * height)
    library.cairo_destroy(context)
    library.cairo_surface_destroy(surface)
    return np.frombuffer(raw, np.uint8).reshape(height, stride)[:, :width]
