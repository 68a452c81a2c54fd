"""A vision-language model in this process: transformers' true code on a tiny model with random weights."""

import json
import threading
import time

import numpy as np
import pytest

transformers = pytest.importorskip("transformers")
torch = pytest.importorskip("torch")

import sluice
from reference.tiny_vlm import save_clip, save_llava
from sluice.errors import ConfigurationError, ModelError
from sluice.models.text import load_text_encoder
from sluice.vlm.backends import BackendOptions, Question, make_backend
from sluice.vlm.failures import NoAnswer, Reason
from sluice.vlm.pictures import Encoding, Picture


@pytest.fixture(scope="session")
def llava(work):
    return save_llava(work / "llava")


def picture(shade):
    made = Picture(lambda: np.full((40, 60, 3), shade, np.uint8))
    made.encode(Encoding())
    return made


def opened(folder, **options):
    backend = make_backend("transformers", BackendOptions(model=str(folder), device="cpu", **options))
    backend.open()
    return backend


def test_it_says_what_transformers_itself_says(llava) -> None:
    backend = opened(llava, max_tokens=12)
    shown = [picture(40), picture(200)]
    said = backend.answer(Question("What is there?", shown))
    processor = transformers.AutoProcessor.from_pretrained(llava)
    model = transformers.AutoModelForImageTextToText.from_pretrained(llava)
    inputs = processor(
        images=[one.rgb() for one in shown],
        text="user: <image><image>What is there?\nassistant: ",
        return_tensors="pt",
    )
    with torch.inference_mode():
        tokens = model.generate(**inputs, do_sample=False, max_new_tokens=12)
    expected = processor.batch_decode(tokens[:, inputs["input_ids"].shape[1] :], skip_special_tokens=True)[0]
    assert said == expected
    assert len(tokens[0]) - inputs["input_ids"].shape[1] == 12
    assert said == backend.answer(Question("What is there?", shown))
    assert said != backend.answer(Question("Something else?", [picture(90)]))


def test_a_system_prompt_and_arguments_of_generate(llava) -> None:
    plain = opened(llava, max_tokens=8).answer(Question("?", [picture(40)]))
    other = opened(llava, max_tokens=8, system="Be brief.").answer(Question("?", [picture(40)]))
    short = opened(llava, max_tokens=8, extra={"max_new_tokens": 8, "min_new_tokens": 8}).answer(
        Question("?", [picture(40)])
    )
    assert plain == short
    assert isinstance(other, str)


def test_cancel_and_timeout_end_a_long_answer(llava) -> None:
    backend = opened(llava, max_tokens=100_000, extra={"eos_token_id": -1})
    outcome = []

    def ask():
        try:
            outcome.append(backend.answer(Question("?", [picture(40)])))
        except NoAnswer as error:
            outcome.append(error.reason)

    thread = threading.Thread(target=ask)
    thread.start()
    time.sleep(0.5)
    backend.cancel()
    thread.join(10)
    assert outcome == [Reason.STOPPED]
    slow = opened(llava, max_tokens=100_000, timeout=0.3, extra={"eos_token_id": -1})
    with pytest.raises(NoAnswer) as caught:
        slow.answer(Question("?", [picture(40)]))
    assert caught.value.reason is Reason.TIMED_OUT


def test_in_a_pipeline_every_answer_is_on_its_frame(llava) -> None:
    vlm = {"backend": "transformers", "model": str(llava), "every": 1, "prompt": "{pts}?"}
    vlm["properties"] = {"max_tokens": 4, "device": "cpu"}
    with sluice.Pipeline("test:ball?frames=25&size=64x48&fps=10", model=None, vlm=vlm) as pipeline:
        found = {frame.number: frame.answers[0] for frame in pipeline if frame.answers}
    segments = pipeline.summary.segments
    assert segments["asked"] == 3
    assert segments["asked"] == segments.get("answered", 0) + segments.get("invalid-answer", 0)
    assert set(found) <= {0, 10, 20}
    assert all(answer.model == str(llava) for answer in found.values())


def test_folders_that_hold_no_model(tmp_path, llava) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "bert"}))
    for folder in (tmp_path, tmp_path / "nothing"):
        with pytest.raises(ConfigurationError, match="cannot be loaded by transformers"):
            opened(folder)
    with pytest.raises(ConfigurationError, match="model is not set"):
        make_backend("transformers", BackendOptions())


def test_the_text_half_of_clip(work) -> None:
    folder = save_clip(work / "clip")
    encoder = load_text_encoder(str(folder))
    texts = ["red truck", "a very long description of a truck that has many wheels", "x"]
    found = encoder.encode(texts)
    assert found.shape == (3, 16)
    assert np.allclose(np.linalg.norm(found, axis=1), 1, atol=1e-5)
    model = transformers.CLIPModel.from_pretrained(folder)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    with torch.inference_mode():
        tokens = tokenizer(texts, padding="max_length", truncation=True, max_length=24, return_tensors="pt")
        pooled = model.text_model(**tokens).pooler_output
        expected = torch.nn.functional.normalize(model.text_projection(pooled), dim=-1).numpy()
    assert np.allclose(found, expected, atol=1e-5)


def test_a_model_without_texts(work, llava) -> None:
    with pytest.raises(ModelError, match=r"has no get_text_features|cannot be loaded"):
        load_text_encoder(str(llava))
