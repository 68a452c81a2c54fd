"""RF-DETR models through their own package."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sluice.errors import ConfigurationError, ModelError
from sluice.models.adapters import check_runtime
from sluice.models.detections import Detections
from sluice.models.frame import Frame
from sluice.models.labels import names_by_id, read_labels
from sluice.runtimes.unwinding import import_compiled


class RfDetrModel:
    """An RF-DETR checkpoint (``.pth``).

    Args:
        path: the checkpoint.
        labels: label file or the labels, in place of the model's own.
        runtime: "auto" or "rfdetr".
        device: "auto" for the first GPU that works, else the processor; or "cpu", "cuda:N".
        confidence: least score, 0..1.
        iou: not used: RF-DETR suppresses nothing.
        variant: name of the package's class without its prefix, such as "Nano", "Small", "Medium", "Base", "SegNano".
        resolution: side of the network's square input in pixels; the variant's own if not given.
        allow_pickle: unpickle Python objects of any kind. That runs whatever code the file names: only for files whose
            author is trusted.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        labels: str | Path | Sequence[str] | None = None,
        runtime: str = "auto",
        device: str = "auto",
        confidence: float = 0.5,
        iou: float | None = None,  # noqa: ARG002 - there is no suppression
        variant: str = "Base",
        resolution: int | None = None,
        allow_pickle: bool = False,
    ) -> None:
        check_runtime("rfdetr", runtime)
        self.path = Path(path)
        self.labels: tuple[str, ...] = read_labels(labels) or ()
        self._device, self._confidence = device, confidence
        self._variant, self._resolution, self._allow_pickle = variant, resolution, allow_pickle
        self._model: Any = None

    def load(self) -> None:
        """Import the package and read the checkpoint.

        Raises:
            ConfigurationError: the package is not installed, or has no such variant.
            ModelError: the checkpoint cannot be read.
        """
        try:
            import_compiled("torch")
            package = import_compiled("rfdetr")
        except ImportError as error:
            raise ConfigurationError(
                f"the package rfdetr cannot be imported: {error}; pip install 'sluice-video[rfdetr]'"
            ) from error
        from sluice.runtimes.torch import torch_device

        options = {} if self._resolution is None else {"resolution": self._resolution}
        kind = _variant(package, self._variant)
        try:
            self._model = kind(
                pretrain_weights=str(self.path),
                device=torch_device(self._device).type,
                trust_checkpoint=self._allow_pickle,
                **options,
            )
        except Exception as error:  # the package raises nearly anything
            raise ModelError(f"rfdetr cannot open {self.path} as {kind.__name__}: {error}") from error
        if not self.labels:
            self.labels = _labels(getattr(self._model, "class_names", ()))

    def close(self) -> None:
        """Drop the model and its memory."""
        self._model = None

    def infer(self, frames: list[Frame]) -> list[Detections]:
        """What RF-DETR finds in each frame."""
        if not frames:
            return []
        found = self._model.predict([frame.rgb() for frame in frames], threshold=self._confidence)
        return [Detections.from_supervision(one) for one in (found if isinstance(found, list) else [found])]


def _variant(package: Any, name: str) -> Any:
    variants = {item.removeprefix("RFDETR"): item for item in dir(package) if item.startswith("RFDETR")}
    if name not in variants:
        near = difflib.get_close_matches(name, variants, 1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise ConfigurationError(f"rfdetr has no variant {name!r}{hint} (it has: {', '.join(variants)})")
    return getattr(package, variants[name])


def _labels(names: Any) -> tuple[str, ...]:
    """Labels by class id from a list or from a mapping with gaps, as COCO's ids have."""
    if isinstance(names, dict):
        return names_by_id(names) or ()
    return tuple(str(name) for name in names)
