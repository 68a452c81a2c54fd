"""Arrays of objects and frames as the C functions of native/bulk.c take them, checked before anything is acquired.

What they give back is in `sluice.contract._objects`.
"""

import ctypes
import functools
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from sluice.contract._locked import call
from sluice.contract.metadata import Color
from sluice.contract.packed_masks import PackedMasks
from sluice.errors import ContractError

Floats = npt.NDArray[np.float32]

SHORT = 256
"""Rows that are written in well under the interpreter's switch interval."""

FRAME_INFO = np.dtype(
    [
        ("address", "u8"),
        ("buf_pts", "u8"),
        ("pad_index", "u4"),
        ("batch_id", "u4"),
        ("surface_type", "u4"),
        ("objects", "u4"),
        ("frame_num", "i4"),
        ("infer_done", "i4"),
    ]
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


MASK_ROW = np.dtype([("cells", "u8"), ("width", "u4"), ("height", "u4"), ("packed", "i4")], align=True)
"""SluiceMask of native/masks.h; no address of cells for no mask."""


class ObjectRows(ctypes.Structure):
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


class TrackedRows(ctypes.Structure):
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
Masks = PackedMasks | Sequence[npt.ArrayLike | None]


_FAULTS = {
    1: "boxes[{row}] is not finite",
    2: "boxes[{row}] has a negative width or height; boxes are left, top, width, height",
    3: "scores[{row}] is not finite",
    4: "rotation[{row}] is not finite",
    5: "parents[{row}] is not the address of an object of this frame",
    6: "tracker_boxes[{row}] is not finite",
    7: "confidences[{row}] is not finite",
    8: "addresses[{row}] is not the address of an object of this frame",
    9: "masks[{row}] has 4 GiB or more of cells; the metadata tells a mask's size in 32 bits",
    10: "there is no memory for masks[{row}]",
}


def checked_call(name: str, short: bool, *arguments: Any) -> int:
    """Make a `call` whose negative results are faults; return what it returned.

    Raises:
        ContractError: what was wrong, and in which row; nothing was written.
    """
    result = call(name, short, *arguments)
    if result < 0:
        fault, row = divmod(-result, 1 << 32)
        raise ContractError(_FAULTS[fault].format(row=row) + "; nothing was written")
    return result


def numbers(name: str, values: npt.ArrayLike, dtype: Any, shape: tuple[int, ...]) -> npt.NDArray[Any]:
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
        indices = [operator.index(value) for value in values]
    except TypeError as error:
        raise ContractError(f"{name} holds something that is not an integer: {error}") from error
    limits = np.iinfo(dtype)
    if indices and (min(indices) < limits.min or max(indices) > limits.max):
        raise ContractError(f"{name} has values outside {limits.min} to {limits.max}")
    return np.array(indices, dtype)


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


def text_table(name: str, texts: Sequence[str | None], count: int) -> Any:
    """Return N texts as the array of ``char *`` that C takes, which keeps them alive; null pointers for None.

    Raises:
        ContractError: not `count` of them, or something else among them; `name` is what the message calls them.
    """
    if len(texts) != count:
        raise ContractError(f"{name} has {len(texts)} entries for {count} boxes")
    try:
        return (ctypes.c_char_p * max(1, count))(*[None if text is None else _encoded(text) for text in texts])
    except (AttributeError, TypeError) as error:
        raise ContractError(f"{name} holds something that is neither a str nor None: {error}") from error


def pointer(array: npt.NDArray[Any] | None) -> int | None:
    """Return the address of an array's first element, good as long as the array; None for None."""
    # Not __array_interface__, which describes every field of a record first.
    return None if array is None else int(array.ctypes.data)


def all_or(mask: npt.NDArray[np.bool_]) -> Any:
    """Return an index for the rows of a mask: a slice where that is all, as numpy gives the GIL away to pick many."""
    return slice(None) if mask.all() else mask


def _colors(name: str, colors: npt.ArrayLike, count: int) -> tuple[npt.NDArray[Any], int]:
    """Return colours as float64 and the step from row to row: 0 for one colour for all."""
    array = np.asarray(colors)
    array = numbers(name, array, np.float64, (4,) if array.ndim == 1 else (count, 4))
    if not ((array >= 0) & (array <= 1)).all():
        raise ContractError(f"{name} holds a value outside 0 to 1; colours are red, green, blue, alpha")
    return array, 0 if array.ndim == 1 else 4


@functools.lru_cache(maxsize=64)
def _one_color(name: str, color: Color) -> tuple[npt.NDArray[Any], int]:
    return _colors(name, color, 0)


def color_rows(name: str, colors: Any, count: int) -> tuple[npt.NDArray[Any], int]:
    """Return one colour for all rows, or one for each, as float64 ``[4]`` or ``[N, 4]`` and the step from row to row.

    Args:
        name: what a message calls them.
        colors: red, green, blue, alpha from 0 to 1: a tuple (looked up, and not checked again), ``[4]`` or ``[N, 4]``.
        count: N.

    Raises:
        ContractError: a wrong shape, or a value outside 0 to 1.
    """
    return _one_color(name, colors) if isinstance(colors, tuple) else _colors(name, colors, count)


def mask_rows(masks: Masks, count: int) -> tuple[npt.NDArray[np.void], Any]:
    """Return masks as `MASK_ROW` records ``[N]``, and what keeps the cells alive that they point to.

    Raises:
        ContractError: not `count` masks, or one that is none.
    """
    if len(masks) != count:
        raise ContractError(f"masks has {len(masks)} entries for {count} boxes")
    rows = np.zeros(count, MASK_ROW)
    if isinstance(masks, PackedMasks):
        masks.check()
        rows["cells"] = masks.bits.ctypes.data + masks.starts
        rows["width"], rows["height"], rows["packed"] = masks.columns, masks.lines, True
        return rows, masks
    kept = [None if values is None else _mask(row, values) for row, values in enumerate(masks)]
    for row, mask in enumerate(kept):
        if mask is not None:
            rows[row] = pointer(mask), mask.shape[1], mask.shape[0], False
    return rows, kept


def _mask(row: int, values: npt.ArrayLike) -> Floats:
    """Return a mask as contiguous float32."""
    mask = np.asarray(values)
    mask = np.ascontiguousarray(mask.astype(np.float32, copy=False) if mask.dtype.kind in "fiub" else mask)
    if mask.dtype != np.float32 or mask.ndim != 2 or mask.size == 0 or not np.isfinite(mask).all():
        raise ContractError(
            f"masks[{row}] has shape {mask.shape} and dtype {mask.dtype}; "
            "a mask is a finite float32 array (height, width) that covers the box"
        )
    return mask


def object_rows(
    count: int, boxes: npt.ArrayLike, scores: npt.ArrayLike, class_ids: npt.ArrayLike, labels: Labels
) -> ObjectRows:
    """Check what every object has and return the C rows with it."""
    rows = ObjectRows(count=count)
    set_array(rows, "boxes", numbers("boxes", boxes, np.float32, (count, 4) if count else np.shape(boxes)))
    set_array(rows, "scores", numbers("scores", scores, np.float32, (count,)))
    set_array(rows, "class_ids", numbers("class_ids", class_ids, np.int32, (count,)))
    if isinstance(labels, LabelTable):
        rows.label_count = labels.count
        set_array(rows, "labels", labels.pointers if labels.count else None)
    elif labels is not None:
        set_array(rows, "labels", text_table("labels", labels, count))
    return rows


def set_array(rows: Any, name: str, values: Any, step: int | None = None) -> None:
    """Point a field of the C rows at an array, and keep the array alive with them."""
    if isinstance(values, np.ndarray):
        setattr(rows, name, pointer(values))
    elif values is not None:
        setattr(rows, name, ctypes.addressof(values))
    rows.__dict__[f"kept_{name}"] = values
    if step is not None:
        setattr(rows, f"{name[:-1]}_step", step)


def frame_rows(rows: npt.NDArray[np.void] | Sequence[tuple[int, ...]]) -> npt.NDArray[np.void]:
    """Return rows of frames as contiguous `FRAME_ROW` records ``[N]``.

    Raises:
        ContractError: they are neither such records nor tuples of their fields.
    """
    if not isinstance(rows, np.ndarray):
        try:
            rows = np.array([tuple(row) for row in rows], FRAME_ROW)
        except (TypeError, ValueError, OverflowError) as error:
            raise ContractError(f"rows needs tuples of {', '.join(FRAME_ROW.names or ())}: {error}") from error
    if rows.dtype != FRAME_ROW or rows.ndim != 1:
        raise ContractError(f"rows has dtype {rows.dtype} and shape {rows.shape}; it needs FRAME_ROW records (N,)")
    return np.ascontiguousarray(rows)
