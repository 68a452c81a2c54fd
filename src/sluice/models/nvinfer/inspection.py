"""What `sluice inspect` says of a configuration file of nvinfer."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, fields
from pathlib import Path

from sluice.errors import SluiceError
from sluice.models.nvinfer.config import NvinferConfig
from sluice.models.nvinfer.files import build_settings, network_file
from sluice.models.nvinfer.functions import box_function
from sluice.models.nvinfer.keys import Fate, Key, NetworkType, Properties
from sluice.models.nvinfer.model import NvinferModel


@dataclass(frozen=True)
class ConfigInspection:
    """What was found in a configuration file. ``str()`` is the text for people.

    Attributes:
        config: the file's content.
        network: the network file that would be run; None if there is none.
        parser: what reads its outputs; None if the network cannot be used.
        problem: why it cannot be used; None if it can.
        warnings: what a user should know all the same.
    """

    config: NvinferConfig
    network: Path | None
    parser: str | None
    problem: str | None
    warnings: tuple[str, ...]

    def __str__(self) -> str:
        properties = self.config.properties
        what = properties.network_type.name.lower().replace("_", " ")
        where = "objects (secondary)" if properties.process_mode == 2 else "frames (primary)"
        lines = [f"{self.config.path} (nvinfer, {self.config.form}): {what} on {where}"]
        lines.append(f"  network {self.network or 'none that can be run'}")
        if self.config.detects:
            function = box_function(self.config)
            lines.append(f"  parse   {function[1] if function else 'the default, DetectNet_v2'}")
            lines.append(f"  boxes   {properties.num_detected_classes} classes, {_clustering(self.config)}")
        if self.parser is not None:
            lines.append(f"  head    {self.parser}")
        if self.problem is not None:
            lines.append(f"  problem {self.problem}")
        settings = build_settings(self.config)
        if settings is not None:
            lines.append(f"  engine  {settings.engine} is nvinfer's name for it")
        lines += [f"  element {text}" for text in self._for_the_element()]
        lines += [f"  warning {text}" for text in self.warnings]
        if self.problem is None:
            lines.append(f"  use     gst-launch-1.0 ... ! sluiceinfer model={shlex.quote(str(self.config.path))} ! ...")
        return "\n".join(lines)

    def _for_the_element(self) -> list[str]:
        """The keys of the file that the element honours."""
        keys: dict[str, Key] = {item.name: item.metadata["key"] for item in fields(Properties)}
        return [
            f"{key.name}={getattr(self.config.properties, name)}"
            for name, key in keys.items()
            if key.fate is Fate.ELEMENT and key.name in self.config.given
        ]


def _clustering(config: NvinferConfig) -> str:
    """The cluster mode with the thresholds of the first class."""
    if not config.classes:
        return "none kept"
    first = config.classes[0]
    more = "" if all(item == first for item in config.classes) else " (class 0; others differ)"
    topk = "no limit" if first.topk < 0 else f"topk {first.topk}"
    mode = config.properties.cluster_mode.name.lower()
    return f"cluster-mode {mode}, confidence {first.pre_cluster_threshold}, IoU {first.nms_iou_threshold}, {topk}{more}"


def inspect_config(path: str | Path, runtime: str = "auto") -> ConfigInspection:
    """Read a configuration file, and open its network where it can be run; no engine is built.

    Raises:
        ConfigurationError: it is no configuration of nvinfer, or has a wrong value.
    """
    model = NvinferModel(path, runtime=runtime)
    network: Path | None = None
    parser: str | None = None
    problem: str | None = None
    try:
        chosen = network_file(model.config, runtime)
        network = chosen.path
        if chosen.build is not None:  # which takes minutes: for a look the ONNX file will do
            model = NvinferModel(path, runtime="onnxruntime")
        model.open()
        kind = model.config.properties.network_type
        parser = "raw outputs only" if kind is NetworkType.OTHER else model.parser
    except SluiceError as error:
        problem = str(error).removeprefix(f"{model.config.path}: ")
    warnings = model.warnings
    model.close()
    return ConfigInspection(model.config, network, parser, problem, warnings)
