"""`WholeFrame`: what a model says of a picture as a whole, rather than of one object in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from sluice.errors import ModelError
from sluice.models.arrays import as_float32, as_int32


def check_text(name: str, text: Any) -> None:
    """Refuse what the metadata cannot hold as a text.

    Args:
        name: what it is called in messages.
        text: what is to be one, or None.

    Raises:
        ModelError: it is no str, or has a NUL character, at which a C string ends.
    """
    if text is not None and not isinstance(text, str):
        raise ModelError(f"{name} is a {type(text).__name__}; right is a str or None")
    if text and "\0" in text:
        raise ModelError(f"{name} is {text[:40]!r}; right is a text without NUL characters")


@dataclass(frozen=True, slots=True)
class Classification:
    """One result of a classifier.

    Attributes:
        class_id: number of the class.
        score: probability, 0..1.
        label: name of the class; None for the model's own label table.
        name: what is classified, such as "colour": it becomes the classifier's type; None for the model's only answer.
        index: number of the attribute among those that the model gives under one name.
    """

    class_id: int
    score: float = 1.0
    label: str | None = None
    name: str | None = None
    index: int = 0

    def validate(self) -> None:
        """Check the texts; raises ModelError as `check_text` does."""
        check_text("Classification.label", self.label)
        check_text("Classification.name", self.name)


@dataclass(eq=False, slots=True)
class Segmentation:
    """The class of every part of the picture.

    Attributes:
        class_map: int32 [rows,columns]; the class of each cell, -1 for none. The cells are of one size and cover the
            whole frame, however many they are.
        probabilities: float32 [classes,rows,columns]; None where the model does not tell.
        classes: number of classes; 0 is replaced by what `probabilities` or, without them, the map shows.
    """

    class_map: npt.NDArray[np.int32]
    probabilities: npt.NDArray[np.float32] | None = None
    classes: int = 0

    def __post_init__(self) -> None:
        self.class_map = as_int32(self.class_map)
        if self.probabilities is not None:
            self.probabilities = as_float32(self.probabilities)
            self.classes = self.classes or len(self.probabilities)
        if not self.classes and self.class_map.size and self.class_map.dtype == np.int32:
            self.classes = int(self.class_map.max()) + 1

    def validate(self) -> None:
        """Check types, shapes and values.

        Raises:
            ModelError: naming the array, what came, and what would be right.
        """
        shape = self.class_map.shape
        if self.class_map.dtype != np.int32 or len(shape) != 2 or 0 in shape:
            raise ModelError(
                f"Segmentation.class_map is {self.class_map.dtype} {list(shape)}; right is int32 [rows, columns]"
            )
        low, high = int(self.class_map.min()), int(self.class_map.max())
        if low < -1 or high >= self.classes:
            raise ModelError(
                f"Segmentation.class_map holds {low} to {high}; right are -1 (no class) to {self.classes - 1}"
            )
        if self.probabilities is not None:
            right = (self.classes, *shape)
            if self.probabilities.dtype != np.float32 or self.probabilities.shape != right:
                raise ModelError(
                    f"Segmentation.probabilities is {self.probabilities.dtype} {list(self.probabilities.shape)}; "
                    f"right is float32 {list(right)}"
                )
            if np.isnan(self.probabilities.max()):
                raise ModelError("Segmentation.probabilities holds NaN; right are numbers")


@dataclass(frozen=True, slots=True)
class Layer:
    """One output of a network for one picture.

    Attributes:
        name: the output's name.
        values: float32, float16, int8, uint8, int32 or int64; without the batch's dimension.
    """

    name: str
    values: npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class RawOutputs:
    """A network's outputs for one picture as they are, for who decodes them downstream.

    Attributes:
        layers: the outputs in the network's order.
        width, height, channels: size of the network's input.
        keeps_aspect: whether the picture kept its aspect ratio in the input.
        centred: whether padding was added on both sides.
    """

    layers: tuple[Layer, ...]
    width: int
    height: int
    channels: int = 3
    keeps_aspect: bool = False
    centred: bool = False


@dataclass(eq=False, slots=True)
class WholeFrame:
    """What holds for the picture as a whole: a frame, or the crop that a secondary model was given.

    In secondary mode the picture is an object, and all of this is written to that object.

    Attributes:
        classification: a classifier's accepted results, best first; empty where it is not sure enough of any.
        embedding: float32 [D].
        keypoints: float32 [K,2] (x, y) or [K,3] (x, y, confidence) in pixels of the picture.
        text: a caption, or what was read in the picture.
        segmentation: the class of each part of the picture.
        outputs: the network's raw outputs; only where they were asked for.
    """

    classification: Sequence[Classification] = field(default_factory=tuple)
    embedding: npt.NDArray[np.float32] | None = None
    keypoints: npt.NDArray[np.float32] | None = None
    text: str | None = None
    segmentation: Segmentation | None = None
    outputs: RawOutputs | None = None

    def __post_init__(self) -> None:
        self.embedding = None if self.embedding is None else as_float32(self.embedding)
        self.keypoints = None if self.keypoints is None else as_float32(self.keypoints)

    def validate(self) -> None:
        """Check types, shapes and finite values.

        Raises:
            ModelError: naming what is wrong, and what would be right.
        """
        if not all(isinstance(item, Classification) for item in self.classification):
            raise ModelError("WholeFrame.classification holds other things than Classification")
        for item in self.classification:
            item.validate()
        check_text("WholeFrame.text", self.text)
        if self.embedding is not None:
            _check("embedding", self.embedding, self.embedding.ndim == 1 and self.embedding.size > 0, "[D]")
        if self.keypoints is not None:
            shape = self.keypoints.shape
            _check("keypoints", self.keypoints, len(shape) == 2 and shape[1] in (2, 3), "[K, 2] or [K, 3]")
        if self.segmentation is not None:
            self.segmentation.validate()


def _check(name: str, array: npt.NDArray[Any], shaped: bool, right: str) -> None:
    if array.dtype != np.float32 or not shaped or not np.isfinite(array).all():
        raise ModelError(
            f"WholeFrame.{name} is {array.dtype} {list(array.shape)}; right are finite numbers, float32 {right}"
        )
