"""The parse functions of well-known custom libraries by name. They are C++, which cannot be run here; decoders can."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from sluice.errors import ConfigurationError, ModelError
from sluice.models.decoders import DECODERS, named_decoder, recognise_all
from sluice.models.nvinfer.boxes import BoxParser, DecoderParser, DeepStreamYoloParser
from sluice.models.nvinfer.config import NvinferConfig
from sluice.models.nvinfer.keys import NetworkType
from sluice.models.nvinfer.parsers import DetectNetParser
from sluice.runtimes import NetworkInfo

DETECTNET, DEEPSTREAM_YOLO = "detectnet", "deepstream-yolo"  # parsers that belong to nvinfer's files alone
ANY = "any"  # whichever decoder recognises the outputs


class Function(NamedTuple):
    """A parse function for boxes.

    Attributes:
        decoders: what reads its network's outputs, best first; `ANY` stands for recognition.
        origin: where it comes from.
    """

    decoders: tuple[str, ...]
    origin: str


_YOLO = Function((DEEPSTREAM_YOLO, ANY), "DeepStream-Yolo")
_TAO = "NVIDIA's libnvds_infercustomparser"
_SAMPLE = "NVIDIA's yolo_deepstream samples"

#: Values of parse-bbox-func-name and parse-bbox-instance-mask-func-name.
BOX_FUNCTIONS = {
    "NvDsInferParseYolo": _YOLO,
    "NvDsInferParseYoloCuda": _YOLO,
    "NvDsInferParseYoloE": _YOLO,
    "NvDsInferParseYoloECuda": _YOLO,
    "NvDsInferParseYoloFace": Function((ANY,), "DeepStream-Yolo-Face"),
    "NvDsInferParseYoloPose": Function((ANY,), "DeepStream-Yolo-Pose"),
    "NvDsInferParseYoloSeg": Function((ANY,), "DeepStream-Yolo-Seg"),
    "NvDsInferParseCustomYoloV3": Function((ANY,), _SAMPLE),
    "NvDsInferParseCustomYoloV4": Function((ANY,), _SAMPLE),
    "NvDsInferParseCustomYoloV5": Function((ANY,), _SAMPLE),
    "NvDsInferParseCustomYoloV6": Function((ANY,), _SAMPLE),
    "NvDsInferParseCustomYoloV7": Function((ANY,), _SAMPLE),
    "NvDsInferParseCustomYoloV7_cuda": Function((ANY,), _SAMPLE),
    "NvDsInferParseCustomYoloV8": Function((ANY,), _SAMPLE),
    "NvDsInferParseYoloV11": Function((ANY,), _SAMPLE),
    "NvDsInferParseCustomYoloV11OBB": Function((ANY,), _TAO),
    "NvDsInferParseCustomResnet": Function((DETECTNET,), _TAO),
    "NvDsInferParseCustomTfSSD": Function((ANY,), _TAO),
    "NvDsInferParseCustomSSD": Function((ANY,), _TAO),
    "NvDsInferParseCustomNMSTLT": Function((ANY,), _TAO),
    "NvDsInferParseCustomBatchedNMSTLT": Function((ANY,), _TAO),
    "NvDsInferParseYoloV5CustomBatchedNMSTLT": Function((ANY,), _TAO),
    "NvDsInferParseCustomMrcnnTLT": Function((ANY,), _TAO),
    "NvDsInferParseCustomMrcnnTLTV2": Function((ANY,), _TAO),
    "NvDsInferParseCustomEfficientDetTAO": Function((ANY,), _TAO),
    "NvDsInferParseCustomDDETRTAO": Function((ANY,), _TAO),
    "NvDsInferParseCustomRTDETRTAO": Function((ANY,), _TAO),
}


def box_function(config: NvinferConfig) -> tuple[str, str] | None:
    """Key and value of the parse function for boxes that the network's type uses; None for nvinfer's own parser."""
    properties = config.properties
    if properties.network_type is NetworkType.INSTANCE_SEGMENTATION:
        key, name = "parse-bbox-instance-mask-func-name", properties.parse_bbox_instance_mask_func_name
    else:
        key, name = "parse-bbox-func-name", properties.parse_bbox_func_name
    return (key, name) if name else None


def box_parser(
    config: NvinferConfig, info: NetworkInfo, width: int, height: int, decoder: str | None
) -> tuple[str, BoxParser]:
    """What reads a detection network's outputs, with its name.

    Args:
        config: the configuration.
        info: the network; shapes without open sizes but for the batch.
        width, height: size of its input.
        decoder: a decoder's name, which goes before the parse function.

    Raises:
        ConfigurationError: the parse function is not known, or there is none where one is needed, or there is no
            decoder of that name; says which decoders can be named.
        ModelError: the outputs are not what the parser needs.
    """
    thresholds = [item.pre_cluster_threshold for item in config.classes]
    least = min(thresholds, default=1.0)
    function = box_function(config)
    if decoder is not None and decoder not in (DETECTNET, DEEPSTREAM_YOLO):
        named_decoder(decoder)
    if decoder is not None:
        wanted: Sequence[str] = (decoder,)
    elif function is not None:
        wanted = _known(config, *function, info, width, height).decoders
    elif config.properties.network_type is NetworkType.INSTANCE_SEGMENTATION:
        raise ConfigurationError(
            f"{config.path}: network-type 3 has no parser of its own; right is parse-bbox-instance-mask-func-name, or "
            f"a decoder as model option: {_fitting_text(info, width, height)}"
        )
    else:
        wanted = (DETECTNET,)
    if tuple(wanted) == (DETECTNET,):
        try:
            return DETECTNET, DetectNetParser(info, width, height, thresholds)
        except ModelError as error:
            raise ModelError(f"{config.path}: {error}; or name {_fitting_text(info, width, height)}") from error
    return _first_fitting(config, wanted, info, width, height, least)


def _first_fitting(
    config: NvinferConfig, wanted: Sequence[str], info: NetworkInfo, width: int, height: int, least: float
) -> tuple[str, BoxParser]:
    reasons: dict[str, str] = {}
    verdicts = recognise_all(info, width, height)
    for name in wanted:
        if name == DEEPSTREAM_YOLO:
            why = DeepStreamYoloParser.why_not(info)
            if why is None:
                return name, DeepStreamYoloParser(info, least)
            reasons[name] = why
        for candidate in DECODERS if name == ANY else [name] if name in DECODERS else []:
            if verdicts[candidate].fits:
                return candidate, DecoderParser(candidate, info, width, height, least)
            reasons[candidate] = verdicts[candidate].why
    lines = "".join(f"\n  {name}: {why}" for name, why in reasons.items())
    raise ModelError(f"{config.path}: no decoder reads the outputs of this network:{lines}")


def _known(config: NvinferConfig, key: str, name: str, info: NetworkInfo, width: int, height: int) -> Function:
    known = BOX_FUNCTIONS.get(name)
    if known is None:
        raise ConfigurationError(
            unknown_function(config, key, name, BOX_FUNCTIONS) + _fitting_text(info, width, height)
        )
    return known


def unknown_function(config: NvinferConfig, key: str, name: str, table: Iterable[str]) -> str:
    """What to say of a parse function that is in none of the tables; what follows says what to name instead."""
    near = difflib.get_close_matches(name, list(table), 1)
    hint = f" (did you mean {near[0]!r}?)" if near else ""
    library = config.properties.custom_lib_path or "a library that is not named"
    return f"{config.path}: {key} is {name!r}{hint}, C++ code in {library}, which cannot be run here; instead name "


def _fitting_text(info: NetworkInfo, width: int, height: int) -> str:
    """Which decoders can be named and how."""
    fitting = [name for name, verdict in recognise_all(info, width, height).items() if verdict.fits]
    if DeepStreamYoloParser.why_not(info) is None:
        fitting.append(DEEPSTREAM_YOLO)
    if fitting:
        return f"one that fits the outputs: model-options=decoder={' or decoder='.join(fitting)}"
    return (
        "a model of your own in Python that decodes the outputs (none of the decoders fits them; there are "
        f"{', '.join([*DECODERS, DETECTNET, DEEPSTREAM_YOLO])})"
    )
