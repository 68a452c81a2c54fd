"""Comparing a configuration with the network that it names: input size, layout, outputs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy.typing as npt

from sluice.errors import ConfigurationError, ModelError
from sluice.models.head import LARGEST_BATCH, LARGEST_SIZE
from sluice.models.nvinfer.config import NvinferConfig
from sluice.models.nvinfer.keys import Properties
from sluice.runtimes import Network, NetworkInfo, TensorInfo


class Layout(NamedTuple):
    """Channels, height and width of an input, whether the channels come last, and its type."""

    size: tuple[int, int, int]
    channels_last: bool
    dtype: str


def input_layout(entry: TensorInfo, config: NvinferConfig) -> Layout:
    """The input as the network and the configuration describe it.

    Raises:
        ModelError: it is no picture, not of floating numbers, or of a batch beyond any memory.
        ConfigurationError: infer-dims or network-input-order contradict the network, or the size stays open or is
            beyond any picture's.
    """
    properties = config.properties
    if len(entry.shape) != 4:
        raise ModelError(f"{config.path}: the input {entry} is no picture; right is [batch, channels, height, width]")
    if entry.dtype not in ("float32", "float16"):
        raise ModelError(f"{config.path}: nvinfer feeds floating numbers, but the network's input is {entry}")
    last = properties.network_input_order == 1
    if not last and entry.shape[1] not in (1, 3, None) and entry.shape[3] in (1, 3):
        raise ConfigurationError(
            f"{config.path}: the network's input is {entry}, with the channels last; right is network-input-order=1"
        )
    own = tuple(entry.shape[axis] for axis in ((3, 1, 2) if last else (1, 2, 3)))
    asked = _asked_size(properties)
    if any(a is not None and b is not None and a != b for a, b in zip(own, asked, strict=True)):
        raise ConfigurationError(
            f"{config.path}: infer-dims is {';'.join(map(str, asked))}, but the network's input is {entry} "
            "(infer-dims is channels;height;width in either layout)"
        )
    channels, height, width = (a or b for a, b in zip(own, asked, strict=True))
    if channels is None or height is None or width is None:
        raise ConfigurationError(
            f"{config.path}: the network leaves the size of its input {entry} open; right is infer-dims=c;h;w"
        )
    if not (1 <= height <= LARGEST_SIZE and 1 <= width <= LARGEST_SIZE):
        raise ConfigurationError(
            f"{config.path}: the input would be {width}x{height}; right are sides of 1 to {LARGEST_SIZE}"
        )
    if (entry.shape[0] or 1) > LARGEST_BATCH:
        raise ModelError(f"{config.path}: the batch of the input {entry} is fixed; right is 1 to {LARGEST_BATCH}")
    return Layout((channels, height, width), last, entry.dtype)


def _asked_size(properties: Properties) -> tuple[int | None, int | None, int | None]:
    """Channels, height, width of infer-dims or of the keys of old that say the same."""
    if properties.infer_dims is not None:
        return properties.infer_dims
    old = properties.input_dims or properties.uff_input_dims
    return (None, None, None) if old is None else (old[0], old[1], old[2])


def real_shapes(network: Network, array: npt.NDArray[Any]) -> NetworkInfo:
    """The network's description with open output sizes filled in from one run on an input."""
    info = network.info
    if not any(None in output.shape[1:] for output in info.outputs):
        return info
    outputs = tuple(
        replace(item, shape=(item.shape[0] if item.shape else None, *found.shape[1:]))
        for item, found in zip(info.outputs, network.run(array), strict=True)
    )
    return replace(info, outputs=outputs)


def chosen_outputs(info: NetworkInfo, config: NvinferConfig) -> list[int]:
    """Numbers of the outputs that output-blob-names lists, in the network's order; of all without it.

    Raises:
        ConfigurationError: the network has no output of a name.
    """
    # Configurations keep TensorFlow's ":0" of names that lost it on the way to ONNX, and the other way round.
    wanted = {name.removesuffix(":0") for name in config.properties.output_blob_names}
    names = [output.name.removesuffix(":0") for output in info.outputs]
    missing = sorted(wanted.difference(names))
    if missing:
        raise ConfigurationError(
            f"{config.path}: output-blob-names lists {', '.join(missing)}; the network's outputs are "
            f"{', '.join(output.name for output in info.outputs)}"
        )
    return [number for number, name in enumerate(names) if not wanted or name in wanted]
