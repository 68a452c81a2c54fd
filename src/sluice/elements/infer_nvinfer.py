"""nvinfer's own properties on ``sluiceinfer``: honoured, or refused by name with what would be right.

Imports gi and the standard library only: it is read when GStreamer scans its plugins.
"""

import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import gi

gi.require_version("Gst", "1.0")
from gi.repository import GLib, GObject

from sluice.elements.infer_property import Change, Property
from sluice.errors import ConfigurationError

#: Endings of network files, which may run in the place of the one that a configuration file names.
NETWORKS = (".engine", ".plan", ".trt", ".onnx")

NVINFER_PROPERTIES = (
    Property(
        "config-file-path",
        str,
        None,
        "A configuration file of nvinfer (.txt, .yml, .yaml) as the model. Properties that were set go before the "
        "file's keys; 'model' beside it is a network that runs in place of the file's. Set while running: as 'model'",
        change=Change.SWAPS,
    ),
    Property(
        "gpu-id",
        GObject.TYPE_UINT,
        0,
        "The GPU that the model runs on, where it runs on one, and that surfaces in its memory must be on",
        (0, GLib.MAXINT),
    ),
    Property(
        "filter-out-class-ids",
        str,
        None,
        "Classes whose objects are not attached, such as 0;2; default: none",
    ),
    Property(
        "output-instance-mask",
        bool,
        False,
        "With a configuration file: attach the masks of instance segmentation, which needs cluster-mode=4. Masks of "
        "other models are attached whenever there are any",
        change=Change.WITH_MODEL,
    ),
    Property(
        "crop-objects-to-roi-boundary",
        bool,
        False,
        "With a configuration file: cut objects at roi-top-offset and roi-bottom-offset instead of dropping them",
        change=Change.WITH_MODEL,
    ),
    Property(
        "strongly-typed",
        bool,
        False,
        "With a configuration file: build a strongly typed TensorRT engine, which takes all types from the ONNX file",
        change=Change.WITH_MODEL,
    ),
    Property(
        "raw-output-file-write",
        bool,
        False,
        "Write the network's raw outputs into files in the working directory, one per layer and call, named as "
        "nvinfer names them. For network and configuration files",
    ),
    Property(
        "input-tensor-meta",
        bool,
        False,
        "Refused when true: nvinfer would take its input from nvdspreprocess, the input is made from the surface here",
    ),
    Property(
        "dynamic-properties",
        str,
        None,
        "Refused when set: nvinfer hands these to TensorRT's builder; the configuration file has keys for them",
    ),
    Property(
        "raw-output-generated-callback",
        GObject.TYPE_POINTER,
        None,
        "Refused when set: a C function that nvinfer calls with raw outputs; use output-tensor-meta and a pad probe",
    ),
    Property(
        "raw-output-generated-userdata",
        GObject.TYPE_POINTER,
        None,
        "Refused when set: a part of raw-output-generated-callback",
    ),
)

_REFUSALS = (
    (
        "input-tensor-meta",
        "takes the network's input from nvdspreprocess, which is not done here: the input is made from the surface; "
        "right is false, and roi-params=FILE for the regions of a configuration file of nvdspreprocess",
    ),
    (
        "dynamic-properties",
        "is for TensorRT's builder; right is to leave it out and to set workspace-size, network-mode, "
        "int8-calib-file or use-dla-core in the configuration file",
    ),
    (
        "raw-output-generated-callback",
        "is a C function that nvinfer calls with raw outputs, which is not done here; right is output-tensor-meta=true "
        "and a probe on the source pad that reads NvDsInferTensorMeta",
    ),
    ("raw-output-generated-userdata", "is a part of raw-output-generated-callback, which is not done here"),
)

_BY_FILE_ONLY = {
    "output-instance-mask": "masks of other models are attached whenever there are any; leave it out",
    "crop-objects-to-roi-boundary": "its class-attrs groups have the offsets to cut at; use roi-params instead",
    "strongly-typed": "it says how an engine is built from onnx-file; build it so and name the engine as model",
}


