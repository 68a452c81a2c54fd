"""How many frames Sluice makes beside what people would pick instead: the same clips and network, one machine, one run.

    python bench/peers/throughput.py MODEL.onnx out/bench --streams 1 2 4 8 --repeats 3

Every combination of clip and number of streams is measured for all programs in turn, the order rotated with each
setting and repeat. A program is a process of its own; it notes when each frame's tracked objects were known (clock.py).
Rates and processor time are those between a tenth and eight tenths of all frames, where every queue of a program is as
full at the end as at the beginning. The network must be one that all programs read: a YOLOv8 or YOLO11 export, 256
pixels. `make bench` does all of it.
"""

from __future__ import annotations

import argparse
import os
from collections import Counter
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path

import cv2
from programs import CHOICES, LIMITS, PROGRAMS, Ended, Program, write

from sluice.runtimes.quantized import multiplies_int8

_SECONDS = 300  # after which a program is ended
_SIZES = ("480p", "1080p")


@dataclass
class Run:
    """One program, once.

    Attributes:
        frames_in: frames of all its clips.
        frames_out: frames that it gave, per stream.
        fairness: the slowest stream's rate by the fastest's.
        shared_ids: ids that occur in more than one stream.
        cpu_seconds_in_all: with start and end, which `cpu_seconds_per_1000_frames` leaves out.
    """

    program: str
    clip: str
    streams: int
    repeat: int
    frames_in: int
    frames_out: list[int] = field(default_factory=list)
    frames_per_second: float = 0.0
    cpu_seconds_per_1000_frames: float = 0.0
    cpu_seconds_in_all: float = 0.0
    peak_memory_mb: float = 0.0
    fairness: float = 0.0
    tracks: int = 0
    shared_ids: int = 0
    failure: str = ""

    def fill(self, ended: Ended) -> None:
        """Work out what the program noted."""
        self.failure, self.peak_memory_mb = ended.failure, ended.peak_memory_mb
        self.cpu_seconds_in_all = ended.cpu_seconds
        if self.failure:
            return
        frames = ended.frames
        count = Counter(stream for stream, *_ in frames)
        self.frames_out = [count[stream] for stream in range(len(ended.ids))]
        first, last = len(frames) // 10, len(frames) * 8 // 10
        _, began, cpu_before, _ = frames[first]
        _, ends, cpu_after, _ = frames[last]
        self.frames_per_second = (last - first) / (ends - began)
        self.cpu_seconds_per_1000_frames = (cpu_after - cpu_before) / (last - first) * 1000
        finished = {stream: when for stream, when, *_ in frames}
        rates = [count[stream] / (when - frames[0][1]) for stream, when in finished.items()]
        self.fairness = min(rates) / max(rates) if all(self.frames_out) else 0.0
        seen = Counter(identity for ids in ended.ids for identity in ids)
        self.tracks, self.shared_ids = seen.total(), sum(times > 1 for times in seen.values())


def sources(folder: Path, size: str, streams: int, program: str) -> list[str]:
    """The clips of a program: the longer one for a single stream."""
    clip = folder / f"{size}-{'long' if streams == 1 else 'short'}.mp4"
    if program in LIMITS and program != "decode alone":
        streams = 1 if program == "network alone" else os.cpu_count() or 1
    return [str(clip.resolve())] * streams


@cache
def frames_of(clip: str) -> int:
    """How many frames can be decoded; the container's own count may be one off."""
    capture = cv2.VideoCapture(clip)
    return sum(1 for _ in iter(capture.grab, False))


def measure(program: str, size: str, streams: int, repeat: int, model: Path, folder: Path) -> Run:
    """Run one program."""
    clips = sources(folder, size, streams, program)
    run = Run(program, size, streams, repeat, frames_of(clips[0]) * len(clips))
    try:
        run.fill(Program(program, model, clips).wait(_SECONDS))
    except FileNotFoundError as error:
        run.failure = str(error)
    return run


def settings(arguments: argparse.Namespace) -> list[tuple[str, str, int, int]]:
    """All that is to be measured, in its order: program, size, streams, repeat. The network alone once per repeat."""
    found = []
    for repeat in range(arguments.repeats):
        for size in _SIZES:
            for place, streams in enumerate(arguments.streams):
                once = size == _SIZES[0] and streams == 1
                order = [name for name in arguments.programs if once or not name.startswith("network alone")]
                turn = (repeat + place) % len(order)
                found += [(program, size, streams, repeat) for program in order[turn:] + order[:turn]]
    return found


def main() -> None:
    """Measure everything and write throughput.json."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("clips", type=Path, help="the folder that clips.py wrote")
    parser.add_argument("--streams", type=int, nargs="+", default=[1, 2, 4, 8])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--programs", nargs="+", choices=PROGRAMS, default=list(PROGRAMS))
    arguments = parser.parse_args()
    if not multiplies_int8() and not CHOICES.keys().isdisjoint(arguments.programs):
        arguments.programs = [name for name in arguments.programs if name not in CHOICES]
        print(f"left out, as this processor has no VNNI: {', '.join(CHOICES)}", flush=True)
    runs: list[Run] = []
    for program, size, streams, repeat in settings(arguments):
        run = measure(program, size, streams, repeat, arguments.model.resolve(), arguments.clips)
        runs.append(run)
        print(f"{size} x{streams} {program}: {run.failure or f'{run.frames_per_second:.1f} frames/s'}", flush=True)
        write("throughput.json", arguments.model, [asdict(run) for run in runs])  # an interruption costs one run


if __name__ == "__main__":
    main()
