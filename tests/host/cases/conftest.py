"""The stand-in for NVIDIA's driver, loaded before anything looks for the real one."""

from __future__ import annotations

import ctypes
import os
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parent.parent.parent
for folder in ("contract", "elements", "pipelines"):
    sys.path.insert(0, str(TESTS / folder))

_FOLDER = os.environ.get("SLUICE_CUDA_STUB")  # not set where pytest only looks for tests in this folder
_LIBRARY = ctypes.CDLL(str(Path(_FOLDER) / "libcuda.so.1")) if _FOLDER else None


class Stub:
    """The stub's variables as attributes: ``stub.copies`` is ``stub_copies``."""

    def __getattr__(self, name):
        return ctypes.c_int.in_dll(_LIBRARY, f"stub_{name}").value

    def __setattr__(self, name, value):
        ctypes.c_int.in_dll(_LIBRARY, f"stub_{name}").value = value

    def depth(self):
        """How many contexts this thread has pushed and not popped."""
        return _LIBRARY.stub_depth()


@pytest.fixture
def stub():
    found = Stub()
    found.copies = found.waits = 0
    yield found
    found.fail_copy = found.fail_wait = found.fail_host_alloc = 0
    assert found.depth() == 0, "a context was pushed and not popped"
