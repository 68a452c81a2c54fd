"""Text encoders: a user's own, and an ONNX file with its tokenizer."""

import numpy as np
import pytest

from sluice.errors import ConfigurationError, ModelError
from sluice.models.text import load_text_encoder

onnx = pytest.importorskip("onnx")
tokenizers = pytest.importorskip("tokenizers")

WORDS = {"[PAD]": 0, "[UNK]": 1, "red": 2, "truck": 3, "green": 4, "car": 5}
SIZE = 6


def make_tokenizer(path, **padding):
    made = tokenizers.Tokenizer(tokenizers.models.WordLevel(WORDS, unk_token="[UNK]"))
    made.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    if padding:
        made.enable_padding(**padding)
    made.save(str(path))


def make_network(path, length=None, mask=True, extra_output=False):
    """A network whose vector of a text counts its words: the mean of one-hot rows, masked."""
    helper, kinds = onnx.helper, onnx.TensorProto
    inputs = [helper.make_tensor_value_info("input_ids", kinds.INT64, ["n", length or "l"])]
    nodes = [helper.make_node("Gather", ["table", "input_ids"], ["rows"])]
    last = "rows"
    if mask:
        inputs.append(helper.make_tensor_value_info("attention_mask", kinds.INT64, ["n", length or "l"]))
        nodes += [
            helper.make_node("Cast", ["attention_mask"], ["float_mask"], to=kinds.FLOAT),
            helper.make_node("Unsqueeze", ["float_mask", "axis"], ["wide"]),
            helper.make_node("Mul", ["rows", "wide"], ["masked"]),
        ]
        last = "masked"
    nodes.append(helper.make_node("ReduceSum", [last, "one"], ["text_embeds"], keepdims=0))
    outputs = [helper.make_tensor_value_info("text_embeds", kinds.FLOAT, ["n", SIZE])]
    if extra_output:
        nodes.append(helper.make_node("Neg", ["text_embeds"], ["other"]))
        outputs.insert(0, helper.make_tensor_value_info("other", kinds.FLOAT, ["n", SIZE]))
    constants = {
        "table": np.eye(len(WORDS), SIZE, dtype=np.float32),
        "axis": np.array([2], np.int64),
        "one": np.array([1], np.int64),
    }
    graph = helper.make_graph(
        nodes, "text", inputs, outputs, [onnx.numpy_helper.from_array(value, name) for name, value in constants.items()]
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), path)


@pytest.mark.parametrize("length", [None, 4])
def test_an_onnx_encoder(tmp_path, length) -> None:
    make_tokenizer(tmp_path / "tokenizer.json")
    make_network(tmp_path / "text.onnx", length)
    found = load_text_encoder(str(tmp_path / "text.onnx")).encode(["red truck", "car", "red " * 200])
    half = np.sqrt(0.5)
    expected = np.array([[0, 0, half, half, 0, 0], [0, 0, 0, 0, 0, 1], [0, 0, 1, 0, 0, 0]], np.float32)
    assert np.allclose(found, expected, atol=1e-6)


def test_without_a_mask_and_with_several_outputs(tmp_path) -> None:
    make_tokenizer(tmp_path / "tokenizer.json", pad_id=1, pad_token="[UNK]")
    make_network(tmp_path / "text.onnx", 2, mask=False, extra_output=True)
    found = load_text_encoder(str(tmp_path / "text.onnx")).encode(["car"])
    assert np.allclose(found, [[0, np.sqrt(0.5), 0, 0, 0, np.sqrt(0.5)]], atol=1e-6)


def test_what_is_missing_or_broken_is_named(tmp_path) -> None:
    path = tmp_path / "text.onnx"
    with pytest.raises(ModelError, match="there is no text encoder"):
        load_text_encoder(str(path))
    path.write_bytes(b"no network")
    with pytest.raises(ModelError, match=r"text\.onnx cannot be loaded"):
        load_text_encoder(str(path))
    make_network(path)
    with pytest.raises(ConfigurationError, match=r"tokenizer\.json"):
        load_text_encoder(str(path))
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(ModelError, match=r"tokenizer\.json cannot be loaded"):
        load_text_encoder(str(path))


OWN = """
import numpy as np
class Own:
    def encode(self, texts):
        return np.array([[len(text), 0, 1] for text in texts], float)
def function(texts):
    return [[0.0, 0.0] for _ in texts]
class Nothing:
    pass
def flat(texts):
    return [1.0]
"""


def test_ones_own(tmp_path) -> None:
    path = tmp_path / "own.py"
    path.write_text(OWN)
    found = load_text_encoder(f"{path}:Own").encode(["abc", "a"])
    assert found.dtype == np.float32
    assert np.allclose(np.linalg.norm(found, axis=1), 1)
    assert found[0, 0] / found[0, 2] == pytest.approx(3)
    for name, text in (("function", "without a direction"), ("flat", r"\[1\] for 1 texts")):
        with pytest.raises(ModelError, match=text):
            load_text_encoder(f"{path}:{name}").encode(["a"])
    with pytest.raises(ModelError, match="no encode"):
        load_text_encoder(f"{path}:Nothing")
    with pytest.raises(ModelError, match="no model file"):
        load_text_encoder("no-such.py:Own")


def test_a_name_for_transformers_without_it() -> None:
    pytest.importorskip("tokenizers")
    try:
        import transformers  # noqa: F401
    except ImportError:
        with pytest.raises(ConfigurationError, match="needs transformers and torch"):
            load_text_encoder("openai/clip-vit-base-patch32")
