"""Networks by what their files say: names and shapes of inputs and outputs, and the exporter's texts.

The bytes are lines: ``in NAME TYPE SIZES``, ``out NAME TYPE SIZES``, ``values KIND``; any other is ``KEY=VALUE`` of the
metadata.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from readers import refusal

from contract.surface_samples import frame_format, random_frame
from models.decoders.layouts import Layout, layouts
from sluice.contract.surface import SurfaceBatch
from sluice.models.frame import Frame
from sluice.models.network import NetworkModel
from sluice.runtimes import Network, NetworkInfo, TensorInfo
from targets import Target

LARGEST_SIDE, LARGEST_OUTPUT = 256, 200_000
TYPES = ("float32", "float16", "uint8", "int32", "int64")
VALUES = {"zero": lambda shape: np.zeros(shape), "one": lambda shape: np.ones(shape)}
VALUES["noise"] = lambda shape: np.random.default_rng(1).random(shape)
VALUES["wide"] = lambda shape: np.random.default_rng(1).normal(0, 50, shape)
VALUES["nan"] = lambda shape: np.full(shape, np.nan)


class Made:
    """A network that is made of its description, and gives numbers of one kind."""

    def __init__(self, info: NetworkInfo, kind: str) -> None:
        self.info, self._kind = info, kind

    def run(self, array: np.ndarray[Any, Any]) -> Sequence[np.ndarray[Any, Any]]:
        """Return outputs whose open sizes are those of the batch."""
        return [
            VALUES[self._kind]([len(array) if size is None else size for size in item.shape]).astype(item.dtype)
            for item in self.info.outputs
        ]

    def close(self) -> None:
        """Nothing is held."""


class MadeModel(NetworkModel):
    """A model of such a network in the place of a file's."""

    network: Made

    def _open_network(self) -> Network:
        return self.network


def described(content: bytes) -> Made | None:
    """Read the lines; None where they describe no network that a runtime would give."""
    tensors: dict[str, list[TensorInfo]] = {"in": [], "out": []}
    metadata, kind = {}, "noise"
    for line in content.decode("utf-8", "replace").split("\n"):
        word, *rest = line.split(" ")
        if (
            word in tensors
            and len(rest) > 1
            and rest[1] in TYPES
            and all(size.isdecimal() or size == "?" for size in rest[2:])
        ):
            sizes = tuple(None if size == "?" else int(size[:6]) for size in rest[2:])
            tensors[word].append(TensorInfo(rest[0], sizes, rest[1]))
        elif word == "values" and rest[0] in VALUES:
            kind = rest[0]
        elif "=" in line:
            key, _, value = line.partition("=")
            metadata[key] = value
    sides = [size or 1 for item in tensors["in"] for size in item.shape]
    if len(tensors["in"]) != 1 or max(sides, default=1) > LARGEST_SIDE or math.prod(sides) > LARGEST_OUTPUT:
        return None
    if any(math.prod(size or 1 for size in item.shape) > LARGEST_OUTPUT for item in tensors["out"]):
        return None
    return Made(NetworkInfo(tuple(tensors["in"]), tuple(tensors["out"]), metadata), kind)


@functools.cache
def frame() -> Frame:
    form = frame_format("RGB", 64, 48)
    buffer, _ = random_frame(form)
    return Frame(SurfaceBatch.of_raw(buffer, form)[0], stream=0, number=0, pts=None)


def detect(content: bytes) -> None:
    """Load the network and run it on a frame."""
    network = described(content)
    if network is None:
        return
    model = MadeModel("made.onnx")
    model.network = network
    with np.errstate(all="ignore"):
        refused = refusal(lambda: run(model))
    assert refused is None or "made.onnx" in refused, refused


def run(model: MadeModel) -> None:
    """Load a model, and find what it says is in a frame."""
    model.load()
    try:
        for found in model.infer([frame()]):
            found.validate((64, 48))
    finally:
        model.close()


def seed(layout: Layout) -> bytes:
    """Return the lines of one of the layouts that exporters write."""
    lines = [f"in images {layout.dtype} {' '.join(map(_size, layout.shape))}"]
    lines += [
        f"out {name} {np.asarray(value).dtype} {' '.join(map(_size, np.shape(value)))}"
        for name, value in layout.outputs.items()
    ]
    return "\n".join([*lines, *(f"{key}={value}" for key, value in layout.metadata.items())]).encode()


def _size(size: int | str) -> str:
    return str(size) if isinstance(size, int) else "?"


WORDS = (b"values ", *(kind.encode() for kind in VALUES), b"names={0: 'a'}", b"task=", b"kpt_shape=[17, 3]", b"stride=",
         b"end2end=True", b"imgsz=[64, 64]", b"nms=True", b"out ", b" float32 ", b" ? ")  # fmt: skip
TARGETS = {"models": Target(detect, tuple(map(seed, layouts().values())), WORDS)}
