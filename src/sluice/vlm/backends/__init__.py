"""Who answers: an endpoint, a model in this process, or a user's own class, all behind one interface."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from sluice.errors import ConfigurationError
from sluice.vlm.failures import NoAnswer, Reason
from sluice.vlm.pictures import Picture

MOST_ANSWER_CHARACTERS = 16_384
"""The longest answer by default; a longer one is refused as too large."""


@dataclass(frozen=True)
class Question:
    """What a model is asked.

    Attributes:
        prompt: the whole text.
        pictures: oldest first.
        schema: a JSON Schema of the answer, for back ends that can hold a model to it; None without.
    """

    prompt: str
    pictures: Sequence[Picture]
    schema: Any = None


@dataclass(frozen=True)
class BackendOptions:
    """What back ends need to know; each uses what concerns it.

    Attributes:
        model: name of the model, a folder or a name of the Hugging Face hub for models in this process.
        system: system prompt, "" for none.
        api_key_env: environment variable with the endpoint's key, "" for none.
        timeout: seconds for one question, retries included.
        retries: how often a question is put again after an error that may pass.
        retry_after_limit: the longest an endpoint's Retry-After is obeyed, in seconds.
        max_tokens: the most tokens of an answer, 0 for the model's own.
        most_characters: the longest answer.
        guided: whether an endpoint is asked to hold the model to the JSON Schema.
        most_pictures: the most pictures in one question, for which an engine keeps room.
        device: where a model in this process runs: "auto", "cpu", "cuda:0", ...
        extra: more members of a request, or arguments of ``generate``.
    """

    model: str = ""
    system: str = ""
    api_key_env: str = ""
    timeout: float = 60.0
    retries: int = 2
    retry_after_limit: float = 30.0
    max_tokens: int = 300
    most_characters: int = MOST_ANSWER_CHARACTERS
    guided: bool = True
    most_pictures: int = 1
    device: str = "auto"
    extra: Mapping[str, Any] = field(default_factory=dict)


class Backend(Protocol):
    """Answers questions.

    Attributes:
        most_at_once: how many questions it may be asked at the same time; None for any number.
        name: for people and answers, without secrets.
    """

    most_at_once: int | None
    name: str

    def open(self) -> None:
        """Load what it needs.

        Raises:
            ConfigurationError: it cannot, with what would be right.
        """

    def answer(self, question: Question) -> str:
        """Return the answer; called by up to `most_at_once` threads.

        Raises:
            NoAnswer: there is none.
        """

    def cancel(self) -> None:
        """Have running calls of `answer` end soon, with `NoAnswer`; called by another thread."""

    def close(self) -> None:
        """Give back what `open` took; called when no `answer` runs any more."""


def not_too_long(text: str, most: int) -> str:
    """Return an answer.

    Raises:
        NoAnswer: it has more characters than this.
    """
    if len(text) > most:
        raise NoAnswer(Reason.TOO_LARGE, f"the answer has {len(text)} characters, more than {most}")
    return text


def make_backend(spec: str, options: BackendOptions) -> Backend:
    """Return the back end of a name: an http:// or https:// URL, "transformers" or "vllm"; not opened yet.

    Raises:
        ConfigurationError: there is none of this name, or an option is wrong.
    """
    if spec.startswith(("http://", "https://")):
        from sluice.vlm.backends.endpoint import Endpoint

        return Endpoint(spec, options)
    if spec == "transformers":
        from sluice.vlm.backends.transformers import TransformersBackend

        return TransformersBackend(options)
    if spec == "vllm":
        from sluice.vlm.backends.vllm import VllmBackend

        return VllmBackend(options)
    raise ConfigurationError(
        f"there is no back end {spec!r}; right is the URL of an OpenAI-compatible endpoint (http://host:8000/v1), "
        "transformers, vllm, package.module:Class or file.py:Class"
    )
