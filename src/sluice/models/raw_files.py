"""Raw outputs of a network in files, named and laid out as nvinfer's raw-output-file-write does it."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from sluice.models.whole import RawOutputs


class RawFiles:
    """Writes the outputs of call after call.

    Args:
        unique_id: the element's, a part of the names.
        folder: where the files go.
    """

    def __init__(self, unique_id: int, folder: Path) -> None:
        self._unique_id = unique_id
        self._folder = folder
        self._calls = 0

    def write(self, outputs: Sequence[RawOutputs]) -> None:
        """Write one file per layer: the layer's values for each picture of a call, one behind the other.

        Args:
            outputs: of each picture.

        Raises:
            OSError: a file cannot be written.
        """
        number, self._calls = self._calls, self._calls + 1
        for layers in zip(*(item.layers for item in outputs), strict=True):
            name = layers[0].name.replace("/", "_")
            batch = f"batch-{number:010d}_batchsize-{len(layers):02d}"
            path = self._folder / f"gstnvdsinfer_uid-{self._unique_id:02d}_layer-{name}_{batch}.bin"
            path.write_bytes(b"".join(np.ascontiguousarray(item.values).tobytes() for item in layers))
