"""Many objects or frames written and read in one call, under one hold of the batch's meta lock.

Everything is checked before the first element is acquired: a call either writes all rows or changes nothing, and no
acquired element is left unattached. A call never waits for the meta lock with the GIL: a short one tries the lock and
does its work at once, which spares the wait for the GIL beside busy Python threads; when the lock is taken, and for
long calls, the GIL is released.

Boxes are left, top, width, height in pixels of the surface; angles are degrees, clockwise, about the box's centre.
"""

import ctypes
import functools
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sluice.contract._locked import call
from sluice.contract.metadata import BatchMeta, Color, FrameMeta
from sluice.errors import ContractError

Floats = npt.NDArray[np.float32]
Addresses = npt.NDArray[np.uint64]

RED: Color = (1.0, 0.0, 0.0, 1.0)
DETECTOR_BORDER_WIDTH = 3  # this and the text's size and place: what nvinfer writes
DETECTOR_FONT_SIZE = 11
DETECTOR_TEXT_RISE = 10.0
TRACKER_FONT_SIZE = 10  # what nvtracker writes
TRACKER_TEXT_RISE = 20.0
NO_DETECTION = -0.1  # the confidence of an object that only the tracker has

_SHORT = 256  # rows that are written in well under the interpreter's switch interval

OBJECT_ROW = np.dtype(
    [
        ("address", "u8"),
        ("parent", "u8"),
        ("object_id", "u8"),
        ("class_id", "i4"),
        ("unique_component_id", "i4"),
        ("confidence", "f4"),
        ("tracker_confidence", "f4"),
        ("box", "f4", 4),
        ("rotation", "f4"),
        ("detector_box", "f4", 4),
        ("tracker_box", "f4", 4),
        ("label", "S128"),
    ],
    align=True,
)

FRAME_ROW = np.dtype(
    [
        ("buf_pts", "u8"),
        ("ntp_timestamp", "u8"),
        ("pad_index", "u4"),
        ("source_id", "u4"),
        ("frame_num", "i4"),
        ("source_width", "u4"),
        ("source_height", "u4"),
        ("pipeline_width", "u4"),
        ("pipeline_height", "u4"),
    ],
    align=True,
)


class _Mask(ctypes.Structure):
    _fields_ = (("data", ctypes.c_void_p), ("width", ctypes.c_uint), ("height", ctypes.c_uint))


class _ObjectRows(ctypes.Structure):
    """SluiceObjectRows of native/bulk.c."""

    _fields_ = (
        ("count", ctypes.c_uint),
        ("unique_component_id", ctypes.c_int),
        ("boxes", ctypes.c_void_p),
        ("scores", ctypes.c_void_p),
        ("class_ids", ctypes.c_void_p),
        ("labels", ctypes.c_void_p),
        ("label_count", ctypes.c_uint),
        ("texts", ctypes.c_void_p),
        ("rotation", ctypes.c_void_p),
        ("masks", ctypes.c_void_p),
        ("mask_threshold", ctypes.c_float),
        ("parents", ctypes.c_void_p),
        ("border_colors", ctypes.c_void_p),
        ("border_color_step", ctypes.c_uint),
        ("bg_colors", ctypes.c_void_p),
        ("bg_color_step", ctypes.c_uint),
        ("border_width", ctypes.c_uint),
        ("font_size", ctypes.c_uint),
        ("text_rise", ctypes.c_float),
        ("detector_boxes", ctypes.c_int),
        ("object_ids", ctypes.c_void_p),
        ("tracker_boxes", ctypes.c_void_p),
        ("tracker_confidences", ctypes.c_void_p),
        ("infer_done", ctypes.c_int),
    )


class _TrackedRows(ctypes.Structure):
    """SluiceTrackedRows of native/bulk.c."""

    _fields_ = (
        ("count", ctypes.c_uint),
        ("addresses", ctypes.c_void_p),
        ("object_ids", ctypes.c_void_p),
        ("boxes", ctypes.c_void_p),
        ("tracker_boxes", ctypes.c_void_p),
        ("confidences", ctypes.c_void_p),
        ("show_ids", ctypes.c_int),
    )


