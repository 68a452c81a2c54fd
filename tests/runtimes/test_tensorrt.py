"""TensorRT engines: files, the sequence of calls on a stand-in, and every name against NVIDIA's bindings.

No engine is executed here; that needs a GPU and an engine built on it.
"""

from __future__ import annotations

import ast
import importlib
import json
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

sys.path.append(str(Path(__file__).parent))
import fake_tensorrt as fake

from sluice.errors import ConfigurationError, ModelError
from sluice.models.loading import load_model
from sluice.runtimes import choose_runtime, cuda_memory, open_network, tensorrt, tensorrt_module
from sluice.runtimes.engine_file import engine_name, read_engine
from sluice.runtimes.tensorrt_build import BuildSettings, build_engine

HEADER = {"task": "detect", "imgsz": [640, 640], "names": {"0": "person", "1": "car"}, "dla": 1}


def with_header(header: object, engine: bytes = b"engine") -> bytes:
    text = json.dumps(header).encode()
    return len(text).to_bytes(4, "little") + text + engine


@pytest.fixture
def opened(tmp_path, monkeypatch):
    """Opens a file of some content on the stand-in."""

    def open_it(
        content: bytes = b"engine", engine: fake.Engine | None = None, cuda: fake.FakeCuda | None = None, **more
    ):
        module, cuda = fake.module(engine), cuda or fake.FakeCuda()
        monkeypatch.setattr(tensorrt, "import_tensorrt", lambda: module)
        monkeypatch.setattr(cuda_memory, "import_cuda", lambda: cuda)
        (tmp_path / "m.engine").write_bytes(content)
        return tensorrt.TensorRtNetwork(tmp_path / "m.engine", **more), module, cuda

    return open_it


# ---- files


def test_the_header_of_ultralytics(tmp_path):
    path = tmp_path / "m.engine"
    path.write_bytes(with_header(HEADER))
    file = read_engine(path)
    assert file.engine == b"engine"
    assert file.metadata["names"] == "{0: 'person', 1: 'car'}"
    assert (file.metadata["imgsz"], file.dla_core) == ("[640, 640]", 1)


@pytest.mark.parametrize(
    "content",
    [b"ftrt" + bytes(100), (50).to_bytes(4, "little") + bytes(100), b"\x00\x00\x00\x00rest", b"abc", with_header([1])],
    ids=["nvidia", "length of no JSON", "no length", "short", "JSON but no object"],
)
def test_files_without_header_are_left_whole(tmp_path, content):
    (tmp_path / "m.engine").write_bytes(content)
    file = read_engine(tmp_path / "m.engine")
    assert (file.engine, file.metadata, file.dla_core) == (content, {}, None)


@pytest.mark.parametrize("content", [b"", with_header(HEADER, b"")])
def test_files_without_engine_are_refused(tmp_path, content):
    (tmp_path / "m.engine").write_bytes(content)
    with pytest.raises(ModelError, match="right is a TensorRT engine"):
        read_engine(tmp_path / "m.engine")


def test_engines_are_for_tensorrt(tmp_path):
    assert choose_runtime("m.engine") == choose_runtime("m.plan") == "tensorrt"


# ---- running, on the stand-in


def test_batches_of_any_size_through_one_engine(opened):
    network, module, cuda = opened(with_header(HEADER), fake.Engine())
    assert module.content == b"engine"
    assert [str(item) for item in network.info.inputs] == ["images float32 [any, 3, 8, 8]"]
    assert network.info.metadata["task"] == "detect"
    for batch in (2, 4, 1):
        picture = np.arange(batch, dtype=np.float32)[:, None, None, None] * np.ones((1, 3, 8, 8), np.float32)
        [output] = network.run(picture)
        assert output.tolist() == [[float(i)] for i in range(batch)]
    assert cuda.calls.count("cudaMalloc") == 4  # two tensors, which grew once
    network.close()
    assert cuda.blocks == {}
    assert cuda.calls[-1] == "cudaStreamDestroy"


def test_every_call_chooses_the_gpu_on_its_thread(opened):
    network, _, cuda = opened(engine=fake.Engine(), cuda=fake.FakeCuda(count=3), device="cuda:2")
    cuda.calls.clear()
    network.run(np.zeros((1, 3, 8, 8), np.float32))
    assert cuda.calls[0] == "cudaSetDevice"


