"""Views of the metadata on a buffer: batch, frames, objects, classifier results, display elements.

A view reads and writes the C structs in place, through the provider's layout. It is good as long as its `Lease`:
elements end the lease when their work on the buffer is over, and a later use raises ``StaleBufferError``. A view that
was made without a lease keeps the buffer alive itself.

Boxes are left, top, width, height in pixels of the surface the frame points to.
"""

import ctypes
import functools
import math
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, Generic, TypeVar, overload

import gi
import numpy as np
import numpy.typing as npt

gi.require_version("Gst", "1.0")
from gi.repository import Gst

from sluice.contract.layout import layout
from sluice.contract.provider import Provider, interned, provider
from sluice.errors import ContractError, StaleBufferError

Box = tuple[float, float, float, float]
Color = tuple[float, float, float, float]

UNTRACKED = 0xFFFF_FFFF_FFFF_FFFF
MAX_LABEL_BYTES = 127

_glib = ctypes.CDLL("libglib-2.0.so.0")
_glib.g_free.restype, _glib.g_free.argtypes = None, [ctypes.c_void_p]
_glib.g_malloc.restype, _glib.g_malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
_glib.g_strdup.restype, _glib.g_strdup.argtypes = ctypes.c_void_p, [ctypes.c_char_p]

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


def cut_label(text: str, limit: int = MAX_LABEL_BYTES) -> bytes:
    """Encode a label as UTF-8, cut to at most `limit` bytes between two characters, and at a NUL."""
    encoded = text.encode("utf-8", "replace").partition(b"\0")[0]
    if len(encoded) <= limit:
        return encoded
    return encoded[:limit].decode("utf-8", "ignore").encode()


@functools.cache
def _offset(struct: str, path: str) -> int:
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
        return self._address + _offset(self.struct, path)

    def _list(self, path: str) -> Iterator[int]:
        """Yield the data of a GList field."""
        link = ctypes.c_size_t.from_address(self._field(path)).value
        while link:
            data, link = (ctypes.c_size_t * 2).from_address(link)
            yield data

    def _views(self, path: str, kind: type[V]) -> list[V]:
        return [kind(element, self._lease, self._provider) for element in self._list(path)]


class _Number(Generic[T]):
    """A number field at a dotted path of the view's struct."""

    def __init__(self, path: str, kind: Callable[[Any], T], doc: str) -> None:
        self.path, self.kind, self.__doc__ = path, kind, doc
        self._offset = -1
        self._limits = (0, 0)
        self._ctype: Any = None

    @overload
    def __get__(self, view: None, owner: type[View]) -> "_Number[T]": ...
    @overload
    def __get__(self, view: View, owner: type[View]) -> T: ...
    def __get__(self, view: View | None, owner: type[View]) -> "T | _Number[T]":
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
            self._offset = _offset(view.struct, self.path)
            self._ctype = ctype
        return self._ctype.from_address(view._address + self._offset)


def _int(path: str, doc: str) -> _Number[int]:
    return _Number(path, int, doc)


def _float(path: str, doc: str) -> _Number[float]:
    return _Number(path, float, doc)


def _bool(path: str, doc: str) -> _Number[bool]:
    return _Number(path, bool, doc)


class _Floats:
    """Four numbers in a row: a box (``f4``) or a colour (``f8``), as a tuple."""

    def __init__(self, path: str, ctype: type[ctypes.c_float] | type[ctypes.c_double], doc: str) -> None:
        self.path, self.array, self.__doc__ = path, ctype * 4, doc

    @overload
    def __get__(self, view: None, owner: type[View]) -> "_Floats": ...
    @overload
    def __get__(self, view: View, owner: type[View]) -> Box: ...
    def __get__(self, view: View | None, owner: type[View]) -> "Box | _Floats":
        if view is None:
            return self
        a, b, c, d = self.array.from_address(view._field(self.path))
        return (a, b, c, d)

    def __set__(self, view: View, value: Box) -> None:
        numbers = [float(number) for number in value]
        if len(numbers) != 4 or not all(map(math.isfinite, numbers)):
            raise ContractError(f"{view.struct}.{self.path} needs four finite numbers, not {value!r}")
        self.array.from_address(view._field(self.path))[:] = numbers


