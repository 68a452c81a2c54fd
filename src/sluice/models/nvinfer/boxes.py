"""From a detection network's outputs to boxes in its input, for nvinfer's networks."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import numpy.typing as npt

from sluice.models.decoders import DECODERS
from sluice.models.decoders.base import Arrays, Float, Raw, shapes_text
from sluice.runtimes import NetworkInfo

LAYER_ROLES = ("boxes", "scores", "classes")  # the three outputs of older DeepStream-Yolo exports


class BoxParser(Protocol):
    """Turns outputs into boxes, before clustering."""

    def parse(self, outputs: Arrays, index: int) -> Raw:
        """Boxes of picture `index` of a batch, in pixels of the input, in nvinfer's order."""
        ...


class DeepStreamYoloParser:
    """What the exporters of DeepStream-Yolo put behind every network: decoded boxes, the best class of each, no NMS.

    One output [boxes, 6]: left, top, right, bottom in pixels of the input, score, class; or, from older exporters, the
    outputs ``boxes`` [boxes, 4], ``scores`` and ``classes`` [boxes, 1].
    """

    def __init__(self, info: NetworkInfo, confidence: float) -> None:
        self._confidence = np.float32(confidence)
        self._roles = _roles(info)

    @staticmethod
    def why_not(info: NetworkInfo) -> str | None:
        """Why a network's outputs are not these; None if they are."""
        if len(info.outputs) == 1 and info.outputs[0].shape[1:][-1:] == (6,) and len(info.outputs[0].shape) == 3:
            return None
        if _roles(info) is not None:
            return None
        return f"needs [batch, boxes, 6], or boxes, scores and classes; the network has {shapes_text(info)}"

    def parse(self, outputs: Arrays, index: int) -> Raw:
        """See `BoxParser.parse`."""
        if self._roles is None:
            rows = np.asarray(outputs[0][index], np.float32)
            boxes, scores, classes = rows[:, :4], rows[:, 4], rows[:, 5]
        else:
            boxes, scores, classes = (np.asarray(outputs[role][index], np.float32) for role in self._roles)
        keep = np.flatnonzero(scores.ravel() >= self._confidence)
        return Raw(boxes[keep], scores.ravel()[keep], classes.ravel()[keep].astype(np.int32))


def _roles(info: NetworkInfo) -> tuple[int, int, int] | None:
    names = [output.name for output in info.outputs]
    if not all(role in names for role in LAYER_ROLES):
        return None
    boxes, scores, classes = (names.index(role) for role in LAYER_ROLES)
    return boxes, scores, classes


class DecoderParser:
    """One of Sluice's own decoders."""

    def __init__(self, name: str, info: NetworkInfo, width: int, height: int, confidence: float) -> None:
        self._decoder = DECODERS[name](info, width, height)
        self._confidence = confidence

    def parse(self, outputs: Arrays, index: int) -> Raw:
        """See `BoxParser.parse`."""
        return self._decoder.decode(outputs, index, self._confidence)


def cut(xyxy: Float, width: int, height: int) -> tuple[Float, npt.NDArray[np.intp]]:
    """Boxes cut at the input's edges, and the rows of those of which at least a pixel remains each way.

    Parse functions do this one by one, before clustering; it changes overlaps.
    """
    corners = np.clip(xyxy, 0, np.array([width, height, width, height], np.float32))
    rows = np.flatnonzero((corners[:, 2:] - corners[:, :2] >= 1).all(axis=1))
    return corners[rows], rows