def test_a_batch_outside_the_profile_is_refused(opened):
    network, _, _ = opened(engine=fake.Engine(most=4))
    with pytest.raises(
        ModelError, match=r"does not take an input of \[5, 3, 8, 8\]; its profile takes \[1, .* to \[4, "
    ):
        network.run(np.zeros((5, 3, 8, 8), np.float32))


def test_what_tensorrt_says_is_told(opened):
    with pytest.raises(ModelError, match=r"cannot open .*Version tag does not match; an engine runs only on"):
        opened(engine=None)


@pytest.mark.parametrize(
    ("tensor", "right"),
    [
        ((fake.TensorIOMode.OUTPUT, fake.DataType.BF16, (1, 3)), "right is one of FLOAT"),
        ((fake.TensorIOMode.INPUT, fake.DataType.FLOAT, (1, 3)), "right is one, the picture"),
    ],
)
def test_engines_that_cannot_be_used_are_refused(opened, tensor, right):
    with pytest.raises(ModelError, match=right):
        opened(engine=fake.Engine(extra=tensor))


def test_outputs_whose_size_depends_on_the_data_are_refused(opened):
    network, _, _ = opened(engine=fake.Engine(boxes=(fake.TensorIOMode.OUTPUT, fake.DataType.FLOAT, (-1, -1, 6))))
    with pytest.raises(ModelError, match=r"the size of the output boxes .* depends on what is in the picture"):
        network.run(np.zeros((1, 3, 8, 8), np.float32))


def test_shape_tensors_are_refused(opened):
    engine = fake.Engine()
    engine.host.add("mean")
    with pytest.raises(ModelError, match="holds a shape, not data"):
        opened(engine=engine)


def test_cuda_errors_are_told(opened):
    network, _, _ = opened(engine=fake.Engine(), cuda=fake.FakeCuda(fail="cudaStreamSynchronize"))
    with pytest.raises(cuda_memory.CudaError, match="cudaStreamSynchronize failed: an illegal memory access"):
        network.run(np.zeros((1, 3, 8, 8), np.float32))


@pytest.mark.parametrize(("device", "right"), [("cpu", "auto, cuda or cuda:N"), ("cuda:1", "has 1 GPUs")])
def test_wrong_devices(opened, device, right):
    with pytest.raises(ConfigurationError, match=right):
        opened(engine=fake.Engine(), device=device)


def test_without_tensorrt_the_package_to_install_is_named(tmp_path):
    if any(find_spec(name) for name in tensorrt_module.PACKAGES):
        pytest.skip("TensorRT is installed")
    (tmp_path / "m.engine").write_bytes(b"engine")
    with pytest.raises(ConfigurationError, match=r"pip install 'sluice-video\[tensorrt\]'"):
        open_network(tmp_path / "m.engine")


# ---- building


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ({}, "m.onnx_b1_gpu0_fp32.engine"),
        ({"max_batch": 8, "gpu": 1, "precision": "fp16"}, "m.onnx_b8_gpu1_fp16.engine"),
        ({"max_batch": 4, "dla_core": 0, "precision": "int8"}, "m.onnx_b4_dla0_int8.engine"),
        ({"precision": "best"}, "m.onnx_b1_gpu0_best.engine"),
    ],
)
def test_engines_get_the_name_that_nvinfer_looks_for(settings, name):
    assert BuildSettings("/models/m.onnx", **settings).engine == Path("/models") / name


@pytest.mark.parametrize(
    ("settings", "right"),
    [
        ({"precision": "fp8"}, "right is one of fp32, fp16, int8, best"),
        ({"max_batch": 0}, "right is 1 or more"),
        ({"calibration": "/none.txt"}, "there is no calibration file"),
    ],
)
def test_wrong_settings_start_nothing(tmp_path, settings, right):
    (tmp_path / "m.onnx").write_bytes(b"")
    with pytest.raises(ConfigurationError, match=right):
        build_engine(BuildSettings(str(tmp_path / "m.onnx"), **settings))


