"""`NetworkModel`: preprocess + runtime + decoder, behind the same interface as anybody's model."""

from __future__ import annotations

import os
import weakref
from collections.abc import Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy.typing as npt

from sluice.errors import ConfigurationError, ModelError
from sluice.models.decoders import DECODERS, candidates_of
from sluice.models.decoders.base import Arrays, Decoder, Raw, check_boxes
from sluice.models.detections import Detections
from sluice.models.frame import Frame
from sluice.models.head import Head, examine, run
from sluice.models.instance import MOST_BEGUN, STOP_GRACE
from sluice.models.labels import read_labels
from sluice.models.letterbox import Letterbox
from sluice.models.parallel import BegunParts, Workers
from sluice.models.postprocess import to_detections
from sluice.models.preprocess import Preprocessing, Preprocessor, Triple
from sluice.models.swap import Calls
from sluice.models.whole import Layer, RawOutputs, WholeFrame
from sluice.runtimes import Network, calls_at_once, open_network

if TYPE_CHECKING:
    from sluice.models.gpu.network import BegunBatch, GpuPath

CONFIDENCE = 0.25  # the defaults of Ultralytics' predict mode
IOU = 0.45
MAX_DETECTIONS = 300


class _Input:
    """The input of one thread's calls.

    Attributes:
        preprocessor: writes frames into it.
    """

    def __init__(self, spec: Preprocessing, batch: int | None) -> None:
        self._batch = batch
        self.preprocessor = Preprocessor(spec, batch or 1)

    def grown(self, frames: int) -> Preprocessor:
        """The preprocessor, with room for so many frames where the network takes any number."""
        if self._batch is None and len(self.preprocessor.input) < frames:
            self.preprocessor = Preprocessor(self.preprocessor.spec, frames)
        return self.preprocessor


