"""A vision-language model in this process, by Hugging Face's `transformers`: any that answers images and text."""

from __future__ import annotations

import threading
import time
from typing import Any

from sluice.errors import ConfigurationError
from sluice.vlm.backends import BackendOptions, Question, not_too_long
from sluice.vlm.failures import NoAnswer, Reason


class TransformersBackend:
    """Loads ``AutoModelForImageTextToText`` and its processor from a folder or the hub; one question at a time."""

    most_at_once: int | None = 1

    def __init__(self, options: BackendOptions) -> None:
        """Take the options.

        Raises:
            ConfigurationError: no model is named.
        """
        if not options.model:
            raise ConfigurationError(
                "model is not set; transformers needs a folder, or a name of the Hugging Face hub such as "
                "HuggingFaceTB/SmolVLM-256M-Instruct"
            )
        self._options = options
        self.name = options.model
        self._model: Any = None
        self._processor: Any = None
        self._stop = threading.Event()

    def open(self) -> None:
        """Load the model and its processor; raises ConfigurationError where they or a package cannot be loaded."""
        try:
            import torch
            from transformers import AutoModelForImageTextToText, AutoProcessor
        except ImportError as error:
            raise ConfigurationError(
                f"models in this process need transformers, torch and pillow; one cannot be imported: {error}; "
                "pip install 'sluice-video[transformers]'"
            ) from error
        device = self._options.device
        if device == "auto":
            device = "cuda" if torch.cuda.is_available() else "cpu"
        name = self._options.model
        try:
            self._processor = AutoProcessor.from_pretrained(name)
            model = AutoModelForImageTextToText.from_pretrained(name, dtype="auto")
            self._model = model.to(device).eval()
        except Exception as error:  # whatever a folder's files or the hub may raise
            raise ConfigurationError(
                f"the model {name!r} cannot be loaded by transformers: {type(error).__name__}: {error}"
            ) from error

    def answer(self, question: Question) -> str:
        """Return what the model says.

        Raises:
            NoAnswer: it was stopped, is out of time, or said too much.
        """
        import torch
        from PIL import Image

        content: list[dict[str, Any]] = [
            {"type": "image", "image": Image.fromarray(picture.rgb())} for picture in question.pictures
        ]
        messages: list[dict[str, Any]] = [
            {"role": "user", "content": [*content, {"type": "text", "text": question.prompt}]}
        ]
        if self._options.system:
            system = [{"type": "text", "text": self._options.system}]
            messages.insert(0, {"role": "system", "content": system})
        inputs = self._processor.apply_chat_template(
            messages, add_generation_prompt=True, tokenize=True, return_dict=True, return_tensors="pt"
        ).to(self._model.device, dtype=self._model.dtype)
        more = {"do_sample": False, **self._options.extra}
        if self._options.max_tokens:
            more["max_new_tokens"] = self._options.max_tokens
        deadline = time.monotonic() + self._options.timeout
        with torch.inference_mode():
            tokens = self._model.generate(**inputs, **more, stopping_criteria=[self._stopper(deadline)])
        self._check(deadline)
        new = tokens[:, inputs["input_ids"].shape[1] :]
        text = str(self._processor.batch_decode(new, skip_special_tokens=True)[0])
        return not_too_long(text, self._options.most_characters)

    def cancel(self) -> None:
        """Have the running answer end at its next token."""
        self._stop.set()

    def close(self) -> None:
        """Let go of the model."""
        self._model = self._processor = None

    def _stopper(self, deadline: float) -> Any:
        """Return a stopping criterion, looked at after each token: stopped, or out of time."""
        import torch

        def stops(tokens: Any, _scores: Any, **_more: Any) -> Any:
            ends = self._stop.is_set() or time.monotonic() > deadline
            return torch.full((tokens.shape[0],), ends, dtype=torch.bool, device=tokens.device)

        return stops

    def _check(self, deadline: float) -> None:
        if self._stop.is_set():
            raise NoAnswer(Reason.STOPPED, "the element was stopped before the answer")
        if time.monotonic() > deadline:
            raise NoAnswer(Reason.TIMED_OUT, f"no answer within {self._options.timeout:g} s")
