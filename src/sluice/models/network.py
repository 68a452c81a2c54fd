"""`NetworkModel`: preprocess + runtime + decoder, behind the same interface as anybody's model."""

from __future__ import annotations

import functools
import os
import weakref
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from sluice.errors import ConfigurationError, ModelError
from sluice.models.decoders import DECODERS, Recognition, candidates_of
from sluice.models.decoders.base import Arrays, Decoder, Raw, input_size, metadata_names
from sluice.models.detections import Detections
from sluice.models.frame import Frame
from sluice.models.instance import STOP_GRACE
from sluice.models.labels import COCO_80, COCO_91, read_labels
from sluice.models.letterbox import Letterbox
from sluice.models.parallel import BegunParts, Workers
from sluice.models.postprocess import to_detections
from sluice.models.preprocess import Preprocessing, Preprocessor, Triple
from sluice.models.recognition import by_name, choose, recognise
from sluice.models.whole import Layer, RawOutputs, WholeFrame
from sluice.runtimes import Network, NetworkInfo, TensorInfo, calls_at_once, open_network

if TYPE_CHECKING:
    from sluice.models.gpu.network import BegunBatch, GpuPath

CONFIDENCE = 0.25  # the defaults of Ultralytics' predict mode
IOU = 0.45
MAX_DETECTIONS = 300
OPEN_SIZE = 640  # for networks that leave the size of their input open
LARGEST_SIZE = 16384  # of an input's sides, far beyond any that is used: one more is a broken file or a slip


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
        self.path = Path(path)
        self.confidence, self.iou, self.max_detections = confidence, iou, max_detections
        self.class_agnostic = class_agnostic
        self.labels: tuple[str, ...] = read_labels(labels) or ()
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
        head = examine(network, self.path, size=self._size, decoder=self._decoder_name, labels=self.labels or None)
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
        self._network = network
        if len(self._inputs) > 1:
            self._workers = Workers(len(self._inputs), head.batch or 1)
            weakref.finalize(self, self._workers.close, 0).atexit = False
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
            return self._decoder.decode(outputs, slot, self.confidence)
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
        ModelError: the input is no picture, the size asked for is not the network's, the decoder named does not fit,
            or the label table has not as many labels as the head has classes.
    """
    info = network.info
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
