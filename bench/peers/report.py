"""Makes the table and the plot of the comparison from results.json.

python bench/peers/report.py docs/benchmarks
"""

from __future__ import annotations

import json
import statistics
import sys
from pathlib import Path
from typing import Any

LIMITS = ("decode alone", "network alone")
Key = tuple[str, int, str]


def medians(runs: list[dict[str, Any]], field: str) -> dict[Key, float]:
    """The median of a number over the repeats, by clip, number of streams and program."""
    groups: dict[Key, list[float]] = {}
    for run in runs:
        if not run["failure"]:
            groups.setdefault((run["clip"], run["streams"], run["program"]), []).append(run[field])
    return {key: statistics.median(values) for key, values in groups.items()}


def limit(rates: dict[Key, float], clip: str, streams: int) -> float | None:
    """The most frames per second when decoding and the network share the cores: 1 / (1/decode + 1/network)."""
    decode, network = rates.get((clip, streams, "decode alone")), rates.get((clip, 1, "network alone"))
    return 1 / (1 / decode + 1 / network) if decode and network else None


def table(document: dict[str, Any]) -> str:
    """The page: machine, one table per clip, failures."""
    runs = document["runs"]
    rates, cpu = medians(runs, "frames_per_second"), medians(runs, "cpu_seconds_per_1000_frames")
    memory, fairness = medians(runs, "peak_memory_mb"), medians(runs, "fairness")
    repeats = 1 + max(run["repeat"] for run in runs)
    programs = [name for name in dict.fromkeys(run["program"] for run in runs) if name not in LIMITS]
    lines = [
        f"Measured on {document['when']}, {document['machine']['processor']}. The median of {repeats} run(s). Each "
        "cell: frames per second in all, processor seconds per 1000 frames, peak resident memory in MB, fairness (the "
        "slowest stream's rate by the fastest's).",
        "",
    ]
    for clip in dict.fromkeys(run["clip"] for run in runs):
        counts = sorted({run["streams"] for run in runs if run["clip"] == clip})
        lines += [f"**{clip}**", "", "| | " + " | ".join(f"{count} stream(s)" for count in counts) + " |"]
        lines.append("|---" * (len(counts) + 1) + "|")
        for program in programs:
            cells = []
            for count in counts:
                key = (clip, count, program)
                cells.append(
                    f"**{rates[key]:.1f}** · {cpu[key]:.1f} s · {memory[key]:.0f} MB · {fairness[key]:.2f}"
                    if key in rates
                    else "failed"
                )
            lines.append(f"| {program} | " + " | ".join(cells) + " |")
        bounds = [limit(rates, clip, count) for count in counts]
        lines.append(
            "| limit: 1/(1/decode + 1/network) | " + " | ".join(f"{b:.1f}" if b else "-" for b in bounds) + " |"
        )
        lines.append("")
    failures = sorted({f"{run['program']}, {run['clip']}, {run['streams']} stream(s): {run['failure'].splitlines()[-1]}"
                       for run in runs if run["failure"]})  # fmt: skip
    lines += [f"* failed: {failure}" for failure in failures]
    lines += ["", "Versions:", ""]
    lines += [f"* `{name}`: {text}" for name, text in document["machine"].items() if name != "processor"]
    return "\n".join(lines) + "\n"


def plot(document: dict[str, Any], path: Path) -> None:
    """Frames per second over the number of streams, a panel per clip."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    rates = medians(document["runs"], "frames_per_second")
    clips = list(dict.fromkeys(clip for clip, _, _ in rates))
    figure, panels = pyplot.subplots(1, len(clips), figsize=(5.5 * len(clips), 4), squeeze=False)
    for panel, clip in zip(panels[0], clips, strict=True):
        for program in dict.fromkeys(program for _, _, program in rates if program not in LIMITS):
            points = sorted((count, rate) for (of, count, name), rate in rates.items() if (of, name) == (clip, program))
            style = {"linewidth": 3, "color": "teal"} if program == "Sluice" else {"linewidth": 1.5}
            panel.plot(*zip(*points, strict=True), marker="o", label=program, **style)
        counts = sorted({count for of, count, _ in rates if of == clip})
        bounds = [(count, bound) for count in counts if (bound := limit(rates, clip, count))]
        if bounds:
            panel.plot(*zip(*bounds, strict=True), linestyle=":", color="black", label="limit")
        panel.set(title=clip, xlabel="streams", ylabel="frames/s in all", xticks=counts, ylim=(0, None))
        panel.grid(alpha=0.3)
    panels[0][0].legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(path)


def main() -> None:
    """Write README-table and plot beside results.json."""
    folder = Path(sys.argv[1])
    document = json.loads((folder / "results.json").read_text())
    (folder / "table.md").write_text(table(document))
    plot(document, folder / "frames-per-second.svg")


if __name__ == "__main__":
    main()
