"""What a frame's metadata asks to draw, as an `Overlay`: objects first, then display metas, each in list order.

The frame's own lists are read. (nvdsosd reads the pools of the whole batch, so it also draws objects of other frames.)
"""

import ctypes
import struct
from functools import cache
from typing import Any, NamedTuple

from sluice.contract import infer_meta
from sluice.contract.layout import layout
from sluice.contract.metadata import DisplayMeta, FrameMeta, ObjectMeta
from sluice.drawing.shapes import Arrow, ArrowHead, Circle, ClassMap, Line, Mask, Mosaic, Overlay, Rectangle, Text
from sluice.drawing.skeleton import skeleton
from sluice.errors import ConfigurationError

# nvdsosd's font where none is named.
DEFAULT_FONT = "Serif"

_CODES = {"f4": "f", "f8": "d", "i4": "i", "u4": "I", "i8": "q", "u8": "Q", "ptr": "Q"}
_COLOR = "NvOSD_ColorParams"

_RECTANGLE = ("left", "top", "width", "height", "border_width", "border_color", "has_bg_color", "bg_color",
              "rotation_angle")  # fmt: skip
_TEXT = ("display_text", "x_offset", "y_offset", "font_params.font_name", "font_params.font_size",
         "font_params.font_color", "set_bg_clr", "text_bg_clr")  # fmt: skip
_LINE = ("x1", "y1", "x2", "y2", "line_width", "line_color")
_ARROW = ("x1", "y1", "x2", "y2", "arrow_width", "arrow_head", "arrow_color")
_CIRCLE = ("xc", "yc", "radius", "circle_width", "circle_color", "has_bg_color", "bg_color")


_HEADS = {head.value: head for head in ArrowHead}


class Blur(NamedTuple):
    """Which objects are made unrecognisable: those of a class, of one component or of any; all if none is named."""

    by_mask: bool = False
    component_classes: frozenset[tuple[int, int]] = frozenset()
    classes: frozenset[int] = frozenset()

    def hides(self, item: ObjectMeta) -> bool:
        """Whether an object is to be hidden."""
        if not self.component_classes and not self.classes:
            return True
        return item.class_id in self.classes or (item.unique_component_id, item.class_id) in self.component_classes


@cache
def numbers(name: str, text: str, count: int) -> tuple[tuple[int, ...], ...]:
    """Read "a,b;c,d": groups of `count` whole numbers. Empty groups are left out.

    Raises:
        ConfigurationError: something else is in the property of this name.
    """
    groups = [group.split(",") for group in text.split(";") if group.strip()]
    if any(len(group) != count or not all(part.strip().removeprefix("-").isdecimal() for part in group)
           for group in groups):  # fmt: skip
        example = ";".join([",".join("12"[:count])] * 2)
        raise ConfigurationError(f"{name} is {text!r}; right is {count} number(s) between semicolons, as {example!r}")
    return tuple(tuple(int(part) for part in group) for group in groups)


class Selection(NamedTuple):
    """What to collect; lines, arrows and circles of display metas always are."""

    boxes: bool = True
    texts: bool = True
    masks: bool = False
    keypoints: bool = False
    blur: Blur | None = None
    background_class: int = 0


class _Reader:
    """Reads some fields of one C struct in one go. A colour is four values; unsigned places are read as signed.

    Places left of or above the picture wrap around in the unsigned fields of DeepStream's structs.
    """

    def __init__(self, name: str, fields: tuple[str, ...]) -> None:
        table = layout().struct(name)
        entries = sorted((table.offset(path), index, table.field(path).type) for index, path in enumerate(fields))
        parts, position, slots, place = ["="], 0, [(0, 0)] * len(fields), 0
        for offset, index, kind in entries:
            code = "4d" if kind == _COLOR else _CODES["i4" if kind == "u4" else kind]
            parts.append(f"{offset - position}x{code}")
            position = offset + struct.calcsize(f"={code}")
            width = 4 if kind == _COLOR else 1
            slots[index] = place, place + width
            place += width
        self._struct = struct.Struct("".join(parts))
        self._slots = slots
        self.stride = table.size

    def read(self, address: int) -> list[Any]:
        """The fields in the order they were asked for, colours as tuples."""
        values = self._struct.unpack(ctypes.string_at(address, self._struct.size))
        return [values[first] if last - first == 1 else values[first:last] for first, last in self._slots]


