"""What a decoder is: it recognises a family of detection heads, and turns their outputs into boxes."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from sluice.errors import ModelError
from sluice.models.decoders.masks import Masks
from sluice.models.labels import names_by_id
from sluice.models.preprocess import Preprocessing
from sluice.models.whole import WholeFrame
from sluice.runtimes.base import NetworkInfo

Float = npt.NDArray[np.float32]
Arrays = Sequence[npt.NDArray[Any]]

IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # RGB, of 0..1
#: Strides of the maps of dense heads: usual, with a coarser one (P6), with a finer one (P2), and YOLOv3-tiny's.
STRIDE_SETS = ((8, 16, 32), (8, 16, 32, 64), (4, 8, 16, 32), (16, 32))
MOST_QUERIES = 1000  # heads that have chosen their boxes themselves give 100 to 900 rows; dense heads give more


class Raw(NamedTuple):
    """What a head says of one frame, before non-maximum suppression.

    Attributes:
        xyxy: float32 [N,4] in pixels of the network's input.
        scores: float32 [N].
        class_ids: int32 [N].
        angles: float32 [N]; degrees, clockwise, about the box's centre; `xyxy` is the box before it is turned.
        keypoints: float32 [N,K,2] (x, y) or [N,K,3] (x, y, confidence) in pixels of the input.
        masks: the N objects' masks, of which only those of the boxes that stay are computed.
        whole: what the head says of the picture as a whole, in the input's own cells; then there are no boxes.
    """

    xyxy: Float
    scores: Float
    class_ids: npt.NDArray[np.int32]
    angles: Float | None = None
    keypoints: Float | None = None
    masks: Masks | None = None
    whole: WholeFrame | None = None


@dataclass(frozen=True)
class Recognition:
    """Whether a network has a decoder's head, and the evidence for or against it.

    Attributes:
        fits: it has.
        why: what in shapes, names, metadata or values says so.
        classes: number of classes of the head; 0 if it does not fit, or the network does not tell.
        possible: the shapes are this head's, but as well another's; it is used if the decoder is named.
    """

    fits: bool
    why: str
    classes: int = 0
    possible: bool = False


def no(why: str) -> Recognition:
    """A head that does not fit, and why."""
    return Recognition(False, why)


def perhaps(why: str, classes: int = 0) -> Recognition:
    """A head whose shapes fit but are another's too, so that the decoder has to be named."""
    return Recognition(False, why, classes, possible=True)


def whole_picture(whole: WholeFrame) -> Raw:
    """No boxes, and what a head says of the whole picture."""
    return Raw(np.empty((0, 4), np.float32), np.empty(0, np.float32), np.empty(0, np.int32), whole=whole)


class Decoder(Protocol):
    """A decoder of one family. Instances belong to one network."""

    name: ClassVar[str]
    #: False where the network has suppressed overlapping boxes itself.
    needs_nms: ClassVar[bool]
    #: True where the outputs are of one picture, without a batch, even if the input leaves its batch open.
    one_picture: ClassVar[bool]
    #: Names of the classes where all networks of the family have the same.
    labels: ClassVar[tuple[str, ...]]

    @classmethod
    def recognise(cls, info: NetworkInfo, width: int, height: int, /) -> Recognition:
        """Whether a network with an input of this size has this head, by shapes, names and metadata."""
        ...

    @classmethod
    def confirm(
        cls, info: NetworkInfo, width: int, height: int, verdict: Recognition, outputs: Arrays, /
    ) -> Recognition:
        """The verdict after a look at the values of one run on noise; asked only where shapes allow the head."""
        ...

    @classmethod
    def preprocessing(cls, info: NetworkInfo, width: int, height: int, /) -> Preprocessing:
        """What the family's published weights want of their input; the layout is set by the network's own shape."""
        ...

    def __init__(self, info: NetworkInfo, width: int, height: int, /) -> None: ...

    def decode(self, outputs: Arrays, index: int, confidence: float) -> Raw:
        """What is in frame `index` of a batch with a score of at least `confidence`. No output is float16."""
        ...


