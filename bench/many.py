"""What it costs to have many streams in one service: until all of them play, then per second, and for each that comes.

    python bench/many.py                       # 50, 100 and 200 streams
    python bench/many.py --streams 200 --fps 1

`sluice serve` as a process of its own, without a model and without viewers; the streams are test patterns of 64x48
pixels, so that next to nothing is spent on pixels. Processor time is that of the whole process. Streams are added and
restarted by REST, one a second; what the others cost meanwhile is taken off.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import httpx

TESTS = Path(__file__).parents[1] / "tests"
sys.path[:0] = [str(TESTS), str(TESTS / "pipelines")]
from serve_process import ServeProcess

from waiting import until

TICK = os.sysconf("SC_CLK_TCK")
PATIENCE = 600.0  # seconds
CHANGES = 10


def processor_seconds(pid: int) -> float:
    """User and system time of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICK


def source(fps: int) -> str:
    """A small picture at this rate."""
    return f"test:ball?live=1&fps={fps}&size=64x48"


def check(answer: httpx.Response) -> None:
    """Raise where the service did not do it."""
    answer.raise_for_status()


def cost(pid: int, change: Callable[[int], object], others: float) -> float:
    """Milliseconds of processor time of one change, beside so many seconds per second for all else."""
    begun, before = time.monotonic(), processor_seconds(pid)
    for number in range(CHANGES):
        change(number)
        time.sleep(1)
    spent = processor_seconds(pid) - before - others * (time.monotonic() - begun)
    return 1000 * spent / CHANGES


def measure(streams: int, fps: int, seconds: float) -> str:
    """Start a service, wait until all streams play, and watch it for a while."""
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "sluice.yaml"
        entries = "".join(f"  - {{name: s{number}, source: '{source(fps)}'}}\n" for number in range(streams))
        config.write_text(f"streams:\n{entries}model: {{name: none}}\nhttp: {{port: 0}}\n")
        begun = time.monotonic()
        process = ServeProcess(config, patience=PATIENCE)
        try:
            until(lambda: all(one["state"] == "playing" for one in process.streams().values()), seconds=PATIENCE)
            started, spent = time.monotonic() - begun, processor_seconds(process.pid)
            time.sleep(5)  # what the start left to be done
            before = processor_seconds(process.pid)
            time.sleep(seconds)
            steady = (processor_seconds(process.pid) - before) / seconds
            with httpx.Client(base_url=process.url, timeout=60) as api:
                restart = cost(process.pid, lambda n: check(api.post(f"/api/streams/s{n}/restart")), steady)
                new = {"source": source(fps)}
                add = cost(process.pid, lambda n: check(api.post("/api/streams", json=new | {"name": f"n{n}"})), steady)
        finally:
            process.stop()
    return f"| {streams} | {started:.1f} s | {spent:.1f} s | {steady:.2f} s | {restart:.0f} ms | {add:.0f} ms |"


def main() -> None:
    """Measure and print a table as Markdown."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--streams", type=int, nargs="+", default=[50, 100, 200])
    parser.add_argument("--fps", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=20)
    wanted = parser.parse_args()
    print("| streams | all play after | processor time until then | then per second | one restarted | one added |")
    print("|---|---|---|---|---|---|")
    for streams in wanted.streams:
        print(measure(streams, wanted.fps, wanted.seconds), flush=True)


if __name__ == "__main__":
    main()
