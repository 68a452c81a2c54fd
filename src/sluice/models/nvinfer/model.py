"""`NvinferModel`: a configuration file of nvinfer as a model, with what nvinfer does to frames and outputs."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from sluice.errors import ConfigurationError, ModelError
from sluice.models.decoders.base import Arrays
from sluice.models.detections import Detections
from sluice.models.frame import Frame
from sluice.models.head import run
from sluice.models.labels import read_labels
from sluice.models.letterbox import Letterbox
from sluice.models.nvinfer import labels as label_files
from sluice.models.nvinfer.clustering import require
from sluice.models.nvinfer.config import NvinferConfig, read_config
from sluice.models.nvinfer.files import network_file
from sluice.models.nvinfer.fitting import chosen_outputs, input_layout, real_shapes
from sluice.models.nvinfer.functions import Outputs
from sluice.models.nvinfer.input import InputSpec, InputWriter
from sluice.models.nvinfer.keys import NetworkType
from sluice.models.nvinfer.reading import Reader, make_reader
from sluice.models.whole import Layer, RawOutputs, WholeFrame
from sluice.runtimes import FILES, Network, NetworkInfo, open_network
from sluice.runtimes.tensorrt_build import build_engine

log = logging.getLogger("sluice.models")


class _Opened(NamedTuple):
    """What there is once the network is open.

    Attributes:
        network: the network.
        batch: pictures it takes at once; None for any number.
        info: its description with the outputs that are read.
        chosen: numbers of these outputs.
        reader: makes detections of them.
    """

    network: Network
    batch: int | None
    info: NetworkInfo
    chosen: list[int]
    reader: Reader


class NvinferModel:
    """A network as a configuration file of nvinfer describes it.

    What concerns an element rather than a model (interval, process-mode, operate-on-..., ids) is in
    ``config.properties`` for the element to use.

    Args:
        path: the configuration file, a key file or YAML.
        labels: label file, or labels by class id, in place of labelfile-path.
        runtime: see `sluice.runtimes.open_network`; "auto" takes the engine where TensorRT is, else the ONNX file.
        device: see `sluice.runtimes.open_network`.
        confidence: in place of every pre-cluster-threshold, and of classifier-threshold.
        iou: in place of every nms-iou-threshold.
        decoder: what reads the boxes, in place of the parse function; ``sluice models`` lists them.
        output_tensor_meta: give the raw outputs too, even if the file does not ask for them.
        precision: see `sluice.runtimes.open_network`; not for TensorRT, which takes it from network-mode.
        threads: see `sluice.runtimes.open_network`.
        overrides: fields of `sluice.models.nvinfer.keys.Properties` with values that go before the file's.

    Attributes:
        config: the file's content.
        labels: label per class id, after `load`.

    Raises:
        ConfigurationError: the file has a wrong value, or is no configuration of nvinfer.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        labels: str | Path | Sequence[str] | None = None,
        runtime: str = "auto",
        device: str = "auto",
        confidence: float | None = None,
        iou: float | None = None,
        decoder: str | None = None,
        output_tensor_meta: bool = False,
        precision: str | None = None,
        threads: int | None = None,
        overrides: Mapping[str, Any] | None = None,
    ) -> None:
        changes = {**({"output_tensor_meta": True} if output_tensor_meta else {}), **(overrides or {})}
        self.config = _with_thresholds(read_config(path, changes), confidence, iou)
        self.labels: tuple[str, ...] = ()
        self._runtime, self._device, self._decoder = runtime, device, decoder
        self._precision, self._threads = precision, threads
        self._given_labels = read_labels(labels)
        self._opened: _Opened | None = None
        self._writer: InputWriter

    @property
    def parser(self) -> str:
        """Name of what reads the outputs."""
        return self._open().reader.name

    def load(self) -> None:
        """Open the network, check the configuration against it, and log what a user should know of the two.

        Raises: see `open`.
        """
        for warning in self.config.warnings:
            log.warning("%s", warning)
        self.open()
        for warning in self._open().reader.warnings:
            log.warning("%s", warning)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What a user should know of the configuration and, once it is open, of the network."""
        return (*self.config.warnings, *(self._opened.reader.warnings if self._opened else ()))

    def open(self) -> None:
        """As `load`, without the log lines for people.

        Raises:
            ModelError: a file is missing or broken, or the network's inputs or outputs are not what the file says.
            ConfigurationError: keys that do not fit the network, or a parse function that is not known.
        """
        config = self.config
        require(config.properties.cluster_mode, config.classes)
        lines = self._label_lines()
        path = self._network_file()
        device = self._device
        if device == "auto" and path.suffix == ".engine":
            device = f"cuda:{config.properties.gpu_id}"
        network = open_network(path, self._runtime, device, precision=self._precision, threads=self._threads)
        try:
            self._opened = self._prepare(network, lines)
        except BaseException:
            network.close()
            raise
        self.labels = self._opened.reader.labels

    def _network_file(self) -> Path:
        """The file to open; an engine that is missing is built first."""
        path, note, build = network_file(self.config, self._runtime)
        if note is not None:
            log.info("%s", note)
        if "tensorrt" in FILES.get(path.suffix.lower(), ()) and self._precision is not None:
            raise ConfigurationError(
                f"precision {self._precision!r} is not for TensorRT, which runs {self.config.path} here: it takes the "
                "precision from network-mode when it builds the engine; right is none, or the runtime onnxruntime"
            )
        if build is not None:
            build_engine(build)
        return path

    def warm_up(self) -> None:
        """Run the network once on what its input holds."""
        self._open().network.run(self._writer.input)

    def close(self) -> None:
        """Free the network."""
        opened, self._opened = self._opened, None
        if opened is not None:
            opened.network.close()

    def infer(self, frames: list[Frame]) -> list[Detections]:
        """What nvinfer would attach to each frame (or to each crop, of a secondary model), in its order.

        Boxes are in pixels of the frame; a classification, a segmentation or raw outputs are in `Detections.whole`.
        """
        opened = self._open()
        step = opened.batch or max(1, min(len(frames), self.config.properties.batch_size))
        if len(self._writer.input) < step:
            self._writer = InputWriter(self._writer.spec, step)
        results: list[Detections] = []
        for first in range(0, len(frames), step):
            part = frames[first : first + step]
            boxes = [self._writer.write(slot, frame.surface) for slot, frame in enumerate(part)]
            # A network of a fixed batch gets its whole input; the slots behind the last frame are not read.
            arrays = run(opened.network, self._writer.input[: opened.batch or len(part)])
            outputs = [arrays[number] for number in opened.chosen]
            for slot, (box, frame) in enumerate(zip(boxes, part, strict=True)):
                result = self._read(outputs, slot, box, frame)
                results.append(self._with_raw_outputs(result, outputs, slot))
        return results

    def _read(self, outputs: Arrays, slot: int, box: Letterbox, frame: Frame) -> Detections:
        """What the outputs hold of one frame."""
        reader = self._open().reader
        try:
            return reader.read(outputs, slot, box, (frame.width, frame.height))
        except ModelError as error:  # such as scores that are NaN
            raise ModelError(f"{self.config.path}: {error}") from error
        except IndexError as error:  # such as a batch that the graph has fixed inside
            shapes = ", ".join(str(list(array.shape)) for array in outputs)
            raise ModelError(
                f"{self.config.path}: the outputs {shapes} hold nothing that {reader.name} could read for frame {slot} "
                f"of the batch ({error})"
            ) from error

    def _prepare(self, network: Network, lines: label_files.Lines) -> _Opened:
        """Everything that depends on the network."""
        entry = network.info.inputs[0]
        layout = input_layout(entry, self.config)
        spec = InputSpec.make(self.config.properties, layout.size, layout.channels_last, layout.dtype, self.config.path)
        self._writer = InputWriter(spec, entry.shape[0] or 1)
        info = real_shapes(network, self._writer.input)
        chosen = chosen_outputs(info, self.config)
        info = replace(info, outputs=tuple(info.outputs[number] for number in chosen))
        probe = cache(lambda: self._on_noise(network, chosen))
        outputs = Outputs(info, spec.width, spec.height, probe, self.config.properties.num_detected_classes)
        reader = make_reader(self.config, outputs, lines, self._decoder)
        return _Opened(network, entry.shape[0], info, chosen, reader)

    def _on_noise(self, network: Network, chosen: list[int]) -> Arrays:
        """The outputs for a picture of noise, the same every time, from which decoders are told apart."""
        spec = self._writer.spec
        noise = np.random.default_rng(0).integers(0, 256, (spec.height, spec.width, spec.channels), np.uint8)
        for slot in range(len(self._writer.input)):
            self._writer.write_input(slot, noise)
        arrays = run(network, self._writer.input)
        return [arrays[number] for number in chosen]

    def _label_lines(self) -> label_files.Lines:
        if self._given_labels is not None:
            by_line = self.config.properties.network_type is not NetworkType.CLASSIFIER
            return label_files.as_lines(self._given_labels, by_line)
        path = self.config.properties.labelfile_path
        return () if path is None else label_files.read_label_lines(path)

    def _with_raw_outputs(self, result: Detections, outputs: Arrays, slot: int) -> Detections:
        """The result with the outputs themselves where the configuration asks for them."""
        properties = self.config.properties
        if properties.output_tensor_meta or properties.network_type is NetworkType.OTHER:
            spec = self._writer.spec
            # Copies, since a runtime may write the next batch into the same memory.
            layers = tuple(
                Layer(item.name, np.array(array[slot]))
                for item, array in zip(self._open().info.outputs, outputs, strict=True)
            )
            whole = result.whole or WholeFrame()
            whole.outputs = RawOutputs(layers, spec.width, spec.height, spec.channels, spec.keep_aspect, spec.symmetric)
            result.whole = whole
        return result

    def _open(self) -> _Opened:
        if self._opened is None:
            raise ModelError(f"{self.config.path} is not loaded; call load() first, and infer() before close()")
        return self._opened


def _with_thresholds(config: NvinferConfig, confidence: float | None, iou: float | None) -> NvinferConfig:
    """The configuration with thresholds in place of the file's."""
    classes = config.classes
    if confidence is not None:
        classes = tuple(replace(item, pre_cluster_threshold=confidence) for item in classes)
        config = replace(config, properties=replace(config.properties, classifier_threshold=confidence))
    if iou is not None:
        classes = tuple(replace(item, nms_iou_threshold=iou) for item in classes)
    return replace(config, classes=classes)