class _Misc:
    """The four 64-bit numbers that every kind of meta leaves to its users, as a tuple."""

    def __init__(self, path: str) -> None:
        self.path, self.__doc__ = path, f"The four numbers of ``{path}``, free for users."

    @overload
    def __get__(self, view: None, owner: type[View]) -> "_Misc": ...
    @overload
    def __get__(self, view: View, owner: type[View]) -> tuple[int, ...]: ...
    def __get__(self, view: View | None, owner: type[View]) -> "tuple[int, ...] | _Misc":
        if view is None:
            return self
        return tuple((ctypes.c_int64 * 4).from_address(view._field(self.path)))

    def __set__(self, view: View, value: tuple[int, ...]) -> None:
        if len(value) != 4:
            raise ContractError(f"{view.struct}.{self.path} holds 4 numbers, not {len(value)}")
        (ctypes.c_int64 * 4).from_address(view._field(self.path))[:] = list(value)


class _Label:
    """A ``char[128]`` field as text, cut at 127 bytes between two characters."""

    def __init__(self, path: str, doc: str) -> None:
        self.path, self.__doc__ = path, doc

    @overload
    def __get__(self, view: None, owner: type[View]) -> "_Label": ...
    @overload
    def __get__(self, view: View, owner: type[View]) -> str: ...
    def __get__(self, view: View | None, owner: type[View]) -> "str | _Label":
        if view is None:
            return self
        text = (ctypes.c_char * (MAX_LABEL_BYTES + 1)).from_address(view._field(self.path)).value
        return text.decode("utf-8", "replace")

    def __set__(self, view: View, value: str) -> None:
        encoded = cut_label(value)
        ctypes.memmove(view._field(self.path), encoded + b"\0", len(encoded) + 1)


class _Text:
    """A ``char *`` field: owned by the element (allocated with GLib, freed when replaced), or interned for ever."""

    def __init__(self, path: str, owned: bool, doc: str) -> None:
        self.path, self.owned, self.__doc__ = path, owned, doc

    @overload
    def __get__(self, view: None, owner: type[View]) -> "_Text": ...
    @overload
    def __get__(self, view: View, owner: type[View]) -> str | None: ...
    def __get__(self, view: View | None, owner: type[View]) -> "str | _Text | None":
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
        cell.value = 0 if value is None else _glib.g_strdup(value.encode("utf-8", "replace"))
        _glib.g_free(old)


class UserMeta(View):
    """User data on a batch, frame or object; ``sluice.contract.user_meta`` makes and reads those of Sluice."""

    __slots__ = ()
    struct = "NvDsUserMeta"
    meta_type = _int("base_meta.meta_type", "What the data is: an NvDsMetaType or a number of user_meta_type().")
    context = _int("base_meta.uContext", "The uContext pointer.")
    copy_func = _int("base_meta.copy_func", "Address of the function that copies the data.")
    release_func = _int("base_meta.release_func", "Address of the function that releases the data.")
    data = _int("user_meta_data", "Address of the data.")


class LabelInfo(View):
    """One attribute of a classifier result."""

    __slots__ = ()
    struct = "NvDsLabelInfo"
    num_classes = _int("num_classes", "Number of classes of the classifier.")
    label = _Label("result_label", "The label, at most 127 bytes.")
    long_label = _Text("pResult_label", True, "The label when it is longer than that; usually None.")
    class_id = _int("result_class_id", "Index of the class.")
    label_id = _int("label_id", "Index of the attribute.")
    probability = _float("result_prob", "Probability, 0 to 1.")


class ClassifierMeta(View):
    """One classifier's result on an object."""

    __slots__ = ()
    struct = "NvDsClassifierMeta"
    num_labels = _int("num_labels", "Number of labels, kept by the library.")
    unique_component_id = _int("unique_component_id", "Which component made it.")
    classifier_type = _Text("classifier_type", False, "Name of the classifier; lost when the batch is copied.")

    @property
    def labels(self) -> list[LabelInfo]:
        """The labels in list order, the last added first."""
        return self._views("label_info_list", LabelInfo)

    def add_label(
        self, label: str, *, class_id: int = 0, label_id: int = 0, probability: float = 1.0, num_classes: int = 0
    ) -> LabelInfo:
        """Acquire a label, fill it and add it at the front."""
        batch = _batch_address(self)
        info = LabelInfo(self._provider.acquire_label(batch), self._lease, self._provider)
        try:
            info.label, info.class_id, info.label_id = label, class_id, label_id
            info.probability, info.num_classes = probability, num_classes
        finally:
            self._provider.add_label(self._address, info.address)
        return info


