"""Where the GPU code runs: on the GPU if there is one, else in Triton's interpreter on the processor, by name."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "models"))  # the surfaces of its tests

torch = pytest.importorskip("torch", reason="the GPU path needs torch")
ON_GPU = torch.cuda.is_available()
if not ON_GPU:
    os.environ.setdefault("TRITON_INTERPRET", "1")  # before triton is imported: a kernel is wrapped when it is defined
pytest.importorskip("triton", reason="the GPU path needs triton")


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
