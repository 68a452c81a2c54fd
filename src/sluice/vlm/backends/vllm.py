"""A vision-language model in this process, by vLLM. For many streams its server as an endpoint does more: see there."""

from __future__ import annotations

from typing import Any

from sluice.errors import ConfigurationError
from sluice.vlm.backends import BackendOptions, Question, not_too_long
from sluice.vlm.backends.chat import chat_messages


class VllmBackend:
    """Loads ``vllm.LLM``; one question at a time, which cannot be ended from outside."""

    most_at_once: int | None = 1

    def __init__(self, options: BackendOptions) -> None:
        """Take the options.

        Raises:
            ConfigurationError: no model is named.
        """
        if not options.model:
            raise ConfigurationError("model is not set; vllm needs a folder or a name of the Hugging Face hub")
        self._options = options
        self.name = options.model
        self._engine: Any = None
        self._sampling: Any = None

    def open(self) -> None:
        """Load the model; raises ConfigurationError where the package is missing."""
        try:
            from vllm import LLM, SamplingParams
        except ImportError as error:
            raise ConfigurationError(
                f"the back end vllm needs the package vllm, which cannot be imported: {error}; "
                "pip install 'sluice-video[vllm]'"
            ) from error
        self._engine = LLM(model=self._options.model, limit_mm_per_prompt={"image": self._options.most_pictures})
        sampling = {"temperature": 0.0, **self._options.extra}
        if self._options.max_tokens:
            sampling["max_tokens"] = self._options.max_tokens
        self._sampling = SamplingParams(**sampling)

    def answer(self, question: Question) -> str:
        """Return what the model says; raises NoAnswer where that is too long, and what the engine raises."""
        messages = chat_messages(question, self._options.system)
        outputs = self._engine.chat(messages, sampling_params=self._sampling, use_tqdm=False)
        return not_too_long(str(outputs[0].outputs[0].text), self._options.most_characters)

    def cancel(self) -> None:
        """A running call cannot be ended from outside."""

    def close(self) -> None:
        """Let go of the engine."""
        self._engine = None
