"""Fixtures shared by all tests: where the test data lies, and one initialised GStreamer."""

import signal
from pathlib import Path

import pytest

import sluice  # noqa: F401 - first of all, so that C++ modules share one unwinder whatever a test imports next
from data_folders import DATA, REFERENCE

# A shell that runs the tests in the background has them ignore interruptions, and so the programs that they interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def data() -> Path:
    """The folder with real models, clips and tracking sequences; the test is skipped where it is absent."""
    if not DATA.is_dir():
        pytest.skip(f"no test data at {DATA} (set SLUICE_TEST_DATA)")
    return DATA


@pytest.fixture(scope="session")
def reference() -> Path:
    """The folder with outputs of NVIDIA's elements to compare ours with; the test is skipped where it is absent."""
    if not REFERENCE.is_dir():
        pytest.skip(f"no reference samples at {REFERENCE} (set SLUICE_TEST_REFERENCE)")
    return REFERENCE