class _Readers(NamedTuple):
    rectangle: _Reader
    text: _Reader
    line: _Reader
    arrow: _Reader
    circle: _Reader
    object_rectangle: int
    object_text: int


@cache
def _readers() -> _Readers:
    return _Readers(
        _Reader("NvOSD_RectParams", _RECTANGLE),
        _Reader("NvOSD_TextParams", _TEXT),
        _Reader("NvOSD_LineParams", _LINE),
        _Reader("NvOSD_ArrowParams", _ARROW),
        _Reader("NvOSD_CircleParams", _CIRCLE),
        layout().offset("NvDsObjectMeta.rect_params"),
        layout().offset("NvDsObjectMeta.text_params"),
    )


def collect(frame: FrameMeta, selection: Selection) -> Overlay:
    """Read what is to be drawn on a frame, in pixels of its surface.

    Raises:
        StaleBufferError: the frame's lease has ended.
    """
    overlay = Overlay()
    readers = _readers()
    if selection.masks and frame.user_metas:
        overlay.class_maps += _class_maps(frame, None, selection.background_class)
    for item in frame.objects:
        address = item.address
        if selection.blur is not None and selection.blur.hides(item):
            overlay.mosaics.append(_mosaic(item, selection.blur))
        if selection.boxes:
            overlay.rectangles.append(_rectangle(readers.rectangle.read(address + readers.object_rectangle)))
        if selection.masks:
            mask = item.mask
            if mask is not None:
                overlay.masks.append(Mask(mask, item.mask_threshold, *item.box, item.rect.border_color))
            if item.user_metas:
                overlay.class_maps += _class_maps(item, item.box, selection.background_class)
        if selection.texts:
            _add_text(overlay, readers.text.read(address + readers.object_text))
        if selection.keypoints and item.user_metas:
            for found in infer_meta.keypoints(item):
                overlay.skeletons.append(skeleton(found.points, item.rect.border_color))
    for display in frame.display_metas:
        _collect_display(overlay, display, selection)
    return overlay


def _class_maps(
    owner: FrameMeta | ObjectMeta, box: tuple[float, float, float, float] | None, background: int
) -> list[ClassMap]:
    found = infer_meta.segmentations(owner, probabilities=False)
    return [ClassMap(one.class_map, box, background) for one in found]


def _mosaic(item: ObjectMeta, blur: Blur) -> Mosaic:
    mask = item.mask if blur.by_mask else None
    return Mosaic(*item.box, item.rotation, mask, item.mask_threshold)


def _collect_display(overlay: Overlay, display: DisplayMeta, selection: Selection) -> None:
    readers = _readers()
    if selection.boxes:
        overlay.rectangles += (_rectangle(fields) for fields in _read(display.rects, readers.rectangle))
    if selection.texts:
        for fields in _read(display.texts, readers.text):
            _add_text(overlay, fields)
    overlay.lines += (Line(*fields) for fields in _read(display.lines, readers.line))
    for x1, y1, x2, y2, width, head, color in _read(display.arrows, readers.arrow):
        overlay.arrows.append(Arrow(x1, y1, x2, y2, width, _HEADS.get(head, ArrowHead.END), color))
    for x, y, radius, width, color, has_background, background in _read(display.circles, readers.circle):
        overlay.circles.append(Circle(x, y, radius, width, color, background if has_background else None))


def _read(views: "list[Any]", reader: _Reader) -> list[list[Any]]:
    return [reader.read(view.address) for view in views]


def _rectangle(fields: list[Any]) -> Rectangle:
    left, top, width, height, border_width, border_color, has_background, background, angle = fields
    filling = background if has_background else None
    return Rectangle(left, top, width, height, border_width, border_color, filling, angle)


def _add_text(overlay: Overlay, fields: list[Any]) -> None:
    text, x, y, font, size, color, has_background, background = fields
    if text:
        name = _string(font) if font else DEFAULT_FONT
        overlay.texts.append(Text(_string(text), x, y, name, size, color, background if has_background else None))


def _string(address: int) -> str:
    return ctypes.string_at(address).decode("utf-8", "replace")
