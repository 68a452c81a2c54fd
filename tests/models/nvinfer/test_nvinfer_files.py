"""Which file is run, the names of engines, and parse functions by name."""

from __future__ import annotations

import os
from dataclasses import replace

import numpy as np
import pytest

from sluice.errors import ConfigurationError, ModelError
from sluice.models.decoders import DECODERS, FAMILIES
from sluice.models.labels import read_labels
from sluice.models.nvinfer import files
from sluice.models.nvinfer.boxes import PARSERS
from sluice.models.nvinfer.config import read_config
from sluice.models.nvinfer.files import build_settings, network_file
from sluice.models.nvinfer.functions import ANY, BOX_FUNCTIONS, DETECTNET, Outputs, box_parser
from sluice.models.nvinfer.labels import read_label_lines
from sluice.runtimes import NetworkInfo, TensorInfo


def config_of(tmp_path, text):
    path = tmp_path / "config.txt"
    path.write_text(f"[property]\nnum-detected-classes=2\ncluster-mode=2\n{text}\n")
    return read_config(path)


@pytest.fixture
def both(tmp_path):
    """A configuration with an ONNX file and an engine that are there."""
    (tmp_path / "net.onnx").touch()
    (tmp_path / "net.engine").touch()
    return config_of(tmp_path, "onnx-file=net.onnx\nmodel-engine-file=net.engine")


@pytest.mark.parametrize(
    ("lines", "name"),
    [
        ("", "net.onnx_b1_gpu0_fp32.engine"),
        ("batch-size=8\nnetwork-mode=2\ngpu-id=1", "net.onnx_b8_gpu1_fp16.engine"),
        ("network-mode=1\nenable-dla=1\nuse-dla-core=1", "net.onnx_b1_dla1_int8.engine"),
        ("network-mode=3", "net.onnx_b1_gpu0_best.engine"),
    ],
)
def test_engines_are_named_as_nvinfer_names_them(tmp_path, lines, name):
    settings = build_settings(config_of(tmp_path, f"onnx-file=net.onnx\n{lines}"))
    assert settings.engine == tmp_path.resolve() / name


@pytest.mark.parametrize("text", ["a;b\nc\n", "\ufeffa;b\nc", "a;b\r\nc\r\n", "a;b\rc\r"])
def test_label_files_of_every_editor(tmp_path, text):
    path = tmp_path / "labels.txt"
    path.write_bytes(text.encode())
    assert read_label_lines(path) == (("a", "b"), ("c",))


def test_only_ends_of_lines_end_a_label(tmp_path):
    """Else all classes behind it would have the name of the one before."""
    path = tmp_path / "labels.txt"
    path.write_bytes("page\fone\nnext\u2028line\x85\n\nlast\n\n".encode())
    assert read_labels(path) == ("page\fone", "next\u2028line", "", "last")
    assert [row[0] for row in read_label_lines(path)][0::3] == ["page\fone", "last"]


def test_a_name_longer_than_any_files_is_no_file(tmp_path):
    with pytest.raises(ModelError, match=r"onnx-file .*xxx\.onnx does not exist"):
        network_file(config_of(tmp_path, f"onnx-file={'x' * 300}.onnx"), "auto")


def test_an_engine_is_built_with_the_files_settings(tmp_path):
    config = config_of(
        tmp_path,
        "onnx-file=net.onnx\ninfer-dims=3;64;32\nworkspace-size=512\nint8-calib-file=cal.bin\nstrongly-typed=1",
    )
    settings = build_settings(config)
    assert (settings.input_dims, settings.workspace, settings.strongly_typed) == ((3, 64, 32), 512, True)
    assert settings.calibration == str(tmp_path.resolve() / "cal.bin")
    assert build_settings(config_of(tmp_path, "model-engine-file=net.engine")) is None


def test_without_tensorrt_the_onnx_file_is_run_and_that_is_said(both, monkeypatch):
    monkeypatch.setattr(files, "engines_run", lambda: False)
    path, note, build = network_file(both, "auto")
    assert (path.name, build) == ("net.onnx", None)
    assert "is run by onnxruntime" in (note or "")
    assert "net.engine: TensorRT is not used here" in (note or "")


def test_with_tensorrt_the_engine_is_run(both, monkeypatch):
    monkeypatch.setattr(files, "engines_run", lambda: True)
    monkeypatch.setattr(files, "engines_are_built", lambda: False)
    assert network_file(both, "auto")[0].name == "net.engine"
    assert network_file(both, "onnxruntime")[0].name == "net.onnx"
    (both.path.parent / "net.engine").unlink()
    path, note, build = network_file(both, "auto")
    assert (path.name, build) == ("net.onnx", None)  # TensorRT's builder is not here
    assert "there is no such file" in (note or "")


def test_an_engine_that_is_missing_is_built_once(both, monkeypatch):
    monkeypatch.setattr(files, "engines_run", lambda: True)
    monkeypatch.setattr(files, "engines_are_built", lambda: True)
    (both.path.parent / "net.engine").unlink()
    path, note, build = network_file(both, "auto")
    assert (path, build) == (build_settings(both).engine, build_settings(both))
    assert "which takes minutes" in note
    path.touch()
    assert network_file(both, "auto")[::2] == (path, None)
    os.utime(path, (1, 1))  # older than the ONNX file
    assert network_file(both, "auto").build == build


def test_a_runtime_that_is_named_decides(both):
    assert network_file(both, "tensorrt")[0].name == "net.engine"
    with pytest.raises(ConfigurationError, match="there is no runtime 'onnxrumtime'; did you mean 'onnxruntime'"):
        network_file(both, "onnxrumtime")


