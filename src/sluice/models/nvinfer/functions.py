"""The parse functions of well-known custom libraries by name. They are C++, which cannot be run here; decoders can."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from sluice.errors import ConfigurationError, ModelError
from sluice.models.decoders import DECODERS, FAMILIES, Recognition, candidates_of
from sluice.models.decoders.base import Arrays
from sluice.models.nvinfer.boxes import PARSERS, BoxParser, DecoderParser
from sluice.models.nvinfer.config import NvinferConfig
from sluice.models.nvinfer.keys import NetworkType
from sluice.models.nvinfer.parsers import DetectNetParser
from sluice.models.recognition import choose, recognise
from sluice.runtimes import NetworkInfo

DETECTNET = "detectnet"  # read by nvinfer itself, without a parse function
ANY = "any"  # whichever decoder recognises the outputs
OWN_IOU = 0.45  # of the functions that suppress boxes themselves, since their configurations have cluster-mode=4


class Function(NamedTuple):
    """A parse function for boxes.

    Attributes:
        decoders: what reads its network's outputs, best first: decoders, families of them, forms of
            `sluice.models.nvinfer.boxes`, or `ANY`.
        origin: where it comes from.
        iou: the function itself suppresses boxes of a class that overlap more, before any clustering; None if not.
    """

    decoders: tuple[str, ...]
    origin: str
    iou: float | None = None


_YOLO = "DeepStream-Yolo"
_TAO = "NVIDIA's libnvds_infercustomparser"
_SAMPLE = "NVIDIA's yolo_deepstream samples"
# A plain export in place of DeepStream-Yolo's own would fail in nvinfer; here it is read by what it is.
_PLAIN_OR_OWN = Function(("deepstream-yolo", "yolo-end2end", "deepstream-layers", ANY), _YOLO)

#: Values of parse-bbox-func-name and parse-bbox-instance-mask-func-name.
BOX_FUNCTIONS = {
    "NvDsInferParseYolo": _PLAIN_OR_OWN,
    "NvDsInferParseYoloCuda": _PLAIN_OR_OWN,
    "NvDsInferParseYoloE": _PLAIN_OR_OWN,
    "NvDsInferParseYoloECuda": _PLAIN_OR_OWN,
    "NvDsInferParseYoloFace": Function(("yolo-pose", "yolo-end2end-pose", ANY), "DeepStream-Yolo-Face", OWN_IOU),
    "NvDsInferParseYoloPose": Function(("yolo-pose", "yolo-end2end-pose", ANY), "DeepStream-Yolo-Pose", OWN_IOU),
    "NvDsInferParseYoloSeg": Function(("yolov8", ANY), "DeepStream-Yolo-Seg", OWN_IOU),
    "NvDsInferParseCustomYoloV3": Function(("yolov3",), _SAMPLE),
    "NvDsInferParseCustomYoloV4": Function(("batched-nms",), _SAMPLE),
    "NvDsInferParseCustomYoloV5": Function(("yolov5",), _SAMPLE),
    "NvDsInferParseCustomYoloV6": Function(("yolov6",), _SAMPLE),
    "NvDsInferParseCustomYoloV7": Function(("yolov7",), _SAMPLE),
    "NvDsInferParseCustomYoloV7_cuda": Function(("yolov7",), _SAMPLE),
    "NvDsInferParseCustomYoloV8": Function(("yolov8",), _SAMPLE),
    "NvDsInferParseYoloV11": Function(("yolov8",), _SAMPLE),
    "NvDsInferParseCustomYoloV11OBB": Function(("yolo-obb", "yolo-end2end-obb"), _TAO, OWN_IOU),
    "NvDsInferParseCustomResnet": Function((DETECTNET,), _TAO),
    "NvDsInferParseCustomTfSSD": Function(("tf-ssd", "tf-od"), _TAO),
    "NvDsInferParseCustomNMSTLT": Function(("ssd-rows",), _TAO),
    "NvDsInferParseCustomBatchedNMSTLT": Function(("batched-nms",), _TAO),
    "NvDsInferParseYoloV5CustomBatchedNMSTLT": Function(("batched-nms-pixels",), _TAO),
    "NvDsInferParseCustomMrcnnTLT": Function(("mask-rcnn-tao",), _TAO),
    "NvDsInferParseCustomMrcnnTLTV2": Function(("mask-rcnn-tao",), _TAO),
    "NvDsInferParseCustomEfficientDetTAO": Function(("efficientdet-tao",), _TAO),
    "NvDsInferParseCustomDDETRTAO": Function(("deformable-detr-tao",), _TAO),
    "NvDsInferParseCustomRTDETRTAO": Function(("rtdetr-logits",), _TAO),
}


class Outputs(NamedTuple):
    """A detection network's outputs.

    Attributes:
        info: the network; shapes without open sizes but for the batch.
        width, height: size of its input.
        probe: runs it once on noise.
        classes: num-detected-classes.
    """

    info: NetworkInfo
    width: int
    height: int
    probe: Callable[[], Arrays]
    classes: int = 0

    def verdicts(self) -> dict[str, Recognition]:
        """What every decoder says of them."""
        return recognise(self.info, self.width, self.height, self.probe, self.classes)


def box_function(config: NvinferConfig) -> tuple[str, str] | None:
    """Key and value of the parse function for boxes that the network's type uses; None for nvinfer's own parser."""
    properties = config.properties
    if properties.network_type is NetworkType.INSTANCE_SEGMENTATION:
        key, name = "parse-bbox-instance-mask-func-name", properties.parse_bbox_instance_mask_func_name
    else:
        key, name = "parse-bbox-func-name", properties.parse_bbox_func_name
    return (key, name) if name else None


class Chosen(NamedTuple):
    """What reads a detection network's outputs.

    Attributes:
        name: of the decoder or form.
        parser: reads the outputs.
        iou: overlap above which the weaker box of a class goes before clustering; None if all go into it.
    """

    name: str
    parser: BoxParser
    iou: float | None = None


def box_parser(config: NvinferConfig, outputs: Outputs, decoder: str | None) -> Chosen:
    """What reads a detection network's outputs.

    Args:
        config: the configuration.
        outputs: the outputs that are read.
        decoder: a name that goes before the parse function.

    Raises:
        ConfigurationError: the parse function is not known, or there is none where one is needed, or there is no
            decoder of that name; says which decoders can be named.
        ModelError: the outputs are not what the parser needs.
    """
    function = box_function(config)
    if decoder is not None:
        wanted: Sequence[str] = (decoder,)
    elif function is not None:
        wanted = _known(config, *function, outputs).decoders
    elif config.properties.network_type is NetworkType.INSTANCE_SEGMENTATION:
        raise ConfigurationError(
            f"{config.path}: network-type 3 has no parser of its own; right is parse-bbox-instance-mask-func-name, or "
            f"a decoder as model option: {_fitting_text(outputs)}"
        )
    else:
        wanted = (DETECTNET,)
    thresholds = [item.pre_cluster_threshold for item in config.classes]
    if tuple(wanted) == (DETECTNET,):
        try:
            return Chosen(DETECTNET, DetectNetParser(outputs.info, outputs.width, outputs.height, thresholds))
        except ModelError as error:
            raise ModelError(f"{config.path}: {error}; or name {_fitting_text(outputs)}") from error
    chosen = _first_fitting(config, wanted, outputs, min(thresholds, default=1.0))
    suppressed = not chosen.parser.needs_nms
    known = BOX_FUNCTIONS.get(function[1]) if function is not None else None
    return chosen if suppressed or known is None else chosen._replace(iou=known.iou)


def _first_fitting(config: NvinferConfig, wanted: Sequence[str], outputs: Outputs, least: float) -> Chosen:
    info, width, height = outputs.info, outputs.width, outputs.height
    verdicts = outputs.verdicts()
    reasons: dict[str, str] = {}
    for name in wanted:
        if name in PARSERS:
            why = PARSERS[name].why_not(info)
            if why is None:
                return Chosen(name, PARSERS[name](info, width, height, least))
            reasons[name] = why
            continue
        found, more = _decoder(name, verdicts)
        if found is not None:
            return Chosen(found, DecoderParser(found, info, width, height, least))
        reasons |= more
    lines = "".join(f"\n  {name}: {why}" for name, why in reasons.items())
    raise ModelError(f"{config.path}: no decoder reads the outputs of this network:{lines}")


def _decoder(name: str, verdicts: dict[str, Recognition]) -> tuple[str | None, dict[str, str]]:
    """The decoder that a name of the table or of a user means for these outputs; else None and the reasons."""
    if name == ANY:
        chosen, why = choose(verdicts)
        return chosen, {} if chosen else {ANY: why, **{other: verdict.why for other, verdict in verdicts.items()}}
    candidates = candidates_of(name)
    # A name is evidence enough where shapes could be another's too.
    for allowed in ("fits", "possible"):
        for candidate in candidates:
            if getattr(verdicts[candidate], allowed):
                return candidate, {}
    return None, {candidate: verdicts[candidate].why for candidate in candidates}


def _known(config: NvinferConfig, key: str, name: str, outputs: Outputs) -> Function:
    known = BOX_FUNCTIONS.get(name)
    if known is None:
        raise ConfigurationError(unknown_function(config, key, name, BOX_FUNCTIONS) + _fitting_text(outputs))
    return known


def unknown_function(config: NvinferConfig, key: str, name: str, table: Iterable[str]) -> str:
    """What to say of a parse function that is in none of the tables; what follows says what to name instead."""
    near = difflib.get_close_matches(name, list(table), 1)
    hint = f" (did you mean {near[0]!r}?)" if near else ""
    library = config.properties.custom_lib_path or "a library that is not named"
    return f"{config.path}: {key} is {name!r}{hint}, C++ code in {library}, which cannot be run here; instead name "


def _fitting_text(outputs: Outputs) -> str:
    """Which decoders can be named and how."""
    verdicts = outputs.verdicts()
    fitting = [name for name, verdict in verdicts.items() if verdict.fits]
    fitting += [name for name, verdict in verdicts.items() if verdict.possible]
    fitting += [name for name, parser in PARSERS.items() if parser.why_not(outputs.info) is None]
    if fitting:
        return f"one that fits the outputs: model-options=decoder={' or decoder='.join(fitting)}"
    return (
        "a model of your own in Python that decodes the outputs (none of the decoders fits them; there are "
        f"{', '.join(known_decoders())})"
    )


def known_decoders() -> list[str]:
    """Every name that can be given as the decoder of a configuration file."""
    return [*dict.fromkeys([*DECODERS, *FAMILIES, *PARSERS])]
