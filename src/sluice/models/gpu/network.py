"""The GPU path of a `NetworkModel`: which frames it takes, and what becomes of its results."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from sluice.models.decoders.base import Arrays
from sluice.models.detections import Detections
from sluice.models.frame import Frame
from sluice.models.gpu.engine import Engine, InFlight
from sluice.models.gpu.heads import Choice, chooser_for
from sluice.models.letterbox import Letterbox
from sluice.models.preprocess import Preprocessing
from sluice.runtimes.base import NetworkInfo
from sluice.runtimes.torch import DeviceModule, torch

Decode = Callable[[Arrays, int, Letterbox], Detections]


class GpuPath:
    """Runs a network of PyTorch's on frames that are in its GPU's memory.

    Args:
        module: the network.
        spec: its input.
        info: its description.
        decoder: name of its head's decoder.
        choice: what is chosen of its boxes.
        decode: makes detections of its outputs, where the boxes are not chosen on the GPU: outputs, number of the
            frame, how it lies in the input.
        on_gpu: whether boxes may be chosen on the GPU, where there is code for the head.
        batch: frames of every call; None for any number.
        graphs: see `Engine`.
    """

    def __init__(
        self,
        module: DeviceModule,
        spec: Preprocessing,
        info: NetworkInfo,
        decoder: str,
        choice: Choice,
        decode: Decode,
        *,
        on_gpu: bool = True,
        batch: int | None = None,
        graphs: bool = True,
    ) -> None:
        chooser = chooser_for(decoder, info, choice) if on_gpu else None
        self._decode = decode
        self._chooser = chooser
        self.engine = Engine(
            functools.partial(_outputs, module),
            spec,
            module.device,
            choose=None if chooser is None else chooser.choose,
            kept=functools.partial(kept_tensors, module.module),
            ahead=module.prepare,
            batch=batch,
            graphs=graphs,
        )

    @property
    def chooses(self) -> bool:
        """Whether boxes are chosen on the GPU."""
        return self._chooser is not None

    @staticmethod
    def takes(frames: Sequence[Frame]) -> bool:
        """Whether the frames are in GPU memory, all of them, or in memory that only NVIDIA's converter reads."""
        kinds = [frame.surface.mem_type for frame in frames]
        return bool(kinds) and all(kind.on_cuda or not kind.on_host for kind in kinds)

    def begin(self, frames: Sequence[Frame]) -> BegunBatch:
        """Queue frames on the GPU and return at once.

        Raises:
            SurfaceError: the kernel cannot read a frame's surface.
        """
        step = self.engine.most
        begun: list[InFlight] = []
        try:
            for first in range(0, len(frames), step):
                begun.append(self.engine.begin([frame.surface for frame in frames[first : first + step]]))
        except BaseException:
            for part in begun:  # which the GPU still reads the surfaces of
                part.finish()
            raise
        return BegunBatch(self, begun)

    def detections(self, part: InFlight) -> list[Detections]:
        """The detections of what was begun in one call; waits for it."""
        results = part.finish()
        if self._chooser is not None:
            return self._chooser.read(results.arrays[0][: len(results.boxes)], results.boxes)
        # Copied: decoders may keep parts of the outputs, whose memory the next batch is written to.
        arrays = [np.array(array, np.float32 if array.dtype.kind == "f" else array.dtype) for array in results.arrays]
        return [self._decode(arrays, index, box) for index, box in enumerate(results.boxes)]


class BegunBatch:
    """Frames that the GPU works on; they must keep their surfaces until `finish` has returned.

    Attributes:
        valid: see `sluice.models.model.Begun`.
    """

    def __init__(self, path: GpuPath, parts: list[InFlight]) -> None:
        self._path, self._parts = path, parts
        self.valid = path.chooses

    def ready(self) -> bool:
        """Whether `finish` would return without waiting for the GPU."""
        return self._parts[-1].ready()

    def finish(self) -> list[Detections]:
        """Detections of each frame, in its own pixels; waits for them, also where the first ones cannot be read."""
        left = list(self._parts)
        results: list[Detections] = []
        try:
            while left:
                results += self._path.detections(left.pop(0))
        finally:
            for part in left:  # which the GPU still reads the surfaces of
                part.finish()
        return results


def kept_tensors(module: Any) -> list[Any]:
    """The tensors that a module and its parts keep as plain attributes; none for what is not written in Python."""
    if not isinstance(module, torch.nn.Module):
        return []
    return [value for part in module.modules() for value in vars(part).values() if isinstance(value, torch.Tensor)]


def _outputs(module: DeviceModule, pictures: Any) -> list[Any]:
    return [output.float() if output.dtype == torch.bfloat16 else output for output in module(pictures)]
