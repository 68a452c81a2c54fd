"""The programs of the comparison: how each is started, what it used, and in which versions."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
OUT = ROOT / "docs" / "benchmarks"
PEERS = {
    "Sluice": ("sluice_run.py", ".venv"),
    "OpenCV loop": ("loop.py", ".venv"),
    "Ultralytics": ("ultralytics_track.py", ".venv-peers/ultralytics"),
    "InferencePipeline": ("inference_pipeline.py", ".venv-peers/inference"),
    "modelpipe": ("modelpipe_chunks.py", ".venv-peers/modelpipe"),
}
# Other arithmetic than the others', so no part of the goals.
CHOICES = {"Sluice, int8": ("sluice_int8.py", ".venv")}
# What one machine could do at most. The network twice: one run after the other on all cores, and one per core at once.
LIMITS = {
    "decode alone": ("decode_only.py", ".venv"),
    "network alone": ("model_only.py", ".venv"),
    "network alone, one per core": ("model_only.py", ".venv"),
}
PROGRAMS = PEERS | CHOICES | LIMITS
_PACKAGES = (
    "onnxruntime", "ultralytics", "inference-cpu", "modelpipe", "trackers", "supervision", "opencv-python", "torch"
)  # fmt: skip
_PAGE_MB = os.sysconf("SC_PAGE_SIZE") / 1e6


@dataclass
class Ended:
    """A program that has ended.

    Attributes:
        frames: of each frame, in the order in which they came: stream, time of the monotonic clock, the process'
            seconds of processor so far, number of the camera's picture (-1: none).
        ids: of each stream, the ids that its tracker gave.
        cpu_seconds: of the process and its children, from start to end.
        peak_memory_mb: resident, of the process and its children; shared pages count in each.
        failure: why there are no frames, or "".
    """

    frames: list[tuple[int, float, float, int]]
    ids: list[list[int]]
    cpu_seconds: float = 0.0
    peak_memory_mb: float = 0.0
    failure: str = ""


class Program:
    """A program that runs."""

    def __init__(self, name: str, model: Path, sources: list[str], seconds: float = 0.0) -> None:
        """Start it.

        Args:
            name: one of `PROGRAMS`.
            model: the network's file.
            sources: clips or URLs of cameras.
            seconds: how long after its first frame it shall end; 0: when its sources do.

        Raises:
            FileNotFoundError: its environment was not set up.
        """
        script, environment = PROGRAMS[name]
        python = ROOT / environment / "bin" / "python"
        if not python.exists():
            raise FileNotFoundError(f"{environment} is not there: scripts/setup-peers makes it")
        command = [str(python), str(HERE / script), str(model), *sources, "--seconds", str(seconds)]
        self._before = os.times()
        self._process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=HERE, bufsize=1
        )
        self._printed: list[str] = []
        self._said: list[str] = []
        self._peak = 0.0
        self.started = threading.Event()  # its first frame was there; said by programs that run for `seconds`
        self._threads = [threading.Thread(target=work) for work in (self._read, self._read_errors, self._watch)]
        for thread in self._threads:
            thread.start()

    def wait(self, timeout: float) -> Ended:
        """Wait for its end, kill it after `timeout` seconds, and return what it noted."""
        try:
            self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        after = os.times()
        for thread in self._threads:
            thread.join()
        cpu = after.children_user + after.children_system - self._before.children_user - self._before.children_system
        try:
            noted = json.loads(self._printed[-1])
        except (IndexError, ValueError):
            said = "".join(self._said).strip()[-400:]
            return Ended([], [], cpu, self._peak, said or f"exit status {self._process.returncode}")
        frames = [tuple(frame) for frame in noted["frames"]]
        return Ended(frames, noted["ids"], cpu, self._peak, "" if len(frames) > 10 else "it gave hardly any frame")

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._printed.append(line)
            if line == "started\n":
                self.started.set()

    def _read_errors(self) -> None:
        assert self._process.stderr is not None
        self._said.extend(self._process.stderr)

    def _watch(self) -> None:
        while self._process.poll() is None:
            self._peak = max(self._peak, tree_memory(self._process.pid))
            time.sleep(0.2)


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
    for environment in dict.fromkeys(environment for _, environment in PROGRAMS.values()):
        python = ROOT / environment / "bin" / "python"
        if python.exists():
            command = [str(python), "-c", _VERSIONS, *_PACKAGES]
            found[environment] = subprocess.run(command, capture_output=True, text=True).stdout.strip()
    return found


_VERSIONS = """
import sys
from importlib.metadata import PackageNotFoundError, version
def of(name):
    try:
        return f"{name} {version(name)}"
    except PackageNotFoundError:
        return ""
print("Python", sys.version.split()[0] + ",", ", ".join(filter(None, map(of, sys.argv[1:]))))
"""


def write(name: str, model: Path, runs: list[dict[str, Any]]) -> None:
    """Write measurements into the folder of results, with the network's name, the machine and the day."""
    OUT.mkdir(parents=True, exist_ok=True)
    document = {"machine": machine(), "when": time.strftime("%Y-%m-%d"), "model": model.name, "runs": runs}
    (OUT / name).write_text(json.dumps(document, indent=1) + "\n")
