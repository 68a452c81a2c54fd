"""PyTorch's files and modules."""

from __future__ import annotations

import pickle
import runpy
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

sys.path.append(str(Path(__file__).parent.parent / "models"))
from array_surfaces import from_rgb

from sluice.errors import ConfigurationError, ModelError
from sluice.models.frame import Frame
from sluice.models.loading import load_model
from sluice.runtimes import open_network
from sluice.runtimes.torch import ModuleNetwork, load_weights, torch_device
from sluice.runtimes.torch_files import TorchFile, torch_file

PICTURE = np.full((2, 3, 32, 32), 0.5, np.float32)

DETECTOR = '''
import torch

class Brightness(torch.nn.Module):
    """End to end: one box, whose score is the mean of the picture times a weight."""

    def __init__(self, left: int = 4):
        super().__init__()
        self.gain = torch.nn.Parameter(torch.tensor(1.0))
        self.left = left

    def forward(self, pictures):
        score = pictures.mean((1, 2, 3)) * self.gain
        fixed = torch.tensor([float(self.left), 4.0, 28.0, 28.0, 0.0, 1.0]).repeat(pictures.shape[0], 1)
        return (fixed + torch.nn.functional.pad(score[:, None], (4, 1)))[:, None]
'''


@pytest.fixture
def detector_file(tmp_path) -> Path:
    path = tmp_path / "detector.py"
    path.write_text(DETECTOR)
    return path


@pytest.fixture
def detector(detector_file):
    return runpy.run_path(str(detector_file), run_name="detector_module")["Brightness"]().eval()


def frame(value: int = 128) -> Frame:
    return Frame(from_rgb(np.full((32, 32, 3), value, np.uint8), "RGB"), stream=0, number=0, pts=None)


def run(path: Path, picture: np.ndarray = PICTURE, **options) -> list[np.ndarray]:
    network = open_network(path, device="cpu", **options)
    outputs = list(network.run(picture))
    assert len(outputs) == len(network.info.outputs)
    network.close()
    return outputs


def test_torchscript(tmp_path, detector):
    path = tmp_path / "m.torchscript"
    torch.jit.script(detector).save(path)
    assert torch_file(path) is TorchFile.TORCHSCRIPT
    [output] = run(path, size=(32, 32))
    assert output.tolist() == [[[4, 4, 28, 28, 0.5, 1]]] * 2
    result = load_model(path, device="cpu", options={"width": "32", "height": "32"}).infer([frame()])[0]
    assert result.xyxy.tolist() == [[4, 4, 28, 28]]


def test_torchscript_metadata_of_ultralytics(tmp_path, detector):
    path = tmp_path / "m.pt"
    extra = {"config.txt": '{"task": "detect", "imgsz": [32, 48], "batch": 2, "names": {"0": "a", "1": "b"}}'}
    torch.jit.script(detector).save(path, _extra_files=extra)
    network = open_network(path, device="cpu")
    assert str(network.info.inputs[0]) == "images float32 [2, 3, 32, 48]"
    assert network.info.metadata["names"] == "{0: 'a', 1: 'b'}"


@pytest.mark.parametrize(
    ("text", "said"), [("names: person", "is no JSON"), ("[1, 2]", "holds a list"), ("[" * 100_000, "is no JSON")]
)
def test_metadata_of_another_kind_are_named(tmp_path, detector, text, said):
    scripted, exported = tmp_path / "m.torchscript", tmp_path / "m.pt2"
    torch.jit.script(detector).save(scripted, _extra_files={"config.txt": text})
    program = torch.export.export(detector, (torch.zeros(2, 3, 32, 32),))
    torch.export.save(program, exported, extra_files={"config.txt": text})
    for path in (scripted, exported):
        with pytest.raises(ModelError, match=rf"{path.name}: its config\.txt {said}.*; right is an object"):
            open_network(path, device="cpu")


def test_exported_program_with_open_batch(tmp_path, detector):
    path = tmp_path / "m.pt2"
    batch = torch.export.Dim("batch", min=1, max=8)
    program = torch.export.export(detector, (torch.zeros(2, 3, 32, 32),), dynamic_shapes={"pictures": {0: batch}})
    torch.export.save(program, path)
    assert torch_file(path) is TorchFile.EXPORT
    assert [str(item) for item in open_network(path, device="cpu").info.inputs] == ["pictures float32 [any, 3, 32, 32]"]
    for count in (1, 2, 5):
        [output] = run(path, PICTURE[:1].repeat(count, 0))
        assert output.tolist() == [[[4, 4, 28, 28, 0.5, 1]]] * count


def test_a_module_from_a_python_file(detector_file):
    spec = f"{detector_file}:Brightness"
    model = load_model(spec, device="cpu", confidence=0.4, options={"left": "8", "width": "32", "height": "32"})
    bright, dark = model.infer([frame(128), frame(90)])
    assert bright.xyxy.tolist() == [[8, 4, 28, 28]]
    assert len(dark) == 0
    model.close()
    assert load_model(detector_file, device="cpu", options={"width": 32, "height": 32}).infer([frame()])[
        0
    ].class_ids == [1]


