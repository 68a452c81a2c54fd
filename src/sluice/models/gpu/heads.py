"""Choosing boxes on the GPU: from a head's outputs to the best boxes of each picture, in one small tensor.

Every function here is made of operations of fixed shapes, without a look at a value from the processor, so that it can
be part of a captured graph.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import triton

from sluice.models.decoders.detr import RtdetrLogitsDecoder
from sluice.models.decoders.yolov8 import Dense, dense_output
from sluice.models.gpu.kernels import suppression_kernel
from sluice.runtimes.base import NetworkInfo
from sluice.runtimes.unwinding import import_compiled

torch: Any = import_compiled("torch")

CANDIDATES = 1024
"""The most boxes of a picture that suppression looks at, best first."""
COLUMNS = 6
"""Of a chosen box: left, top, right, bottom in pixels of the network's input, score (below 0: no box), class."""


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


Chooser = Callable[[Sequence[Any]], Any]


def chooser_for(decoder: str, info: NetworkInfo, choice: Choice) -> Chooser | None:
    """What chooses the boxes of a decoder's heads on the GPU; None where that is done on the processor.

    Args:
        decoder: the decoder's name.
        info: the network's description, which tells whether it has more than boxes.
        choice: what is to be chosen.
    """
    if decoder == "rtdetr-logits":
        at = RtdetrLogitsDecoder.outputs_of(info)
        return functools.partial(query_logits, choice=choice, at=at) if at is not None else None
    if len(info.outputs) != 1:
        return None
    if decoder == "rtdetr":
        return functools.partial(queries, choice=choice)
    if decoder == "yolo-end2end" and info.outputs[0].shape[-1] == COLUMNS:
        return functools.partial(end_to_end, choice=choice)
    if decoder == "yolov8":
        found = dense_output(info, choice.width, choice.height)
        return functools.partial(dense, choice=choice, channels_last=isinstance(found, Dense) and found.channels_last)
    return None


def end_to_end(outputs: Sequence[Any], choice: Choice) -> Any:
    """Rows that are finished boxes [batch, rows, 6], as YOLOv10 and YOLO26 give; see `EndToEndDecoder`.

    Returns:
        float32 [batch, boxes, COLUMNS], best first.
    """
    rows = outputs[0].float()
    good = rows[..., 4] >= choice.confidence
    reach = (rows[..., :4].abs().amax(-1) * good).amax(-1)
    return _best(
        _in_pixels(rows[..., :4], reach <= 2, choice), torch.where(good, rows[..., 4], -1), rows[..., 5], choice
    )


def dense(outputs: Sequence[Any], choice: Choice, *, channels_last: bool) -> Any:
    """A row of centre, size and class scores for each cell, as YOLOv8 and its kin give; see `Yolov8Decoder`.

    Of more than `CANDIDATES` boxes of enough score the weakest are left out before suppression.

    Args:
        outputs: one tensor.
        choice: what is to be chosen.
        channels_last: the output is [batch, cells, channels], else [batch, channels, cells].

    Returns:
        float32 [batch, boxes, COLUMNS], best first.
    """
    output = outputs[0].float()
    rows = output if channels_last else output.transpose(1, 2)
    scores, classes = rows[..., 4:].max(-1)
    scores, places = torch.where(scores >= choice.confidence, scores, -1).topk(min(CANDIDATES, rows.shape[1]))
    classes = classes.gather(1, places).float()
    fractions = rows[..., :2].amax((1, 2)) <= 2  # the last cell's centre: about 1 in fractions, else the size in pixels
    boxes = rows[..., :4].gather(1, places[..., None].expand(-1, -1, 4))
    corners = _in_pixels(_corners(boxes), fractions, choice).contiguous()
    return _best(corners, suppress(corners, scores, classes, choice.iou, choice.class_agnostic), classes, choice)


def queries(outputs: Sequence[Any], choice: Choice) -> Any:
    """A row of centre and size in fractions and class scores for each query; see `RtdetrDecoder`.

    Returns:
        float32 [batch, boxes, COLUMNS], best first.
    """
    rows = outputs[0].float()
    scores, classes = rows[..., 4:].max(-1)
    boxes = _corners(rows[..., :4]) * _size(rows, choice)
    return _best(boxes, torch.where(scores >= choice.confidence, scores, -1), classes.float(), choice)


def query_logits(outputs: Sequence[Any], choice: Choice, at: tuple[int, int]) -> Any:
    """Class logits and boxes of each query in two outputs, of which a query may be several; see `RtdetrLogitsDecoder`.

    Args:
        outputs: two tensors or more.
        choice: what is to be chosen.
        at: which outputs are the logits and the boxes.

    Returns:
        float32 [batch, boxes, COLUMNS], best first.
    """
    logits, boxes = (outputs[index].float() for index in at)
    scores = logits.sigmoid().flatten(1)
    _, most, number = logits.shape  # no more boxes than there are queries
    values, places = torch.where(scores >= choice.confidence, scores, -1).topk(min(choice.most, most))
    # Floor division and remainder of tensors, which a graph can hold.
    rows, classes = places.div(number, rounding_mode="floor"), places.remainder(number)
    corners = _corners(boxes) * _size(boxes, choice)
    chosen = corners.gather(1, rows[..., None].expand(-1, -1, 4))
    return torch.cat([chosen, values[..., None], classes.float()[..., None]], -1)


def suppress(boxes: Any, scores: Any, classes: Any, iou: float, class_agnostic: bool) -> Any:
    """Scores [batch, boxes] of the boxes that no better one overlaps; -1 for the others.

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


def _best(boxes: Any, scores: Any, classes: Any, choice: Choice) -> Any:
    values, places = scores.topk(min(choice.most, scores.shape[1]))
    return torch.cat(
        [
            boxes.gather(1, places[..., None].expand(-1, -1, 4)),
            values[..., None],
            classes.gather(1, places)[..., None],
        ],
        -1,
    )