def test_an_engine_alone_needs_tensorrt(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "engines_run", lambda: False)
    (tmp_path / "net.engine").touch()
    with pytest.raises(ModelError, match="needs TensorRT, which is not here; name an onnx-file beside it"):
        network_file(config_of(tmp_path, "model-engine-file=net.engine"), "auto")
    with pytest.raises(ModelError, match=r"needs TensorRT.*net.onnx does not exist"):
        network_file(config_of(tmp_path, "model-engine-file=net.engine\nonnx-file=net.onnx"), "auto")


def test_missing_files_are_named_with_the_nearest(tmp_path):
    (tmp_path / "yolox_s.onnx").touch()
    with pytest.raises(ModelError, match=r"onnx-file .*yolo_s.onnx does not exist \(did you mean 'yolox_s.onnx'\?\)"):
        network_file(config_of(tmp_path, "onnx-file=yolo_s.onnx"), "auto")
    (tmp_path / "folder.onnx").mkdir()
    with pytest.raises(ModelError, match=r"onnx-file .*folder.onnx is no file"):
        network_file(config_of(tmp_path, "onnx-file=folder.onnx"), "auto")


def test_networks_of_old_releases_are_refused_by_key(tmp_path):
    with pytest.raises(ConfigurationError, match="tlt-encoded-model can only be built by old releases"):
        network_file(config_of(tmp_path, "tlt-encoded-model=net.etlt\ntlt-model-key=k"), "auto")


def info_of(**outputs):
    return NetworkInfo(
        (TensorInfo("images", (None, 3, 416, 416), "float32"),),
        tuple(TensorInfo(name, (None, *shape), "float32") for name, shape in outputs.items()),
    )


CELLS = 52 * 52 + 26 * 26 + 13 * 13
YOLOX = info_of(output=(CELLS, 7))
YOLOV8 = info_of(output0=(6, CELLS))
DECODED = info_of(output=(8400, 6))


def parser_name(config, info, decoder=None):
    def probe():
        """Halves; rows of six hold a box, its score and its class."""
        arrays = [np.full([size or 1 for size in output.shape], 0.5, np.float32) for output in info.outputs]
        for array in arrays:
            if array.shape[-1] == 6:
                array[:] = [1, 2, 30, 40, 0.5, 1]
        return arrays

    return box_parser(config, Outputs(info, 416, 416, probe), decoder).name


def test_the_parse_function_names_the_decoder(tmp_path):
    config = config_of(tmp_path, "onnx-file=n\nparse-bbox-func-name=NvDsInferParseYolo")
    assert parser_name(config, DECODED) == "deepstream-yolo"
    assert parser_name(config, YOLOV8) == "yolov8"  # a plain export in place of DeepStream-Yolo's own
    config = config_of(tmp_path, "onnx-file=n\nparse-bbox-func-name=NvDsInferParseCustomResnet")
    assert parser_name(config, info_of(cov=(2, 26, 26), bbox=(8, 26, 26))) == DETECTNET


def test_a_decoder_that_is_named_goes_before(tmp_path):
    config = config_of(tmp_path, "onnx-file=n\nparse-bbox-func-name=NvDsInferParseOurOwn")
    assert parser_name(config, YOLOX, "yolox") == "yolox"
    assert parser_name(config, DECODED, "deepstream-yolo") == "deepstream-yolo"
    with pytest.raises(ConfigurationError, match="there is no decoder 'yolocks'"):
        parser_name(config, YOLOX, "yolocks")


def test_an_unknown_parse_function_says_which_decoder_to_name(tmp_path):
    config = config_of(tmp_path, "onnx-file=n\nparse-bbox-func-name=NvDsInferParseYolox\ncustom-lib-path=lib/libown.so")
    with pytest.raises(ConfigurationError) as caught:
        parser_name(config, YOLOX)
    message = str(caught.value)
    assert "parse-bbox-func-name is 'NvDsInferParseYolox' (did you mean 'NvDsInferParseYolo'?)" in message
    assert "lib/libown.so, which cannot be run here" in message
    assert "model-options=decoder=yolox" in message
    with pytest.raises(ConfigurationError, match="a model of your own in Python"):
        parser_name(config, info_of(strange=(2, 3, 5, 7)))


def test_outputs_that_a_known_function_would_not_take(tmp_path):
    config = config_of(tmp_path, "onnx-file=n\nparse-bbox-func-name=NvDsInferParseYolo")
    with pytest.raises(ModelError) as caught:
        parser_name(config, info_of(strange=(2, 3, 5, 7)))
    assert "deepstream-yolo: needs an output" in str(caught.value)
    assert "yolox: " in str(caught.value)


def test_without_a_function_detectnet_or_advice(tmp_path):
    with pytest.raises(ModelError, match=r"whose outputs have 'cov'.*model-options=decoder=yolox"):
        parser_name(config_of(tmp_path, "onnx-file=n"), YOLOX)
    config = config_of(tmp_path, "onnx-file=n")
    masks = replace(config.properties, network_type=type(config.properties.network_type)(3))
    with pytest.raises(ConfigurationError, match="network-type 3 has no parser of its own"):
        parser_name(replace(config, properties=masks), YOLOX)


def test_every_decoder_in_the_table_exists():
    known = {*DECODERS, *FAMILIES, *PARSERS, DETECTNET, ANY}
    assert {name for function in BOX_FUNCTIONS.values() for name in function.decoders} <= known
