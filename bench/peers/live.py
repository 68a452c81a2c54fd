"""How late the programs are on live cameras, what they leave out, and what one camera's death does to the other.

    python bench/peers/live.py MODEL.onnx out/bench

Two RTSP cameras on this machine, ten pictures a second each, whose pictures say when they were made (camera.py). In
"steady" both run. In "dies" the second is killed 5 s after the program's first frame and is back 5 s later.
"""

from __future__ import annotations

import argparse
import socket
import subprocess
import sys
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import TracebackType

import numpy as np
from camera import RATE, made
from marks import BITS
from programs import HERE, PEERS, Ended, Program, write

_SETTLE = 3.0  # seconds after a program's first frame that are not counted: queues of the start run empty
_STEADY, _DIES = 15.0, 35.0  # seconds that a program runs
_DEATH, _RETURN = 5.0, 10.0


def free_port() -> int:
    """A port of this machine that nobody has."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Camera:
    """A camera of this machine; as a context manager it ends with the block."""

    def __init__(self, clip: Path) -> None:
        """Start it on a free port."""
        self._port = free_port()
        self._clip = clip
        self.start()

    @property
    def url(self) -> str:
        """Its address."""
        return f"rtsp://127.0.0.1:{self._port}/cam"

    def start(self) -> None:
        """Start it and wait until it can be reached."""
        command = [sys.executable, str(HERE / "camera.py"), str(self._clip), str(self._port)]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "ready\n", "the camera did not start"

    def kill(self) -> None:
        """End it as a power cut does."""
        self._process.kill()
        self._process.wait()

    def __enter__(self) -> Camera:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()


@dataclass
class Run:
    """One program on the cameras, once.

    Attributes:
        p50_ms, p99_ms: from the making of a picture to its tracked objects, over both cameras ("steady") or that
            which lives ("dies").
        left_out: pictures of those cameras, of `shown` made in the time counted, for which no result came.
        longest_gap_s: the longest time without a result for the first camera.
        back_after_s: from the return of the second camera to its next result; None: it did not come.
    """

    program: str
    scenario: str
    p50_ms: float = 0.0
    p99_ms: float = 0.0
    shown: int = 0
    left_out: int = 0
    longest_gap_s: float = 0.0
    back_after_s: float | None = None
    failure: str = ""
    streams_seen: list[int] = field(default_factory=list)

    def fill(self, ended: Ended, returned: float) -> None:
        """Work out what the program noted."""
        self.failure = ended.failure
        if self.failure:
            return
        begin = ended.frames[0][1] + _SETTLE
        end = ended.frames[0][1] + (_STEADY if self.scenario == "steady" else _DIES)
        seen = [(stream, when, number) for stream, when, _, number in ended.frames if number >= 0]
        self.streams_seen = [sum(stream == of for stream, *_ in seen) for of in (0, 1)]
        counted = [0, 1] if self.scenario == "steady" else [0]
        ages = [when - made(number, when) for stream, when, number in seen if when >= begin and stream in counted]
        if ages:
            self.p50_ms, self.p99_ms = (float(value) for value in np.percentile(ages, (50, 99)) * 1000)
        for stream in counted:
            numbers = {number for of, _, number in seen if of == stream}
            window = range(int(begin * RATE), int((end - 1.0) * RATE))  # the last second's may still be on their way
            self.shown += len(window)
            self.left_out += sum(number % (1 << BITS) not in numbers for number in window)
        times = [when for stream, when, _ in seen if stream == 0 and when >= begin] + [end]
        self.longest_gap_s = float(max(np.diff([begin, *times])))
        again = [when for stream, when, _ in seen if stream == 1 and when > returned]
        if returned and again:
            self.back_after_s = again[0] - returned


def measure(program: str, scenario: str, model: Path, clip: Path) -> Run:
    """Run one program."""
    run, returned = Run(program, scenario), 0.0
    seconds = _STEADY if scenario == "steady" else _DIES
    with Camera(clip) as first, Camera(clip) as second:
        try:
            running = Program(program, model, [first.url, second.url], seconds)
        except FileNotFoundError as error:
            run.failure = str(error)
            return run
        if running.started.wait(60) and scenario == "dies":
            time.sleep(_DEATH)
            second.kill()
            time.sleep(_RETURN - _DEATH)
            second.start()
            returned = time.monotonic()
        run.fill(running.wait(seconds + 30), returned)
    return run


def main() -> None:
    """Measure everything and write live.json."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("clips", type=Path, help="the folder that clips.py wrote")
    parser.add_argument("--programs", nargs="+", choices=PEERS, default=list(PEERS))
    arguments = parser.parse_args()
    runs = []
    for scenario in ("steady", "dies"):
        for program in arguments.programs:
            run = measure(program, scenario, arguments.model.resolve(), arguments.clips / "480p-short.mp4")
            runs.append(run)
            print(f"{scenario}: {run}", flush=True)
    write("live.json", arguments.model, [asdict(run) for run in runs])


if __name__ == "__main__":
    main()
