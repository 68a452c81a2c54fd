"""Where the GPU code runs: on the GPU if there is one, else in Triton's interpreter on the processor."""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "models"))  # the surfaces of its tests

ON_GPU = False
if find_spec("torch") is not None:
    import torch

    import sluice.models.gpu  # noqa: F401 - binds torch's C++ modules to one unwinder

    ON_GPU = torch.cuda.is_available()
if not ON_GPU:
    os.environ.setdefault("TRITON_INTERPRET", "1")  # before triton is imported: a kernel is wrapped when it is defined


@pytest.fixture
def device():
    """The torch device that kernels run on."""
    return torch.device("cuda:0" if ON_GPU else "cpu")


@pytest.fixture
def gpu():
    """A real GPU, for what the interpreter cannot do: streams, graphs, decoders."""
    if not ON_GPU:
        pytest.skip("needs an NVIDIA GPU")
    return torch.device("cuda:0")


@pytest.fixture
def clip(gpu):
    """An H.264 elementary stream for the decoders."""
    path = os.environ.get("SLUICE_GPU_CLIP")
    if not path:
        pytest.skip("needs an H.264 elementary stream, named by SLUICE_GPU_CLIP")
    return path
