"""Triton compiles the kernels for real GPUs; the interpreter takes what its compiler would not."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="the GPU path needs torch")
pytest.importorskip("triton", reason="the GPU path needs triton")

HERE = Path(__file__).parent


@pytest.mark.parametrize("capability", ["75", "90"])
def test_kernels_compile(capability, tmp_path):
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    done = subprocess.run(
        [sys.executable, str(HERE / "compile_kernels.py"), capability],
        env={**environment, "TRITON_CACHE_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.split() == ["letterbox_kernel", "suppression_kernel", "mask_kernel", "visible_kernel"]