class NetworkModel:
    """A network in a file: a detector of any family, a classifier, a segmentation, an embedding.

    Args:
        path: the network file, e.g. ``yolox_nano.onnx``.
        labels: label file, or the labels; by default the file's own, or COCO's for a head of 80 classes.
        runtime: see `sluice.runtimes.open_network`.
        device: see `sluice.runtimes.open_network`.
        precision: see `sluice.runtimes.open_network`.
        threads: see `sluice.runtimes.open_network`. By default the cores are shared by two calls at once where that is
            faster; a number makes one call at a time, by so many threads.
        confidence: least score, 0..1.
        iou: overlap of two boxes of one class above which the weaker goes, 0..1.
        max_detections: the most boxes for one frame.
        class_agnostic: let boxes of different classes suppress each other too, for heads that see one object as two.
        decoder: name of the head's decoder or family, instead of recognising it.
        output_tensor_meta: give the network's raw outputs too.
        width, height: input size for a network that leaves it open.
        fit, pad, order, scale, mean, std, interpolation: in place of what the decoder's family usually wants, see
            `Preprocessing`; mean and std may be texts of three numbers, such as "0.485,0.456,0.406".
        cuda_graphs: for PyTorch's networks on a GPU and frames in its memory: run captured graphs.
        compile: for the same: run the network compiled by PyTorch's AOTInductor for the batch sizes of `prepare`. The
            first load takes minutes, later ones find the result in a cache; see `sluice.runtimes.torch_compile`.
        prepare: for the same: batch sizes to capture and compile while the model loads, such as "8,32"; smaller batches
            are padded to them, larger ones wait when they first come and are not compiled.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        labels: str | Path | Sequence[str] | None = None,
        runtime: str = "auto",
        device: str = "auto",
        precision: str | None = None,
        threads: int | None = None,
        confidence: float = CONFIDENCE,
        iou: float = IOU,
        max_detections: int = MAX_DETECTIONS,
        class_agnostic: bool = False,
        decoder: str | None = None,
        output_tensor_meta: bool = False,
        width: int | None = None,
        height: int | None = None,
        fit: str | None = None,
        pad: int | None = None,
        order: str | None = None,
        scale: float | None = None,
        mean: str | Triple | None = None,
        std: str | Triple | None = None,
        interpolation: str | None = None,
        cuda_graphs: bool = True,
        compile: bool = False,
        prepare: str | int | None = None,
    ) -> None:
        if decoder is not None:
            candidates_of(decoder)
        if max_detections < 1:
            raise ConfigurationError(f"max_detections is {max_detections}; right is 1 or more")
        self.path = Path(path)
        self.confidence, self.iou, self.max_detections = confidence, iou, max_detections
        self.class_agnostic = class_agnostic
        self._given_labels = read_labels(labels) or None
        self.labels: tuple[str, ...] = self._given_labels or ()
        self._runtime, self._device = runtime, device
        self._precision, self._threads = precision, threads
        self._decoder_name = decoder
        self._with_outputs = output_tensor_meta
        self._size = width, height
        given: dict[str, Any] = {
            "fit": fit,
            "pad": pad,
            "order": order,
            "scale": scale,
            "mean": _triple("mean", mean),
            "std": _triple("std", std),
            "interpolation": interpolation,
        }
        self._overrides = {name: value for name, value in given.items() if value is not None}
        self._graphs, self._compile = cuda_graphs, compile
        self._prepared = _sizes(prepare)
        if compile and not self._prepared:
            raise ConfigurationError(
                f"compile is set for {path}, and no batch size to compile for; right is prepare=N with the mux's "
                "batch-size, or prepare=8,32"
            )
        self._network: Network | None = None
        self._at_once = 1
        self._workers: Workers[Frame, Detections] | None = None
        self._gpu: GpuPath | None = None
        self._why_not_gpu = ""

    def load(self) -> None:
        """Open the file, recognise its head and allocate its input.

        Raises:
            ModelError: the file is missing or broken, or no decoder reads its outputs; with every decoder's reason.
        """
        network = self._open_network()
        try:
            self._prepare(network)
        except BaseException:
            network.close()
            raise
        self._network = network

    def _prepare(self, network: Network) -> None:
        """Everything that depends on the open network."""
        head = examine(network, self.path, size=self._size, decoder=self._decoder_name, labels=self._given_labels)
        if head.decoder is None or head.preprocessing is None:
            reasons = "".join(f"\n  {name}: {verdict.why}" for name, verdict in head.verdicts.items())
            raise ModelError(f"{self.path}: {head.why_not}:{reasons}")
        self.head = head
        self.labels = head.labels
        self._decoder: Decoder = DECODERS[head.decoder](head.info, head.width, head.height)
        spec = replace(head.preprocessing, **self._overrides)
        if head.decoder == "segmentation" and spec.fit == "crop":
            raise ConfigurationError(f"{self.path}: fit is 'crop', which cuts off what a segmentation has to cover")
        self._inputs = [_Input(spec, head.batch) for _ in range(self._at_once)]
        if len(self._inputs) > 1:
            self._workers = Workers(len(self._inputs), head.batch or 1)
            # The last reference may go in one of these threads, which can't wait for itself.
            weakref.finalize(self, self._workers.end).atexit = False
        try:
            self._gpu, self._why_not_gpu = self._gpu_path(network, head, spec), ""
        except ConfigurationError as error:  # frames in system memory can do without
            self._gpu, self._why_not_gpu = None, str(error)

    def _gpu_path(self, network: Network, head: Head, spec: Preprocessing) -> GpuPath | None:
        """What runs frames in GPU memory; None for networks that are not PyTorch's on a GPU, and other inputs."""
        module = getattr(network, "on_device", None)
        if module is None or module.device.type != "cuda" or len(head.info.inputs[0].shape) != 4:
            return None
        if find_spec("triton") is None:
            raise ConfigurationError("frames in GPU memory need triton, which is not installed: pip install triton")
        from sluice.models.gpu.heads import Choice
        from sluice.models.gpu.network import GpuPath

        choice = Choice(
            head.width, head.height, self.confidence, self.iou, self.class_agnostic, most=self.max_detections
        )
        return GpuPath(
            module.compiled(str(self.path)) if self._compile else module,
            spec,
            head.info,
            head.decoder or "",
            choice,
            self._decode,
            on_gpu=not self._with_outputs,
            batch=head.batch,
            graphs=self._graphs,
        )

    def warm_up(self) -> None:
        """Run the network once on what its input holds, and prepare the batch sizes asked for."""
        for given in self._inputs:
            self._run(given.preprocessor.input)
        if self._gpu is not None:
            self._gpu.engine.prepare(self._prepared)

    def rehearse(self, calls: Calls) -> None:
        """Make on the GPU what such calls need: a graph for each size, and memory for each batch in flight."""
        if self._gpu is not None and calls.on_gpu:
            self._gpu.engine.reserve(calls.sizes, min(calls.at_once, MOST_BEGUN))

    def close(self) -> None:
        """Free the network."""
        if self._gpu is not None:
            self._gpu.engine.close()
            self._gpu = None
        if self._workers is not None:
            self._workers.close(STOP_GRACE)
            self._workers = None
        if self._network is not None:
            self._network.close()
            self._network = None

    def begin(self, frames: list[Frame]) -> BegunBatch | BegunParts[Detections] | None:
        """Begin what `infer` does without waiting for it; None where nothing would be gained."""
        self._opened()
        if self._gpu is not None:
            return self._gpu.begin(frames) if self._gpu.takes(frames) else None
        if self._why_not_gpu and any(frame.surface.mem_type.on_cuda for frame in frames):
            raise ConfigurationError(f"{self.path}: {self._why_not_gpu}")
        return self._workers.begin(self._infer, frames) if self._workers is not None else None

    def infer(self, frames: list[Frame]) -> list[Detections]:
        """Detections of each frame, in its own pixels, clipped at its edges, best first."""
        begun = self.begin(frames)
        if begun is not None:
            return begun.finish()
        return self._infer(0, frames)

    def _infer(self, thread: int, frames: Sequence[Frame]) -> list[Detections]:
        """Detections of each frame, by one of the threads that have an input."""
        batch = self.head.batch
        preprocessor = self._inputs[thread].grown(len(frames))
        step = batch or max(1, len(frames))
        results: list[Detections] = []
        for first in range(0, len(frames), step):
            part = frames[first : first + step]
            boxes = [preprocessor.write(slot, frame.surface) for slot, frame in enumerate(part)]
            # A network of a fixed batch gets its whole input; the slots behind the last frame are not read.
            outputs = self._run(preprocessor.input[: batch or len(part)])
            results += [self._decode(outputs, slot, box) for slot, box in enumerate(boxes)]
        return results

    def _run(self, pictures: npt.NDArray[Any]) -> Arrays:
        return run(self._opened(), pictures)

    def _decode(self, outputs: Arrays, slot: int, box: Letterbox) -> Detections:
        size = self.head.width, self.head.height
        found = to_detections(
            self._read(outputs, slot),
            box,
            size,
            iou=self.iou if self._decoder.needs_nms else None,
            class_agnostic=self.class_agnostic,
            max_detections=self.max_detections,
        )
        if self._with_outputs:
            found.whole = replace(found.whole or WholeFrame(), outputs=self._raw_outputs(outputs, slot))
        return found

    def _read(self, outputs: Arrays, slot: int) -> Raw:
        """What the decoder reads of one frame."""
        try:
            return check_boxes(self._decoder.decode(outputs, slot, self.confidence))
        except ModelError as error:  # such as scores that are NaN
            raise ModelError(f"{self.path}: {error}") from error
        except IndexError as error:  # such as a batch that the graph has fixed inside, or picks of boxes there are not
            shapes = ", ".join(
                f"{item.name} {list(a.shape)}" for item, a in zip(self.head.info.outputs, outputs, strict=True)
            )
            raise ModelError(
                f"{self.path}: the outputs {shapes} hold nothing that {self.head.decoder} could read for frame {slot} "
                f"of the batch ({error})"
            ) from error

    def _raw_outputs(self, outputs: Arrays, slot: int) -> RawOutputs:
        """The outputs of one frame; one whose first axis is no batch is given whole."""
        batch = self.head.batch or 1
        layers = tuple(
            Layer(item.name, array[slot] if item.shape and (len(array) == batch or item.shape[0] is None) else array)
            for item, array in zip(self.head.info.outputs, outputs, strict=True)
        )
        spec = self._inputs[0].preprocessor.spec
        return RawOutputs(
            layers, spec.width, spec.height, 3, keeps_aspect=spec.fit != "stretch", centred=spec.fit == "centre"
        )

    def _open_network(self) -> Network:
        """The network, newly opened; what is not in a file overrides this."""
        threads = self._threads
        if threads is None and (at_once := calls_at_once(self.path, self._runtime, self._device)) > 1:
            self._at_once, threads = at_once, max(1, len(os.sched_getaffinity(0)) // at_once)
        return open_network(
            self.path,
            self._runtime,
            self._device,
            size=self._size,
            precision=self._precision,
            threads=threads,
        )

    def _opened(self) -> Network:
        if self._network is None:
            raise ModelError(f"{self.path} is not loaded; call load() first, and infer() before close()")
        return self._network


def _sizes(value: str | int | None) -> tuple[int, ...]:
    """Batch sizes from a text."""
    try:
        sizes = tuple(int(part) for part in str(value or "").replace(";", ",").split(",") if part.strip())
    except ValueError as error:
        raise ConfigurationError(f"prepare is {value!r}; right are batch sizes, such as 8,32") from error
    if any(size < 1 for size in sizes):
        raise ConfigurationError(f"prepare is {value!r}; right are batch sizes of 1 or more")
    return sizes


def _triple(name: str, value: str | Triple | None) -> Triple | None:
    """Three numbers from a text or a sequence."""
    if value is None:
        return None
    parts = value.replace(";", ",").split(",") if isinstance(value, str) else value
    try:
        first, second, third = (float(part) for part in parts)
    except ValueError as error:
        raise ConfigurationError(f"{name} is {value!r}; right are three numbers, one per channel") from error
    return first, second, third
