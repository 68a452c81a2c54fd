"""The adapter of Ultralytics' package on a stand-in for it; the package itself is in tests/reference."""

from __future__ import annotations

import contextlib
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from array_surfaces import blank

from sluice.errors import ConfigurationError, ModelError
from sluice.models.adapters import ultralytics
from sluice.models.frame import Frame
from sluice.models.loading import load_model

NAMES = {0: "person", 2: "bus"}


class Yolo:
    """What the package's YOLO is: a checkpoint has its network, an export only its path until it is called."""

    def __init__(self, path, *, task, verbose):
        self.model = SimpleNamespace(names=NAMES) if path.endswith(".pt") else path

    def predict(self, pictures, **_arguments):
        boxes = SimpleNamespace(xyxy=np.array([[1, 2, 9, 8]] * 2), conf=np.array([0.9, 0.8]), cls=np.array([0, 2]))
        result = SimpleNamespace(boxes=boxes, obb=None, masks=None, keypoints=None, names=NAMES, orig_shape=(48, 64))
        return [result for _ in pictures]


@pytest.fixture
def package(monkeypatch):
    monkeypatch.setattr(ultralytics, "import_ultralytics", lambda: Yolo)
    monkeypatch.setattr(ultralytics, "weights_only", contextlib.nullcontext)
    monkeypatch.setitem(sys.modules, "sluice.runtimes.torch", SimpleNamespace(torch_device=lambda _: "cpu"))


@pytest.mark.usefixtures("package")
@pytest.mark.parametrize("name", ["yolo.pt", "yolo.onnx"])
def test_classes_are_kept_by_their_names(tmp_path, name):
    (tmp_path / name).touch()
    model = load_model(tmp_path / name, runtime="ultralytics", classes=["bus"])
    [found] = model.infer([Frame(blank("RGB", 64, 48), stream=0, number=0, pts=None)])
    assert found.class_ids.tolist() == [2]
    assert model.labels == ("person", "1", "bus")
    with pytest.raises(ModelError, match=r"has no class 'bos'; did you mean 'bus'\?"):
        load_model(tmp_path / name, runtime="ultralytics", classes=["bos"]).load()


@pytest.mark.parametrize("runtime", ["ultralytics", "rfdetr"])
def test_a_model_that_could_not_be_loaded_can_be_closed(tmp_path, monkeypatch, runtime):
    monkeypatch.setitem(sys.modules, "torch", None)  # so that it is not found
    (tmp_path / "net.pt").touch()
    model = load_model(tmp_path / "net.pt", runtime=runtime)
    with pytest.raises(ConfigurationError, match="cannot be imported"):
        model.load()
    model.close()
