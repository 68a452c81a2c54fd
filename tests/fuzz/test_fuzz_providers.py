"""The two metadata providers after the same random operations: readers see the same."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from sluice.contract.provider import DEEPSTREAM, META_LIBRARY, wheel_folder

SEEDS = [str(seed) for seed in range(60)]


def outcome(provider: str) -> list[object]:
    """What each seed's operations left on a provider."""
    script = Path(__file__).parent / "metadata_operations.py"
    done = subprocess.run(
        [sys.executable, str(script), *SEEDS], env={**os.environ, "SLUICE_PROVIDER": provider},
        capture_output=True, text=True, timeout=100,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_both_providers_leave_the_same() -> None:
    if wheel_folder() is None and not (DEEPSTREAM / META_LIBRARY).exists():
        pytest.skip("NVIDIA's metadata library is not installed")
    portable, nvidia = outcome("portable"), outcome("nvidia")
    assert len(portable) == len(nvidia) == len(SEEDS)
    for seed, ours, theirs in zip(SEEDS, portable, nvidia, strict=True):
        assert ours == theirs, f"seed {seed}"
    assert sum(len(frame[5]) for seed in portable for frame in seed[0]) > 200  # there was something to compare
