"""nvinfer's built-in output parsers: DetectNet_v2 boxes, classifiers, segmentation."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from sluice.errors import ModelError
from sluice.models.decoders.base import Arrays, Raw, check_scores
from sluice.models.whole import Classification, Segmentation
from sluice.runtimes import NetworkInfo

BOX_NORM = 35.0  # what DetectNet_v2 divides its box distances by


class DetectNetParser:
    """nvinfer's parser for detectors without a parse function of their own: DetectNet_v2's coverage and boxes.

    Args:
        info: the network's outputs: of those whose name has "cov" or "bbox" the last counts.
        width, height: size of the input.
        thresholds: least coverage per class; classes from their number on are not read.

    Raises:
        ModelError: there are no such outputs, or their shapes do not belong together.
    """

    needs_nms = True

    def __init__(self, info: NetworkInfo, width: int, height: int, thresholds: Sequence[float]) -> None:
        self._cov, self._bbox = (_last_named(info, part) for part in ("cov", "bbox"))
        cov, bbox = info.outputs[self._cov].shape[1:], info.outputs[self._bbox].shape[1:]
        if len(cov) != 3 or len(bbox) != 3 or bbox[0] != 4 * (cov[0] or 0) or cov[1:] != bbox[1:]:
            raise ModelError(
                f"DetectNet_v2's parser needs coverage [C, h, w] and boxes [4 C, h, w]; the outputs "
                f"{info.outputs[self._cov]} and {info.outputs[self._bbox]} are not that"
            )
        self._limits = width, height
        self._thresholds = np.array(thresholds, np.float32)
        rows, columns = bbox[1] or 1, bbox[2] or 1
        strides = -(-width // columns), -(-height // rows)
        self._centre_x = ((np.arange(columns) * strides[0] + 0.5) / BOX_NORM).astype(np.float32)
        self._centre_y = ((np.arange(rows) * strides[1] + 0.5) / BOX_NORM).astype(np.float32)

    def parse(self, outputs: Arrays, index: int) -> Raw:
        """Boxes of picture `index` in nvinfer's order: by class, row, column."""
        cov = outputs[self._cov][index][: len(self._thresholds)].astype(np.float32, copy=False)
        check_scores(cov)
        bbox = outputs[self._bbox][index].astype(np.float32, copy=False)
        class_ids, rows, columns = np.nonzero(cov >= self._thresholds[: len(cov), None, None])
        distances = bbox.reshape(-1, 4, *bbox.shape[1:])[class_ids, :, rows, columns]
        x, y = self._centre_x[columns], self._centre_y[rows]
        corners = np.stack(
            [x - distances[:, 0], y - distances[:, 1], x + distances[:, 2], y + distances[:, 3]],
            axis=1,
        ) * np.float32(BOX_NORM)
        limits = np.array(self._limits * 2, np.float32)
        corners = np.where(corners >= limits, limits - 1, np.maximum(corners, 0))
        keep = (corners[:, 2:] >= corners[:, :2]).all(axis=1)
        return Raw(corners[keep], cov[class_ids, rows, columns][keep], class_ids[keep].astype(np.int32))


def _last_named(info: NetworkInfo, part: str) -> int:
    found = [number for number, output in enumerate(info.outputs) if part in output.name]
    if not found:
        names = ", ".join(output.name for output in info.outputs)
        raise ModelError(
            f"nvinfer's default parser reads DetectNet_v2, whose outputs have 'cov' and 'bbox' in their names; this "
            f"network has {names}"
        )
    return found[-1]


def classify(
    outputs: Arrays,
    index: int,
    threshold: float,
    labels: Sequence[Sequence[str]],
    kind: str | None,
    *,
    softmax: bool = False,
) -> list[Classification]:
    """One result per output that has a class more probable than the threshold and than 0.

    Args:
        outputs: each output is one attribute.
        index: the picture in the batch.
        threshold: classifier-threshold.
        labels: label of class c of output i is ``labels[i][c]``.
        kind: classifier-type.
        softmax: the outputs are logits, of which the parse function NvDsInferClassiferParseCustomSoftmax makes
            probabilities.
    """
    found = []
    for attribute, output in enumerate(outputs):
        values = np.asarray(output[index], np.float32).ravel()
        if softmax:
            with np.errstate(invalid="ignore"):  # of two infinities
                values = np.exp(values - values.max())
                values = values / values.sum()
        check_scores(values)
        best = int(values.argmax())  # the first of equal ones, as nvinfer
        score = float(values[best])
        if values[best] > np.float32(threshold) and score > 0:
            names = labels[attribute] if attribute < len(labels) else ()
            label = names[best] if best < len(names) else None
            found.append(Classification(best, score, label, kind, attribute))
    return found


def class_map(output: npt.NDArray[np.generic], classes: int) -> Segmentation:
    """A finished map of classes, [h,w] with a channel of 1 in front, behind or missing, as TAO's SegFormer gives it."""
    rows, columns = (size for size in output.shape if size != 1)
    return Segmentation(output.reshape(rows, columns).astype(np.int32), None, classes)


def segment(output: npt.NDArray[np.generic], threshold: float, *, channels_last: bool) -> Segmentation:
    """Per pixel the class with the highest value, -1 where none is above the threshold.

    Args:
        output: [C,h,w], or [h,w,C] with `channels_last`.
        threshold: segmentation-threshold.
        channels_last: segmentation-output-order is 1.
    """
    values = np.asarray(output.transpose(2, 0, 1) if channels_last else output, np.float32)
    check_scores(values)
    best = values.argmax(axis=0)
    highest = np.take_along_axis(values, best[None], axis=0)[0]
    return Segmentation(np.where(highest > np.float32(threshold), best, -1).astype(np.int32), values, len(values))
