"""What a model's `infer` returned, checked and turned into one `Detections` per frame."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sluice.errors import ModelError
from sluice.models import conversions
from sluice.models.detections import Detections
from sluice.models.frame import Frame


def check_results(results: Any, frames: Sequence[Frame], model: str = "the model") -> list[Detections]:
    """Turn what a model returned into one validated `Detections` per frame.

    Args:
        results: what ``infer(frames)`` returned.
        frames: the frames it was given.
        model: the model's name for messages.

    Raises:
        ModelError: saying what came, for which frame, and what would be right.
    """
    right = f"right is a list of {len(frames)} Detections, one per frame"
    if isinstance(results, Detections) or not isinstance(results, (list, tuple)):
        raise ModelError(f"{model} returned a {type(results).__name__}; {right}")
    if len(results) != len(frames):
        raise ModelError(f"{model} returned {len(results)} results for {len(frames)} frames; {right}")
    return [_check_result(result, frame, model) for result, frame in zip(results, frames, strict=True)]


def as_detections(result: Any) -> Detections:
    """One frame's result as `Detections`: as it is, converted by its shape, or empty for None.

    Raises:
        ModelError: the result is of none of the known kinds.
    """
    if isinstance(result, Detections):
        return result
    if result is None:
        return Detections.empty()
    if conversions.is_torchvision(result):
        return Detections.from_torchvision(result)
    if conversions.is_ultralytics(result):
        return Detections.from_ultralytics(result)
    if conversions.is_supervision(result):
        return Detections.from_supervision(result)
    raise ModelError(
        f"it is a {type(result).__name__}; right is Detections, a supervision.Detections, an Ultralytics Results, "
        "a torchvision dict of boxes, scores and labels, or None"
    )


def _check_result(result: Any, frame: Frame, model: str) -> Detections:
    if result is None:
        return Detections.empty()
    try:
        return as_detections(result).validate((frame.width, frame.height))
    except ModelError as error:
        where = f"frame {frame.number} of stream {frame.stream}"
        raise ModelError(f"{model} returned a wrong result for {where}: {error}") from error
