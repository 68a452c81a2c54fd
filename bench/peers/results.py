"""The numbers of throughput.json as the tables and plots want them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

OURS = ("Sluice", "Sluice, int8")
LIMITS = ("decode alone", "network alone", "network alone, one per core")


def load(folder: Path, name: str) -> dict[str, Any]:
    """One file of measurements."""
    found: dict[str, Any] = json.loads((folder / name).read_text())
    return found


class Throughput:
    """The runs by program, size of the clip and number of streams."""

    def __init__(self, document: dict[str, Any]) -> None:
        """Read a document of throughput.py."""
        self.runs: list[dict[str, Any]] = document["runs"]
        self.repeats = 1 + max(run["repeat"] for run in self.runs)
        self.sizes = list(dict.fromkeys(run["clip"] for run in self.runs))
        self.counts = sorted({run["streams"] for run in self.runs})
        self.programs = [name for name in dict.fromkeys(run["program"] for run in self.runs) if name not in LIMITS]
        self.programs.sort(key=lambda name: OURS.index(name) if name in OURS else len(OURS))

    def of(self, program: str, size: str, streams: int) -> list[dict[str, Any]]:
        """The runs that went well."""
        return [
            run
            for run in self.runs
            if (run["program"], run["clip"], run["streams"]) == (program, size, streams) and not run["failure"]
        ]

    def best(self, program: str, size: str, streams: int, field: str) -> float | None:
        """A number of the fastest repeat; None where no run went well.

        What else the machine does can only slow a run down, so that the fastest is nearest to what the program needs.
        """
        runs = self.of(program, size, streams)
        return float(max(runs, key=lambda run: run["frames_per_second"])[field]) if runs else None

    def rate(self, program: str, size: str, streams: int) -> float | None:
        """Frames per second of all streams together."""
        return self.best(program, size, streams, "frames_per_second")

    def limit(self, size: str, streams: int) -> float | None:
        """1 / (1/decode + 1/network), frames per second: what the cores could do if all else cost nothing.

        The network's rate is the better of its two: one run after the other on all cores, or one per core at once.
        """
        decode = self.rate("decode alone", size, streams)
        network = [rate for name in LIMITS[1:] if (rate := self.rate(name, self.sizes[0], 1)) is not None]
        return 1 / (1 / decode + 1 / max(network)) if decode and network else None

    def best_peer(self, size: str, streams: int, field: str, least: bool = False) -> tuple[float, str] | None:
        """The best number of all programs but Sluice, and whose it is."""
        values = [
            (value, name)
            for name in self.programs
            if name not in OURS and (value := self.best(name, size, streams, field)) is not None
        ]
        return (min(values) if least else max(values)) if values else None
