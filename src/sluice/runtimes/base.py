"""What a runtime must offer: open a network file, describe it, run arrays through it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy.typing as npt


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
    """An open network."""

    info: NetworkInfo

    def run(self, array: npt.NDArray[Any]) -> Sequence[npt.NDArray[Any]]:
        """All outputs, in the order of `info.outputs`, for one array given to the only input."""
        ...

    def close(self) -> None:
        """Free the network."""
        ...
