"""What a runtime must offer: open a network file, describe it, run arrays through it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from sluice.errors import ModelError


@dataclass(frozen=True)
class TensorInfo:
    """An input or output of a network.

    Attributes:
        name: its name in the file.
        shape: its sizes; None where the file leaves a size open.
        dtype: NumPy's name of the type, such as "float32".
    """

    name: str
    shape: tuple[int | None, ...]
    dtype: str

    def __str__(self) -> str:
        sizes = ", ".join("any" if size is None else str(size) for size in self.shape)
        return f"{self.name} {self.dtype} [{sizes}]"


@dataclass(frozen=True)
class NetworkInfo:
    """What a network file says of itself: real inputs (no weights), outputs, and metadata by key."""

    inputs: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...]
    metadata: dict[str, str] = field(default_factory=dict)


class Network(Protocol):
    """An open network.

    A runtime's class is called with a path, a device, and keyword arguments:

    * ``size``: width and height of the picture, each None where not asked for. Only a format that does not say the
      size of its own input (TorchScript) looks at it.
    * ``precision``: "f32", "f16" or "bf16" for a runtime that chooses the precision itself, None for its default here.
      "int8" has ONNX Runtime compute a quantised network in int8 on a processor.
    * ``threads``: how many threads compute; None for the cores the process may use.

    A precision that a runtime cannot give is refused with `sluice.errors.ConfigurationError`.
    """

    info: NetworkInfo

    def run(self, array: npt.NDArray[Any]) -> Sequence[npt.NDArray[Any]]:
        """All outputs, in the order of `info.outputs`, for one array given to the only input."""
        ...

    def close(self) -> None:
        """Free the network."""
        ...


#: Inputs beside the picture that only say how large it is: RT-DETR and D-FINE's (width, height), PaddleDetection's
#: (height, width) and scale from before resizing, and transformers' mask of what is no padding.
#: Sizes and boxes stay in pixels of the network's input, since the way back to the frame is the caller's.
SIZE_INPUTS: dict[str, Callable[[int, int], Any]] = {
    "orig_target_sizes": lambda width, height: [width, height],
    "im_shape": lambda width, height: [height, width],
    "scale_factor": lambda _width, _height: [1, 1],
    "pixel_mask": lambda width, height: np.ones((height, width)),
}


def split_inputs(inputs: Sequence[TensorInfo]) -> tuple[tuple[TensorInfo, ...], tuple[TensorInfo, ...]]:
    """The inputs that a caller has to give, and those of `SIZE_INPUTS`."""
    sizes = tuple(item for item in inputs if item.name in SIZE_INPUTS)
    return tuple(item for item in inputs if item not in sizes), sizes


def size_values(inputs: Sequence[TensorInfo], pictures: npt.NDArray[Any]) -> dict[str, npt.NDArray[Any]]:
    """What inputs of `SIZE_INPUTS` get for pictures [batch, channels, height, width]."""
    count, _, height, width = pictures.shape
    values = {item.name: np.asarray(SIZE_INPUTS[item.name](width, height), item.dtype) for item in inputs}
    return {name: np.repeat(value[None], count, axis=0) for name, value in values.items()}


def metadata_texts(metadata: Mapping[Any, Any]) -> dict[str, str]:
    """An exporter's metadata as texts, in the form that Ultralytics gives its ONNX files.

    JSON and YAML know no tuples, and JSON turns class numbers into texts: ``{"names": {"0": "person"}}`` becomes
    ``"{0: 'person'}"``.

    Raises:
        ModelError: a value is nested too deeply.
    """
    try:
        return {str(key): str(_numbered(value)) for key, value in metadata.items()}
    except RecursionError:
        raise ModelError("the exporter's metadata are nested too deeply to be shown") from None


def _numbered(value: Any) -> Any:
    """A mapping whose keys are all digits with numbers for keys; anything else as it is."""
    if isinstance(value, Mapping) and value and all(re.fullmatch(r"[0-9]{1,9}", str(key)) for key in value):
        return {int(key): item for key, item in value.items()}
    return value
