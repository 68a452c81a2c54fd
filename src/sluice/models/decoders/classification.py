"""One vector for the whole picture: classes, or an embedding. Shapes alone do not tell the two apart."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from sluice.models.decoders.base import (
    IMAGENET_MEAN,
    IMAGENET_STD,
    Arrays,
    Family,
    Float,
    Raw,
    Recognition,
    check_scores,
    input_size,
    metadata_names,
    no,
    perhaps,
    shapes_text,
    whole_picture,
)
from sluice.models.preprocess import Preprocessing
from sluice.models.whole import Classification, WholeFrame
from sluice.runtimes.base import NetworkInfo

IMAGENET_CLASSES = (1000, 1001)  # without and with a background class
SCORE_NAMES = ("logit", "prob", "softmax", "class", "score")
EMBEDDING_NAMES = ("embed", "feat", "reid", "fc_pred")  # fc_pred: TAO's re-identification networks
LEAST_EMBEDDING = 64  # numbers in a vector; re-identification gives 128 to 2048
MOST_RESULTS = 5


def _vectors(info: NetworkInfo) -> list[int] | None:
    """Lengths of outputs [batch, N] or [batch, N, 1, 1]; None if one is another."""
    lengths = []
    for output in info.outputs:
        shape = output.shape
        flat = len(shape) == 2 or (len(shape) == 4 and shape[2:] == (1, 1))
        if not flat or not shape[1] or shape[1] < 2:
            return None
        lengths.append(shape[1])
    return lengths or None


def _is_person_crop(info: NetworkInfo) -> bool:
    """Whether the input is much higher than wide and small, as crops of people are given to re-identification."""
    width, height, _ = input_size(info)
    return bool(width and height and width <= 256 and height >= 1.5 * width)


def _named_like(info: NetworkInfo, parts: tuple[str, ...]) -> bool:
    return any(part in output.name.lower() for output in info.outputs for part in parts)


class ClassificationDecoder(Family):
    """Classifiers: [batch, classes] of logits or probabilities; several outputs are several attributes.

    Logits (values that are no shares of 1) become probabilities by a softmax. Given are at most five classes of enough
    probability, best first. Input: RGB / 255 with ImageNet's mean and deviation, stretched; Ultralytics' classifiers:
    the middle of the picture, RGB / 255 alone.
    """

    name: ClassVar[str] = "classification"
    needs_nms: ClassVar[bool] = False

    @classmethod
    def recognise(cls, info: NetworkInfo, _width: int, _height: int, /) -> Recognition:
        """[batch, classes], and something that says so: labels, the task, ImageNet's number, names of outputs."""
        lengths = _vectors(info)
        if lengths is None:
            return no(f"needs outputs [batch, classes], the network has {shapes_text(info)}")
        task, names, count = info.metadata.get("task"), metadata_names(info), lengths[0]
        if task not in (None, "classify"):
            return no(f"the metadata's task is {task!r}")
        if len(lengths) > 1:
            return perhaps(f"outputs {shapes_text(info)}: {len(lengths)} attributes; but nothing says so")
        why = f"output {info.outputs[0]}"
        if task == "classify" or len(names) == count:
            return Recognition(True, f"{why}: {count} classes by the metadata", count)
        if count in IMAGENET_CLASSES:
            return Recognition(True, f"{why}: {count} is ImageNet's number of classes", count)
        if _named_like(info, SCORE_NAMES) and not _named_like(info, EMBEDDING_NAMES):
            return Recognition(True, f"{why}: {count} classes by the output's name", count)
        return perhaps(f"{why}: {count} classes; but nothing says that it is no embedding", count)

    @classmethod
    def confirm(
        cls, _info: NetworkInfo, _width: int, _height: int, verdict: Recognition, outputs: Arrays, /
    ) -> Recognition:
        """Shares of 1 are the classes' probabilities."""
        if not verdict.fits and len(outputs) == 1 and _are_shares(outputs[0].reshape(len(outputs[0]), -1)):
            return Recognition(True, f"{verdict.why.partition('; but')[0]}, that add up to 1", verdict.classes)
        return verdict

    @classmethod
    def preprocessing(cls, info: NetworkInfo, width: int, height: int, /) -> Preprocessing:
        """RGB / 255 with ImageNet's mean and deviation, stretched; the middle without them for Ultralytics' files."""
        if info.metadata.get("task") == "classify":  # ultralytics/data/augment.py, classify_transforms
            return Preprocessing(width, height, fit="crop", interpolation="antialias")
        return Preprocessing(width, height, fit="stretch", mean=IMAGENET_MEAN, std=IMAGENET_STD)

    def decode(self, outputs: Arrays, index: int, confidence: float) -> Raw:
        """See `Decoder.decode`."""
        results: list[Classification] = []
        for number, output in enumerate(outputs):
            shares = _shares(np.asarray(output[index], np.float32).ravel())
            best = np.argsort(-shares, kind="stable")[:MOST_RESULTS]
            name = self.info.outputs[number].name if len(outputs) > 1 else None
            results += [
                Classification(int(i), float(shares[i]), name=name, index=number)
                for i in best
                if shares[i] >= confidence
            ]
        return whole_picture(WholeFrame(classification=results))


