"""Quantised ONNX networks (Q/DQ), written so that ONNX Runtime computes them in int8 on x86-64.

Its int8 kernels there want unsigned activations, and it turns signed ones into such by itself only where an activation
has one reader. In a network with SiLU, as all YOLOs since v5, each has two (``x * sigmoid(x)``), and layout operators
between Q and DQ stop it too. What is left is computed in float32, with every weight dequantised anew in each run: a
YOLO11n takes three times as long. So all activations are made unsigned here, before ONNX Runtime sees the network.
"""

from __future__ import annotations

import functools
import platform
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from sluice.protobuf import Fields, message_classes

_INT8, _UINT8 = 3, 2  # TensorProto.DataType
_SHIFT = 128  # signed to unsigned: of values and zero points alike, so that what they stand for stays
_EXTERNAL = 1  # TensorProto.DataLocation
_LARGEST = 1 << 31  # bytes; protobuf can hold no more

#: Operators that move values about without looking at them, and how many of their inputs are such values.
_MOVING = {
    "Concat": None,
    "DepthToSpace": 1,
    "Flatten": 1,
    "Gather": 1,
    "Identity": 1,
    "Reshape": 1,
    "Slice": 1,
    "SpaceToDepth": 1,
    "Split": 1,
    "Squeeze": 1,
    "Transpose": 1,
    "Unsqueeze": 1,
}
_WITH_GRAPHS = ("If", "Loop", "Scan")

# The fields of ONNX that are read or written. Protobuf keeps all others as they are.
_FIELDS: dict[str, Fields] = {
    "Model": ((7, "graph", ".sluice.onnx.Graph"),),
    "Graph": (
        (1, "node", "repeated .sluice.onnx.Node"),
        (5, "initializer", "repeated .sluice.onnx.Tensor"),
        (12, "output", "repeated .sluice.onnx.Value"),
        (13, "value_info", "repeated .sluice.onnx.Value"),
    ),
    "Node": ((1, "input", "repeated string"), (2, "output", "repeated string"), (4, "op_type", "string")),
    "Tensor": (
        (1, "dims", "repeated int64"),
        (2, "data_type", "int32"),
        (5, "int32_data", "repeated int32"),
        (8, "name", "string"),
        (9, "raw_data", "bytes"),
        (14, "data_location", "int32"),
    ),
    "Value": ((1, "name", "string"),),
}


def with_unsigned_activations(path: Path) -> bytes | None:
    """The network of a file with int8 activations made uint8; it computes the same.

    Args:
        path: an ONNX file.

    Returns:
        the network as ONNX; None where there is nothing to change, or something that is not understood: then the file
        is to be run as it is.
    """
    if path.stat().st_size >= _LARGEST:
        return None
    # Read and not mapped: a file that is overwritten meanwhile would end the process.
    content = path.read_bytes()
    if b"QuantizeLinear" not in content:
        return None
    from google.protobuf.message import DecodeError

    model = _model_class()()
    try:
        model.ParseFromString(content)
    except DecodeError:
        return None  # ONNX Runtime says what is wrong with it
    return model.SerializeToString() if _rewrite(model.graph) else None


@functools.cache
def multiplies_int8() -> bool:
    """Whether this is an x86-64 processor with VNNI. Without it, ONNX Runtime's int8 sums are cut off at 16 bits."""
    if platform.machine() != "x86_64":
        return False
    flags = Path("/proc/cpuinfo").read_text().partition("\nflags")[2].partition("\n")[0].split()
    return not {"avx512_vnni", "avx_vnni"}.isdisjoint(flags)


def _rewrite(graph: Any) -> bool:
    """Make the activations unsigned; without effect and False where that cannot be done."""
    constants = {tensor.name: tensor for tensor in graph.initializer}
    if any(tensor.data_location == _EXTERNAL for tensor in graph.initializer):
        return False
    found = _readers_of_zero_points(graph.node, constants)
    if not found:
        return False
    names = {name: f"{name}_unsigned" for name in {node.input[2] for node in found}}
    if not constants.keys().isdisjoint(names.values()):
        return False
    for node in found:
        node.input[2] = names[node.input[2]]
    graph.initializer.extend(_shifted(constants[name], new) for name, new in names.items())
    del graph.value_info[:]  # it says int8 of them
    return True


def _readers_of_zero_points(nodes: Iterable[Any], constants: dict[str, Any]) -> list[Any]:
    """The Q and DQ nodes of all int8 activations; none where one reaches an operator that would notice a change."""
    signed: set[str] = set()
    found = []
    for node in nodes:
        if node.op_type in _WITH_GRAPHS:
            return []
        if node.op_type == "QuantizeLinear":
            if _has_signed_zero_point(node, constants):
                found.append(node)
                signed.update(node.output)
            continue
        values = node.input[: _MOVING.get(node.op_type, 1)]
        if signed.isdisjoint(node.input):
            continue
        if node.op_type == "DequantizeLinear" and _has_signed_zero_point(node, constants):
            found.append(node)
        elif node.op_type in _MOVING and signed.issuperset(values):
            signed.update(node.output)
        else:
            return []
    return found


def _has_signed_zero_point(node: Any, constants: dict[str, Any]) -> bool:
    return len(node.input) == 3 and node.input[2] in constants and constants[node.input[2]].data_type == _INT8


def _shifted(tensor: Any, name: str) -> Any:
    """An int8 tensor as uint8 of another name."""
    values = np.frombuffer(tensor.raw_data, np.int8) if tensor.raw_data else np.array(tensor.int32_data)
    data = (values.astype(np.int16) + _SHIFT).astype(np.uint8).tobytes()
    return type(tensor)(dims=tensor.dims, data_type=_UINT8, name=name, raw_data=data)


@functools.cache
def _model_class() -> Any:
    """The class of ONNX' ModelProto, with the fields of `_FIELDS`."""
    return message_classes("sluice.onnx", "proto2", _FIELDS)["Model"]
