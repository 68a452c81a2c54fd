"""Sluice beside what people would pick instead: the same clips and network, one machine, one run.

    scripts/setup-peers            # each peer into an environment of its own
    python bench/peers/run.py MODEL.onnx 480p=CLIP.mp4 1080p=CLIP.mp4 --streams 1 2 4 8 --repeats 3

Every combination of clip and number of streams is measured for all programs in turn, the order rotated with each
repeat. A program is a process of its own; it says when each frame's tracked objects were known (clock.py).
results.json, table.md and a plot are written into docs/benchmarks/. The network must be one that all programs read: a
YOLOv8 or YOLO11 export, 256 pixels.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import threading
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
OUT = HERE.parent.parent / "docs" / "benchmarks"
PROGRAMS = {
    "Sluice": ("sluice_run.py", ".venv"),
    "OpenCV loop": ("loop.py", ".venv"),
    "Ultralytics": ("ultralytics_track.py", ".venv-peers/ultralytics"),
    "InferencePipeline": ("inference_pipeline.py", ".venv-peers/inference"),
    "modelpipe": ("modelpipe_chunks.py", ".venv-peers/modelpipe"),
    "decode alone": ("decode_only.py", ".venv"),
    "network alone": ("model_only.py", ".venv"),
}
LIMITS = ("decode alone", "network alone")
_SECONDS = 600
_PAGE_MB = os.sysconf("SC_PAGE_SIZE") / 1e6


@dataclass
class Run:
    """One program, once."""

    program: str
    clip: str
    streams: int
    repeat: int
    frames: list[int]
    frames_per_second: float
    fairness: float
    cpu_seconds_per_1000_frames: float
    peak_memory_mb: float
    objects: int
    failure: str = ""


def tree_memory(root: int) -> float:
    """Resident megabytes of a process and its children; shared pages count in each."""
    total, waiting = 0.0, [root]
    while waiting:
        pid = waiting.pop()
        try:
            total += int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE_MB
            for task in Path(f"/proc/{pid}/task").iterdir():
                waiting += map(int, (task / "children").read_text().split())
        except OSError:
            continue  # it ended meanwhile
    return total


def measure(program: str, clip_name: str, clip: Path, model: Path, streams: int, repeat: int) -> Run:
    """Run one program and read what it printed."""
    script, environment = PROGRAMS[program]
    python = HERE.parent.parent / environment / "bin" / "python"
    command = [str(python), str(HERE / script), str(clip), str(model), str(streams)]
    run = Run(program, clip_name, streams, repeat, [], 0.0, 0.0, 0.0, 0.0, 0)
    if not python.exists():
        run.failure = f"{environment} is not there: scripts/setup-peers makes it"
        return run
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=HERE)
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(0.2):
            run.peak_memory_mb = max(run.peak_memory_mb, tree_memory(process.pid))

    watcher = threading.Thread(target=watch)
    watcher.start()
    before = os.times()
    try:
        printed, said = process.communicate(timeout=_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        printed, said = process.communicate()
    after = os.times()
    ended.set()
    watcher.join()
    try:
        numbers = json.loads(printed.strip().splitlines()[-1])
    except (IndexError, ValueError):
        run.failure = said.strip()[-400:] or f"exit status {process.returncode}"
        return run
    fill(run, numbers, after.children_user + after.children_system - before.children_user - before.children_system)
    return run


def fill(run: Run, numbers: dict[str, Any], cpu: float) -> None:
    """Work the printed numbers out; the rate is that between the first frame and the last."""
    run.frames, run.objects = numbers["frames"], numbers["objects"]
    total = sum(run.frames)
    if total < 2:
        run.failure = "it gave no frames"
        return
    rates = [count / (end - numbers["first"]) for count, end in zip(run.frames, numbers["ends"], strict=True) if end]
    run.frames_per_second = (total - 1) / (max(numbers["ends"]) - numbers["first"])
    run.fairness = min(rates) / max(rates) if min(run.frames) else 0.0
    run.cpu_seconds_per_1000_frames = cpu * 1000 / total


def machine() -> dict[str, str]:
    """What it ran on."""
    names = [
        line.partition(":")[2].strip()
        for line in Path("/proc/cpuinfo").read_text().splitlines()
        if "model name" in line
    ]
    found = {
        "processor": f"{len(names)} cores, {names[0] if names else platform.machine()}",
        "system": platform.platform(),
    }
    for program, environment in {environment: environment for _, environment in PROGRAMS.values()}.items():
        python = HERE.parent.parent / environment / "bin" / "python"
        packages = (
            "onnxruntime",
            "ultralytics",
            "inference-cpu",
            "modelpipe",
            "trackers",
            "supervision",
            "opencv-python",
        )
        if python.exists():
            listed = subprocess.run([str(python), "-c", _VERSIONS, *packages], capture_output=True, text=True).stdout
            found[program] = listed.strip()
    return found


_VERSIONS = """
import sys
from importlib.metadata import PackageNotFoundError, version
def of(name):
    try:
        return f"{name} {version(name)}"
    except PackageNotFoundError:
        return ""
print(", ".join(filter(None, map(of, sys.argv[1:]))))
"""


def main() -> None:
    """Measure everything and write the report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("clips", nargs="+", metavar="NAME=FILE")
    parser.add_argument("--streams", type=int, nargs="+", default=[1, 2, 4, 8])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--programs", nargs="+", choices=PROGRAMS, default=list(PROGRAMS))
    parser.add_argument("--out", type=Path, default=OUT)
    arguments = parser.parse_args()
    clips = {name: Path(file).resolve() for name, _, file in (clip.partition("=") for clip in arguments.clips)}
    runs: list[Run] = []
    for repeat in range(arguments.repeats):
        for name, clip in clips.items():
            for streams in arguments.streams:
                order = [program for program in arguments.programs if program != "network alone" or streams == 1]
                turn = (repeat + streams) % len(order)
                for program in order[turn:] + order[:turn]:
                    run = measure(program, name, clip, arguments.model.resolve(), streams, repeat)
                    runs.append(run)
                    print(
                        f"{name} x{streams} {program}: {run.failure or f'{run.frames_per_second:.1f} frames/s'}",
                        flush=True,
                    )
    arguments.out.mkdir(parents=True, exist_ok=True)
    document = {"machine": machine(), "when": time.strftime("%Y-%m-%d"), "runs": [asdict(run) for run in runs]}
    (arguments.out / "results.json").write_text(json.dumps(document, indent=1) + "\n")
    subprocess.run([sys.executable, str(HERE / "report.py"), str(arguments.out)], check=True)


if __name__ == "__main__":
    main()