class LabelTable:
    """Labels by class, encoded once: a detection of class ``i`` gets the i-th label, of another class none."""

    def __init__(self, labels: Sequence[str]) -> None:
        """Encode the labels.

        Raises:
            ContractError: a label contains a NUL character.
        """
        self.count = len(labels)
        self.pointers = (ctypes.c_char_p * max(1, len(labels)))(*[_encoded(label) for label in labels])


Labels = LabelTable | Sequence[str | None] | None


_FAULTS = {
    1: "boxes[{row}] is not finite",
    2: "boxes[{row}] has a negative width or height; boxes are left, top, width, height",
    3: "scores[{row}] is not finite",
    4: "rotation[{row}] is not finite",
    5: "parents[{row}] is not the address of an object of this frame",
    6: "tracker_boxes[{row}] is not finite",
    7: "confidences[{row}] is not finite",
    8: "addresses[{row}] is not the address of an object of this frame",
}


def _call(name: str, short: bool, *arguments: Any) -> int:
    result = call(name, short, *arguments)
    if result < 0:
        fault, row = divmod(-result, 1 << 32)
        raise ContractError(_FAULTS[fault].format(row=row) + "; nothing was written")
    return result


def _numbers(name: str, values: npt.ArrayLike, dtype: Any, shape: tuple[int, ...]) -> npt.NDArray[Any]:
    """Return the values as a contiguous array of a type and shape, refusing what would lose its meaning."""
    kind = np.dtype(dtype)
    if kind.kind != "f" and not isinstance(values, np.ndarray):
        array = _integers(name, values, kind)
    else:
        array = np.asarray(values)
        if array.dtype != dtype:
            array = _converted(name, array, kind)
    if array.shape != shape:
        raise ContractError(f"{name} has shape {array.shape}; it needs {shape}")
    return np.ascontiguousarray(array)


