"""How long each element holds Python's global lock per frame, in a run of ``sluice run``; needs ``pip install py-spy``.

    python bench/gil.py [--rate 200] -- examples/data/pedestrians.mp4 --loop --model people --messages /tmp/m.jsonl

py-spy looks at the process from outside, so many times per second, and notes which thread has the lock and where it is.
It begins when every stream has brought a hundred frames, and the frames until it ends are counted by the run's metrics.
A look is worth the time between two; C code that is called with the lock held counts for the Python line that calls it.
On a busy machine the time that a holder waits for a processor counts too. What ``sluiceinfer`` holds it for includes a
model's own Python. What belongs to no element (other threads, GStreamer's calls of properties) is "other".
"""

from __future__ import annotations

import argparse
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

ELEMENTS = ("mux", "infer", "tracker", "analytics", "msgconv", "msgbroker", "demux", "tiler", "osd", "vlm")
STEADY = 100
"""Frames of a stream before anything counts."""
_FRAMES = re.compile(r"^sluice_frames_out_total\{[^}]*\} (\S+)$", re.MULTILINE)
_FILE = re.compile(r"sluice/elements/([a-z_]+)\.py")


def owner(stack: str) -> str:
    """The element that a stack of calls, outermost first, belongs to."""
    for module in _FILE.findall(stack):
        for element in ELEMENTS:
            if module == element or module.startswith(element + "_"):
                return f"sluice{element}"
    if "models/instance.py" in stack:
        return "the model's thread"
    if "sluice/app/collector.py" in stack:
        return "the counting of sluice run"
    if "messages/writer.py" in stack or "messages/brokers" in stack:
        return "sluicemsgbroker's thread"
    return "other"


def looks(raw: str) -> Counter[str]:
    """How often each element was seen with the lock, of py-spy's collapsed stacks."""
    seen: Counter[str] = Counter()
    for line in raw.splitlines():
        stack, _, count = line.rpartition(" ")
        seen[owner(stack)] += int(count)
    return seen


class Run:
    """A run of ``sluice run`` whose frames can be counted."""

    def __init__(self, arguments: Sequence[str]) -> None:
        self._port = free_port()
        command = [sys.executable, "-m", "sluice.app.cli", "run", *arguments, "--metrics", str(self._port), "--quiet"]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL)

    def frames(self) -> list[int]:
        """Frames of each stream that went through everything; none before it serves its metrics."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self._port}/metrics", timeout=10) as answer:
                text = answer.read().decode()
        except OSError:
            return []
        return [int(float(number)) for number in _FRAMES.findall(text)]

    def wait_steady(self) -> None:
        """Wait until every stream has brought `STEADY` frames."""
        while not (frames := self.frames()) or min(frames) < STEADY:
            if self.process.poll() is not None:
                sys.exit(f"the run ended with status {self.process.returncode} before it was steady")
            time.sleep(0.1)

    def end(self) -> None:
        """Stop it."""
        self.process.terminate()
        self.process.wait(30)


def free_port() -> int:
    """A port that nobody listens at."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def main() -> None:
    """Run and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rate", type=int, default=200, help="looks per second; each stops the process for a moment")
    parser.add_argument("--seconds", type=int, default=5, help="for how long")
    parser.add_argument("arguments", nargs="+", help="what `sluice run` is given; the streams must last long enough")
    given = parser.parse_args()
    spy = shutil.which("py-spy") or shutil.which("py-spy", path=str(Path(sys.executable).parent))
    if spy is None:
        sys.exit("py-spy is not installed: pip install py-spy")
    run = Run(given.arguments)
    try:
        with tempfile.TemporaryDirectory() as folder:
            raw = Path(folder) / "raw"
            watch = [spy, "record", "--gil", "--rate", str(given.rate), "--format", "raw", "--output", str(raw)]
            run.wait_steady()
            before, began = sum(run.frames()), time.monotonic()
            subprocess.run(
                [*watch, "--duration", str(given.seconds), "--pid", str(run.process.pid)],
                check=True,
                stdout=subprocess.DEVNULL,
            )
            frames, took = sum(run.frames()) - before, time.monotonic() - began
            seen = looks(raw.read_text())
    finally:
        run.end()
    if frames <= 0:
        sys.exit("the streams had ended before it was over; --loop, or fewer --seconds")
    print(f"{frames} frames in {took:.1f} s; microseconds per frame with the lock held")
    each = 1e6 / given.rate / frames
    for name, count in [*seen.most_common(), ("together", seen.total())]:
        print(f"{name:28} {count * each:9.1f}")


if __name__ == "__main__":
    main()
