"""Waiting for what other threads and processes do; tests that sleep for a guessed time fail on a busy machine."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

PATIENCE = 60.0  # seconds; a busy machine may hold anything up
_PAUSE = 0.01  # seconds

Found = TypeVar("Found")


def until(condition: Callable[[], Found], what: str = "it", seconds: float = PATIENCE) -> Found:
    """Wait until a condition is true and return what it gave; fail, saying what did not happen, after `seconds`."""
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, f"in {seconds:g} s it did not happen: {what}"
        time.sleep(_PAUSE)
    return found
