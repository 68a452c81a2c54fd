"""Fixtures shared by the tests of elements."""

import pytest

CONFIG = """[property]
onnx-file=net.onnx
gie-unique-id=4
interval=2
network-type=0
num-detected-classes=2
cluster-mode=4
parse-bbox-func-name=NvDsInferParseYolo
labelfile-path=labels.txt
[class-attrs-all]
pre-cluster-threshold=0.5
"""


@pytest.fixture
def config(tmp_path):
    """A configuration whose network finds one box of class 1 in every picture of 32x32."""
    import numpy as np

    onnx = pytest.importorskip("onnx")
    onnx_helper = onnx.helper
    row = np.array([[[8, 8, 24, 24, 0.75, 1]]], np.float32)
    names = [onnx_helper.make_tensor_value_info(n, 1, s) for n, s in (("in", [1, 3, 32, 32]), ("out", [1, 1, 6]))]
    nodes = [
        onnx_helper.make_node("ReduceMean", ["in"], ["mean"], axes=[1, 2, 3], keepdims=1),
        onnx_helper.make_node("Reshape", ["mean", "shape"], ["flat"]),
        onnx_helper.make_node("Mul", ["flat", "zero"], ["nothing"]),
        onnx_helper.make_node("Add", ["nothing", "row"], ["out"]),
    ]
    weights = {"shape": np.array([1, 1, 1], np.int64), "zero": np.zeros(1, np.float32), "row": row}
    constants = [onnx.numpy_helper.from_array(value, name) for name, value in weights.items()]
    graph = onnx_helper.make_graph(nodes, "box", names[:1], names[1:], constants)
    onnx.save(
        onnx_helper.make_model(graph, opset_imports=[onnx_helper.make_opsetid("", 13)], ir_version=8),
        tmp_path / "net.onnx",
    )
    (tmp_path / "labels.txt").write_text("cat\ndog\n")
    path = tmp_path / "config_infer_primary.txt"
    path.write_text(CONFIG)
    return path
