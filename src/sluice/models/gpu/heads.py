"""Choosing boxes on the GPU: from a head's outputs to the best boxes of each picture, in one small tensor.

Every function here is made of operations of fixed shapes, without a look at a value from the processor, so that it can
be part of a captured graph.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy.typing as npt
import triton

from sluice.models.decoders.base import named
from sluice.models.decoders.detr import LogitsFamily, RfdetrDecoder, RtdetrLogitsDecoder
from sluice.models.decoders.yolov8 import Dense, dense_output
from sluice.models.detections import Detections
from sluice.models.gpu.kernels import suppression_kernel
from sluice.models.gpu.masks import MaskReader, boxes_and_masks, of_prototypes, of_queries
from sluice.models.gpu.results import COLUMNS, detections_of
from sluice.models.letterbox import Letterbox
from sluice.runtimes.base import NetworkInfo
from sluice.runtimes.unwinding import import_compiled

torch: Any = import_compiled("torch")

CANDIDATES = 1024
"""The most boxes of a picture that suppression looks at, best first."""
NONE = -1.0
"""The score of what is no box."""


@dataclass(frozen=True)
class Choice:
    """What is to be chosen.

    Attributes:
        width, height: size of the network's input.
        confidence: least score.
        iou: overlap above which the weaker of two boxes goes.
        class_agnostic: let boxes of different classes suppress each other too.
        most: the most boxes of a picture.
    """

    width: int
    height: int
    confidence: float
    iou: float
    class_agnostic: bool
    most: int


class Chosen(NamedTuple):
    """The best boxes of each picture.

    Attributes:
        boxes: float32 [batch, boxes, COLUMNS], best first.
        rows: int64 [batch, boxes]; which rows of the head's output they are.
    """

    boxes: Any
    rows: Any


class Chooser(NamedTuple):
    """What makes detections of a head's outputs.

    Attributes:
        choose: what runs on the GPU: from the outputs and the pointer table of a batch to one tensor [batch, ...].
        read: what runs on the host: from that tensor, as an array that is only valid during the call, and how each
            frame lies in the network's input, to detections in pixels of each frame.
    """

    choose: Callable[[Sequence[Any], Any], Any]
    read: Callable[[npt.NDArray[Any], Sequence[Letterbox]], list[Detections]]


def chooser_for(decoder: str, info: NetworkInfo, choice: Choice) -> Chooser | None:
    """What chooses the boxes of a decoder's heads on the GPU; None where that is done on the processor.

    Args:
        decoder: the decoder's name.
        info: the network's description, which tells whether it has more than boxes.
        choice: what is to be chosen.
    """
    if decoder in ("rtdetr-logits", "rf-detr"):
        return _logits_chooser(RtdetrLogitsDecoder if decoder == "rtdetr-logits" else RfdetrDecoder, info, choice)
    prototypes = len(info.outputs) == 2 and len(info.outputs[1].shape) == 4
    if len(info.outputs) != 1 + prototypes:
        return None
    if decoder == "rtdetr" and not prototypes:
        return _boxes_alone(functools.partial(queries, choice=choice))
    if decoder == "rtdetr-end2end" and not prototypes:
        return _boxes_alone(functools.partial(finished_queries, choice=choice))
    extra = (info.outputs[1].shape[1] or 0) if prototypes else 0
    if decoder == "yolo-end2end" and info.outputs[0].shape[-1] == COLUMNS + extra:
        rows = functools.partial(end_to_end, choice=choice)
        return _with_prototypes(rows, choice, COLUMNS, channels_last=True) if extra else _boxes_alone(rows)
    found = dense_output(info, choice.width, choice.height)
    if decoder == "yolov8" and isinstance(found, Dense):
        classes = found.channels - 4 - extra
        rows = functools.partial(dense, choice=choice, classes=classes, channels_last=found.channels_last)
        if extra:
            return _with_prototypes(rows, choice, 4 + classes, channels_last=found.channels_last)
        return _boxes_alone(rows)
    return None


def _boxes_alone(choose: Callable[[Sequence[Any]], Chosen]) -> Chooser:
    return Chooser(lambda outputs, _table: choose(outputs).boxes, lambda array, boxes: detections_of(array, boxes))


def _with_prototypes(
    choose: Callable[[Sequence[Any]], Chosen], choice: Choice, first: int, *, channels_last: bool
) -> Chooser:
    """Boxes, and masks of prototypes whose coefficients stand in the head's rows from column `first` on."""

    def run(outputs: Sequence[Any], table: Any) -> Any:
        chosen = choose(outputs)
        rows = outputs[0] if channels_last else outputs[0].transpose(1, 2)
        grids = of_prototypes(rows[..., first:], chosen.rows, outputs[1])
        return boxes_and_masks(chosen.boxes, grids, table, (choice.width, choice.height))

    return Chooser(run, MaskReader())


