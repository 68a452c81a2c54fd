"""Signed activations of quantised networks are made unsigned, so that ONNX Runtime's int8 kernels take them."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper, numpy_helper

from sluice.errors import ConfigurationError
from sluice.runtimes import onnxruntime as runtime
from sluice.runtimes import open_network
from sluice.runtimes.quantized import with_unsigned_activations

sys.path.append(str(Path(__file__).parent.parent / "models"))
from tiny_networks import save, tensor

CHANNELS, SIZE = 8, 16
SHAPE = [1, CHANNELS, SIZE, SIZE]
STEP, WEIGHT_STEP = 0.0193, 0.00214  # numbers whose products seldom lie half way between two steps
LARGEST_WEIGHT = 64  # with it, a sum of two products fits in the 16 bits that processors without VNNI have for it
ZERO = np.int8(3)


def silu_network(path: Path, zero: Any = ZERO, between: Sequence[Any] = ()) -> Path:
    """Twice a convolution and ``x * sigmoid(x)``, quantised as ONNX Runtime's own tool does it.

    Args:
        path: where to write it.
        zero: the activations' zero point.
        between: nodes that make "moved" of the input's values, "input_q".
    """
    nodes = [helper.make_node("QuantizeLinear", ["images", "step", "zero"], ["input_q"]), *between]
    nodes += [helper.make_node("DequantizeLinear", ["moved" if between else "input_q", "step", "zero"], ["x0"])]

    def quantised(value: str) -> str:
        nodes.append(helper.make_node("QuantizeLinear", [value, "step", "zero"], [f"{value}_q"]))
        nodes.append(helper.make_node("DequantizeLinear", [f"{value}_q", "step", "zero"], [f"{value}_d"]))
        return f"{value}_d"

    last = "x0"
    for layer in "ab":
        weights, bias = f"weights_{layer}", f"bias_{layer}"
        nodes.append(helper.make_node("DequantizeLinear", ["weights", "weight_steps", "no_shift"], [weights], axis=0))
        nodes.append(helper.make_node("DequantizeLinear", ["bias", "bias_steps"], [bias], axis=0))
        nodes.append(helper.make_node("Conv", [last, weights, bias], [f"conv_{layer}"], pads=[1, 1, 1, 1]))
        sum_ = quantised(f"conv_{layer}")
        nodes.append(helper.make_node("Sigmoid", [sum_], [f"gate_{layer}"]))
        nodes.append(helper.make_node("Mul", [sum_, quantised(f"gate_{layer}")], [f"silu_{layer}"]))
        last = quantised(f"silu_{layer}")
    random = np.random.default_rng(1)
    return save(
        path,
        [*nodes, helper.make_node("Identity", [last], ["output0"])],
        [tensor("images", SHAPE)],
        [tensor("output0", SHAPE)],
        step=np.float32(STEP),
        zero=zero,
        weights=random.integers(-LARGEST_WEIGHT, LARGEST_WEIGHT + 1, (CHANNELS, CHANNELS, 3, 3)).astype(np.int8),
        weight_steps=np.full(CHANNELS, WEIGHT_STEP, np.float32),
        no_shift=np.zeros(CHANNELS, np.int8),
        bias=random.integers(-9999, 9999, CHANNELS).astype(np.int32),
        bias_steps=np.full(CHANNELS, STEP * WEIGHT_STEP, np.float32),
    )


def session(network: bytes | str, **values: Any) -> Any:
    options = onnxruntime.SessionOptions()
    for name, value in values.items():
        setattr(options, name, value)
    return onnxruntime.InferenceSession(network, options, providers=["CPUExecutionProvider"])


def pictures() -> Any:
    return np.random.default_rng(2).uniform(-2, 2, SHAPE).astype(np.float32)


MOVED = [
    helper.make_node("Transpose", ["input_q"], ["turned"], perm=[0, 1, 3, 2]),
    helper.make_node("Concat", ["turned", "input_q"], ["both"], axis=0),
    helper.make_node("Split", ["both"], ["moved", "rest"], axis=0),
]


@pytest.mark.parametrize("between", [[], MOVED], ids=["straight", "moved"])
def test_the_network_stays_the_same_to_the_bit(tmp_path, between):
    path = silu_network(tmp_path / "m.onnx", between=between)
    network = with_unsigned_activations(path)
    onnx.checker.check_model(onnx.load_from_string(network))
    plain = {"graph_optimization_level": onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL}
    given = {"images": pictures()}
    [before], [after] = (session(form, **plain).run(None, given) for form in (str(path), network))
    assert np.ptp(before) > 1
    np.testing.assert_array_equal(after, before)


def test_all_of_it_is_computed_in_int8(tmp_path):
    network = with_unsigned_activations(silu_network(tmp_path / "m.onnx"))
    written = tmp_path / "optimised.onnx"
    session(network, optimized_model_filepath=str(written), log_severity_level=3)
    operators = Counter(node.op_type for node in onnx.load(written).graph.node)
    assert (operators["QLinearConv"], operators["Conv"], operators["Sigmoid"], operators["Mul"]) == (2, 0, 0, 0)
    assert operators["DequantizeLinear"] == 1


@pytest.mark.parametrize(
    ("zero", "between"),
    [
        (np.uint8(128), []),
        (np.int8(0), [helper.make_node("Relu", ["input_q"], ["moved"])]),
        (np.int8(0), [helper.make_node("Concat", ["input_q", "weights"], ["moved"], axis=0)]),
    ],
    ids=["unsigned already", "values are looked at", "other values join"],
)
def test_what_is_not_known_stays_as_it_is(tmp_path, zero, between):
    assert with_unsigned_activations(silu_network(tmp_path / "m.onnx", zero, between)) is None


def test_files_without_quantisation_and_broken_ones_are_left_to_the_runtime(tmp_path):
    for content in (b"", b"garbage", b"\x08\x07QuantizeLinear"):
        (tmp_path / "m.onnx").write_bytes(content)
        assert with_unsigned_activations(tmp_path / "m.onnx") is None


def test_weights_in_a_file_of_their_own_are_not_lost(tmp_path):
    path = silu_network(tmp_path / "m.onnx")
    onnx.save(onnx.load(path), path, save_as_external_data=True, location="weights.bin", size_threshold=0)
    assert with_unsigned_activations(path) is None
    [output] = open_network(path).run(pictures())
    assert np.ptp(output) > 1


def test_int8_where_it_is_asked_for_and_float_otherwise(tmp_path, monkeypatch):
    """An int8 result is apart by a few roundings at most; one as the file is written not at all."""
    path = silu_network(tmp_path / "m.onnx")
    given = pictures()
    monkeypatch.setattr(runtime, "multiplies_int8", lambda: True)
    [expected] = session(str(path)).run(None, {"images": given})
    np.testing.assert_array_equal(open_network(path).run(given)[0], expected)
    [found] = open_network(path, precision="int8").run(given)
    assert (np.abs(found - expected) > STEP / 2).mean() < 0.01
    assert np.abs(found - expected).max() < 2.5 * STEP


@pytest.mark.parametrize(
    ("precision", "zero", "has_kernels", "said"),
    [
        ("int8", np.int8(0), False, "no VNNI"),
        ("int8", np.uint8(128), True, "unsigned already"),
        ("bf16", np.int8(0), True, "types the file is written in"),
    ],
)
def test_a_precision_that_cannot_be_given_is_refused(tmp_path, monkeypatch, precision, zero, has_kernels, said):
    path = silu_network(tmp_path / "m.onnx", zero)
    monkeypatch.setattr(runtime, "multiplies_int8", lambda: has_kernels)
    with pytest.raises(ConfigurationError, match=said):
        open_network(path, precision=precision)


def test_shared_and_differently_stored_zero_points(tmp_path):
    """Weights keep a zero point that activations share with them, and int32_data is read as raw_data is."""
    path = silu_network(tmp_path / "m.onnx", np.int8(-4))
    model = onnx.load(path)
    for node in model.graph.node:
        if node.op_type == "DequantizeLinear" and node.input[0] == "weights":
            del node.attribute[:]
            node.input[1:] = ["weight_step", "zero"]
    model.graph.initializer.append(numpy_helper.from_array(np.float32(WEIGHT_STEP), "weight_step"))
    [zero] = [item for item in model.graph.initializer if item.name == "zero"]
    zero.ClearField("raw_data")
    zero.int32_data.append(-4)
    onnx.save(model, path)
    plain = {"graph_optimization_level": onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL}
    forms = (str(path), with_unsigned_activations(path))
    [before], [after] = (session(form, **plain).run(None, {"images": pictures()}) for form in forms)
    np.testing.assert_array_equal(after, before)
