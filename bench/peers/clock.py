"""What every program of this comparison measures with: notes each frame as its tracked objects are known."""

from __future__ import annotations

import argparse
import json
import os
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any

import marks


class Clock:
    """Notes for each frame its stream, the time, the processor time so far, and which picture of the camera it was."""

    def __init__(self, streams: int, seconds: float = 0.0) -> None:
        """Note for so many streams; with `seconds`, end the process so long after its first frame."""
        self._seconds = seconds
        self._frames: list[tuple[int, float, float, int]] = []
        self._ids: list[set[int]] = [set() for _ in range(streams)]
        self._lock = threading.Lock()  # some programs call from one thread per stream

    def frame(self, stream: int, ids: Iterable[int] = (), picture: Callable[[], Any] | None = None) -> None:
        """Note a frame with the ids of its tracked objects; `picture` makes its pixels, asked for live sources only."""
        number = marks.read(picture()) if picture is not None and self._seconds else -1
        with self._lock:
            self._frames.append((stream, time.monotonic(), time.process_time(), number))
            self._ids[stream].update(int(identity) for identity in ids if identity is not None and identity >= 0)
            if len(self._frames) == 1 and self._seconds:
                print("started", flush=True)
                threading.Timer(self._seconds, self._finish).start()

    def report(self) -> None:
        """Print what was noted as one line of JSON, the last that the program prints."""
        with self._lock:
            noted = {"frames": self._frames, "ids": [sorted(ids) for ids in self._ids]}
            print("\n" + json.dumps(noted), flush=True)

    def _finish(self) -> None:
        self.report()
        os._exit(0)  # a program that waits for a dead camera would not end otherwise


def begin() -> tuple[str, list[str], Clock]:
    """The program's arguments: the network, the clips or cameras, and a clock for them."""
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("sources", nargs="+")
    parser.add_argument("--seconds", type=float, default=0.0)
    arguments = parser.parse_args()
    return arguments.model, arguments.sources, Clock(len(arguments.sources), arguments.seconds)
