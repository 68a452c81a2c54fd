"""What a network does with frames in GPU memory, with an engine in place of the GPU's."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch", reason="the GPU path needs torch")
pytest.importorskip("triton", reason="the GPU path needs triton")

from sluice.contract.surface import SurfaceError
from sluice.models.gpu import network
from sluice.models.gpu.heads import Choice
from sluice.models.preprocess import Preprocessing
from sluice.runtimes.base import NetworkInfo, TensorInfo
from sluice.runtimes.torch import DeviceModule


class OneByOne:
    """Takes one frame a call and refuses the third."""

    most = 1

    def __init__(self, *_arguments, **_more):
        self.finished = []
        self.begun = 0

    def begin(self, _surfaces):
        self.begun += 1
        if self.begun == 3:
            raise SurfaceError("refused")
        return SimpleNamespace(finish=lambda number=self.begun: self.finished.append(number))


def test_frames_stay_until_the_gpu_is_done_though_a_later_one_was_refused(monkeypatch):
    monkeypatch.setattr(network, "Engine", OneByOne)
    info = NetworkInfo(
        (TensorInfo("images", (1, 3, 48, 64), "float32"),), (TensorInfo("rows", (1, 300, 6), "float32"),)
    )
    module = DeviceModule(torch.device("cpu"), torch.nn.Identity())
    choice = Choice(64, 48, 0.3, 0.5, False, 20)
    path = network.GpuPath(module, Preprocessing(64, 48), info, "yolo-end2end", choice, lambda *_: None, batch=1)
    with pytest.raises(SurfaceError, match="refused"):
        path.begin([SimpleNamespace(surface=None)] * 4)
    assert path.engine.finished == [1, 2]
