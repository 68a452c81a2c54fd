"""Work that takes minutes, much memory or, when it fails, the process with it: done in a child of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence

from sluice.errors import ModelError

LAST_LINES = 10
"""Of what a child that failed has written, so many lines are told."""


def run_module(
    module: str,
    arguments: Sequence[str],
    doing: str,
    *,
    timeout: float | None = None,
    environment: Mapping[str, str] | None = None,
) -> None:
    """Run ``python -m module`` with this process's import path, and wait for its end.

    Args:
        module: its name.
        arguments: the child's.
        doing: what it does, for messages, such as "building x.engine".
        timeout: seconds after which it is ended; None waits for as long as it takes.
        environment: variables that it has beside this process's own.

    Raises:
        ModelError: it failed, was ended, or took its process with it; with the last lines it wrote.
    """
    path = os.pathsep.join(entry for entry in sys.path if entry)
    variables = {**os.environ, "PYTHONPATH": path, **(environment or {})}
    command = [sys.executable, "-m", module, *arguments]
    try:
        child = subprocess.run(
            command, env=variables, capture_output=True, text=True, errors="replace", timeout=timeout, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise ModelError(f"{doing} took longer than {timeout:g} s and was ended") from error
    if child.returncode:
        said = "\n  ".join(child.stderr.strip().splitlines()[-LAST_LINES:]) or "nothing"
        how = f"signal {-child.returncode}" if child.returncode < 0 else f"exit status {child.returncode}"
        raise ModelError(f"{doing} failed ({how}); it wrote:\n  {said}")
