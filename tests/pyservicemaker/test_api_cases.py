"""The package on real buffers and pipelines, on both metadata providers; each in its own process.

The cases are ordinary pytest functions in ``cases/``. To run them by hand, set SLUICE_PROVIDER and give pytest their
files.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from sluice.contract.provider import DEEPSTREAM, META_LIBRARY, wheel_folder

FOLDER = Path(__file__).parent / "cases"
SECONDS = 240


@pytest.mark.timeout(SECONDS + 20)
@pytest.mark.parametrize("provider", ["portable", "nvidia"])
def test_cases(provider: str) -> None:
    if provider == "nvidia" and wheel_folder() is None and not (DEEPSTREAM / META_LIBRARY).exists():
        pytest.skip("NVIDIA's metadata library is not installed")
    files = sorted(FOLDER.glob("cases_*.py"))
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *map(str, files)],
        env={**os.environ, "SLUICE_PROVIDER": provider},
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    printed = f"{run.stdout[-8000:]}\n{run.stderr[-3000:]}"
    assert run.returncode == 0, printed
    passed = re.search(r"(\d+) passed", run.stdout)
    assert passed is not None, printed
    assert int(passed[1]) >= 50, printed