def _logits_chooser(kind: type[LogitsFamily], info: NetworkInfo, choice: Choice) -> Chooser | None:
    """Queries with logits, and perhaps a mask each."""
    at = kind.outputs_of(info)
    if at is None:
        return None
    rows = functools.partial(query_logits, choice=choice, at=at)
    masks = named(info, "masks") if kind is RfdetrDecoder else None
    if masks is None:
        return _boxes_alone(rows)

    def run(outputs: Sequence[Any], table: Any) -> Any:
        chosen = rows(outputs)
        grids = of_queries(outputs[masks[0]], chosen.rows)
        return boxes_and_masks(chosen.boxes, grids, table, (choice.width, choice.height))

    return Chooser(run, MaskReader())


def end_to_end(outputs: Sequence[Any], choice: Choice) -> Chosen:
    """Rows of finished boxes [batch, rows, 6 or more], as YOLOv10 and YOLO26 give; see `EndToEndDecoder`."""
    rows = outputs[0][..., :COLUMNS].float()
    scores = _sure(rows[..., 4], choice)
    reach = torch.where(scores == NONE, 0, rows[..., :4].abs().amax(-1)).amax(-1)
    boxes = _in_pixels(rows[..., :4], reach <= 2, choice)
    return _best(boxes, _not_turned(scores, boxes[..., 2:] - boxes[..., :2]), rows[..., 5], choice)


def dense(outputs: Sequence[Any], choice: Choice, *, classes: int, channels_last: bool) -> Chosen:
    """A row of centre, size and class scores for each cell, as YOLOv8 and its kin give; see `Yolov8Decoder`.

    Of more than `CANDIDATES` boxes of enough score the weakest are left out before suppression.

    Args:
        outputs: one tensor, and perhaps others.
        choice: what is to be chosen.
        classes: number of class scores; what stands behind them is not looked at.
        channels_last: the output is [batch, cells, channels], else [batch, channels, cells].
    """
    output = outputs[0]
    rows = (output if channels_last else output.transpose(1, 2))[..., : 4 + classes].float()
    scores, kinds = rows[..., 4:].max(-1)
    scores = _not_turned(_sure(scores, choice), rows[..., 2:4])
    scores, places = scores.topk(min(CANDIDATES, rows.shape[1]))
    kinds = kinds.gather(1, places).float()
    fractions = rows[..., :2].amax((1, 2)) <= 2  # the last cell's centre: about 1 in fractions, else the size in pixels
    boxes = rows[..., :4].gather(1, places[..., None].expand(-1, -1, 4))
    # As the decoder does: sizes become pixels before they are halved.
    corners = _corners(_in_pixels(boxes, fractions, choice)).contiguous()
    kept = suppress(corners, scores, kinds, choice.iou, choice.class_agnostic)
    boxes, best = _best(corners, kept, kinds, choice)
    return Chosen(boxes, places.gather(1, best))


def queries(outputs: Sequence[Any], choice: Choice) -> Chosen:
    """A row of centre and size in fractions and class scores for each query; see `RtdetrDecoder`."""
    rows = outputs[0].float()
    scores, classes = rows[..., 4:].max(-1)
    scores = _not_turned(_sure(scores, choice), rows[..., 2:4])
    return _best(_corners(rows[..., :4] * _size(rows, choice)), scores, classes.float(), choice)


