"""What is fuzzed with coverage: each target takes bytes, calls what a user's input reaches, and lets refusals pass.

A module of this folder that has `TARGETS` is found by itself.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

CORPUS = Path(__file__).parent.parent / "corpus"
"""Inputs that once were findings, a folder for each target."""


@dataclass(frozen=True)
class Target:
    """One kind of input.

    Attributes:
        run: takes the bytes; raises nothing, whatever they are.
        seeds: inputs to begin with.
        words: what stands between the values, for the fuzzer to put in.
    """

    run: Callable[[bytes], object]
    seeds: tuple[bytes, ...]
    words: tuple[bytes, ...] = ()


def modules() -> list[str]:
    """Return the names of this folder's modules."""
    return sorted(item.name for item in pkgutil.iter_modules(__path__))


def load() -> dict[str, Target]:
    """Return all targets by name; each belongs to one module."""
    found: dict[str, Target] = {}
    for module in modules():
        targets: dict[str, Target] = importlib.import_module(f"{__name__}.{module}").TARGETS
        assert targets, f"{module} has no target"
        assert found.keys().isdisjoint(targets), f"{module} has a target of another module's name"
        found |= targets
    return found


def inputs(name: str, target: Target) -> list[bytes]:
    """Return the inputs that a target begins with: its seeds, and what was found before."""
    return [*target.seeds, *(path.read_bytes() for path in sorted((CORPUS / name).glob("*")))]