class RectParams(View):
    """A rectangle to draw; an object's is also its box."""

    __slots__ = ()
    struct = "NvOSD_RectParams"
    box = _Floats("left", ctypes.c_float, "Left, top, width, height in pixels.")
    left = _float("left", "Left edge in pixels.")
    top = _float("top", "Top edge in pixels.")
    width = _float("width", "Width in pixels.")
    height = _float("height", "Height in pixels.")
    border_width = _int("border_width", "Width of the border in pixels; 0 draws none.")
    border_color = _Floats("border_color", ctypes.c_double, "Red, green, blue, alpha, 0 to 1.")
    has_bg_color = _bool("has_bg_color", "Whether the box is filled.")
    bg_color = _Floats("bg_color", ctypes.c_double, "Red, green, blue, alpha of the fill, 0 to 1.")
    rotation_angle = _float("rotation_angle", "Degrees, clockwise, about the box's centre.")


class TextParams(View):
    """A text to draw."""

    __slots__ = ()
    struct = "NvOSD_TextParams"
    display_text = _Text("display_text", True, "The text, or None.")
    x_offset = _int("x_offset", "Left edge in pixels.")
    y_offset = _int("y_offset", "Top edge in pixels.")
    font_name = _Text("font_params.font_name", False, "Name of the font; kept for the life of the process.")
    font_size = _int("font_params.font_size", "Size of the font in points.")
    font_color = _Floats("font_params.font_color", ctypes.c_double, "Red, green, blue, alpha, 0 to 1.")
    set_bg_clr = _bool("set_bg_clr", "Whether the text has a background.")
    text_bg_clr = _Floats("text_bg_clr", ctypes.c_double, "Red, green, blue, alpha of the background, 0 to 1.")


class LineParams(View):
    """A line to draw."""

    __slots__ = ()
    struct = "NvOSD_LineParams"
    x1 = _int("x1", "Start, pixels.")
    y1 = _int("y1", "Start, pixels.")
    x2 = _int("x2", "End, pixels.")
    y2 = _int("y2", "End, pixels.")
    line_width = _int("line_width", "Width in pixels.")
    line_color = _Floats("line_color", ctypes.c_double, "Red, green, blue, alpha, 0 to 1.")


class ArrowParams(View):
    """An arrow to draw."""

    __slots__ = ()
    struct = "NvOSD_ArrowParams"
    x1 = _int("x1", "Start, pixels.")
    y1 = _int("y1", "Start, pixels.")
    x2 = _int("x2", "End, pixels.")
    y2 = _int("y2", "End, pixels.")
    arrow_width = _int("arrow_width", "Width in pixels.")
    arrow_head = _int("arrow_head", "0 head at the start, 1 at the end, 2 at both.")
    arrow_color = _Floats("arrow_color", ctypes.c_double, "Red, green, blue, alpha, 0 to 1.")


class CircleParams(View):
    """A circle to draw."""

    __slots__ = ()
    struct = "NvOSD_CircleParams"
    xc = _int("xc", "Centre, pixels.")
    yc = _int("yc", "Centre, pixels.")
    radius = _int("radius", "Radius in pixels.")
    circle_width = _int("circle_width", "Width of the line in pixels.")
    circle_color = _Floats("circle_color", ctypes.c_double, "Red, green, blue, alpha, 0 to 1.")
    has_bg_color = _bool("has_bg_color", "Whether the circle is filled.")
    bg_color = _Floats("bg_color", ctypes.c_double, "Red, green, blue, alpha of the fill, 0 to 1.")


class DisplayMeta(View):
    """Up to 16 rectangles, texts, lines, arrows and circles to draw on a frame, whatever the objects are."""

    __slots__ = ()
    struct = "NvDsDisplayMeta"
    num_rects = _int("num_rects", "Rectangles in use.")
    num_labels = _int("num_labels", "Texts in use.")
    num_lines = _int("num_lines", "Lines in use.")
    num_arrows = _int("num_arrows", "Arrows in use.")
    num_circles = _int("num_circles", "Circles in use.")

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


