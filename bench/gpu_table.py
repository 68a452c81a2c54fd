"""The tables of docs/gpu-results.md, from what bench/gpu_list.py has written.

    python3 bench/gpu_table.py out/gpu/list.json

Rates are frames per second. A share is that of the smaller of the decoder alone and the network alone, of the same run.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

WHAT = {
    "decode": "(a) the decoder alone",
    "model": "(c) decoder, `sluicemux`, `sluiceinfer`",
    "all": "(b) with `sluicetracker`, `sluicemsgconv`, `sluicemsgbroker`",
    "article": "(d) the articles' loop",
    "article-compiled": "(d) with the compiled network",
}
GOALS = {("model", 1): 0.85, ("model", 2): 0.97, ("all", 1): 0.6, ("all", 2): 0.95}
"""Wanted of (c) and (b), with one process and with more, by the form and the number of processes."""


@dataclass(frozen=True)
class Rate:
    """What one form made.

    Attributes:
        codec: H.264 or H.265.
        what: the form.
        compiled: whether its network was.
        streams, processes: how many.
        per_second: frames per second.
        use: of decoder and GPU, as nvidia-smi says it.
    """

    codec: str
    what: str
    compiled: bool
    streams: int
    processes: int
    per_second: float
    use: str


def rates(found: dict[str, Any]) -> list[Rate]:
    """All rates of the network YOLO26n in a list's results."""
    read = []
    for one in found.values():
        result = one.get("result")
        if result is None or not result["network"].endswith(":Yolo26n") or result["paced"]:
            continue
        codec = "H.265" if result["clip"].endswith((".h265", ".hevc")) else "H.264"
        for run in result["runs"]:
            if run.get("frames_per_second") and run["what"] in WHAT:
                numbers = (run["streams"], run["processes"], run["frames_per_second"], run["decoder"])
                read.append(Rate(codec, run["what"], result["compiled"], *numbers))
    return read


def alone(found: dict[str, Any]) -> dict[int, float]:
    """Frames per second of the compiled network alone, by the size of a batch."""
    lines = [json.loads(line) for line in found.get("network-compiled", {}).get("said", ()) if line.startswith("{")]
    return {line["batch"]: line["frames_per_second"] for line in lines}


def table_of_rates(read: list[Rate], codec: str) -> list[str]:
    """One line for each form, one column for each number of streams."""
    shown = [rate for rate in read if rate.codec == codec]
    streams = sorted({rate.streams for rate in shown})
    lines = [f"| {codec} | " + " | ".join(f"{n} stream{'s' if n > 1 else ''}" for n in streams) + " |"]
    lines.append("|---" * (len(streams) + 1) + "|")
    forms = dict.fromkeys((rate.what, rate.processes, rate.compiled) for rate in shown)
    for what, processes, compiled in sorted(forms, key=lambda form: (list(WHAT).index(form[0]), form[1])):
        cells = []
        for n in streams:
            match = [r for r in shown if (r.what, r.processes, r.compiled, r.streams) == (what, processes, compiled, n)]
            cells.append(f"{match[0].per_second:,.0f} ({match[0].use})" if match else "")
        how = "" if what not in ("model", "all") else ", compiled" if compiled else ", a CUDA graph"
        how += f", {processes} processes" if processes > 1 else ""
        lines.append(f"| {WHAT[what]}{how} | " + " | ".join(cells) + " |")
    return lines


def table_of_shares(read: list[Rate], network: dict[int, float]) -> list[str]:
    """What was wanted and what was reached, of the compiled network."""
    lines = ["| | wanted | streams | reached |", "|---|---|---|---|"]
    for (what, processes), wanted in GOALS.items():
        for rate in read:
            if (rate.what, rate.processes, rate.compiled) != (what, processes, True):
                continue
            bounds = [
                r.per_second for r in read if r.what == "decode" and (r.codec, r.streams) == (rate.codec, rate.streams)
            ]
            bounds += [network[rate.streams]] if rate.streams in network else []
            if not bounds:
                continue
            share = rate.per_second / min(bounds)
            said = f"**{share:.3f}**" if share >= wanted else f"{share:.3f}, missed"
            form = f"{WHAT[what][:3]}, {processes} process{'es' if processes > 1 else ''}"
            lines.append(f"| {form} | {wanted} | {rate.streams}, {rate.codec} | {said} |")
    return lines


def main() -> None:
    """Print all tables."""
    found = json.loads(Path(sys.argv[1]).read_text())
    read, network = rates(found), alone(found)
    for codec in ("H.264", "H.265"):
        if any(rate.codec == codec for rate in read):
            print("\n".join(table_of_rates(read, codec)), end="\n\n")
    if network:
        print("| the compiled network alone, in batches of | " + " | ".join(map(str, network)) + " |")
        print("|---" * (len(network) + 1) + "|")
        print("| frames per second | " + " | ".join(f"{value:,.0f}" for value in network.values()) + " |\n")
    print("\n".join(table_of_shares(read, network)))


if __name__ == "__main__":
    main()