def _integers(name: str, values: Any, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """Convert a sequence one by one: numpy would turn a mixture of int and uint64 into float64."""
    try:
        numbers = [operator.index(value) for value in values]
    except TypeError as error:
        raise ContractError(f"{name} holds something that is not an integer: {error}") from error
    limits = np.iinfo(dtype)
    if numbers and (min(numbers) < limits.min or max(numbers) > limits.max):
        raise ContractError(f"{name} has values outside {limits.min} to {limits.max}")
    return np.array(numbers, dtype)


def _converted(name: str, array: npt.NDArray[Any], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    allowed = "fiu" if dtype.kind == "f" else "iu"
    if array.size and array.dtype.kind not in allowed:
        raise ContractError(f"{name} has dtype {array.dtype}; it needs {dtype} or another {_KINDS[dtype.kind]}")
    if dtype.kind != "f" and array.size:
        limits = np.iinfo(dtype)
        if int(array.min()) < limits.min or int(array.max()) > limits.max:
            raise ContractError(f"{name} has values outside {limits.min} to {limits.max}")
    with np.errstate(over="ignore"):
        return array.astype(dtype)


_KINDS = {"f": "real number", "i": "integer", "u": "integer"}


@functools.lru_cache(maxsize=4096)
def _encoded(text: str) -> bytes:
    if "\0" in text:
        raise ContractError(f"the label {text!r} contains a NUL character")
    return text.encode("utf-8", "replace")


def _texts(name: str, texts: Sequence[str | None], count: int) -> Any:
    if len(texts) != count:
        raise ContractError(f"{name} has {len(texts)} entries for {count} boxes")
    try:
        return (ctypes.c_char_p * max(1, count))(*[None if text is None else _encoded(text) for text in texts])
    except (AttributeError, TypeError) as error:
        raise ContractError(f"{name} holds something that is neither a str nor None: {error}") from error


def _pointer(array: npt.NDArray[Any] | None) -> int | None:
    return None if array is None else array.__array_interface__["data"][0]


def _colors(name: str, colors: npt.ArrayLike, count: int) -> tuple[npt.NDArray[Any], int]:
    """Return colours as float64 and the step from row to row: 0 for one colour for all."""
    array = np.asarray(colors)
    array = _numbers(name, array, np.float64, (4,) if array.ndim == 1 else (count, 4))
    if not ((array >= 0) & (array <= 1)).all():
        raise ContractError(f"{name} holds a value outside 0 to 1; colours are red, green, blue, alpha")
    return array, 0 if array.ndim == 1 else 4


@functools.lru_cache(maxsize=64)
def _one_color(name: str, color: Color) -> tuple[npt.NDArray[Any], int]:
    return _colors(name, color, 0)


def _color_rows(name: str, colors: Any, count: int) -> tuple[npt.NDArray[Any], int]:
    return _one_color(name, colors) if isinstance(colors, tuple) else _colors(name, colors, count)


def _masks(masks: Sequence[npt.ArrayLike | None], count: int) -> tuple[Any, list[Floats]]:
    """Return the C table of masks and the arrays it points to."""
    if len(masks) != count:
        raise ContractError(f"masks has {len(masks)} entries for {count} boxes")
    table = (_Mask * max(1, count))()
    kept = []
    for row, values in enumerate(masks):
        if values is None:
            continue
        mask = np.asarray(values)
        mask = np.ascontiguousarray(mask.astype(np.float32) if mask.dtype.kind in "fiub" else mask)
        if mask.dtype != np.float32 or mask.ndim != 2 or mask.size == 0 or not np.isfinite(mask).all():
            raise ContractError(
                f"masks[{row}] has shape {mask.shape} and dtype {mask.dtype}; "
                "a mask is a finite float32 array (height, width) that covers the box"
            )
        kept.append(mask)
        table[row] = _Mask(_pointer(mask), mask.shape[1], mask.shape[0])
    return table, kept


def write_objects(
    frame: FrameMeta,
    boxes: npt.ArrayLike,
    scores: npt.ArrayLike,
    class_ids: npt.ArrayLike,
    labels: Labels = None,
    *,
    unique_id: int,
    rotation: npt.ArrayLike | None = None,
    masks: Sequence[npt.ArrayLike | None] | None = None,
    mask_threshold: float = 0.5,
    parents: npt.ArrayLike | None = None,
    border_color: Color | npt.ArrayLike = RED,
    bg_color: Color | npt.ArrayLike | None = None,
    texts: Sequence[str | None] | None = None,
    infer_done: bool | None = True,
) -> Addresses:
    """Add N detections to a frame, with every field that nvinfer sets, in one call.

    Each object gets: unique_component_id, confidence, class_id, an untracked object_id, rect_params and
    detector_bbox_info from the box, rotation, a border 3 wide, label, and the label as text (Serif 11, white on black)
    at ``(max(0, left), max(0, top - 10))``. Objects are added at the front of the frame's list, so readers see the last
    row first.

    Args:
        frame: the frame to write to.
        boxes: float32 ``[N, 4]``; left, top, width, height in pixels of the frame's surface, written as they are.
        scores: float32 ``[N]``.
        class_ids: int32 ``[N]``.
        labels: a `LabelTable` by class, N labels of which some may be None, or None. The label field holds 127 bytes,
            cut between two characters; the text has it whole.
        unique_id: the unique-id of the component that made the detections.
        rotation: float32 ``[N]``, degrees, clockwise, about the box's centre.
        masks: N arrays float32 ``(height, width)`` over each box, or None; they are copied.
        mask_threshold: from which value on a mask pixel belongs to the object.
        parents: uint64 ``[N]``, addresses of objects of this frame; 0 for none.
        border_color: red, green, blue, alpha from 0 to 1, one or ``[N, 4]``.
        bg_color: the same for a fill; None for none.
        texts: N texts to show instead of the labels.
        infer_done: what the frame's ``bInferDone`` becomes; None leaves it.

    Returns:
        uint64 ``[N]``: the addresses of the new objects, in row order.

    Raises:
        ContractError: an array has a wrong length, type or value; nothing was written.
        StaleBufferError: the frame's lease has ended.
    """
    boxes = np.asarray(boxes)
    count = len(boxes) if boxes.ndim else 0
    rows = _rows(count, boxes, scores, class_ids, labels)
    rows.unique_component_id = unique_id
    rows.border_width, rows.font_size, rows.text_rise = DETECTOR_BORDER_WIDTH, DETECTOR_FONT_SIZE, DETECTOR_TEXT_RISE
    rows.detector_boxes = True
    rows.infer_done = -1 if infer_done is None else int(infer_done)
    _set(rows, "border_colors", *_color_rows("border_color", border_color, count))
    if bg_color is not None:
        _set(rows, "bg_colors", *_color_rows("bg_color", bg_color, count))
    if texts is not None:
        _set(rows, "texts", _texts("texts", texts, count))
    if rotation is not None:
        _set(rows, "rotation", _numbers("rotation", rotation, np.float32, (count,)))
    if parents is not None:
        _set(rows, "parents", _numbers("parents", parents, np.uint64, (count,)))
    if masks is not None:
        table, rows.kept_masks = _masks(masks, count)
        _set(rows, "masks", table)
        rows.mask_threshold = mask_threshold
    return _write(frame, rows, short=masks is None)


def add_tracked(
    frame: FrameMeta,
    boxes: npt.ArrayLike,
    tracker_boxes: npt.ArrayLike,
    confidences: npt.ArrayLike,
    class_ids: npt.ArrayLike,
    object_ids: npt.ArrayLike,
    labels: Labels = None,
    *,
    unique_id: int = 0,
    texts: Sequence[str | None] | None = None,
    border_width: int = DETECTOR_BORDER_WIDTH,
    border_color: Color | npt.ArrayLike = RED,
) -> Addresses:
    """Add N objects that only the tracker has (a track without a detection), as nvtracker does.

    Their confidence is -0.1, their detector box zero; the text stands at ``(max(0, left), max(0, top - 20))``.

    Args:
        frame: the frame to write to.
        boxes: float32 ``[N, 4]``, clipped to the surface.
        tracker_boxes: float32 ``[N, 4]``, not clipped.
        confidences: float32 ``[N]``, the tracker's.
        class_ids: int32 ``[N]``.
        object_ids: uint64 ``[N]``.
        labels: as in `write_objects`.
        unique_id: the component of the detections the tracks come from.
        texts: N texts to show instead of the labels.
        border_width: width of the border in pixels.
        border_color: as in `write_objects`.

    Returns:
        uint64 ``[N]``: the addresses of the new objects, in row order.

    Raises:
        ContractError: an array has a wrong length, type or value; nothing was written.
        StaleBufferError: the frame's lease has ended.
    """
    boxes = np.asarray(boxes)
    count = len(boxes) if boxes.ndim else 0
    rows = _rows(count, boxes, np.full(count, NO_DETECTION, np.float32), class_ids, labels)
    rows.unique_component_id = unique_id
    rows.border_width, rows.font_size, rows.text_rise = border_width, TRACKER_FONT_SIZE, TRACKER_TEXT_RISE
    rows.infer_done = -1
    _set(rows, "border_colors", *_color_rows("border_color", border_color, count))
    _set(rows, "object_ids", _numbers("object_ids", object_ids, np.uint64, (count,)))
    _set(rows, "tracker_boxes", _numbers("tracker_boxes", tracker_boxes, np.float32, (count, 4)))
    _set(rows, "tracker_confidences", _numbers("confidences", confidences, np.float32, (count,)))
    if texts is not None:
        _set(rows, "texts", _texts("texts", texts, count))
    return _write(frame, rows, short=True)


def _rows(
    count: int, boxes: npt.ArrayLike, scores: npt.ArrayLike, class_ids: npt.ArrayLike, labels: Labels
) -> _ObjectRows:
    """Check what every object has and return the C rows with it."""
    rows = _ObjectRows(count=count)
    _set(rows, "boxes", _numbers("boxes", boxes, np.float32, (count, 4) if count else np.shape(boxes)))
    _set(rows, "scores", _numbers("scores", scores, np.float32, (count,)))
    _set(rows, "class_ids", _numbers("class_ids", class_ids, np.int32, (count,)))
    if isinstance(labels, LabelTable):
        rows.label_count = labels.count
        _set(rows, "labels", labels.pointers if labels.count else None)
    elif labels is not None:
        _set(rows, "labels", _texts("labels", labels, count))
    return rows


def _set(rows: Any, name: str, values: Any, step: int | None = None) -> None:
    """Point a field of the C rows at an array, and keep the array alive with them."""
    if isinstance(values, np.ndarray):
        setattr(rows, name, _pointer(values))
    elif values is not None:
        setattr(rows, name, ctypes.addressof(values))
    rows.__dict__[f"kept_{name}"] = values
    if step is not None:
        setattr(rows, f"{name[:-1]}_step", step)


def _write(frame: FrameMeta, rows: _ObjectRows, short: bool) -> Addresses:
    addresses = np.empty(rows.count, np.uint64)
    _call(
        "sluice_write_objects",
        short and rows.count <= _SHORT,
        frame.provider.block,
        frame.address,
        ctypes.byref(rows),
        _pointer(addresses),
    )
    return addresses


@dataclass(frozen=True, slots=True)
class Objects:
    """The objects of one frame as arrays, in metadata list order (the last added first)."""

    rows: npt.NDArray[np.void]

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def address(self) -> Addresses:
        """uint64 ``[N]``: where each object lies."""
        return self.rows["address"]

    @property
    def parent(self) -> Addresses:
        """uint64 ``[N]``: the address of each parent, 0 for none."""
        return self.rows["parent"]

    @property
    def object_id(self) -> Addresses:
        """uint64 ``[N]``: the tracker's ids, 2**64-1 for none."""
        return self.rows["object_id"]

    @property
    def class_id(self) -> npt.NDArray[np.int32]:
        """int32 ``[N]``."""
        return self.rows["class_id"]

    @property
    def unique_component_id(self) -> npt.NDArray[np.int32]:
        """int32 ``[N]``: which component made each."""
        return self.rows["unique_component_id"]

    @property
    def confidence(self) -> Floats:
        """float32 ``[N]``: the detector's."""
        return self.rows["confidence"]

    @property
    def tracker_confidence(self) -> Floats:
        """float32 ``[N]``: the tracker's."""
        return self.rows["tracker_confidence"]

    @property
    def boxes(self) -> Floats:
        """float32 ``[N, 4]``: left, top, width, height in surface pixels."""
        return self.rows["box"]

    @property
    def rotation(self) -> Floats:
        """float32 ``[N]``: degrees, clockwise, about each box's centre."""
        return self.rows["rotation"]

    @property
    def detector_boxes(self) -> Floats:
        """float32 ``[N, 4]``: as the detector had them."""
        return self.rows["detector_box"]

    @property
    def tracker_boxes(self) -> Floats:
        """float32 ``[N, 4]``: as the tracker had them."""
        return self.rows["tracker_box"]

    @property
    def labels(self) -> list[str]:
        """The N labels; empty where there is none."""
        return [_decoded(label) for label in self.rows["label"].tolist()]


@functools.lru_cache(maxsize=4096)
def _decoded(label: bytes) -> str:
    return label.decode("utf-8", "replace")


def read_objects(frame: FrameMeta) -> Objects:
    """Copy the objects of a frame into arrays.

    Raises:
        StaleBufferError: the frame's lease has ended.
    """
    capacity = frame.num_objects
    while True:
        rows = np.empty(capacity, OBJECT_ROW)
        count = _call(
            "sluice_read_objects", capacity <= _SHORT, frame.provider.block, frame.address, _pointer(rows), capacity
        )
        if count <= capacity:
            return Objects(rows[:count])
        capacity = count


def update_tracked(
    frame: FrameMeta,
    addresses: npt.ArrayLike,
    object_ids: npt.ArrayLike,
    boxes: npt.ArrayLike,
    tracker_boxes: npt.ArrayLike,
    confidences: npt.ArrayLike,
    *,
    show_ids: bool = True,
) -> None:
    """Write a tracker's results into N objects of a frame, as nvtracker does.

    The text moves to ``(max(0, left), max(0, top - 20))`` in Serif 10 and, with `show_ids`, becomes
    ``"<text> <id>"``, cut at 127 bytes; without a text it becomes the id.

    Args:
        frame: the frame.
        addresses: uint64 ``[N]``, addresses of its objects.
        object_ids: uint64 ``[N]``.
        boxes: float32 ``[N, 4]``, clipped to the surface: what downstream uses.
        tracker_boxes: float32 ``[N, 4]``, not clipped.
        confidences: float32 ``[N]``, the tracker's.
        show_ids: whether the ids become part of the texts.

    Raises:
        ContractError: an array has a wrong length, type or value, or an address is not of this frame; nothing was
            written.
        StaleBufferError: the frame's lease has ended.
    """
    count = np.size(addresses)
    rows = _TrackedRows(count=count, show_ids=show_ids)
    _set(rows, "addresses", _numbers("addresses", addresses, np.uint64, (count,)))
    _set(rows, "object_ids", _numbers("object_ids", object_ids, np.uint64, (count,)))
    _set(rows, "boxes", _numbers("boxes", boxes, np.float32, (count, 4)))
    _set(rows, "tracker_boxes", _numbers("tracker_boxes", tracker_boxes, np.float32, (count, 4)))
    _set(rows, "confidences", _numbers("confidences", confidences, np.float32, (count,)))
    _call("sluice_update_tracked", count <= _SHORT, frame.provider.block, frame.address, ctypes.byref(rows))


def remove_objects(frame: FrameMeta, addresses: npt.ArrayLike) -> None:
    """Remove N objects from a frame; objects that had one of them as parent get none.

    Args:
        frame: the frame.
        addresses: uint64 ``[N]``, addresses of its objects.

    Raises:
        ContractError: an address is not of this frame; nothing was removed.
        StaleBufferError: the frame's lease has ended.
    """
    array = _numbers("addresses", addresses, np.uint64, (np.size(addresses),))
    # An object's own user data may be freed here, so the GIL is always released.
    _call("sluice_remove_objects", False, frame.provider.block, frame.address, _pointer(array), len(array))


def _frame_rows(rows: npt.NDArray[np.void] | Sequence[tuple[int, ...]]) -> npt.NDArray[np.void]:
    if not isinstance(rows, np.ndarray):
        try:
            rows = np.array([tuple(row) for row in rows], FRAME_ROW)
        except (TypeError, ValueError, OverflowError) as error:
            raise ContractError(f"rows needs tuples of {', '.join(FRAME_ROW.names or ())}: {error}") from error
    if rows.dtype != FRAME_ROW or rows.ndim != 1:
        raise ContractError(f"rows has dtype {rows.dtype} and shape {rows.shape}; it needs FRAME_ROW records (N,)")
    return np.ascontiguousarray(rows)


def fill_frames(batch: BatchMeta, rows: npt.NDArray[np.void] | Sequence[tuple[int, ...]]) -> Addresses:
    """Add N frames at the end of a batch; ``batch_id`` becomes each frame's place, which must be its surface's.

    Args:
        batch: the batch.
        rows: `FRAME_ROW` records ``[N]``, or tuples in the order of its fields; pipeline sizes are 0 where the mux does
            not scale.

    Returns:
        uint64 ``[N]``: the addresses of the new frames.

    Raises:
        ContractError: `rows` are not such records, or more than the batch has room for; nothing was written.
        StaleBufferError: the batch's lease has ended.
    """
    rows = _frame_rows(rows)
    if batch.num_frames + len(rows) > batch.max_frames:
        raise ContractError(
            f"{len(rows)} more frames do not fit into a batch of {batch.max_frames} that has {batch.num_frames}"
        )
    addresses = np.empty(len(rows), np.uint64)
    _call(
        "sluice_fill_frames", True, batch.provider.block, batch.address, _pointer(rows), len(rows), _pointer(addresses)
    )
    return addresses
