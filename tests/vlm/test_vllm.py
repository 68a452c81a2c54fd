"""The back end for vLLM, against a stand-in for the package: what it is made with, asked, and says."""

import sys
import types
from types import SimpleNamespace

import numpy as np
import pytest

from sluice.errors import ConfigurationError
from sluice.vlm.backends import BackendOptions, Question, make_backend
from sluice.vlm.failures import NoAnswer, Reason
from sluice.vlm.pictures import Encoding, Picture


class LLM:
    """Keeps what it was given."""

    def __init__(self, **arguments):
        self.arguments, self.asked = arguments, []
        LLM.last = self

    def chat(self, messages, **arguments):
        self.asked.append((messages, arguments))
        return [SimpleNamespace(outputs=[SimpleNamespace(text=LLM.text)])]


@pytest.fixture
def vllm(monkeypatch):
    module = types.ModuleType("vllm")
    module.LLM, module.SamplingParams = LLM, lambda **arguments: arguments
    monkeypatch.setitem(sys.modules, "vllm", module)
    LLM.text = "a street"
    return LLM


def question():
    picture = Picture(lambda: np.zeros((8, 8, 3), np.uint8))
    picture.encode(Encoding())
    return Question("What is there?", [picture, picture])


def test_what_it_is_asked(vllm) -> None:
    options = BackendOptions(model="m", system="Be brief.", max_tokens=40, most_pictures=2, extra={"top_p": 0.5})
    backend = make_backend("vllm", options)
    backend.open()
    assert backend.answer(question()) == "a street"
    assert vllm.last.arguments == {"model": "m", "limit_mm_per_prompt": {"image": 2}}
    ((messages, arguments),) = vllm.last.asked
    assert arguments["sampling_params"] == {"temperature": 0.0, "top_p": 0.5, "max_tokens": 40}
    assert messages[0] == {"role": "system", "content": "Be brief."}
    assert [part["type"] for part in messages[1]["content"]] == ["image_url", "image_url", "text"]
    assert backend.most_at_once == 1
    backend.cancel()
    backend.close()


def test_an_answer_that_is_too_long(vllm) -> None:
    vllm.text = "x" * 11
    backend = make_backend("vllm", BackendOptions(model="m", most_characters=10))
    backend.open()
    with pytest.raises(NoAnswer) as caught:
        backend.answer(question())
    assert caught.value.reason is Reason.TOO_LARGE


def test_without_the_package_or_a_model(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "vllm", None)
    with pytest.raises(ConfigurationError, match=r"sluice-video\[vllm\]"):
        make_backend("vllm", BackendOptions(model="m")).open()
    with pytest.raises(ConfigurationError, match="model is not set"):
        make_backend("vllm", BackendOptions())
