"""The plots of the comparison as SVG: frames per second and processor time over the number of streams."""

from __future__ import annotations

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot
from results import Throughput

_COLOURS = {
    "Sluice": "#00796b",
    "Sluice, int8": "#4db6ac",
    "OpenCV loop": "#e65100",
    "Ultralytics": "#1565c0",
    "InferencePipeline": "#6a1b9a",
    "modelpipe": "#8d6e63",
}


def plot(found: Throughput, field: str, label: str, path: Path) -> None:
    """One number over the number of streams, a panel per size."""
    figure, panels = pyplot.subplots(1, len(found.sizes), figsize=(5.2 * len(found.sizes), 3.8), squeeze=False)
    for panel, size in zip(panels[0], found.sizes, strict=True):
        for program in found.programs:
            points = [(count, value) for count in found.counts if (value := found.best(program, size, count, field))]
            if points:
                width = 3 if program == "Sluice" else 1.5
                panel.plot(*zip(*points, strict=True), marker="o", label=program, linewidth=width,
                           color=_COLOURS.get(program))  # fmt: skip
        bounds = [(count, bound) for count in found.counts if (bound := found.limit(size, count))]
        if field == "frames_per_second" and bounds:
            panel.plot(*zip(*bounds, strict=True), linestyle=":", color="black", label="limit")
        panel.set(title=size, xlabel="streams", ylabel=label, xticks=found.counts, ylim=(0, None))
        panel.grid(alpha=0.3)
    panels[0][0].legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})