class Family:
    """What most decoders have in common: boxes that need suppression, shapes that say enough, RGB / 255 centred."""

    name: ClassVar[str]
    needs_nms: ClassVar[bool] = True
    one_picture: ClassVar[bool] = False
    labels: ClassVar[tuple[str, ...]] = ()

    def __init__(self, info: NetworkInfo, width: int, height: int, /) -> None:
        self.info, self.width, self.height = info, width, height
        self.size = np.array([width, height, width, height], np.float32)

    @classmethod
    def confirm(
        cls, _info: NetworkInfo, _width: int, _height: int, verdict: Recognition, _outputs: Arrays, /
    ) -> Recognition:
        """The verdict as it is."""
        return verdict

    @classmethod
    def preprocessing(cls, _info: NetworkInfo, width: int, height: int, /) -> Preprocessing:
        """RGB / 255, aspect kept, centred, padded with 114."""
        return Preprocessing(width, height)


def input_size(info: NetworkInfo) -> tuple[int | None, int | None, bool]:
    """Width, height (None where open) and whether channels come first, of a picture input.

    An open size is taken from Ultralytics' metadata ``imgsz`` ([height, width]) where that is there.
    """
    shape = info.inputs[0].shape
    if len(shape) == 3:  # torchvision's detectors take one picture without a batch
        shape = (1, *shape)
    if len(shape) != 4:
        return None, None, True
    channels_first = shape[1] == 3 or shape[3] != 3
    height, width = (shape[2], shape[3]) if channels_first else (shape[1], shape[2])
    exported = metadata_value(info, "imgsz")
    if isinstance(exported, (list, tuple)) and len(exported) == 2 and all(isinstance(side, int) for side in exported):
        height, width = height or exported[0], width or exported[1]
    return width, height, channels_first


def metadata_value(info: NetworkInfo, key: str) -> Any:
    """A value of the metadata as Python; None where there is none or it is no literal."""
    return _literal(info.metadata.get(key, ""))


def metadata_names(info: NetworkInfo) -> tuple[str, ...]:
    """Class names from the metadata ``names`` that Ultralytics writes ({0: 'person', ...}); empty if there are none.

    A mapping from other things than class ids is none.
    """
    names = metadata_value(info, "names")
    if isinstance(names, dict):
        return names_by_id(names) or ()
    return tuple(str(name) for name in names) if isinstance(names, (list, tuple)) else ()


def not_of_boxes(info: NetworkInfo) -> Recognition | None:
    """The verdict on a network that says it is for another task than boxes, with or without masks; else None."""
    task = info.metadata.get("task", "detect")
    if task in ("detect", "segment"):
        return None
    return no(f"the metadata's task is {task!r}; this decoder reads detect and segment")


def not_one_output_of(task: str, info: NetworkInfo) -> Recognition | None:
    """The verdict on a network with several outputs, or that says it is for another task; else None."""
    told = info.metadata.get("task")
    if len(info.outputs) == 1 and told in (None, task):
        return None
    return no(f"needs one output of task {task}; the network has {shapes_text(info)} of task {told or 'unknown'}")


def if_told_the_task(info: NetworkInfo, why: str, untold: str, classes: int) -> Recognition:
    """The verdict on a head whose shape may be another's too: it is certain where the metadata name the task.

    Args:
        info: the network.
        why: what speaks for the head.
        untold: what no metadata says otherwise.
        classes: how many it tells apart.
    """
    if "task" in info.metadata:
        return Recognition(True, why, classes)
    return perhaps(f"{why}; but no metadata says that {untold}", classes)


