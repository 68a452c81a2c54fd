"""Detectors that look for what a text says, by `transformers`: OWL-ViT, OWLv2, Grounding DINO and alike."""

from __future__ import annotations

from typing import Any

import numpy as np

from sluice.errors import ConfigurationError, ModelError
from sluice.models.detections import Detections
from sluice.models.frame import Frame


class ZeroShotDetector:
    """``AutoModelForZeroShotObjectDetection``; what it looks for is the property ``prompt``.

    Args:
        path: a folder, or a name of the Hugging Face hub such as ``google/owlv2-base-patch16-ensemble``.
        device: "auto" for the first GPU that works, else the processor; or "cpu", "cuda:N".
        confidence: least score, 0..1.
        text_confidence: for Grounding DINO: least score of the words that name a box.
    """

    def __init__(
        self, path: str, *, device: str = "auto", confidence: float = 0.2, text_confidence: float = 0.25
    ) -> None:
        self._path, self._device = path, device
        self._confidence, self._text_confidence = confidence, text_confidence
        self.labels: tuple[str, ...] = ()
        self._model: Any = None
        self._texts: Any = None

    def load(self) -> None:
        """Load the model and its processor.

        Raises:
            ConfigurationError: transformers or torch is not installed.
            ModelError: the model cannot be loaded.
        """
        try:
            import torch
            from transformers import AutoModelForZeroShotObjectDetection, AutoProcessor
        except ImportError as error:
            raise ConfigurationError(
                f"zero-shot detectors need transformers and torch, and one cannot be imported: {error}; "
                "pip install 'sluice-video[transformers]'"
            ) from error
        from sluice.runtimes.torch import torch_device

        self._torch = torch
        try:
            self._processor = AutoProcessor.from_pretrained(self._path)
            model = AutoModelForZeroShotObjectDetection.from_pretrained(self._path)
        except Exception as error:  # whatever a folder's files or the hub may raise
            what = f"{type(error).__name__}: {error}"
            raise ModelError(f"{self._path!r} cannot be loaded by transformers: {what}") from error
        self._model = model.to(torch_device(self._device)).eval()
        self._grounds = "grounding" in type(model).__name__.lower()

    def encode_prompt(self, labels: list[str]) -> Any:
        """The tokens of the texts."""
        text: Any = ". ".join(label.lower() for label in labels) + "." if self._grounds else [labels]
        return text, self._processor(text=text, return_tensors="pt")

    def use_prompt(self, labels: list[str], encoded: Any) -> None:
        """Look for these from now on."""
        self._texts = encoded
        self.labels = tuple(labels)

    def infer(self, frames: list[Frame]) -> list[Detections]:
        """What is found in each frame; nothing while there is no prompt."""
        return [self._find(frame) for frame in frames]

    def close(self) -> None:
        """Drop the model and its memory."""
        self._model = None

    def _find(self, frame: Frame) -> Detections:
        if self._texts is None:
            return Detections.empty()
        _, tokens = self._texts
        picture = self._processor.image_processor(images=frame.rgb(), return_tensors="pt")
        inputs = {name: value.to(self._model.device) for name, value in {**tokens, **picture}.items()}
        with self._torch.inference_mode():
            outputs = self._model(**inputs)
        found = self._boxes(outputs, inputs, (frame.height, frame.width))
        boxes, scores, ids = (np.asarray(value) for value in found)
        keep = ids >= 0
        return Detections(boxes[keep].reshape(-1, 4), scores[keep], ids[keep])

    def _boxes(self, outputs: Any, inputs: Any, size: tuple[int, int]) -> tuple[Any, Any, Any]:
        if not self._grounds:
            (result,) = self._processor.post_process_grounded_object_detection(
                outputs, threshold=self._confidence, target_sizes=[size]
            )
            return result["boxes"].cpu(), result["scores"].cpu(), result["labels"].cpu()
        (result,) = self._processor.post_process_grounded_object_detection(
            outputs,
            inputs["input_ids"],
            threshold=self._confidence,
            text_threshold=self._text_confidence,
            target_sizes=[size],
        )
        names = result.get("text_labels", result["labels"])
        return result["boxes"].cpu(), result["scores"].cpu(), [self._class_of(name) for name in names]

    def _class_of(self, words: str) -> int:
        """The class whose text shares the most words with those that named a box; -1 where none does."""
        said = set(words.lower().split())
        shared = [len(said & set(label.lower().split())) / max(1, len(label.split())) for label in self.labels]
        best = int(np.argmax(shared))
        return best if shared[best] > 0 else -1