def test_wrong_options_of_a_module_are_named(detector_file):
    with pytest.raises(ModelError, match=r"has no option 'lefd' \(did you mean 'left'"):
        load_model(f"{detector_file}:Brightness", options={"lefd": 8})


def test_weights_of_a_module(tmp_path, detector, detector_file):
    options = {"width": 32, "height": 32, "weights_file": str(tmp_path / "w.pt")}
    detector.gain.data.fill_(0.5)
    torch.save({"epoch": 3, "state_dict": detector.state_dict()}, tmp_path / "w.pt")
    result = load_model(f"{detector_file}:Brightness", device="cpu", confidence=0.1, options=options).infer([frame()])[
        0
    ]
    assert result.scores == pytest.approx([128 / 255 / 2])
    torch.save({"other": torch.zeros(3)}, tmp_path / "w.pt")
    with pytest.raises(ModelError, match="are not those of Brightness"):
        load_model(f"{detector_file}:Brightness", device="cpu", options=options).load()


class Bomb:
    """Runs code when it is unpickled."""

    def __reduce__(self):
        return open, (str(Bomb.target), "w")


def test_pickles_are_not_run_unless_allowed(tmp_path):
    Bomb.target = tmp_path / "went off"
    module = torch.nn.Linear(1, 1)
    torch.save({"state_dict": module.state_dict(), "more": Bomb()}, tmp_path / "w.pt")
    with pytest.raises(ModelError, match="allow_pickle=true"):
        load_weights(module, tmp_path / "w.pt")
    with pytest.raises(ModelError, match="a checkpoint"):
        open_network(tmp_path / "w.pt", device="cpu")
    assert not Bomb.target.exists()
    load_weights(module, tmp_path / "w.pt", allow_pickle=True)
    assert Bomb.target.exists()


def test_files_are_told_apart_without_running_them(tmp_path):
    contents = {
        "ultralytics": (b"\x80\x02cultralytics.nn.tasks\nDetectionModel\n.", TorchFile.ULTRALYTICS),
        "rfdetr": (pickle.dumps({"model": {"refpoint_embed.weight": 1}}, 2), TorchFile.RFDETR),
        "other": (pickle.dumps({"weights": 1}, 2), TorchFile.CHECKPOINT),
        "cut": (pickle.dumps({"weights": 1}, 2)[:9], TorchFile.CHECKPOINT),
    }
    for name, (data, kind) in contents.items():
        with zipfile.ZipFile(tmp_path / name, "w") as archive:
            archive.writestr(f"{name}/data.pkl", data)
        assert torch_file(tmp_path / name) is kind
    (tmp_path / "text").write_text("no archive")
    assert torch_file(tmp_path / "text") is TorchFile.OTHER
    assert torch_file(tmp_path / "missing") is TorchFile.OTHER


def test_nested_outputs_are_flattened_and_named():
    def nested(pictures):
        return {"boxes": pictures.flatten(2), "more": [pictures.mean(), (pictures.amax((2, 3)).bfloat16(),)]}

    network = ModuleNetwork(nested, "nested", torch.device("cpu"), size=(8, 4))
    assert [str(item) for item in network.info.outputs] == [
        "boxes float32 [any, any, any]",
        "more0 float32 []",
        "more10 float32 [any, any]",
    ]
    assert [output.shape for output in network.run(PICTURE)] == [(2, 3, 1024), (), (2, 3)]


def test_what_a_module_raises_is_told():
    def broken(pictures):
        raise ValueError("no such layer")

    with pytest.raises(ModelError, match=r"broken cannot be called with one picture \[1, 3, 640, 640\].*no such layer"):
        ModuleNetwork(broken, "broken", torch.device("cpu"))


def test_half_precision_weights_want_half_precision_pictures():
    module = torch.nn.Conv2d(3, 4, 3).half()
    network = ModuleNetwork(module, "half", torch.device("cpu"), size=(16, 16))
    assert network.info.inputs[0].dtype == "float16"
    assert network.run(PICTURE.astype(np.float16))[0].dtype == np.float16
    plain = ModuleNetwork(torch.nn.Conv2d(3, 4, 3), "c", torch.device("cpu"), size=(16, 16), precision="bf16")
    assert plain.run(PICTURE)[0].dtype == np.float32


def test_devices():
    assert torch_device("cpu").type == "cpu"
    with pytest.raises(ConfigurationError, match="right for PyTorch is auto, cpu, cuda"):
        torch_device("gpu0")
    with pytest.raises(ConfigurationError, match=r"device 'cuda:99': PyTorch .* sees \d+ GPUs here"):
        torch_device("cuda:99")


def test_results_carry_no_gradient():
    layer = torch.nn.Conv2d(3, 1, 1)
    network = ModuleNetwork(layer, "c", torch.device("cpu"), size=(8, 8))
    network.run(PICTURE)
    assert layer.weight.grad is None
