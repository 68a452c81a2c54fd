"""Fixtures shared by all tests: where the test data lies, and one initialised GStreamer."""

import os
from pathlib import Path

import pytest

import sluice  # noqa: F401 - first of all, so that C++ modules share one unwinder whatever a test imports next

ROOT = Path(__file__).parent.parent
DATA = Path(os.environ.get("SLUICE_TEST_DATA", ROOT.parent / "shared" / "data"))


@pytest.fixture(scope="session")
def data() -> Path:
    """The folder with real models, clips and tracking sequences; the test is skipped where it is absent."""
    if not DATA.is_dir():
        pytest.skip(f"no test data at {DATA} (set SLUICE_TEST_DATA)")
    return DATA
