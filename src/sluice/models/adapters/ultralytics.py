"""Ultralytics models through their own package: any file it runs, with its own letterbox, decoding and suppression."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sluice.errors import ConfigurationError, ModelError
from sluice.models.adapters import check_runtime
from sluice.models.arrays import to_numpy
from sluice.models.detections import Detections
from sluice.models.frame import Frame
from sluice.models.labels import names_by_id, read_labels
from sluice.models.whole import Classification, WholeFrame
from sluice.runtimes.tensorrt_module import guard_tensorrt
from sluice.runtimes.unwinding import import_compiled

BLACK = np.zeros((64, 64, 3), np.uint8)


class UltralyticsModel:
    """A model that Ultralytics' package runs: ``.pt``, or an export it has a backend for.

    Args:
        path: the file.
        labels: label file or the labels, in place of the model's own.
        runtime: "auto" or "ultralytics".
        device: "auto" for the first GPU that works, else the processor; or "cpu", "cuda:N".
        confidence: least score, 0..1.
        iou: overlap above which the weaker of two boxes of one class goes; end-to-end models do not use it.
        max_detections: the most detections for one frame.
        class_agnostic: let boxes of different classes suppress each other too.
        image_size: the longer side of the network's input in pixels; the model's own if not given.
        half: compute in float16, on a GPU.
        task: "detect", "segment", "pose", "obb" or "classify" for an export that does not say.
        allow_pickle: unpickle Python objects of any kind. That runs whatever code the file names: only for files whose
            author is trusted. Without it a checkpoint may hold weights and Ultralytics' own layers only.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        labels: str | Path | Sequence[str] | None = None,
        runtime: str = "auto",
        device: str = "auto",
        confidence: float = 0.25,
        iou: float = 0.7,
        max_detections: int = 300,
        class_agnostic: bool = False,
        image_size: int | None = None,
        half: bool = False,
        task: str | None = None,
        allow_pickle: bool = False,
    ) -> None:
        check_runtime("ultralytics", runtime)
        self.path = Path(path)
        self.labels: tuple[str, ...] = read_labels(labels) or ()
        self._device, self._task, self._allow_pickle = device, task, allow_pickle
        self._arguments: dict[str, Any] = {
            "conf": confidence,
            "iou": iou,
            "max_det": max_detections,
            "agnostic_nms": class_agnostic,
            "half": half,
        }
        if image_size is not None:
            self._arguments["imgsz"] = image_size
        self._model: Any = None

    def load(self) -> None:
        """Import the package and open the file.

        Raises:
            ConfigurationError: the package is not installed, or is too old to open a checkpoint safely.
            ModelError: the file cannot be opened.
        """
        yolo = import_ultralytics()
        from sluice.runtimes.torch import torch_device

        self._arguments["device"] = str(torch_device(self._device))
        restricted = contextlib.nullcontext() if self._allow_pickle else weights_only()
        try:
            with restricted:
                self._model = yolo(str(self.path), task=self._task, verbose=False)
        except ConfigurationError:
            raise
        except Exception as error:  # the package raises nearly anything
            hint = "" if self._allow_pickle else "; if you trust who made the file, set the option allow_pickle=true"
            raise ModelError(f"Ultralytics cannot open {self.path}: {type(error).__name__}: {error}{hint}") from error
        if not self.labels:
            self.labels = names_by_id(self._names()) or ()

    def _names(self) -> Mapping[Any, Any]:
        """Names by class id: a checkpoint has them, an export tells them when it is called."""
        names = getattr(self._model.model, "names", None)
        if not isinstance(names, Mapping):
            [result] = self._predict([BLACK])
            names = result.names
        return names

    def warm_up(self) -> None:
        """One call, which also chooses the backend."""
        self._predict([BLACK])

    def encode_prompt(self, labels: list[str]) -> Any:
        """The vectors of texts, for YOLO-World and YOLOE; the package fetches their text encoder when it is not there.

        Raises:
            ModelError: the model has its own classes only.
        """
        network: Any = self._model.model
        if not hasattr(network, "get_text_pe"):
            raise ModelError(f"{self.path} takes no prompt: it is neither a YOLO-World nor a YOLOE checkpoint")
        return network.get_text_pe(labels).detach()

    def use_prompt(self, labels: list[str], encoded: Any) -> None:
        """Look for these classes from now on."""
        network = self._model.model
        if hasattr(network, "set_classes") and hasattr(network, "pe"):  # YOLOE
            network.set_classes(labels, encoded)
        else:  # YOLO-World, whose own set_classes would encode the texts again
            network.txt_feats = encoded
            network.model[-1].nc = len(labels)
            network.names = dict(enumerate(labels))
        self._model.predictor = None  # it keeps the names and a copy of the network
        self.labels = tuple(labels)

    def close(self) -> None:
        """Drop the model and its memory."""
        self._model = None

    def infer(self, frames: list[Frame]) -> list[Detections]:
        """What Ultralytics finds in each frame."""
        return [_detections(result) for result in self._predict([frame.bgr() for frame in frames])] if frames else []

    def _predict(self, pictures: list[Any]) -> list[Any]:
        results: list[Any] = self._model.predict(pictures, batch=len(pictures), verbose=False, **self._arguments)
        return results


def import_ultralytics() -> Any:
    """Ultralytics' class ``YOLO``, imported so that it is safe in this process.

    Its TensorRT backend reads shapes by ``tuple(Dims)``, see `sluice.runtimes.tensorrt_module`; and it would install
    missing packages by itself, with pip, in the thread that runs the model.

    Raises:
        ConfigurationError: the package cannot be imported.
    """
    os.environ.setdefault("YOLO_AUTOINSTALL", "false")
    guard_tensorrt()
    try:
        import_compiled("torch")
        import_compiled("cv2")
        return import_compiled("ultralytics").YOLO
    except ImportError as error:
        raise ConfigurationError(
            f"the package ultralytics cannot be imported: {error}; pip install 'sluice-video[ultralytics]'"
        ) from error


@contextlib.contextmanager
def weights_only() -> Iterator[None]:
    """Ultralytics reads checkpoints inside by ``torch.load(weights_only=True)`` and a list of its own layers.

    That is its own switch, ULTRALYTICS_SAFE_LOAD, which it reads when it is imported; here it is set for one call.
    """
    tasks = import_compiled("ultralytics.nn.tasks")
    before = getattr(tasks, "SAFE_LOAD", None)
    if before is None or not hasattr(tasks, "_SafeLoad") or not tasks._SafeLoad.SUPPORTED:
        raise ConfigurationError(
            "this release of ultralytics, or of PyTorch, can only unpickle checkpoints, which runs whatever code the "
            "file names; update both, or, if you trust who made the file, set the option allow_pickle=true"
        )
    setattr(tasks, "SAFE_LOAD", True)  # noqa: B010 - the module is untyped
    try:
        yield
    finally:
        setattr(tasks, "SAFE_LOAD", before)  # noqa: B010


def _detections(result: Any) -> Detections:
    """Boxes of a `Results`, or its classes where it is a classifier's."""
    if getattr(result, "probs", None) is None:
        return Detections.from_ultralytics(result)
    probabilities = to_numpy(result.probs.data)
    best = int(probabilities.argmax())
    label = result.names.get(best)
    return Detections.of_whole(WholeFrame(classification=(Classification(best, float(probabilities[best]), label),)))
