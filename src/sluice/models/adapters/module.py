"""PyTorch modules made in Python as models: ``package.module:Class``, ``file.py:Class`` or an object of one."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sluice.errors import ModelError
from sluice.models.detections import Detections
from sluice.models.frame import Frame
from sluice.models.labels import read_labels
from sluice.models.model import AdaptedModel, as_model
from sluice.models.network import NetworkModel
from sluice.models.options import check_options
from sluice.runtimes import Network

#: Parameters of `NetworkModel` that are not for modules.
_OF_FILES = ("path", "runtime")


class ModuleModel(NetworkModel):
    """A module whose outputs a decoder reads; everything else is as for network files.

    Args:
        made: what `made_module` took.
        arguments: those of `NetworkModel`, without path and runtime.
    """

    def __init__(self, made: _Made, **arguments: Any) -> None:
        super().__init__(made.name, **arguments)
        self._made = made

    def _open_network(self) -> Network:
        from sluice.runtimes.torch import ModuleNetwork, set_threads, torch_device

        device = torch_device(self._device)
        set_threads(self._threads)
        module = self._made.build(device)
        return ModuleNetwork(module, self._made.name, device, size=self._size, precision=self._precision)


class TorchvisionDetector:
    """One of torchvision's detectors: it takes pictures of any size and gives boxes, scores and labels.

    Args:
        made: what `made_module` took.
        labels: label file or the labels.
        device: see `sluice.runtimes.torch.torch_device`.
        confidence: least score, 0..1, on top of the detector's own.
    """

    def __init__(
        self,
        made: _Made,
        *,
        labels: str | Path | Sequence[str] | None = None,
        device: str = "auto",
        confidence: float = 0.0,
    ) -> None:
        self.labels: tuple[str, ...] = read_labels(labels) or ()
        self._made, self._device_name, self._confidence = made, device, confidence
        self._module: Any = None

    def load(self) -> None:
        """Make the module and put it on its device."""
        from sluice.runtimes.torch import torch_device

        self._device = torch_device(self._device_name)
        self._module = self._made.build(self._device)

    def close(self) -> None:
        """Drop the module and its memory."""
        self._module = None

    def infer(self, frames: list[Frame]) -> list[Detections]:
        """What the detector finds in each frame."""
        import torch

        pictures = [torch.from_numpy(np.array(frame.rgb())).to(self._device) for frame in frames]
        with torch.inference_mode():
            # torchvision's detectors want [3, height, width] in 0..1 and do their own resizing.
            outputs = self._module([picture.permute(2, 0, 1).float() / 255 for picture in pictures])
        return [Detections.from_torchvision(output).filter(confidence=self._confidence) for output in outputs]


class _Made:
    """A module, or what makes one and its arguments, checked before anything is made."""

    def __init__(self, source: Any, name: str, options: Mapping[str, Any]) -> None:
        self.name = name
        self._source = source
        self._weights = options.get("weights_file")
        self._allow_pickle = bool(options.get("allow_pickle"))
        arguments = {key: value for key, value in options.items() if key not in ("weights_file", "allow_pickle")}
        self._is_made = not isinstance(source, type) and not inspect.isfunction(source)
        if self._is_made and arguments:
            raise ModelError(f"options {sorted(arguments)} were given for {name}, which is made already")
        self._arguments = {} if self._is_made else check_options(source, arguments)

    def build(self, device: Any) -> Any:
        """The module on its device, for inference, with its weights."""
        from sluice.runtimes.torch import load_weights

        try:
            module = self._source if self._is_made else self._source(**self._arguments)
        except Exception as error:  # a constructor may raise anything
            raise ModelError(f"{self.name} cannot be made: {type(error).__name__}: {error}") from error
        if self._weights is not None:
            load_weights(module, self._weights, allow_pickle=self._allow_pickle)
        return module.eval().to(device)


def module_model(
    source: Any,
    name: str,
    *,
    labels: str | Path | Sequence[str] | None = None,
    device: str = "auto",
    confidence: float | None = None,
    iou: float | None = None,
    max_detections: int | None = None,
    classes: Sequence[int | str] | None = None,
    options: Mapping[str, Any] | None = None,
) -> AdaptedModel:
    """A PyTorch module as a model.

    Args:
        source: a module, a class of them, or a function of torchvision's that makes one.
        name: what messages call it.
        labels, device, confidence, iou, max_detections, classes: see `sluice.models.loading.load_model`.
        options: ``weights_file`` (a state dict, see `sluice.runtimes.torch.load_weights`) and ``allow_pickle``; those
            of `NetworkModel` (``decoder``, ``width``, ``height``, ...); the rest are the constructor's.

    Raises:
        ModelError: an option that nobody takes, or of the wrong type.
    """
    given = dict(options or {})
    network = {p for p in inspect.signature(NetworkModel).parameters if p not in _OF_FILES}
    own = check_options(_own_options, {key: given.pop(key) for key in ("weights_file", "allow_pickle") if key in given})
    of_network = (
        {} if is_torchvision_detector(source) else {key: given.pop(key) for key in list(given) if key in network}
    )
    made = _Made(source, name, {**given, **own})
    shared = {"labels": labels, "device": device, "confidence": confidence}
    present: dict[str, Any] = {key: value for key, value in shared.items() if value is not None}
    if is_torchvision_detector(source):
        return as_model(
            TorchvisionDetector(made, **present), name=name, iou=iou, max_detections=max_detections, classes=classes
        )
    if iou is not None:
        present["iou"] = iou
    arguments = check_options(NetworkModel, {"path": name, **present, **of_network})
    del arguments["path"]
    return as_model(ModuleModel(made, **arguments), name=name, max_detections=max_detections, classes=classes)


def _own_options(weights_file: str | None = None, allow_pickle: bool = False) -> None:
    """The options of every module, for the check of their names and types."""


def is_torchvision_detector(source: Any) -> bool:
    """Whether a module, a class or a function makes what takes a list of pictures and gives a dict for each."""
    if inspect.isfunction(source):
        homes = [source.__module__]
    else:
        homes = [base.__module__ for base in inspect.getmro(source if isinstance(source, type) else type(source))]
    return any(home.startswith("torchvision.models.detection") for home in homes)
