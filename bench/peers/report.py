"""Makes the page of the comparison, docs/benchmarks/peers.md, and its plots from the measurements beside it.

python bench/peers/report.py docs/benchmarks
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from string import Template
from typing import Any

from plots import plot
from results import Throughput, load


def rows(head: Iterable[str], body: Iterable[Iterable[str]]) -> list[str]:
    """A table in Markdown."""
    titles = list(head)
    lines = ["| " + " | ".join(titles) + " |", "|---" * len(titles) + "|"]
    return [*lines, *("| " + " | ".join(cells) + " |" for cells in body), ""]


def number(value: float | None, digits: int = 1) -> str:
    """A number, or what stands for one that is missing."""
    return "failed" if value is None else f"{value:.{digits}f}"


def columns(found: Throughput) -> list[str]:
    """Titles of the columns of a table over the number of streams."""
    return [f"{count} stream{'s' if count > 1 else ''}" for count in found.counts]


def rates(found: Throughput, size: str) -> list[str]:
    """Frames per second and what they cost, a row per program."""
    body = []
    for program in found.programs:
        cells = [program]
        for count in found.counts:
            values = [
                found.best(program, size, count, field)
                for field in ("frames_per_second", "cpu_seconds_per_1000_frames", "peak_memory_mb")
            ]
            rate, cpu, memory = values
            cells.append("failed" if rate is None else f"**{rate:.1f}** · {number(cpu)} s · {number(memory, 0)} MB")
        body.append(cells)
    body.append(["limit", *(number(found.limit(size, count)) for count in found.counts)])
    return [f"**{size}**", "", *rows(["", *columns(found)], body)]


def goals(found: Throughput) -> list[str]:
    """The goals beside what was reached."""

    def ratio(size: str, count: int, of: float | None, field: str = "frames_per_second") -> str:
        mine = found.best("Sluice", size, count, field)
        return "-" if not of or mine is None else f"{mine / of:.2f}"

    def each(name: str, cell: Callable[[str, int], str]) -> list[list[str]]:
        return [[f"{name}, {size}", *(cell(size, count) for count in found.counts)] for size in found.sizes]

    def peer(size: str, count: int) -> str:
        best = found.best_peer(size, count, "frames_per_second")
        return f"{ratio(size, count, best[0])} ({best[1]})" if best else "-"

    def cheapest(size: str, count: int) -> str:
        best = found.best_peer(size, count, "cpu_seconds_per_1000_frames", least=True)
        return f"{ratio(size, count, best[0], 'cpu_seconds_per_1000_frames')} ({best[1]})" if best else "-"

    body = [
        *each("frames/s by the limit (goal 0.95)", lambda size, count: ratio(size, count, found.limit(size, count))),
        *each("frames/s by the best peer's (goal over 1, 1.5 at four)", peer),
        *each("processor time by the least of a peer (goal under 1)", cheapest),
    ]
    return rows(["Sluice's", *columns(found)], body)


def promises(found: Throughput) -> list[str]:
    """Frames, fairness and ids, over all settings of a program."""
    body = []
    for program in found.programs:
        runs = [run for run in found.runs if run["program"] == program and not run["failure"]]
        failed = sum(run["program"] == program and bool(run["failure"]) for run in found.runs)
        if not runs:
            body.append([program, "-", "-", "-", f"{failed} of {failed}"])
            continue
        taken, given = sum(run["frames_in"] for run in runs), sum(sum(run["frames_out"]) for run in runs)
        several = [run for run in runs if run["streams"] > 1]
        shared, tracks = sum(run["shared_ids"] for run in several), sum(run["tracks"] for run in several)
        fairness = min((run["fairness"] for run in several), default=1.0)
        body.append(
            [
                program,
                f"{taken} / {given}",
                f"{fairness:.2f}",
                f"{shared} of {tracks}",
                f"{failed} of {len(runs) + failed}",
            ]
        )
    return rows(["", "frames in / out", "least fairness", "ids of several streams, of all tracks", "runs failed"], body)


def live(document: dict[str, Any]) -> list[str]:
    """Latency, pictures left out, and the death of a camera."""
    body = []
    for program in dict.fromkeys(run["program"] for run in document["runs"]):
        steady, dies = (
            next(run for run in document["runs"] if run["program"] == program and run["scenario"] == scenario)
            for scenario in ("steady", "dies")
        )
        cells = [program]
        cells += (
            [f"failed: {steady['failure'].splitlines()[-1]}", "-", "-"]
            if steady["failure"]
            else [f"{steady['p50_ms']:.0f}", f"{steady['p99_ms']:.0f}", f"{steady['left_out']} of {steady['shown']}"]
        )
        if dies["failure"]:
            cells += [f"failed: {dies['failure'].splitlines()[-1]}", "-", "-"]
        else:
            back = "never" if dies["back_after_s"] is None else f"{dies['back_after_s']:.1f} s"
            cells += [f"{dies['left_out']} of {dies['shown']}", f"{dies['longest_gap_s']:.1f} s", back]
        body.append(cells)
    head = [
        "", "p50 ms", "p99 ms", "pictures without a result",
        "a camera dies: pictures of the other without a result", "its longest pause", "the dead one is back after",
    ]  # fmt: skip
    return rows(head, body)


def outage(document: dict[str, Any]) -> list[str]:
    """Messages lost."""
    body = [[run["way"], str(run["made"]), str(run["lost"]), str(run["twice"])] for run in document["runs"]]
    return rows(["", "messages made", "lost", "sent twice"], body)


def page(folder: Path) -> str:
    """The whole page: what page.md says around the tables."""
    document = load(folder, "throughput.json")
    found = Throughput(document)
    failures = sorted(
        {
            f"* {run['program']}, {run['clip']}, {run['streams']} streams: {run['failure'].splitlines()[-1]}"
            for run in found.runs
            if run["failure"]
        }
    )
    machine = dict(document["machine"])
    values = {
        "when": document["when"],
        "processor": machine.pop("processor"),
        "model": document["model"],
        "repeats": str(found.repeats),
        "rates": "\n".join(line for size in found.sizes for line in rates(found, size)),
        "goals": "\n".join(goals(found)),
        "promises": "\n".join(promises(found)),
        "live": "\n".join(live(load(folder, "live.json"))),
        "outage": "\n".join(outage(load(folder, "outage.json"))),
        "failures": "\n".join(["## Failed", "", *failures, "", ""]) if failures else "",
        "versions": "\n".join(f"* `{name}`: {text}" for name, text in machine.items()),
    }
    return Template((Path(__file__).parent / "page.md").read_text()).substitute(values)


def main() -> None:
    """Write the page and the plots."""
    folder = Path(sys.argv[1])
    found = Throughput(load(folder, "throughput.json"))
    plot(found, "frames_per_second", "frames/s in all", folder / "frames-per-second.svg")
    plot(found, "cpu_seconds_per_1000_frames", "processor seconds per 1000 frames", folder / "processor-time.svg")
    (folder / "peers.md").write_text(page(folder))


if __name__ == "__main__":
    main()
