"""`Detections`: what a model found in one frame, as one dataclass of arrays."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt

from sluice.contract.packed_masks import PackedMasks
from sluice.errors import ContractError, ModelError
from sluice.models import conversions
from sluice.models.arrays import as_float32, as_int32, nms_indices, to_numpy
from sluice.models.whole import Classification, WholeFrame, check_text

Index = npt.NDArray[np.bool_] | npt.NDArray[np.integer[Any]] | slice


NOT_ROWS = ("mask_threshold", "whole")
"""Fields of `Detections` that have no row per object."""
OPTIONAL = (
    "angles",
    "masks",
    "keypoints",
    "embeddings",
    "attributes",
    "labels",
    "texts",
    "box_masks",
    "border_colors",
    "fill_colors",
    "whole",
)
"""Fields of `Detections` that may be None."""


@dataclass(eq=False)
class Detections:
    """The objects found in one frame. Row i of every array speaks of object i.

    Boxes, masks and key points are in pixels of the frame the model was given (`Frame.width` x `Frame.height`).
    Lists, tensors and arrays of other number types are turned into the types below when that loses nothing; what
    cannot be turned is kept as it came, and `validate` says what is wrong with it.

    Attributes:
        xyxy: float32 [N,4]; left, top, right, bottom. With `angles`, the box before it is turned about its centre.
        scores: float32 [N]; confidence.
        class_ids: int32 [N].
        angles: float32 [N]; degrees, clockwise as seen on the picture, about the centre of the box.
        masks: bool [N,height,width] of the frame. Costs a frame's size per object: give `box_masks` where you can.
        box_masks: N arrays float32 [rows,columns] whose cells are of one size and cover the object's box (before it is
            clipped or turned); a cell above `mask_threshold` belongs to the object. Instead of `masks`. Networks on a
            GPU give `PackedMasks`, which are such a sequence.
        mask_threshold: the edge in `box_masks`.
        border_colors: float32 [N,4]; red, green, blue, alpha of the box as it is drawn, each 0..1. Red if None.
        fill_colors: float32 [N,4]; the same of the box's inside; alpha 0 for no filling.
        keypoints: float32 [N,K,2] (x, y) or [N,K,3] (x, y, confidence).
        embeddings: float32 [N,D].
        attributes: N mappings from an attribute's name to its value, e.g. ``{"colour": "red"}``; a value may be a
            `sluice.models.whole.Classification`, which has a class id and a probability too.
        labels: N texts (or None) that stand in place of the model's label table.
        texts: N free texts (or None), such as a plate's number or a caption.
        whole: what the model says of the picture as a whole: classification, segmentation, embedding, raw outputs.
    """

    xyxy: npt.NDArray[np.float32]
    scores: npt.NDArray[np.float32]
    class_ids: npt.NDArray[np.int32]
    angles: npt.NDArray[np.float32] | None = None
    masks: npt.NDArray[np.bool_] | None = None
    keypoints: npt.NDArray[np.float32] | None = None
    embeddings: npt.NDArray[np.float32] | None = None
    attributes: Sequence[Mapping[str, Any]] | None = None
    labels: Sequence[str | None] | None = None
    texts: Sequence[str | None] | None = None
    box_masks: Sequence[npt.NDArray[np.float32]] | None = None
    mask_threshold: float = 0.5
    border_colors: npt.NDArray[np.float32] | None = None
    fill_colors: npt.NDArray[np.float32] | None = None
    whole: WholeFrame | None = None

    def __post_init__(self) -> None:
        self.xyxy = as_float32(self.xyxy)
        if self.xyxy.size == 0 and self.xyxy.ndim == 1:
            self.xyxy = self.xyxy.reshape(0, 4)
        self.scores = as_float32(self.scores)
        self.class_ids = as_int32(self.class_ids)
        self.angles = None if self.angles is None else as_float32(self.angles)
        self.masks = None if self.masks is None else to_numpy(self.masks)
        self.keypoints = None if self.keypoints is None else as_float32(self.keypoints)
        self.embeddings = None if self.embeddings is None else as_float32(self.embeddings)
        self.border_colors = None if self.border_colors is None else as_float32(self.border_colors)
        self.fill_colors = None if self.fill_colors is None else as_float32(self.fill_colors)
        if self.box_masks is not None and not isinstance(self.box_masks, PackedMasks):
            self.box_masks = [as_float32(mask) for mask in self.box_masks]

    @classmethod
    def empty(cls) -> Detections:
        """No detections: arrays of length 0 with the right shapes and dtypes."""
        made = cls.__new__(cls)
        # Copied and not made anew: most frames of most cameras get this. Arrays without elements can be shared.
        made.__dict__.update(_EMPTY.__dict__)
        return made

    @classmethod
    def of_whole(cls, whole: WholeFrame) -> Detections:
        """No detections, and what the model says of the picture as a whole."""
        result = cls.empty()
        result.whole = whole
        return result

    def __len__(self) -> int:
        return len(self.xyxy)

    @property
    def plain(self) -> bool:
        """Whether there is nothing but boxes, scores, class ids and perhaps masks over the boxes."""
        return all(getattr(self, name) is None for name in OPTIONAL if name != "box_masks")

    def __getitem__(self, index: Index) -> Detections:
        """The rows that `index` (boolean mask, integer array or slice) picks, of every array that is there."""
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        return Detections(**{n: v if n in NOT_ROWS else pick_rows(v, index, len(self)) for n, v in values.items()})

    def filter(
        self,
        *,
        confidence: float | None = None,
        classes: Iterable[int] | None = None,
        iou: float | None = None,
        max_detections: int | None = None,
    ) -> Detections:
        """The detections left after the filters that are given, applied in the order of the arguments.

        Args:
            confidence: least score that is kept.
            classes: class ids that are kept.
            iou: overlap above which the weaker of two boxes of one class goes; see `nms`.
            max_detections: the most that are kept, best scores first.
        """
        result = self
        if confidence is not None:
            result = result[result.scores >= confidence]
        if classes is not None:
            result = result[np.isin(result.class_ids, np.fromiter(classes, np.int32))]
        if iou is not None:
            result = result.nms(iou)
        if max_detections is not None and len(result) > max_detections:
            result = result[np.argsort(-result.scores, kind="stable")[:max_detections]]
        return result

    def nms(self, iou: float, *, class_agnostic: bool = False) -> Detections:
        """Non-maximum suppression on the boxes as they lie before rotation; best score first.

        Args:
            iou: overlap (0..1) above which the weaker box is dropped.
            class_agnostic: compare boxes of different classes too.
        """
        return self[nms_indices(self.xyxy, self.scores, None if class_agnostic else self.class_ids, iou)]

    def validate(self, frame_size: tuple[int, int] | None = None) -> Detections:
        """Check lengths, shapes, dtypes and finite values, and return these detections.

        Boxes that reach over the frame's edge are right: whoever writes them into metadata clips them.

        Args:
            frame_size: width and height of the frame; when given, masks must have that size.

        Raises:
            ModelError: naming the array, what came, and what would be right.
        """
        _check_array("xyxy", self.xyxy, np.float32, (None, 4), "one row of left, top, right, bottom per object")
        n = len(self.xyxy)
        _check_array("scores", self.scores, np.float32, (n,), "one score per box")
        _check_array("class_ids", self.class_ids, np.int32, (n,), "one class id per box")
        if self.angles is not None:
            _check_array("angles", self.angles, np.float32, (n,), "one angle in degrees per box")
        if self.masks is not None:
            width, height = frame_size if frame_size is not None else (None, None)
            _check_array("masks", self.masks, np.bool_, (n, height, width), "one mask of the frame's size per box")
        if self.keypoints is not None:
            last = 2 if self.keypoints.ndim == 3 and self.keypoints.shape[2] == 2 else 3
            _check_array("keypoints", self.keypoints, np.float32, (n, None, last), "x, y[, confidence] of K key points")
        if self.embeddings is not None:
            _check_array("embeddings", self.embeddings, np.float32, (n, None), "one vector per box")
        for name, what in (("keypoints", "key point"), ("embeddings", "number")):
            array = getattr(self, name)
            if n and array is not None and array.shape[1] == 0:
                raise ModelError(
                    f"Detections.{name} has shape {list(array.shape)}; right is at least one {what} per box, or None"
                )
        for name in ("attributes", "labels", "texts"):
            _check_sequence(name, getattr(self, name), n)
        for name in ("border_colors", "fill_colors"):
            if getattr(self, name) is not None:
                _check_array(name, getattr(self, name), np.float32, (n, 4), "red, green, blue, alpha, each 0..1")
        if self.box_masks is not None:
            self._check_box_masks()
        if self.whole is not None:
            self.whole.validate()
        _check_order(self.xyxy)
        return self

    def _check_box_masks(self) -> None:
        masks, n = self.box_masks or (), len(self.xyxy)
        if self.masks is not None:
            raise ModelError("Detections has masks and box_masks; right is one of the two")
        if len(masks) != n:
            raise ModelError(f"Detections.box_masks has {len(masks)} items; right are {n}, one per box")
        if isinstance(masks, PackedMasks):
            try:
                masks.check()
            except ContractError as error:
                raise ModelError(f"Detections.box_masks: {error}") from error
            return
        for row, mask in enumerate(masks):
            _check_array(f"box_masks[{row}]", mask, np.float32, (None, None), "cells over the box")
            if mask.size == 0:
                raise ModelError(f"Detections.box_masks[{row}] has no cells; right are at least 1x1")

    @classmethod
    def from_supervision(cls, detections: Any) -> Detections:
        """From a `supervision.Detections`; its tracker ids are left out, since tracking comes after the model."""
        return cls(**conversions.from_supervision(detections))

    def to_supervision(self) -> Any:
        """As a `supervision.Detections` (the package must be installed); shares the arrays."""
        return conversions.to_supervision(self)

    @classmethod
    def from_ultralytics(cls, results: Any) -> Detections:
        """From one Ultralytics `Results`: boxes or rotated boxes (radians become degrees), masks, key points, names."""
        return cls(**conversions.from_ultralytics(results))

    @classmethod
    def from_torchvision(cls, output: Mapping[str, Any]) -> Detections:
        """From the dict a torchvision detector returns for a picture: boxes, scores, labels[, masks, keypoints]."""
        return cls(**conversions.from_torchvision(output))

    def to_torchvision(self) -> dict[str, Any]:
        """As a torchvision dict of CPU tensors (torch must be installed)."""
        return conversions.to_torchvision(self)


_EMPTY = Detections(np.empty((0, 4), np.float32), np.empty(0, np.float32), np.empty(0, np.int32))


def pick_rows(values: Any, index: Index, length: int) -> Any:
    """Rows of an array or of a sequence of texts; None stays None."""
    if values is None:
        return None
    if isinstance(values, np.ndarray):
        return values[index]
    if isinstance(values, PackedMasks):
        return values.pick(index)
    return [values[i] for i in np.arange(length)[index]]


def _shape_text(shape: Sequence[int | None]) -> str:
    return "[" + ", ".join("any" if size is None else str(size) for size in shape) + "]"


def _check_array(name: str, array: Any, dtype: Any, shape: Sequence[int | None], meaning: str) -> None:
    """Raise `ModelError` unless `array` has this dtype and shape (None = any size) and only finite values."""
    if not isinstance(array, np.ndarray):
        right = _right_array(dtype, shape, meaning)
        raise ModelError(f"Detections.{name} is a {type(array).__name__}; right is an array {right}")
    if array.ndim != len(shape) or any(w is not None and w != s for w, s in zip(shape, array.shape, strict=True)):
        right = _right_array(dtype, shape, meaning)
        raise ModelError(f"Detections.{name} has shape {list(array.shape)}; right is {right}")
    if array.dtype != dtype:
        hint = f"; use .astype(np.{np.dtype(dtype).name})" if array.dtype.kind in "iuf" else ""
        right = _right_array(dtype, shape, meaning)
        raise ModelError(f"Detections.{name} has dtype {array.dtype}; right is {right}{hint}")
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        row = int(np.argwhere(~np.isfinite(array))[0][0])
        raise ModelError(f"Detections.{name} holds NaN or infinity, first in row {row}; right are finite numbers")


def _right_array(dtype: Any, shape: Sequence[int | None], meaning: str) -> str:
    """What an array should have been; made for messages only, since it costs more than the checks."""
    return f"{np.dtype(dtype).name} {_shape_text(shape)} ({meaning})"


def _check_sequence(name: str, values: Any, n: int) -> None:
    if values is None:
        return
    single = not hasattr(values, "__len__") or getattr(values, "ndim", 1) == 0  # NumPy's of no dimension has no length
    if single or isinstance(values, (str, bytes, Mapping)):
        raise ModelError(f"Detections.{name} is a {type(values).__name__}; right is a list of {n}, one per box")
    if len(values) != n:
        raise ModelError(f"Detections.{name} has {len(values)} items; right are {n}, one per box")
    for row, value in enumerate(values):
        if name == "attributes":
            _check_attributes(f"Detections.attributes[{row}]", value)
        else:
            check_text(f"Detections.{name}[{row}]", value)


def _check_attributes(name: str, attributes: Any) -> None:
    if not isinstance(attributes, Mapping):
        raise ModelError(f"{name} is a {type(attributes).__name__}; right is a dict")
    for key, value in attributes.items():
        if not isinstance(key, str):
            raise ModelError(f"{name} has the key {key!r}; right is an attribute's name")
        check_text(f"a key of {name}", key)
        if isinstance(value, Classification):
            value.validate()
        else:
            check_text(f"{name}[{key!r}]", str(value))


def _check_order(xyxy: npt.NDArray[np.float32]) -> None:
    """Refuse boxes whose right lies left of their left: nearly always x, y, width, height given as corners."""
    bad = (xyxy[:, 2] < xyxy[:, 0]) | (xyxy[:, 3] < xyxy[:, 1])
    if bad.any():
        row = int(np.argmax(bad))
        raise ModelError(
            f"Detections.xyxy row {row} is {xyxy[row].tolist()}: right < left or bottom < top; "
            "right is left, top, right, bottom in pixels (not x, y, width, height)"
        )
