"""Operations on metadata, which both providers must do alike: the one of this process, and the other in its own."""

from __future__ import annotations

import functools
import json
import os
import random
import subprocess
import sys

import gi

gi.require_version("Gst", "1.0")
import metadata_operations
from gi.repository import Gst

from sluice.contract.provider import DEEPSTREAM, META_LIBRARY, PROVIDER_VARIABLE, provider, wheel_folder
from targets import Target

MOST = 1000  # bytes; no operations take more


@functools.cache
def other_provider() -> subprocess.Popen[str] | None:
    """Return a process with it, which answers each line; None where NVIDIA's library is not installed."""
    if wheel_folder() is None and not (DEEPSTREAM / META_LIBRARY).exists():
        return None
    return subprocess.Popen(
        [sys.executable, metadata_operations.__file__, "-"],
        env={**os.environ, PROVIDER_VARIABLE: "portable" if provider().name == "nvidia" else "nvidia"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def compare(choices: bytes) -> None:
    """Do the operations that bytes choose on both providers; what readers see must be the same."""
    Gst.init(None)
    found = json.dumps(metadata_operations.run(metadata_operations.Chosen(choices)))
    other = other_provider()
    if other is not None:
        assert other.stdin is not None
        assert other.stdout is not None
        other.stdin.write(f"{choices.hex()}\n")
        other.stdin.flush()
        assert other.stdout.readline() == f"{found}\n"


TARGETS = {"metadata": Target(compare, tuple(random.Random(seed).randbytes(MOST) for seed in range(4)))}
