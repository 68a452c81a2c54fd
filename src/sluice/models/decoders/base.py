"""What a decoder is: it recognises a family of detection heads, and turns their outputs into boxes."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from sluice.models.preprocess import Preprocessing
from sluice.runtimes.base import NetworkInfo

Float = npt.NDArray[np.float32]
Arrays = Sequence[npt.NDArray[Any]]


class Raw(NamedTuple):
    """What a head says of one frame, before non-maximum suppression.

    Attributes:
        xyxy: float32 [N,4] in pixels of the network's input.
        scores: float32 [N].
        class_ids: int32 [N].
    """

    xyxy: Float
    scores: Float
    class_ids: npt.NDArray[np.int32]


@dataclass(frozen=True)
class Recognition:
    """Whether a network has a decoder's head, and the evidence for or against it.

    Attributes:
        fits: it has.
        why: what in shapes, names or metadata says so.
        classes: number of classes of the head; 0 if it does not fit.
    """

    fits: bool
    why: str
    classes: int = 0


def no(why: str) -> Recognition:
    """A head that does not fit, and why."""
    return Recognition(False, why)


class Decoder(Protocol):
    """A decoder of one family. Instances belong to one network."""

    name: ClassVar[str]
    #: False where the network has suppressed overlapping boxes itself.
    needs_nms: ClassVar[bool]

    @staticmethod
    def recognise(info: NetworkInfo, width: int, height: int, /) -> Recognition:
        """Whether a network with an input of this size has this head."""
        ...

    @staticmethod
    def preprocessing(width: int, height: int) -> Preprocessing:
        """What the family's published weights want of their input; the layout is set by the network's own shape."""
        ...

    def __init__(self, info: NetworkInfo, width: int, height: int, /) -> None: ...

    def decode(self, outputs: Arrays, index: int, confidence: float) -> Raw:
        """Boxes of frame `index` of a batch with a score of at least `confidence`."""
        ...


def input_size(info: NetworkInfo) -> tuple[int | None, int | None, bool]:
    """Width, height (None where open) and whether channels come first, of a picture input.

    An open size is taken from Ultralytics' metadata ``imgsz`` ([height, width]) where that is there.
    """
    shape = info.inputs[0].shape
    if len(shape) != 4:
        return None, None, True
    channels_first = shape[1] == 3 or shape[3] != 3
    height, width = (shape[2], shape[3]) if channels_first else (shape[1], shape[2])
    exported = _literal(info.metadata.get("imgsz", ""))
    if isinstance(exported, (list, tuple)) and len(exported) == 2:
        height, width = height or int(exported[0]), width or int(exported[1])
    return width, height, channels_first


def metadata_names(info: NetworkInfo) -> tuple[str, ...]:
    """Class names from the metadata ``names`` that Ultralytics writes ({0: 'person', ...}); empty if there are none."""
    names = _literal(info.metadata.get("names", ""))
    if isinstance(names, dict):
        return tuple(str(names.get(i, i)) for i in range(max(names, default=-1) + 1))
    return tuple(str(name) for name in names) if isinstance(names, (list, tuple)) else ()


def cells(width: int, height: int, strides: Sequence[int]) -> int:
    """Number of grid cells of all strides together."""
    return sum((width // stride) * (height // stride) for stride in strides)


def grid(width: int, height: int, strides: Sequence[int]) -> tuple[Float, Float]:
    """Column and row of every cell [A,2], and its stride [A,1]; strides in the order given, row by row; float32."""
    points, sizes = [], []
    for stride in strides:
        rows, columns = np.mgrid[0 : height // stride, 0 : width // stride]
        points.append(np.stack([columns.ravel(), rows.ravel()], axis=1))
        sizes.append(np.full((rows.size, 1), stride))
    return np.concatenate(points).astype(np.float32), np.concatenate(sizes).astype(np.float32)


def shapes_text(info: NetworkInfo) -> str:
    """The outputs' shapes, for reasons."""
    return ", ".join(str(list(output.shape)).replace("None", "any") for output in info.outputs)


def _literal(text: str) -> Any:
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return None
