"""What every program of this comparison measures with: counts each frame as its tracked objects are known."""

from __future__ import annotations

import json
import sys
import time


class Clock:
    """Counts frames per stream, and the times of the first and the last."""

    def __init__(self, streams: int) -> None:
        """Count for so many streams."""
        self.frames = [0] * streams
        self.ends = [0.0] * streams
        self.first = 0.0
        self.objects = 0

    def frame(self, stream: int, objects: int) -> None:
        """Count a frame of a stream, with so many tracked objects on it."""
        now = time.perf_counter()
        self.first = self.first or now
        self.ends[stream] = now
        self.frames[stream] += 1
        self.objects += objects

    def report(self) -> None:
        """Print the counts as one line of JSON, the last line that the program prints."""
        numbers = {"frames": self.frames, "first": self.first, "ends": self.ends, "objects": self.objects}
        print("\n" + json.dumps(numbers), flush=True)


def arguments() -> tuple[str, str, int]:
    """The program's arguments: the clip, the network and the number of streams."""
    clip, model, streams = sys.argv[1:4]
    return clip, model, int(streams)