def finished_queries(outputs: Sequence[Any], choice: Choice) -> Chosen:
    """Rows of centre and size in fractions, score and class [batch, rows, 6]; see `RtdetrEndToEndDecoder`."""
    rows = outputs[0].float()
    scores = _not_turned(_sure(rows[..., 4], choice), rows[..., 2:4])
    return _best(_corners(rows[..., :4] * _size(rows, choice)), scores, rows[..., 5], choice)


def query_logits(outputs: Sequence[Any], choice: Choice, at: tuple[int, int]) -> Chosen:
    """Class logits and boxes of each query in two outputs, of which a query may be several; see `LogitsFamily`.

    Args:
        outputs: two tensors or more.
        choice: what is to be chosen.
        at: which outputs are the logits and the boxes.
    """
    logits, boxes = (outputs[index].float() for index in at)
    _, most, number = logits.shape  # no more boxes than there are queries
    turned = boxes[..., 2:].amin(-1) < 0
    scores = torch.where(turned[..., None], NONE, _sure(logits.sigmoid(), choice)).flatten(1)
    values, places = scores.topk(min(choice.most, most))
    # Floor division and remainder of tensors, which a graph can hold.
    rows, classes = places.div(number, rounding_mode="floor"), places.remainder(number)
    corners = _corners(boxes * _size(boxes, choice))
    chosen = corners.gather(1, rows[..., None].expand(-1, -1, 4))
    return Chosen(torch.cat([chosen, values[..., None], classes.float()[..., None]], -1), rows)


def _sure(scores: Any, choice: Choice) -> Any:
    """Scores, `NONE` in the place of those that are not enough; NaN stays, so that it can be refused."""
    return torch.where(scores < choice.confidence, NONE, scores)


def _not_turned(scores: Any, sizes: Any) -> Any:
    """Scores [batch, boxes], `NONE` where a size [batch, boxes, 2] is negative, which is no box."""
    return torch.where(sizes.amin(-1) < 0, NONE, scores)


def suppress(boxes: Any, scores: Any, classes: Any, iou: float, class_agnostic: bool) -> Any:
    """Scores [batch, boxes] of the boxes that no better one overlaps; `NONE` for the others.

    Args:
        boxes: float32 [batch, boxes, 4], corners, best score first, at most `CANDIDATES`.
        scores: float32 [batch, boxes], below 0 where there is none.
        classes: float32 [batch, boxes].
        iou: overlap above which the weaker box goes.
        class_agnostic: compare boxes of different classes too.
    """
    kept = torch.empty_like(scores)
    suppression_kernel[(len(boxes),)](
        boxes,
        scores.contiguous(),
        classes.contiguous(),
        kept,
        scores.shape[1],
        iou,
        AGNOSTIC=class_agnostic,
        BLOCK=triton.next_power_of_2(scores.shape[1]),
    )
    return kept


def _in_pixels(boxes: Any, fractions: Any, choice: Choice) -> Any:
    """Boxes [batch, boxes, 4] in pixels, of which some pictures' are fractions of the input."""
    return torch.where(fractions[:, None, None], boxes * _size(boxes, choice), boxes)


def _size(like: Any, choice: Choice) -> Any:
    """Width and height of the input, twice, [4]."""
    # Filled on the device: a graph could not capture a copy from the processor.
    return torch.stack([like.new_full((), side) for side in (choice.width, choice.height)] * 2)


def _corners(boxes: Any) -> Any:
    """Corners of boxes [..., 4] that are given by centre and size."""
    half = boxes[..., 2:] / 2
    return torch.cat([boxes[..., :2] - half, boxes[..., :2] + half], -1)


def _best(boxes: Any, scores: Any, classes: Any, choice: Choice) -> Chosen:
    values, places = scores.topk(min(choice.most, scores.shape[1]))
    corners = boxes.gather(1, places[..., None].expand(-1, -1, 4))
    return Chosen(torch.cat([corners, values[..., None], classes.gather(1, places)[..., None]], -1), places)
