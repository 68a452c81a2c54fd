"""ONNX files whose outputs are constants, in the types, names and shapes that exporters write."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper


def constant_network(path: Path, layout: Any) -> Path:
    """Write a file that gives a layout's outputs whatever its input is, and return its path."""
    nodes, outputs, weights = [], [], []
    for name, values in layout.outputs.items():
        array = np.ascontiguousarray(values)
        weights.append(numpy_helper.from_array(array, f"{name}_value"))
        nodes.append(helper.make_node("Identity", [f"{name}_value"], [name]))
        kind = helper.np_dtype_to_tensor_dtype(array.dtype)
        outputs.append(helper.make_tensor_value_info(name, kind, array.shape))
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(layout.dtype))
    entry = helper.make_tensor_value_info("images", kind, layout.shape)
    graph = helper.make_graph(nodes, "constant", [entry], outputs, weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    helper.set_model_props(model, layout.metadata)
    onnx.checker.check_model(model)
    onnx.save(model, path)
    return path
