"""How long each element holds Python's global lock per frame, in a run of ``sluice run``; needs ``pip install py-spy``.

    python bench/gil.py [--rate 500] -- examples/data/pedestrians.mp4 --model people --messages /tmp/m.jsonl

py-spy looks at the process from outside, so many times per second, and notes which thread has the lock and where it is.
A look is worth the time between two; C code that is called with the lock held counts for the Python line that calls it.
On a busy machine the time that a holder waits for a processor counts too. What ``sluiceinfer`` holds it for includes a
model's own Python. What belongs to no element (loading, other threads, GStreamer's calls of properties) is "other".
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

ELEMENTS = ("mux", "infer", "tracker", "analytics", "msgconv", "msgbroker", "demux", "tiler", "osd", "vlm")
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


def held(raw: str, rate: int) -> Counter[str]:
    """Seconds that each element held the lock, of py-spy's collapsed stacks."""
    seconds: Counter[str] = Counter()
    for line in raw.splitlines():
        stack, _, count = line.rpartition(" ")
        seconds[owner(stack)] += int(count) / rate
    return seconds


def main() -> None:
    """Run and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rate", type=int, default=500, help="looks per second")
    parser.add_argument("arguments", nargs="+", help="what `sluice run` is given")
    given = parser.parse_args()
    spy = shutil.which("py-spy") or shutil.which("py-spy", path=str(Path(sys.executable).parent))
    if spy is None:
        sys.exit("py-spy is not installed: pip install py-spy")
    with tempfile.TemporaryDirectory() as folder:
        raw, summary = Path(folder) / "raw", Path(folder) / "summary.json"
        run = [sys.executable, "-m", "sluice.app.cli", "run", *given.arguments, "--summary", str(summary), "--quiet"]
        watch = [spy, "record", "--gil", "--rate", str(given.rate), "--format", "raw", "--output", str(raw)]
        done = subprocess.run([*watch, "--", *run], check=False, stdout=subprocess.DEVNULL)
        if done.returncode or not summary.is_file():
            sys.exit(f"the run ended with status {done.returncode}")
        told = json.loads(summary.read_text())
        frames = sum(stream["frames_out"] for stream in told["streams"])
        seconds = held(raw.read_text(), given.rate)
    print(f"{frames} frames in {told['seconds']:.1f} s; microseconds per frame with the lock held")
    for name, value in seconds.most_common():
        print(f"{name:28} {value / frames * 1e6:9.1f}")


if __name__ == "__main__":
    main()
