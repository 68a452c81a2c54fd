"""What an open network is: its input as a picture, the decoder that reads its outputs, and its label table."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sluice.errors import ModelError
from sluice.models.decoders import DECODERS, Recognition
from sluice.models.decoders.base import Arrays, input_size, metadata_names
from sluice.models.labels import COCO_80, COCO_91
from sluice.models.preprocess import Preprocessing
from sluice.models.recognition import by_name, choose, recognise
from sluice.runtimes import Network, NetworkInfo, TensorInfo

OPEN_SIZE = 640  # for networks that leave the size of their input open
LARGEST_SIZE = 16384  # of an input's sides, far beyond any that is used: one more is a broken file or a slip
LARGEST_BATCH = 1024  # of a network that fixes it; nvinfer's largest


@dataclass(frozen=True)
class Head:
    """What was found out about an open network.

    Attributes:
        info: the network's inputs and outputs, open sizes filled in.
        width, height: size of its input.
        batch: frames it takes at once; None for any number.
        verdicts: what each decoder says of it.
        decoder: name of the decoder to use; None if there is none.
        why_not: why there is none.
        labels: label table, empty if unknown.
        labels_from: where the table comes from.
        preprocessing: what goes in; None without a decoder.
    """

    info: NetworkInfo
    width: int
    height: int
    batch: int | None
    verdicts: dict[str, Recognition]
    decoder: str | None
    why_not: str
    labels: tuple[str, ...]
    labels_from: str
    preprocessing: Preprocessing | None


def examine(
    network: Network,
    path: Path,
    *,
    size: tuple[int | None, int | None] = (None, None),
    decoder: str | None = None,
    labels: Sequence[str] | None = None,
) -> Head:
    """Find out what an open network wants and gives.

    Args:
        network: the open network.
        path: its file, for messages.
        size: width and height where the network leaves them open.
        decoder: a decoder's name, instead of recognising one.
        labels: label table in place of the file's own.

    Raises:
        ModelError: the input is no picture, there is no output, the size asked for is not the network's, the decoder
            named does not fit, or the label table has not as many labels as the head has classes.
    """
    info = network.info
    if not info.outputs:
        raise ModelError(f"{path} has no outputs; right is one or more")
    entry = info.inputs[0]
    picture = entry.shape if len(entry.shape) == 4 else (1, *entry.shape)  # torchvision's detectors take one, unbatched
    if len(picture) != 4 or 3 not in (*picture[1:2], *picture[3:]):
        raise ModelError(
            f"{path}: the input {entry} is no picture; right is [batch, 3, height, width] or its NHWC form"
        )
    open_width, open_height, channels_first = input_size(info)
    width = _size("width", open_width, size[0], path)
    height = _size("height", open_height, size[1], path)
    shape = (picture[0] or 1, *((3, height, width) if channels_first else (height, width, 3)))
    dtype = _dtype(entry, path)
    if (picture[0] or 1) > LARGEST_BATCH:
        raise ModelError(f"{path}: the input's batch is fixed at {picture[0]}; right is 1 to {LARGEST_BATCH}, or open")
    probe = functools.cache(lambda: run(network, _noise(shape, dtype)))
    if any(None in output.shape[1:] for output in info.outputs):
        info = _with_real_shapes(info, probe())
    verdicts = recognise(info, width, height, probe, len(labels or ()))
    chosen, why_not = (by_name(decoder, verdicts, str(path)), "") if decoder else choose(verdicts)
    classes = verdicts[chosen].classes if chosen else 0
    table, source = _label_table(info, classes, labels, path, chosen)
    spec = None
    if chosen is not None:
        usual = DECODERS[chosen].preprocessing(info, width, height)
        spec = replace(usual, layout="NCHW" if channels_first else "NHWC")
        if dtype == "uint8":  # such graphs normalise by themselves
            spec = replace(spec, scale=1.0, mean=(0.0, 0.0, 0.0), std=(1.0, 1.0, 1.0))
        spec = replace(spec, dtype=dtype)
    batch = 1 if chosen is not None and DECODERS[chosen].one_picture else picture[0]
    return Head(info, width, height, batch, verdicts, chosen, why_not, table, source, spec)


def run(network: Network, pictures: npt.NDArray[Any]) -> Arrays:
    """All outputs for pictures [batch, ...]; those of other floating types as float32, as decoders want them."""
    single = len(network.info.inputs[0].shape) == 3
    outputs = network.run(pictures[0] if single else pictures)
    return [
        array.astype(np.float32) if array.dtype.kind == "f" and array.dtype != np.float32 else array
        for array in outputs
    ]


def _noise(shape: tuple[int, ...], dtype: str) -> npt.NDArray[Any]:
    """The same noise every time: bytes, or 0..1."""
    values = np.random.default_rng(0).random(shape, np.float32)
    return (values * 255).astype(dtype) if dtype == "uint8" else values.astype(dtype)


def _size(name: str, network: int | None, asked: int | None, path: Path) -> int:
    if network is not None and asked is not None and asked != network:
        raise ModelError(f"{path}: {name} {asked} was asked for, but the network's input has {network}")
    size = OPEN_SIZE if network is None and asked is None else network or asked or 0
    if not 1 <= size <= LARGEST_SIZE:
        raise ModelError(f"{path}: the input's {name} would be {size}; right is 1 to {LARGEST_SIZE}")
    return size


def _dtype(entry: TensorInfo, path: Path) -> Any:
    if entry.dtype not in ("float32", "float16", "uint8"):
        raise ModelError(f"{path}: the input {entry} has a type that is not made; right is float32, float16 or uint8")
    return entry.dtype


def _with_real_shapes(info: NetworkInfo, outputs: Arrays) -> NetworkInfo:
    """The network's description with open output sizes filled in from one run; a number of rows of 0 stays open."""
    real = tuple(
        replace(item, shape=(item.shape[0] if item.shape else None, *(size or None for size in array.shape[1:])))
        for item, array in zip(info.outputs, outputs, strict=True)
    )
    return replace(info, outputs=real)


def _label_table(
    info: NetworkInfo, classes: int, given: Sequence[str] | None, path: Path, decoder: str | None
) -> tuple[tuple[str, ...], str]:
    """Label table and where it comes from."""
    if given is not None:
        if decoder == "classification" and len(given) == classes + 1 and given[0].lower() == "background":
            return tuple(given[1:]), "given, without its background class, which the network does not have"
        if classes and len(given) != classes:
            raise ModelError(f"{len(given)} labels were given for {path}, whose head has {classes} classes")
        return tuple(given), "given"
    names = metadata_names(info)
    if names:
        return names, "the file's metadata"
    if classes == len(COCO_80):
        return COCO_80, "COCO, because the head has 80 classes and the file names none"
    if classes == len(COCO_91):
        return COCO_91, "COCO's numbers of categories, because the head has 91 classes and the file names none"
    own = DECODERS[decoder].labels if decoder else ()
    if own:
        return own, f"what networks of {decoder} find"
    return (
        (),
        "nowhere: it has no classes" if decoder == "embedding" else "nowhere: the file names none; give a label file",
    )