def test_a_build_that_fails_in_its_process_says_why(tmp_path, monkeypatch):
    (tmp_path / "m.onnx").write_bytes(b"no network")

    with pytest.raises(
        ModelError, match=r"building .*m\.onnx_b1_gpu0_fp32\.engine failed \(exit status 1\); it wrote:"
    ):
        build_engine(BuildSettings(str(tmp_path / "m.onnx")))
    assert [path.name for path in tmp_path.iterdir()] == ["m.onnx"]


# ---- against NVIDIA's bindings

#: Not "tensorrt_bindings", which may be there without its libraries.
BINDINGS = next((name for name in ("tensorrt_lean_bindings", *tensorrt_module.PACKAGES) if find_spec(name)), None)
needs_bindings = pytest.mark.skipif(BINDINGS is None, reason="needs tensorrt-lean-cu13-bindings and -libs")


@pytest.fixture
def trt():
    return tensorrt_module.import_tensorrt()


@needs_bindings
def test_every_name_that_running_uses_is_in_the_bindings(trt):
    owners = {
        "_engine": trt.ICudaEngine,
        "_context": trt.IExecutionContext,
        "_runtime": trt.Runtime,
        "engine": trt.ICudaEngine,
    }
    used = names_used(Path(tensorrt.__file__), {**owners, "trt": trt, "_trt": trt})
    assert {"execute_async_v3", "set_tensor_address", "set_input_shape", "deserialize_cuda_engine"} <= used
    assert {kind for kind in tensorrt.DTYPES if kind not in trt.DataType.__members__} == set()


@needs_bindings
def test_dims_of_the_bindings(trt):
    assert tensorrt_module.dims(trt.Dims([1, 3, -1, 640])) == (1, 3, -1, 640)
    assert tuple(trt.Dims([1, 3, -1, 640])) == (1, 3, -1, 640)
    assert [tuple(kind((4, 5))) for kind in (trt.Dims2, trt.DimsHW)] == [(4, 5), (4, 5)]
    assert tuple(trt.Dims()) == ()


@needs_bindings
def test_the_logger_keeps_what_the_bindings_say(trt):
    log = tensorrt.make_logger(trt)
    log.log(trt.ILogger.Severity.ERROR, "broken\n")
    assert log.last == "broken"


def names_used(source: Path, owners: dict[str, object]) -> set[str]:
    """Attributes that a source file takes of variables of these names; each must be there."""
    found = set()
    for node in ast.walk(ast.parse(source.read_text())):
        if not isinstance(node, ast.Attribute):
            continue
        owner = node.value
        name = owner.id if isinstance(owner, ast.Name) else owner.attr if isinstance(owner, ast.Attribute) else None
        if name in owners:
            assert hasattr(owners[name], node.attr), f"{name}.{node.attr} is not in the bindings"
            found.add(node.attr)
    return found


STUBS = """
#define STUB(name) void *name(void) { return 0; }
STUB(createInferBuilder_INTERNAL) STUB(createInferRefitter_INTERNAL) STUB(createInferRuntime_INTERNAL)
STUB(createNvOnnxParserRefitter_INTERNAL) STUB(createNvOnnxParser_INTERNAL) STUB(getNvOnnxParserVersion)
STUB(getPluginRegistry) STUB(getBuilderPluginRegistry) STUB(initLibNvInferPlugins)
"""

BUILD_NAMES = """
import sys
from pathlib import Path
sys.path[:0] = sys.argv[1:2]
import tensorrt_bindings as trt
from test_tensorrt import names_used
from sluice.runtimes import tensorrt_build
used = names_used(Path(tensorrt_build.__file__), {
    "trt": trt, "builder": trt.Builder, "parser": trt.OnnxParser, "config": trt.IBuilderConfig,
    "network": trt.INetworkDefinition, "profile": trt.IOptimizationProfile, "entry": trt.ITensor,
})
flags = trt.BuilderFlag.__members__
print(sorted(used), [f for names in tensorrt_build.PRECISIONS.values() for f in names if f not in flags])
config_flags = [trt.NetworkDefinitionCreationFlag, trt.MemoryPoolType.WORKSPACE, trt.DeviceType.DLA]
"""