class ObjectMeta(View):
    """One object on a frame."""

    __slots__ = ()
    struct = "NvDsObjectMeta"
    unique_component_id = _int("unique_component_id", "Which component made it.")
    class_id = _int("class_id", "Index of the class; -1 for a whole-frame classifier's object.")
    object_id = _int("object_id", "The tracker's id, or UNTRACKED.")
    confidence = _float("confidence", "The detector's confidence; -0.1 when there was no detection.")
    tracker_confidence = _float("tracker_confidence", "The tracker's confidence.")
    box = _Floats("rect_params.left", ctypes.c_float, "Left, top, width, height in surface pixels: the box to use.")
    rotation = _float("rect_params.rotation_angle", "Degrees, clockwise, about the box's centre.")
    detector_box = _Floats("detector_bbox_info", ctypes.c_float, "The detector's box, not clipped.")
    tracker_box = _Floats("tracker_bbox_info", ctypes.c_float, "The tracker's box, not clipped.")
    label = _Label("obj_label", "The label, at most 127 bytes.")
    misc = _Misc("misc_obj_info")
    mask_threshold = _float("mask_params.threshold", "From which value on a mask pixel belongs to the object.")

    @property
    def rect(self) -> RectParams:
        """How the box is drawn."""
        return RectParams(self._field("rect_params"), self._lease, self._provider)

    @property
    def text(self) -> TextParams:
        """The text drawn beside the box."""
        return TextParams(self._field("text_params"), self._lease, self._provider)

    @property
    def parent(self) -> "ObjectMeta | None":
        """The object this one was found in."""
        parent = ctypes.c_size_t.from_address(self._field("parent")).value
        return ObjectMeta(parent, self._lease, self._provider) if parent else None

    @parent.setter
    def parent(self, value: "ObjectMeta | None") -> None:
        ctypes.c_size_t.from_address(self._field("parent")).value = value.address if value else 0

    @property
    def mask(self) -> npt.NDArray[np.float32] | None:
        """A copy of the mask, float32 ``(height, width)`` over the box, or None. Setting it copies, None frees."""
        data = ctypes.c_size_t.from_address(self._field("mask_params.data")).value
        width, height, size = (
            ctypes.c_uint32.from_address(self._field(f"mask_params.{name}")).value
            for name in ("width", "height", "size")
        )
        if not data or size != width * height * 4 or not size:
            return None
        return np.frombuffer(ctypes.string_at(data, size), np.float32).reshape(height, width).copy()

    @mask.setter
    def mask(self, value: npt.ArrayLike | None) -> None:
        mask = np.zeros((0, 0), np.float32) if value is None else np.ascontiguousarray(value, np.float32)
        if mask.ndim != 2 or not np.isfinite(mask).all():
            raise ContractError(f"a mask is a finite array (height, width), not of shape {mask.shape}")
        block = 0
        if mask.size:
            block = _glib.g_malloc(mask.nbytes)
            ctypes.memmove(block, mask.tobytes(), mask.nbytes)
        cell = ctypes.c_size_t.from_address(self._field("mask_params.data"))
        _glib.g_free(cell.value)
        cell.value = block
        for name, number in (("size", mask.nbytes), ("width", mask.shape[1]), ("height", mask.shape[0])):
            ctypes.c_uint32.from_address(self._field(f"mask_params.{name}")).value = number

    @property
    def classifiers(self) -> list[ClassifierMeta]:
        """The classifier results in list order, the last added first."""
        return self._views("classifier_meta_list", ClassifierMeta)

    @property
    def user_metas(self) -> list[UserMeta]:
        """The user metas in list order, the last added first."""
        return self._views("obj_user_meta_list", UserMeta)

    def add_classifier(self, unique_component_id: int, classifier_type: str | None = None) -> ClassifierMeta:
        """Acquire a classifier result and add it at the front, without labels yet."""
        batch = _batch_address(self)
        classifier = ClassifierMeta(self._provider.acquire_classifier(batch), self._lease, self._provider)
        self._provider.add_classifier(self._address, classifier.address)
        classifier.unique_component_id = unique_component_id
        classifier.classifier_type = classifier_type
        return classifier


