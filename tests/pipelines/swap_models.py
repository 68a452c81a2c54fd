"""Models for tests of replacing a model while it runs; each that was loaded knows which in order it is."""

import gc
import itertools
import threading
import time
from typing import ClassVar

import numpy as np
from hash_model import checksum

from sluice.models.detections import Detections


class Versioned:
    """Finds the whole frame twice: once with the content's checksum as class id, once labelled "version N".

    N counts the models that were loaded since `start`.
    """

    numbers = itertools.count()
    pause = 0.0

    @classmethod
    def start(cls, pause: float = 0.0) -> None:
        """Count from 0 again; calls of the models take so many seconds more than they need."""
        Versioned.numbers = itertools.count()
        Versioned.pause = pause

    @classmethod
    def alive(cls) -> int:
        """How many models there are."""
        gc.collect()
        return sum(isinstance(thing, Versioned) for thing in gc.get_objects())

    def load(self):
        self.version = next(Versioned.numbers)
        self.labels = (f"version {self.version}",)

    def infer(self, frames):
        if self.pause:
            time.sleep(self.pause)
        return [self.detect(frame) for frame in frames]

    def detect(self, frame):
        box = [0, 0, frame.width, frame.height]
        content = checksum(map(np.from_dlpack, frame.planes()))
        return Detections([box, box], [1.0, 0.9], [content, 0], labels=["content", None])


class Gated(Versioned):
    """Loads only once `gate` is set."""

    gate = threading.Event()

    def load(self):
        self.gate.wait(20)
        super().load()


class Unloadable(Versioned):
    def load(self):
        raise FileNotFoundError("weights.bin")


class Cold(Versioned):
    def warm_up(self):
        raise RuntimeError("the card is on fire")


class TooBig(Versioned):
    def load(self):
        super().load()
        self.weights = np.ones(1000)
        raise MemoryError(f"no room for {self.weights.nbytes} bytes")


class TooBigOnTheCard(Versioned):
    def warm_up(self):
        raise RuntimeError("CUDA out of memory. Tried to allocate 20.00 GiB")


class OtherSize(Versioned):
    """Takes pictures of one size only."""

    def infer(self, frames):
        for frame in frames:
            if (frame.width, frame.height) != (1, 1):
                raise ValueError(f"the input is 1x1, the frame is {frame.width}x{frame.height}")
        return super().infer(frames)


class Rehearsing(Versioned):
    """Keeps what it is to be ready for."""

    rehearsed: ClassVar[list] = []

    def rehearse(self, calls):
        Rehearsing.rehearsed.append((self.version, calls))


class Wordy(Versioned):
    """Returns what is no result."""

    def infer(self, frames):
        return ["a person" for _ in frames]


class OnceOnly(Versioned):
    """Can be loaded only once in a process."""

    loaded = False

    def load(self):
        if OnceOnly.loaded:
            raise OSError("the weights were deleted")
        OnceOnly.loaded = True
        super().load()


class Held(Versioned):
    """Each call of version N waits until gate N is open; `calls` has the versions in the order of the calls."""

    gates: ClassVar = (threading.Event(), threading.Event())
    calls: ClassVar[list[int]] = []

    def infer(self, frames):
        Held.calls.append(self.version)
        Held.gates[self.version].wait(60)
        return super().infer(frames)