def test_a_build_whose_process_is_killed_says_so_and_leaves_no_engine(tmp_path, monkeypatch):
    (tmp_path / "m.onnx").write_bytes(b"")
    killed = tmp_path / "python"
    killed.write_text("#!/bin/sh\necho 'layer 7 of 90' >&2\nkill -9 $$\n")
    killed.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(killed))
    settings = BuildSettings(str(tmp_path / "m.onnx"))
    with pytest.raises(ModelError, match=r"failed \(signal 9\); it wrote:\n  layer 7 of 90"):
        build_engine(settings)
    assert not settings.engine.exists()


@pytest.mark.skipif(find_spec("tensorrt_bindings") is None, reason="needs tensorrt-cu13-bindings (no libraries)")
@pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")
def test_every_name_that_building_uses_is_in_the_bindings(tmp_path):
    """The full bindings, with empty functions in place of NVIDIA's libraries: the classes are all there."""
    (tmp_path / "stubs.c").write_text(STUBS)
    release = importlib.metadata.version("tensorrt-cu13-bindings").split(".")[0]
    for library in ("libnvinfer", "libnvinfer_plugin", "libnvonnxparser"):
        name = f"{library}.so.{release}"
        command = ["gcc", "-shared", "-fPIC", f"-Wl,-soname,{name}", "-o", tmp_path / name, tmp_path / "stubs.c"]
        subprocess.run(command, check=True)
    child = subprocess.run(
        [sys.executable, "-c", BUILD_NAMES, str(Path(__file__).parent)],
        env={"LD_LIBRARY_PATH": str(tmp_path), "PYTHONPATH": ":".join(filter(None, sys.path))},
        capture_output=True,
        text=True,
        check=False,
    )
    assert child.returncode == 0, child.stderr
    assert "build_serialized_network" in child.stdout
    assert child.stdout.strip().endswith("[]")


# ---- beside PyGObject

READS_A_SHAPE = """
import sys
for name in sys.argv[1].split(","):
    if name == "gi":
        import gi
        gi.require_version("Gst", "1.0")
        from gi.repository import Gst
        Gst.init(None)
    else:
        __import__(name)
from sluice.runtimes.tensorrt_module import guard_tensorrt
guard_tensorrt()
import importlib, threading
def work():
    trt = importlib.import_module(sys.argv[2])
    print(tuple(trt.Dims([1, -1, 640])))
thread = threading.Thread(target=work)
thread.start()
thread.join()
"""


@needs_bindings
@pytest.mark.parametrize(
    "order", ["cv2,gi", "gi,cv2", "cv2,gi,onnxruntime", f"cv2,gi,{BINDINGS}", f"{BINDINGS},gi,cv2"]
)
def test_a_shape_is_read_in_any_import_order(order):
    """As Ultralytics' backend reads it, inside a model of somebody's own; unguarded, cv2 before gi ends the process."""
    child = subprocess.run(
        [sys.executable, "-c", READS_A_SHAPE, order, BINDINGS], capture_output=True, text=True, check=False
    )
    assert (child.returncode, child.stdout) == (0, "(1, -1, 640)\n"), child.stderr


def test_the_guard_leaves_other_modules_alone():
    tensorrt_module.guard_tensorrt()
    tensorrt_module.guard_tensorrt()
    guards = [finder for finder in sys.meta_path if type(finder).__name__ == "_TensorRtFinder"]
    assert len(guards) == 1
    assert guards[0].find_spec("json") is None


def test_dims_without_iterator_get_one():
    class Old:
        Dims = type("Dims", (fake.Dims,), {})

    tensorrt_module.make_dims_safe(Old)
    assert tuple(Old.Dims((1, 2, 3))) == (1, 2, 3)


def test_engine_names():
    assert engine_name("m.onnx", 2, "fp16", gpu=3) == Path("m.onnx_b2_gpu3_fp16.engine")


def test_a_model_of_ones_own_is_guarded_before_its_code_runs(tmp_path, monkeypatch):
    finders = [finder for finder in sys.meta_path if not isinstance(finder, tensorrt_module._TensorRtFinder)]
    monkeypatch.setattr(sys, "meta_path", finders)
    (tmp_path / "own.py").write_text(
        "import sys\nguarded = [type(f).__name__ for f in sys.meta_path][0]\ndef find(frames):\n    return [guarded]\n"
    )
    model = load_model(tmp_path / "own.py")
    assert model.target([]) == ["_TensorRtFinder"]
