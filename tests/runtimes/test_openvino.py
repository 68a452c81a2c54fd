"""OpenVINO: the same numbers as ONNX Runtime, its own files, and what it refuses."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

openvino = pytest.importorskip("openvino")

sys.path.append(str(Path(__file__).parent.parent / "models"))
from onnx import helper
from tiny_networks import BOX, brightness_detector, save, tensor

from sluice.errors import ConfigurationError, ModelError
from sluice.runtimes import choose_runtime, open_network


@pytest.mark.parametrize("name", ["yolox_nano_416x416.onnx", "nanodet_m_320.onnx"])
def test_float32_arithmetic_unless_asked_otherwise(data, name):
    """On a processor with bfloat16 instructions OpenVINO would compute in bfloat16 by itself."""
    path = data / "models" / name
    networks = [open_network(path, "onnxruntime"), open_network(path, "openvino")]
    entry = networks[0].info.inputs[0]
    picture = np.random.default_rng(0).random([size or 1 for size in entry.shape]).astype(np.float32)
    expected, found = (network.run(picture) for network in networks)
    assert [output.shape for output in found] == [output.shape for output in expected]
    for a, b in zip(expected, found, strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-3, atol=1e-3)


def test_a_precision_that_is_asked_for_is_used(data):
    """OpenVINO takes the wish for bfloat16 as a hint, and keeps to float32 on processors without it."""
    network = open_network(data / "models/nanodet_m_320.onnx", "openvino", precision="bf16")
    right = "bf16" if "BF16" in openvino.Core().get_property("CPU", "OPTIMIZATION_CAPABILITIES") else "f32"
    assert network._request.get_compiled_model().get_property("INFERENCE_PRECISION_HINT").get_type_name() == right
    with pytest.raises(ConfigurationError, match="right for OpenVINO is f32, f16, bf16"):
        open_network(data / "models/nanodet_m_320.onnx", "openvino", precision="int4")


def test_own_files_with_any_batch_and_metadata(tmp_path):
    import openvino

    model = openvino.convert_model(brightness_detector(tmp_path / "m.onnx", size=8))
    openvino.save_model(model, tmp_path / "m.xml", compress_to_fp16=False)
    (tmp_path / "metadata.yaml").write_text("task: detect\nimgsz: [8, 8]\nnames:\n  0: person\n  1: car\n")
    assert choose_runtime(tmp_path / "m.xml") == "openvino"
    network = open_network(tmp_path / "m.xml")
    assert [str(item) for item in network.info.inputs] == ["images float32 [any, 3, 8, 8]"]
    assert network.info.metadata == {"task": "detect", "imgsz": "[8, 8]", "names": "{0: 'person', 1: 'car'}"}
    for batch in (1, 3, 2):
        [output] = network.run(np.full((batch, 3, 8, 8), 0.5, np.float32))
        assert output.tolist() == [[[*BOX, 0.5, 1]]] * batch
    network.close()
    for broken in ("names: [person\n", "imgsz: !!bool maybe\n", "date: 2026-02-31\n", "names: " + "[" * 3000):
        (tmp_path / "metadata.yaml").write_text(broken)
        with pytest.raises(ModelError, match=r"metadata\.yaml, which Ultralytics writes beside m\.xml, cannot be read"):
            open_network(tmp_path / "m.xml")


def test_results_outlive_the_next_run(tmp_path):
    network = open_network(brightness_detector(tmp_path / "m.onnx", size=8), "openvino", threads=1)
    [first] = network.run(np.full((1, 3, 8, 8), 0.25, np.float32))
    network.run(np.full((1, 3, 8, 8), 0.75, np.float32))
    assert first[0, 0, 4] == 0.25


@pytest.mark.parametrize("shape", [(1, 3, 9, 8), (2, 3, 8, 8)])
def test_what_it_cannot_run_is_named(tmp_path, shape):
    """An input of another size, and one with which the graph fails while it is computed."""
    nodes = [helper.make_node("Reshape", ["images", "one"], ["output0"])]
    one = np.array([1, 192], np.int64)
    path = save(
        tmp_path / "m.onnx", nodes, [tensor("images", ["batch", 3, 8, 8])], [tensor("output0", [1, 192])], one=one
    )
    network = open_network(path, "openvino")
    with pytest.raises(ModelError, match=r"OpenVINO cannot run .*m\.onnx: \S"):
        network.run(np.zeros(shape, np.float32))
    assert network.run(np.ones((1, 3, 8, 8), np.float32))[0].sum() == 192


def test_onnx_metadata(tmp_path):
    path = brightness_detector(tmp_path / "m.onnx", author="somebody", names="{0: 'cat'}")
    assert open_network(path, "openvino").info.metadata == {"author": "somebody", "names": "{0: 'cat'}"}


def test_broken_files_and_unknown_devices(tmp_path):
    (tmp_path / "broken.xml").write_text("<net>")
    with pytest.raises(ModelError, match=r"OpenVINO cannot open .*broken\.xml on CPU: "):
        open_network(tmp_path / "broken.xml")
    with pytest.raises(ConfigurationError, match="right for OpenVINO is auto, cpu, gpu, gpu:N or npu"):
        open_network(brightness_detector(tmp_path / "m.onnx"), "openvino", "cuda:0")
