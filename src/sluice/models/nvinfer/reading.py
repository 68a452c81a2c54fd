"""From a network's outputs to `Detections`, by network-type."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import numpy as np
import numpy.typing as npt

from sluice.errors import ConfigurationError, ModelError
from sluice.models.arrays import nms_indices
from sluice.models.decoders.base import Arrays, Float, Raw, check_boxes
from sluice.models.detections import Detections
from sluice.models.letterbox import Letterbox
from sluice.models.nvinfer import labels as label_files
from sluice.models.nvinfer.boxes import cut
from sluice.models.nvinfer.clustering import cluster
from sluice.models.nvinfer.config import NvinferConfig
from sluice.models.nvinfer.functions import DETECTNET, Outputs, box_parser, unknown_function
from sluice.models.nvinfer.keys import NetworkType
from sluice.models.nvinfer.parsers import class_map, classify, segment
from sluice.models.nvinfer.writing import colours_of, on_frame
from sluice.models.whole import WholeFrame
from sluice.runtimes import NetworkInfo

#: Values of parse-classifier-func-name: whether the outputs are logits of which probabilities are made first.
CLASSIFIER_FUNCTIONS = {"NvDsInferClassiferParseCustomSoftmax": True}

#: Values of parse-segmentation-func-name: whether the output is a finished map of classes.
SEGMENTATION_FUNCTIONS = {"NvDsInferParseCustomSegformerTAO": True, "NvDsInferParseCustomPeopleSemSegNet": False}


class Reader(Protocol):
    """Reads the outputs of one network.

    Attributes:
        name: the parser's or decoder's name.
        labels: label per class id.
        warnings: what a user should know about the files.
    """

    name: str
    labels: tuple[str, ...]
    warnings: tuple[str, ...]

    def read(self, outputs: Arrays, index: int, box: Letterbox, size: tuple[int, int], /) -> Detections:
        """What the outputs say of picture `index` of a batch.

        Args:
            outputs: the outputs that output-blob-names lists.
            index: the picture.
            box: where it lies in the input.
            size: its width and height.
        """
        ...


def make_reader(config: NvinferConfig, outputs: Outputs, lines: label_files.Lines, decoder: str | None) -> Reader:
    """The reader for a configuration.

    Args:
        config: the configuration.
        outputs: the outputs that are read.
        lines: the label file.
        decoder: decoder of a detector, in place of the parse function.

    Raises:
        ConfigurationError: a parse function that is not known, or keys that do not fit the outputs.
        ModelError: outputs that nothing reads.
    """
    kind = config.properties.network_type
    if decoder is not None and not config.detects:
        raise ConfigurationError(f"{config.path}: decoder={decoder} is for detectors, network-type is {kind.value}")
    if config.detects:
        return BoxReader(config, outputs, lines, decoder)
    if kind is NetworkType.CLASSIFIER:
        return ClassReader(config, outputs.info, lines)
    if kind is NetworkType.SEGMENTATION:
        return MapReader(config, outputs.info, lines)
    return RawReader()


class BoxReader:
    """Detectors and instance segmentation: boxes, clustered and filtered. See `Reader`."""

    def __init__(self, config: NvinferConfig, outputs: Outputs, lines: label_files.Lines, decoder: str | None) -> None:
        self.name, self._parser, self._iou = box_parser(config, outputs, decoder)
        self.labels = label_files.detector_labels(lines)
        self.warnings: tuple[str, ...] = ()
        self._config = config
        self._input = outputs.width, outputs.height

    def read(self, outputs: Arrays, index: int, box: Letterbox, size: tuple[int, int], /) -> Detections:
        """See `Reader.read`."""
        properties, classes = self._config.properties, self._config.classes
        raw = check_boxes(self._parser.parse(outputs, index))
        xyxy, rows = raw.xyxy, np.arange(len(raw.xyxy))
        if self.name != DETECTNET and raw.angles is None:
            xyxy, rows = cut(xyxy, *self._input)
        if self._iou is not None:
            keep = nms_indices(xyxy, raw.scores[rows], raw.class_ids[rows], self._iou)
            xyxy, rows = xyxy[keep], rows[keep]
        found = cluster(xyxy, raw.scores[rows], raw.class_ids[rows], properties.cluster_mode, classes)
        placed, kept = on_frame(found.xyxy, found.class_ids, box, size, properties, classes)
        found = found.take(kept)
        border, fill = colours_of(found.class_ids, classes)
        result = Detections(placed, found.scores, found.class_ids, border_colors=border, fill_colors=fill)
        self._add_details(result, raw, rows[found.rows], found.xyxy, box)
        return result

    def _add_details(
        self, result: Detections, raw: Raw, rows: npt.NDArray[np.intp], xyxy: Float, box: Letterbox
    ) -> None:
        """Angles, key points and masks of the boxes that are left.

        Args:
            result: the detections, to be completed.
            raw: what was found.
            rows: row in `raw` of each detection.
            xyxy: their boxes in pixels of the input.
            box: how the frame lies in the input.
        """
        properties = self._config.properties
        result.angles = None if raw.angles is None else raw.angles[rows]
        if raw.keypoints is not None:
            result.keypoints = np.array(raw.keypoints[rows], np.float32)
            result.keypoints[..., :2] = box.to_frame(result.keypoints[..., :2], clip=False)
        if raw.masks is not None and properties.output_instance_mask:
            result.box_masks = raw.masks.cut(rows, xyxy, self._input)
            if "segmentation-threshold" in self._config.given:
                result.mask_threshold = properties.segmentation_threshold


class ClassReader:
    """Classifiers: one result per output. See `Reader`."""

    def __init__(self, config: NvinferConfig, info: NetworkInfo, lines: label_files.Lines) -> None:
        properties = config.properties
        function = properties.parse_classifier_func_name
        self._softmax = _flag_of(config, "parse-classifier-func-name", function, CLASSIFIER_FUNCTIONS)
        self.name = function or "classifier"
        source = properties.labelfile_path or "the label table"
        self._lines, warning = label_files.classifier_labels(lines, len(info.outputs), source)
        self.warnings: tuple[str, ...] = () if warning is None else (warning,)
        self.labels = self._lines[0] if self._lines else ()
        self._threshold, self._kind = properties.classifier_threshold, properties.classifier_type

    def read(self, outputs: Arrays, index: int, _box: Letterbox, _size: tuple[int, int], /) -> Detections:
        """See `Reader.read`."""
        found = classify(outputs, index, self._threshold, self._lines, self._kind, softmax=self._softmax)
        return Detections.of_whole(WholeFrame(classification=found))


class MapReader:
    """Semantic segmentation. See `Reader`."""

    def __init__(self, config: NvinferConfig, info: NetworkInfo, lines: label_files.Lines) -> None:
        function = config.properties.parse_segmentation_func_name
        self._finished = _flag_of(config, "parse-segmentation-func-name", function, SEGMENTATION_FUNCTIONS)
        self.name = function or "segmentation"
        self.labels = label_files.detector_labels(lines)
        self.warnings: tuple[str, ...] = ()
        self._properties = config.properties
        _check_map(info, config, self._finished)

    def read(self, outputs: Arrays, index: int, _box: Letterbox, _size: tuple[int, int], /) -> Detections:
        """See `Reader.read`. The map has the size of the output and shows the whole input, as in nvinfer."""
        properties, output = self._properties, outputs[0][index]
        if self._finished:
            found = class_map(output, properties.num_detected_classes)
        else:
            found = segment(
                output,
                properties.segmentation_threshold,
                channels_last=properties.segmentation_output_order == 1,
            )
        return Detections.of_whole(WholeFrame(segmentation=found))


class RawReader:
    """network-type 100: nothing is decoded. See `Reader`."""

    name = "none"
    labels: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    def read(self, _outputs: Arrays, _index: int, _box: Letterbox, _size: tuple[int, int], /) -> Detections:
        """No detections."""
        return Detections.empty()


def _flag_of(config: NvinferConfig, key: str, name: str | None, table: Mapping[str, bool]) -> bool:
    """What the table says of a parse function; False without one.

    Raises:
        ConfigurationError: the function is not in the table.
    """
    if name is None:
        return False
    if name not in table:
        raise ConfigurationError(
            unknown_function(config, key, name, table)
            + f"one of {', '.join(table)}, leave the key out for nvinfer's own parser, or use network-type=100 and "
            "decode the raw outputs in Python"
        )
    return table[name]


def _check_map(info: NetworkInfo, config: NvinferConfig, finished: bool) -> None:
    """One output, with as many channels as there are classes."""
    properties = config.properties
    if len(info.outputs) != 1:
        names = ", ".join(str(output) for output in info.outputs)
        raise ModelError(f"{config.path}: segmentation has one output, this network has {names}")
    if finished:
        return
    shape = info.outputs[0].shape[1:]
    last = properties.segmentation_output_order == 1
    channels = (shape[-1] if last else shape[0]) if len(shape) == 3 else None
    if channels != properties.num_detected_classes:
        raise ConfigurationError(
            f"{config.path}: num-detected-classes is {properties.num_detected_classes}, but the output "
            f"{info.outputs[0]} has {channels} channels with segmentation-output-order={int(last)}"
        )
