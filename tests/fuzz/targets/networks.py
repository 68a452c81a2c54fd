"""ONNX files as far as they are read here, by protobuf: quantised networks."""

from __future__ import annotations

import tempfile
from pathlib import Path

from onnx import TensorProto, helper

from sluice.runtimes.quantized import with_unsigned_activations
from targets import Target

FOLDER = tempfile.TemporaryDirectory(prefix="fuzz-")
PATH = Path(FOLDER.name) / "network.onnx"


def read(content: bytes) -> None:
    """Read a network and what was made of it, which must be right once it is."""
    PATH.write_bytes(content)
    made = with_unsigned_activations(PATH)
    if made is not None:
        PATH.write_bytes(made)
        assert with_unsigned_activations(PATH) is None


def quantised() -> bytes:
    """Return a network whose input is quantised, reshaped and dequantised."""
    nodes = [
        helper.make_node("QuantizeLinear", ["in", "scale", "zero"], ["q"]),
        helper.make_node("Reshape", ["q", "shape"], ["r"]),
        helper.make_node("DequantizeLinear", ["r", "scale", "zero"], ["out"]),
    ]
    constants = [
        helper.make_tensor("scale", TensorProto.FLOAT, [], [0.1]),
        helper.make_tensor("zero", TensorProto.INT8, [], [0]),
        helper.make_tensor("shape", TensorProto.INT64, [1], [-1]),
    ]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [4]) for name in ("in", "out")]
    graph = helper.make_graph(nodes, "quantised", ends[:1], ends[1:], constants)
    return bytes(helper.make_model(graph).SerializeToString())


TARGETS = {"networks": Target(read, (quantised(),), (b"QuantizeLinear", b"DequantizeLinear", b"Concat", b"zero"))}
