"""A PyTorch module on one CUDA stream: batches of surfaces go in, small results come out, and nothing waits between.

A batch costs the processor three things: a copy of the pointer table to the GPU, one launch (of a captured graph with
letterboxing, network and choice of boxes in it) and a copy of the results back. An event behind them tells when the
surfaces are no longer read. Batches of one engine follow each other on its stream, so its input is made once per size.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from sluice.contract.surface import SurfaceError
from sluice.contract.transform import Conversion, SurfaceTransform
from sluice.errors import ContractError
from sluice.models.gpu.preprocess import check_spec, letterbox, new_input
from sluice.models.gpu.table import ROW, TableWriter
from sluice.models.letterbox import Letterbox
from sluice.models.preprocess import Preprocessing
from sluice.runtimes.unwinding import import_compiled

if TYPE_CHECKING:
    from sluice.contract.surface import Surface

torch: Any = import_compiled("torch")

log = logging.getLogger("sluice.models")

SIZES = (1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128)
"""Batch sizes that graphs are captured for; a batch between two of them is padded to the larger.

Sizes that were prepared go before these: what fits in one of them is padded to it."""
WARM_UPS = 3
"""Runs before a capture: PyTorch's own rule, so that libraries have made their choices and workspaces."""

Forward = Callable[[Any], list[Any]]


@dataclass(frozen=True)
class Results:
    """What came back of one batch.

    Attributes:
        arrays: one per result tensor, of the whole batch with its padding; only valid until the engine's next batch is
            begun.
        boxes: how each frame lies in the network's input.
    """

    arrays: list[npt.NDArray[Any]]
    boxes: list[Letterbox]


@dataclass
class _Slot:
    """Pinned memory of one batch in flight."""

    table: Any
    rows: npt.NDArray[np.int64]
    done: Any
    results: dict[int, list[Any]] = field(default_factory=dict)


@dataclass
class _Plan:
    """What runs for one batch size, and the tensors it reads and writes.

    `kept` are the tensors that the module kept from call to call when the graph was captured. It replaces them when the
    batch size changes (YOLO heads their anchors); a graph goes on reading the old ones.
    """

    table: Any
    step: Callable[[], list[Any]]
    outputs: list[Any]
    graph: Any | None
    kept: list[Any]

    def run(self) -> list[Any]:
        if self.graph is None:
            return self.step()
        self.graph.replay()
        return self.outputs


class InFlight:
    """A batch that the GPU works on. The surfaces must stay until `finish` has returned."""

    def __init__(
        self, engine: Engine, slot: _Slot, size: int, boxes: list[Letterbox], conversion: Conversion | None
    ) -> None:
        self._engine, self._slot, self._size, self._boxes = engine, slot, size, boxes
        self._conversion = conversion

    def ready(self) -> bool:
        """Whether `finish` would return at once."""
        return bool(self._slot.done.query())

    def finish(self) -> Results:
        """Wait for the batch and return its results, once."""
        self._slot.done.synchronize()
        if self._conversion is not None:
            self._conversion.finish()
        arrays = [tensor.numpy() for tensor in self._slot.results[self._size]]
        self._engine.give_back(self._slot)
        return Results(arrays, self._boxes)


