"""Surfaces brought from GPU memory to the host, with a stand-in for NVIDIA's driver, in processes of their own.

The cases are ordinary pytest functions in ``cases/``. To run them by hand, compile ``cuda_stub.c`` as libcuda.so.1 and
name its folder in SLUICE_CUDA_STUB.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent
CASES = sorted((FOLDER / "cases").glob("cases_*.py"))


@pytest.fixture(scope="module")
def stub(tmp_path_factory) -> Path:
    if shutil.which("gcc") is None:
        pytest.skip("needs gcc")
    folder = tmp_path_factory.mktemp("cuda")
    command = ["gcc", "-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-Wl,-soname,libcuda.so.1"]
    subprocess.run([*command, "-o", folder / "libcuda.so.1", FOLDER / "cuda_stub.c", "-lpthread"], check=True)
    return folder


@pytest.mark.timeout(200)
@pytest.mark.parametrize("cases", CASES, ids=lambda path: path.stem)
def test_cases(cases: Path, stub: Path) -> None:
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(cases)],
        env={**os.environ, "SLUICE_CUDA_STUB": str(stub)},
        capture_output=True,
        text=True,
        timeout=180,
    )
    printed = f"{run.stdout[-8000:]}\n{run.stderr[-3000:]}"
    assert run.returncode == 0, printed
    assert re.search(r"\d+ passed", run.stdout), printed
    assert "skipped" not in run.stdout, printed
