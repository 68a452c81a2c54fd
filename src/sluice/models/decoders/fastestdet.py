"""FastestDet: one coarse map with objectness, box and classes as channels."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from sluice.models.conversions import xyxy_from_cxcywh
from sluice.models.decoders.base import Arrays, Family, Raw, Recognition, no, shapes_text, sure, within
from sluice.models.preprocess import Preprocessing
from sluice.runtimes.base import NetworkInfo

STRIDE = 16


class FastestdetDecoder(Family):
    """FastestDet: [batch, 5 + classes, height/16, width/16].

    Score = objectness^0.6 * best class^0.4, centre = (cell + tanh) / cells, size = sigmoid, all in fractions of the
    picture (FastestDet, utils/tool.py, handle_preds). Input: BGR / 255, stretched; shrunk by area.
    """

    name: ClassVar[str] = "fastestdet"

    @classmethod
    def recognise(cls, info: NetworkInfo, width: int, height: int, /) -> Recognition:
        """One output of four axes at a sixteenth of the input's size."""
        shape = info.outputs[0].shape
        right = (height // STRIDE, width // STRIDE)
        if len(info.outputs) != 1 or len(shape) != 4 or shape[2:] != right or (shape[1] or 0) < 6:
            return no(
                f"needs an output [batch, 5 + classes, {right[0]}, {right[1]}], the network has {shapes_text(info)}"
            )
        classes = (shape[1] or 0) - 5
        why = (
            f"output {shapes_text(info)}: a map at stride {STRIDE}, {shape[1]} = objectness + 4 box + {classes} classes"
        )
        return Recognition(True, why, classes)

    @classmethod
    def confirm(
        cls, info: NetworkInfo, _width: int, _height: int, verdict: Recognition, outputs: Arrays, /
    ) -> Recognition:
        """Objectness and class scores are probabilities; maps of logits are a segmentation."""
        if within(outputs[0][:, 0], 0, 1) and within(outputs[0][:, 5:], 0, 1):
            return verdict
        return no(f"of {shapes_text(info)}, channel 0 and those from 5 on are not all within 0..1, so no scores")

    @classmethod
    def preprocessing(cls, _info: NetworkInfo, width: int, height: int, /) -> Preprocessing:
        """BGR / 255, stretched."""
        return Preprocessing(width, height, fit="stretch", order="BGR", interpolation="area")

    def decode(self, outputs: Arrays, index: int, confidence: float) -> Raw:
        """See `Decoder.decode`."""
        channels = outputs[0][index]
        rows, columns = channels.shape[1:]
        flat = channels.reshape(channels.shape[0], -1)
        scores = flat[0] ** 0.6 * flat[5:].max(axis=0) ** 0.4
        chosen = sure(scores, confidence)
        few = flat[:, chosen]
        cell_y, cell_x = np.divmod(chosen, columns)
        centre_x = (cell_x + np.tanh(few[1])) / columns
        centre_y = (cell_y + np.tanh(few[2])) / rows
        width, height = 1 / (1 + np.exp(-few[3])), 1 / (1 + np.exp(-few[4]))
        boxes = np.stack([centre_x, centre_y, width, height], axis=1).astype(np.float32) * self.size
        return Raw(xyxy_from_cxcywh(boxes), scores[chosen], few[5:].argmax(axis=0).astype(np.int32))