def cells(width: int, height: int, strides: Sequence[int], *, ceil: bool = False) -> int:
    """Number of grid cells of all strides together; `ceil` counts the cells that reach over the edge too."""
    up = [stride - 1 if ceil else 0 for stride in strides]
    return sum(((width + u) // s) * ((height + u) // s) for s, u in zip(strides, up, strict=True))


def strides_of(width: int, height: int, rows: int | None, anchors: int = 1) -> tuple[int, ...] | None:
    """The strides over whose cells a head has this number of rows, `anchors` a cell; None if there are none."""
    return next((s for s in STRIDE_SETS if rows is not None and anchors * cells(width, height, s) == rows), None)


def grid(width: int, height: int, strides: Sequence[int], *, ceil: bool = False) -> tuple[Float, Float]:
    """Column and row of every cell [A,2], and its stride [A,1]; strides in the order given, row by row; float32."""
    points, sizes = [], []
    for stride in strides:
        up = stride - 1 if ceil else 0
        rows, columns = np.mgrid[0 : (height + up) // stride, 0 : (width + up) // stride]
        points.append(np.stack([columns.ravel(), rows.ravel()], axis=1))
        sizes.append(np.full((rows.size, 1), stride))
    return np.concatenate(points).astype(np.float32), np.concatenate(sizes).astype(np.float32)


def check_scores(scores: npt.NDArray[Any]) -> None:
    """Refuse scores that are NaN, which no comparison with a threshold would ever find.

    Raises:
        ModelError: one is.
    """
    if scores.dtype.kind == "f" and scores.size and np.isnan(scores.max()):
        raise ModelError(
            "scores are NaN: a number inside the network is too large for its type, as happens in float16, or its "
            "weights are broken"
        )


HIGHEST_CLASS = 1_000_000
"""More than any vocabulary has."""


def check_boxes(raw: Raw) -> Raw:
    """What was read, unless one of its boxes is none.

    Raises:
        ModelError: a box has a coordinate that is no finite number, or a class that no network has; or there are not as
            many scores and classes as boxes.
    """
    shapes = [list(array.shape) for array in (raw.xyxy, raw.scores, raw.class_ids)]
    if shapes != [[len(raw.scores), 4], [len(raw.scores)], [len(raw.scores)]]:
        raise ModelError(
            f"the outputs give boxes {shapes[0]}, scores {shapes[1]}, classes {shapes[2]}; right are [N, 4], [N], [N]"
        )
    finite = np.isfinite(raw.xyxy).all(axis=1)
    if not finite.all():
        row = int(finite.argmin())
        raise ModelError(
            f"a box is {raw.xyxy[row].tolist()}, with a score of {raw.scores[row]:.3g}; right are finite numbers"
        )
    # NaN, infinity and all that no integer holds become one of the ends.
    far = np.abs(raw.class_ids.astype(np.int64)) > HIGHEST_CLASS
    if far.any():
        raise ModelError(
            f"the class of a box is {raw.class_ids[far][0]}, or was NaN or infinity; right is 0 to {HIGHEST_CLASS}"
        )
    return raw


def sure(scores: npt.NDArray[Any], confidence: float) -> npt.NDArray[np.intp]:
    """Indices of the scores [N] of at least `confidence`.

    Raises:
        ModelError: a score is NaN.
    """
    check_scores(scores)
    return np.flatnonzero(scores >= confidence)


def best_classes(scores: Float, confidence: float) -> tuple[npt.NDArray[np.intp], Float, npt.NDArray[np.int32]]:
    """Of scores [N,C]: the rows whose best class has at least `confidence`, that score, and that class.

    Raises:
        ModelError: a score is NaN.
    """
    best = scores.max(axis=1)
    rows = sure(best, confidence)
    return rows, best[rows].astype(np.float32), scores[rows].argmax(axis=1).astype(np.int32)


def sigmoid(values: npt.NDArray[Any]) -> Float:
    """1 / (1 + e^-x) as float32, without overflow."""
    result: Float = (0.5 * (1 + np.tanh(0.5 * np.asarray(values, np.float32)))).astype(np.float32)
    return result


def probabilities(values: npt.NDArray[Any]) -> Float:
    """Values as they are where all lie in 0..1, else their sigmoid; for dense maps, whose logits reach below 0."""
    array = np.asarray(values, np.float32)
    return array if array.size and array.min() >= 0 and array.max() <= 1 else sigmoid(array)


def within(values: npt.NDArray[Any], low: float, high: float) -> bool:
    """Whether there are values and all lie in low..high (with a little room for rounding)."""
    return bool(values.size and values.min() >= low - 1e-3 and values.max() <= high + 1e-3)


def integral(values: npt.NDArray[Any]) -> bool:
    """Whether there are values and all are whole numbers, none negative."""
    return bool(values.size and (values >= 0).all() and (values == np.rint(values)).all())


def named(info: NetworkInfo, *names: str) -> tuple[int, ...] | None:
    """Indices of the outputs of these names (without a path "../" and a number ":0"); None if one is missing."""
    known = [output.name.split(":")[0].rsplit("/", 1)[-1].lower() for output in info.outputs]
    return tuple(known.index(name) for name in names) if all(name in known for name in names) else None


def shapes_text(info: NetworkInfo) -> str:
    """The outputs' shapes, for reasons."""
    return ", ".join(str(list(output.shape)).replace("None", "any") for output in info.outputs)


def _literal(text: str) -> Any:
    try:
        return ast.literal_eval(text)
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):  # the last for deeply nested brackets
        return None