class EmbeddingDecoder(Family):
    """Re-identification and other embeddings: [batch, numbers], given as the network gives it.

    Input: RGB / 255 with ImageNet's mean and deviation, stretched (torchreid); NHWC, as models of OpenVINO are
    converted: BGR 0..255.
    """

    name: ClassVar[str] = "embedding"
    needs_nms: ClassVar[bool] = False

    @classmethod
    def recognise(cls, info: NetworkInfo, _width: int, _height: int, /) -> Recognition:
        """[batch, numbers], and something that says so: the output's name, or an input of a person's shape."""
        lengths = _vectors(info)
        if lengths is None or len(lengths) != 1:
            return no(f"needs one output [batch, numbers], the network has {shapes_text(info)}")
        if "task" in info.metadata or len(metadata_names(info)) == lengths[0]:
            return no("the metadata names classes or a task")
        why = f"output {info.outputs[0]}: {lengths[0]} numbers"
        if _named_like(info, EMBEDDING_NAMES):
            return Recognition(True, f"{why}, an embedding by its name")
        if _named_like(info, SCORE_NAMES) or lengths[0] in IMAGENET_CLASSES:
            return no(f"{why}: classes by its name, or by ImageNet's number of them")
        if _is_person_crop(info) and lengths[0] >= LEAST_EMBEDDING:
            return Recognition(True, f"{why} of {info.inputs[0]}, a crop of a person by its shape")
        return perhaps(f"{why}; but nothing says that they are no classes")

    @classmethod
    def confirm(
        cls, _info: NetworkInfo, _width: int, _height: int, verdict: Recognition, outputs: Arrays, /
    ) -> Recognition:
        """Shares of 1 are no embedding; vectors of length 1 are."""
        vectors = outputs[0].reshape(len(outputs[0]), -1)
        if _are_shares(vectors):
            return no("its numbers add up to 1: they are probabilities")
        if not verdict.fits and np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-3):
            return Recognition(True, f"{verdict.why.partition('; but')[0]}, of length 1")
        return verdict

    @classmethod
    def preprocessing(cls, info: NetworkInfo, width: int, height: int, /) -> Preprocessing:
        """By the layout: torchreid's for NCHW, Open Model Zoo's for NHWC."""
        if input_size(info)[2]:
            return Preprocessing(width, height, fit="stretch", mean=IMAGENET_MEAN, std=IMAGENET_STD)
        return Preprocessing(width, height, fit="stretch", order="BGR", scale=1.0)

    def decode(self, outputs: Arrays, index: int, _confidence: float) -> Raw:
        """See `Decoder.decode`."""
        return whole_picture(WholeFrame(embedding=np.array(outputs[0][index], np.float32).ravel()))


def _are_shares(rows: Float) -> bool:
    """Whether each row [.., N] holds shares of 1."""
    return bool(rows.min() >= 0 and np.allclose(rows.sum(axis=-1), 1, atol=0.01))


def _shares(values: Float) -> Float:
    """Probabilities [N]: as they are where they add up to 1, else the softmax."""
    if _are_shares(values):
        return values
    with np.errstate(invalid="ignore"):  # of two infinities
        weights = np.exp(values - values.max())
        shares: Float = weights / weights.sum()
    check_scores(shares)
    return shares