class FrameMeta(View):
    """One frame of a batch."""

    __slots__ = ()
    struct = "NvDsFrameMeta"
    batch_id = _int("batch_id", "Index of the frame's surface in the batch.")
    pad_index = _int("pad_index", "Number of the mux's sink pad.")
    source_id = _int("source_id", "Number of the source.")
    frame_num = _int("frame_num", "Number of the frame in its source.")
    buf_pts = _int("buf_pts", "Timestamp of the source's buffer in ns.")
    ntp_timestamp = _int("ntp_timestamp", "Wall-clock time in ns since 1970.")
    num_surfaces_per_frame = _int("num_surfaces_per_frame", "1, but for dewarped frames.")
    source_width = _int("source_frame_width", "Width before the mux in pixels.")
    source_height = _int("source_frame_height", "Height before the mux in pixels.")
    pipeline_width = _int("pipeline_width", "Width the mux scaled to, or 0.")
    pipeline_height = _int("pipeline_height", "Height the mux scaled to, or 0.")
    uri = _Text("sensorInfo_meta.uri", True, "Where the source reads from, or None.")
    sensor_id = _Text("sensorInfo_meta.sensor_id", True, "The sensor's id, or None.")
    sensor_name = _Text("sensorInfo_meta.sensor_name", True, "The sensor's name, or None.")
    surface_type = _int("surface_type", "The dewarper's surface type, or 0.")
    surface_index = _int("surface_index", "The dewarper's surface index, or 0.")
    num_objects = _int("num_obj_meta", "Number of objects, kept by the library.")
    misc = _Misc("misc_frame_info")
    infer_done = _bool("bInferDone", "Whether a detector saw this frame (and perhaps found nothing).")

    @property
    def batch(self) -> "BatchMeta":
        """The batch this frame belongs to."""
        return BatchMeta(_batch_address(self), self._lease, self._provider)

    @property
    def objects(self) -> list[ObjectMeta]:
        """The objects in list order, the last added first."""
        return self._views("obj_meta_list", ObjectMeta)

    @property
    def display_metas(self) -> list[DisplayMeta]:
        """The display metas in list order, the last added first."""
        return self._views("display_meta_list", DisplayMeta)

    @property
    def user_metas(self) -> list[UserMeta]:
        """The user metas in list order, the last added first."""
        return self._views("frame_user_meta_list", UserMeta)

    def add_object(self, parent: ObjectMeta | None = None) -> ObjectMeta:
        """Acquire an object, empty but for an untracked id, and add it at the front.

        Many objects at once are written by `sluice.contract.bulk.write_objects`, at a fraction of the cost.
        """
        obj = ObjectMeta(self._provider.acquire_object(_batch_address(self)), self._lease, self._provider)
        obj.object_id = UNTRACKED
        self._provider.add_object(self._address, obj.address, parent.address if parent else 0)
        return obj

    def add_display(self) -> DisplayMeta:
        """Acquire an empty display meta and add it at the front."""
        display = self._provider.acquire_display(_batch_address(self))
        self._provider.add_display(self._address, display)
        return DisplayMeta(display, self._lease, self._provider)


class BatchMeta(View):
    """The metadata of a batch of frames."""

    __slots__ = ()
    struct = "NvDsBatchMeta"
    max_frames = _int("max_frames_in_batch", "For how many frames the batch has room.")
    misc = _Misc("misc_batch_info")
    num_frames = _int("num_frames_in_batch", "Number of frames, kept by the library.")

    @classmethod
    def of(cls, buffer: Gst.Buffer, lease: Lease | None = None) -> "BatchMeta | None":
        """Return the batch on a buffer, or None when it carries none.

        Args:
            buffer: the buffer; without `lease` the views keep it alive.
            lease: for how long the views may be used; the caller keeps the buffer alive until its end.

        Raises:
            TypeError: not a ``Gst.Buffer``.
        """
        owner = provider()
        address = owner.find(buffer)
        return cls(address, lease or Lease(buffer), owner) if address else None

    @classmethod
    def attach(cls, buffer: Gst.Buffer, max_frames: int, lease: Lease | None = None) -> "BatchMeta":
        """Create a batch with room for `max_frames` frames on a buffer, which owns it.

        Raises:
            TypeError: not a ``Gst.Buffer``.
            ContractError: the buffer already carries a batch.
        """
        owner = provider()
        batch = owner.create_batch(max_frames)
        try:
            owner.attach(buffer, batch)
        except BaseException:
            owner.destroy_batch(batch)
            raise
        return cls(batch, lease or Lease(buffer), owner)

    @property
    def frames(self) -> list[FrameMeta]:
        """The frames in batch order, which is the order of the surfaces."""
        return self._views("frame_meta_list", FrameMeta)

    @property
    def user_metas(self) -> list[UserMeta]:
        """The user metas in the order they were added."""
        return self._views("batch_user_meta_list", UserMeta)


def _batch_address(view: View) -> int:
    return ctypes.c_size_t.from_address(view._field("base_meta.batch_meta")).value