class Engine:
    """Runs a module on surfaces.

    All calls come from one thread.

    Args:
        forward: the network, from its input tensor to its output tensors.
        spec: the network's input.
        device: the torch device it is on.
        choose: what is run on the outputs and the pointer table on the GPU; None gives the outputs themselves.
        kept: the tensors that the network keeps between calls.
        ahead: what the network does before inputs of some shapes are prepared for.
        batch: frames of every call, for a network that takes one number only; None for any number.
        graphs: whether to capture graphs.
    """

    def __init__(
        self,
        forward: Forward,
        spec: Preprocessing,
        device: Any,
        *,
        choose: Callable[[list[Any], Any], Any] | None = None,
        kept: Callable[[], list[Any]] = list,
        ahead: Callable[[list[Any]], None] | None = None,
        batch: int | None = None,
        graphs: bool = True,
    ) -> None:
        check_spec(spec)
        self.spec, self.device = spec, device
        self._forward, self._choose, self._kept = forward, choose, kept
        self._batch, self._graphs, self._ahead = batch, graphs, ahead
        self._writer = TableWriter(spec, device.index or 0)
        self._stream = torch.cuda.Stream(device)
        self._plans: dict[int, _Plan] = {}
        self._prepared: list[int] = []
        self._free: list[_Slot] = []
        self._transform: SurfaceTransform | None = None

    @property
    def most(self) -> int:
        """Frames that one call takes."""
        return self._batch or SIZES[-1]

    def begin(self, surfaces: Sequence[Surface]) -> InFlight:
        """Queue a batch on the stream and return without waiting for it.

        The first batch of a size waits for that size's graph to be captured.

        Args:
            surfaces: 1 to `most` surfaces in memory of this GPU.

        Raises:
            SurfaceError: a surface that the kernel cannot read.
        """
        size = self._size_for(len(surfaces))
        with torch.inference_mode(), torch.cuda.device(self.device), torch.cuda.stream(self._stream):
            plan = self._plans.get(size) or self._make_plan(size)
            surfaces, conversion = self._readable(surfaces)
            slot = self._free.pop() if self._free else self._make_slot()
            try:
                boxes = self._queue(plan, slot, size, surfaces)
            except BaseException:
                # What was queued before it failed still reads the surfaces, and writes to the slot.
                self._stream.synchronize()
                if conversion is not None:
                    conversion.finish()
                self.give_back(slot)
                raise
        return InFlight(self, slot, size, boxes, conversion)

    def _queue(self, plan: _Plan, slot: _Slot, size: int, surfaces: Sequence[Surface]) -> list[Letterbox]:
        """Queue a batch that the kernel can read on the current stream."""
        boxes = self._writer.write(slot.rows[:size], surfaces)
        plan.table.copy_(slot.table[:size], non_blocking=True)
        outputs = plan.run()
        if [result.shape for result in slot.results.get(size, ())] != [output.shape for output in outputs]:
            slot.results[size] = _pinned(outputs)
        for result, output in zip(slot.results[size], outputs, strict=True):
            result.copy_(output, non_blocking=True)
        slot.done.record(self._stream)
        return boxes

    def _readable(self, surfaces: Sequence[Surface]) -> tuple[Sequence[Surface], Conversion | None]:
        """The surfaces with those that the kernel cannot read converted by NVIDIA, on the stream."""
        foreign = [place for place, surface in enumerate(surfaces) if not self._writer.reads(surface)]
        if not foreign:
            return surfaces, None
        if self._transform is None:
            self._transform = open_transform(surfaces[foreign[0]], self.device.index or 0)
        conversion = self._transform.begin([surfaces[place] for place in foreign], self._stream.cuda_stream)
        readable = list(surfaces)
        for place, surface in zip(foreign, conversion.surfaces, strict=True):
            readable[place] = surface
        return readable, conversion

    def _size_for(self, frames: int) -> int:
        return self._batch or next(size for size in (*self._prepared, *SIZES) if size >= frames)

    def give_back(self, slot: _Slot) -> None:
        """Let the next batch use a slot."""
        self._free.append(slot)

    def reserve(self, sizes: Collection[int], at_once: int) -> None:
        """Make now what calls of these numbers of frames need, so many of them in flight; none may be in flight yet."""
        parts = {min(size, self.most) for size in sizes} | {size % self.most for size in sizes} - {0}
        with torch.inference_mode(), torch.cuda.device(self.device), torch.cuda.stream(self._stream):
            for size in sorted({self._size_for(part) for part in parts}):
                if size not in self._plans:
                    self._make_plan(size)
            wanted = at_once * max((-(-size // self.most) for size in sizes), default=0)
            self._free += [self._make_slot() for _ in range(wanted - len(self._free))]
            for slot in self._free:
                for size, plan in self._plans.items():
                    if size not in slot.results:
                        slot.results[size] = _pinned(plan.outputs)

    def prepare(self, sizes: Sequence[int]) -> None:
        """Make what batches of these numbers of frames need, so that none of them, nor of fewer frames, waits."""
        self._prepared = sorted(min(size, self.most) for size in sizes)
        if self._ahead is not None and self._prepared:
            self._ahead(
                [new_input(self.spec, size, self.device) for size in dict.fromkeys(map(self._size_for, self._prepared))]
            )
        with torch.inference_mode(), torch.cuda.device(self.device), torch.cuda.stream(self._stream):
            for wanted in self._prepared:
                size = self._size_for(wanted)
                if size not in self._plans:
                    self._make_plan(size)

    def close(self) -> None:
        """Wait for what is in flight and drop graphs and memory."""
        self._stream.synchronize()
        self._plans.clear()
        self._free.clear()
        if self._transform is not None:
            self._transform.close()

    def _make_slot(self) -> _Slot:
        table = torch.zeros((self._batch or SIZES[-1], ROW), dtype=torch.int64, pin_memory=True)
        return _Slot(table, table.numpy(), torch.cuda.Event())

    def _make_plan(self, size: int) -> _Plan:
        table = torch.zeros((size, ROW), dtype=torch.int64, device=self.device)
        pictures = new_input(self.spec, size, self.device)

        def step() -> list[Any]:
            letterbox(table, pictures, self.spec)
            outputs = self._forward(pictures)
            return outputs if self._choose is None else [self._choose(outputs, table)]

        for _ in range(WARM_UPS):
            outputs = step()
        self._stream.synchronize()
        graph = None
        if self._graphs:
            graph, outputs = self._capture(step, outputs, size)
        plan = self._plans[size] = _Plan(table, step, outputs, graph, self._kept())
        return plan

    def _capture(self, step: Callable[[], list[Any]], outputs: list[Any], size: int) -> tuple[Any, list[Any]]:
        """A graph of one step and its outputs; none where the network does what no graph can hold, which is logged."""
        graph = torch.cuda.CUDAGraph()
        try:
            # Only this thread's calls count: decoders allocate memory on others meanwhile.
            with torch.cuda.graph(graph, stream=self._stream, capture_error_mode="thread_local"):
                outputs = step()
        except RuntimeError as error:
            reason = str(error).strip().splitlines()[0]
            log.warning("batches of %d run without a CUDA graph, as the network cannot be captured: %s", size, reason)
            return None, outputs
        return graph, outputs


def _pinned(outputs: list[Any]) -> list[Any]:
    """Memory of the host for copies of these tensors."""
    return [torch.empty(output.shape, dtype=output.dtype, pin_memory=True) for output in outputs]


def open_transform(surface: Surface, gpu: int) -> SurfaceTransform:
    """NVIDIA's converter for a surface that the kernel cannot read.

    Raises:
        SurfaceError: its libraries are not there, with what to do.
    """
    try:
        return SurfaceTransform(gpu)
    except ContractError as error:
        raise SurfaceError(
            f"surface {surface.index}, {surface.format} in memory type {surface.mem_type.name} and layout "
            f"{surface.layout.name}, has to be converted first, for which there is {error}; or put `nvvideoconvert ! "
            "video/x-raw(memory:NVMM)`, or nvcodec's `cudaupload`, before the mux"
        ) from error