@dataclass(frozen=True)
class Nvinfer:
    """What nvinfer's properties ask for, checked.

    Attributes:
        model: the configuration file, or what the property model says without one.
        overrides: fields of `sluice.models.nvinfer.keys.Properties`, with values that go before the file's.
        left_out: classes whose objects are not attached.
        gpu: number of the GPU.
        device: where the model runs, see `sluice.models.loading.load_model`.
        writes_files: raw outputs are written into files.
    """

    model: str
    overrides: tuple[tuple[str, Any], ...]
    left_out: frozenset[int]
    gpu: int
    device: str
    writes_files: bool

    @classmethod
    def from_values(cls, values: dict[str, Any]) -> "Nvinfer":
        """Check the values of an element's properties; ``model`` or ``config-file-path`` is set.

        Raises:
            ConfigurationError: a value cannot be used, or not here; names the property and what would be right.
        """
        defaults = {entry.name: entry.default for entry in NVINFER_PROPERTIES}
        for name, why in _REFUSALS:
            if values[name] not in (defaults[name], ""):
                shown = "set" if defaults[name] is None else f"{values[name]!r}".lower()
                raise ConfigurationError(f"{name} is {shown}, but it {why}")
        config, network = values["config-file-path"], values["model"]
        if config:
            _check_config(config, network)
        elif not _is_configuration(network):
            for name, instead in _BY_FILE_ONLY.items():
                if values[name]:
                    raise ConfigurationError(f"{name} is true without a config-file-path, which it is for: {instead}")
        gpu, device = _device(values["gpu-id"], values["device"] or "auto")
        return cls(
            model=config or network,
            overrides=_overrides(values, network if config else None) if config or _is_configuration(network) else (),
            left_out=_class_ids(values["filter-out-class-ids"]),
            gpu=gpu,
            device=device,
            writes_files=values["raw-output-file-write"],
        )


def with_configuration(values: dict[str, Any], given: Collection[str]) -> dict[str, Any]:
    """Return the values of an element's properties with those of its configuration file, if it has one.

    Args:
        values: by name of the property.
        given: names of the properties that were set; the others are put back before the file is read.

    Raises:
        ConfigurationError: the file has a wrong value, or is no configuration of nvinfer.
    """
    path = values["config-file-path"] or values["model"]
    if not path or not _is_configuration(path):
        return values
    from sluice.elements.infer_properties import BY_NAME
    from sluice.elements.infer_scope import MODES
    from sluice.models.nvinfer.element import ELEMENT_PROPERTIES, element_values

    start = {name: BY_NAME[name].default for name in ELEMENT_PROPERTIES if name not in given}
    read = element_values(path, given)
    if "process-mode" in read:
        read["process-mode"] = MODES[read["process-mode"]]
    return values | start | read


def values_for_swap(values: dict[str, Any], name: str, value: str | None) -> dict[str, Any]:
    """Return the values of an element's properties as they are once a model that was set while running is in place.

    A configuration file takes the place of everything; a network file beside one that of the file's network only.

    Args:
        values: by name of the property.
        name: ``model`` or ``config-file-path``.
        value: what it was set to.
    """
    if name == "config-file-path":
        return values | {"config-file-path": value, "model": None}
    beside = bool(value) and str(value).lower().endswith(NETWORKS)
    return values | {"model": value, "config-file-path": values["config-file-path"] if beside else None}


def _is_configuration(path: str) -> bool:
    from sluice.models.nvinfer import is_configuration

    return is_configuration(path)


def _check_config(config: str, network: str | None) -> None:
    if not _is_configuration(config):
        raise ConfigurationError(f"config-file-path is {config!r}; right is a file that ends in .txt, .yml or .yaml")
    if network and not network.lower().endswith(NETWORKS):
        raise ConfigurationError(
            f"model is {network!r} and config-file-path is {config!r}; beside a configuration file, model can only be "
            f"a network that runs in place of the file's ({', '.join(NETWORKS)}); set one of the two"
        )


def _overrides(values: dict[str, Any], network: str | None) -> tuple[tuple[str, Any], ...]:
    """What goes before the keys of the file, by the field's name."""
    given: dict[str, Any] = {name.replace("-", "_"): True for name in _BY_FILE_ONLY if values[name]}
    if network and network.lower().endswith(".onnx"):
        given |= {"onnx_file": network, "model_engine_file": None}  # the file's engine is of the file's network
    elif network:
        given["model_engine_file"] = network
    if values["batch-size"]:
        given["batch_size"] = values["batch-size"]
    given["gpu_id"] = values["gpu-id"]
    return tuple(sorted(given.items()))


def _device(gpu: int, device: str) -> tuple[int, str]:
    """The number of the GPU and the device, from gpu-id and device, which must not contradict each other."""
    match = re.fullmatch(r"cuda:(\d+)", device)
    if match is None:
        named = device == "cuda" or (device == "auto" and gpu > 0)
        return gpu, f"cuda:{gpu}" if named else device
    if gpu not in (0, int(match[1])):
        raise ConfigurationError(f"gpu-id is {gpu} and device is {device!r}; right is the same GPU, or one of the two")
    return int(match[1]), device


def _class_ids(text: str | None) -> frozenset[int]:
    words = [word.strip() for word in (text or "").split(";") if word.strip()]
    if not all(word.isdecimal() for word in words):
        raise ConfigurationError(f"filter-out-class-ids is {text!r}; right are class ids with ';' between, such as 0;2")
    return frozenset(map(int, words))
