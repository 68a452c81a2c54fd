"""The bounded queue between a running pipeline and a program that iterates its frames."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING

import gi

gi.require_version("Gst", "1.0")
from gi.repository import Gst

if TYPE_CHECKING:
    from sluice.models.frame import Frame

MOST_WAITING = 8
"""Frames per stream that wait for the program before a file is held back or a live source loses its oldest."""
FEW_WAITING = MOST_WAITING // 2
_LOOK_AGAIN = 0.05  # seconds between looks at the gates while the queue is empty


def _keep_blocked(_pad: Gst.Pad, _info: Gst.PadProbeInfo) -> Gst.PadProbeReturn:
    return Gst.PadProbeReturn.OK


class Gate:
    """Holds a stream back at a pad in front of the mux, so that no thread which other streams need ever waits.

    `shut` is called by one thread and `open` by another.
    """

    def __init__(self, pad: Gst.Pad) -> None:
        """Prepare an open gate at a source pad."""
        self._pad = pad
        self._probe: int | None = None

    def shut(self) -> None:
        """Let nothing more pass; without effect where it is shut."""
        if self._probe is None:
            self._probe = self._pad.add_probe(Gst.PadProbeType.BLOCK_DOWNSTREAM, _keep_blocked)

    def open(self) -> None:
        """Let everything pass; without effect where it is open."""
        probe, self._probe = self._probe, None
        if probe is not None:
            self._pad.remove_probe(probe)


class FrameQueue:
    """Frames on their way to the program: none of a file is lost, of a live stream the newest are kept.

    A file whose frames wait is held back at its gate; frames already past it still come, so that a stream may have a
    few more than `MOST_WAITING` frames waiting.
    """

    def __init__(self, live: Sequence[bool], gates: Sequence[Gate]) -> None:
        """Make an empty queue for streams that are live or not, with one gate each."""
        self._live = live
        self._gates = gates
        self._frames: deque[tuple[int, Frame]] = deque()
        self._waiting = [0] * len(gates)
        self._changed = threading.Condition()
        self._closed = False
        self.dropped = [0] * len(gates)

    def put(self, stream: int, frame: Frame) -> None:
        """Add a frame; never waits. Called by the one thread that collects."""
        with self._changed:
            if self._closed:
                return
            crowded = self._waiting[stream] >= MOST_WAITING
            if crowded and self._live[stream]:
                self._drop_oldest(stream)
            self._frames.append((stream, frame))
            self._waiting[stream] += 1
            self._changed.notify_all()
        if crowded and not self._live[stream]:
            self._gates[stream].shut()
            if self._closed:  # meanwhile: nobody will take a frame and open the gate
                self._gates[stream].open()

    def get(self) -> Frame | None:
        """Wait for the next frame and return it; None when the queue was closed and is empty."""
        while True:
            with self._changed:
                if not self._frames and not self._closed:
                    self._changed.wait(_LOOK_AGAIN)
                stream, frame = self._frames.popleft() if self._frames else (-1, None)
                if frame is not None:
                    self._waiting[stream] -= 1
                calm = [waiting <= FEW_WAITING for waiting in self._waiting]
                finished = self._closed and frame is None
            for gate, is_calm in zip(self._gates, calm, strict=True):
                if is_calm:
                    gate.open()
            if frame is not None or finished:
                return frame

    def close(self, discard: bool = False) -> None:
        """Accept no more frames and hold nothing back; those waiting can still be taken unless they are discarded."""
        with self._changed:
            self._closed = True
            if discard:
                self._frames.clear()
                self._waiting = [0] * len(self._waiting)
            self._changed.notify_all()
        for gate in self._gates:
            gate.open()

    def _drop_oldest(self, stream: int) -> None:
        for position, (owner, _) in enumerate(self._frames):
            if owner == stream:
                del self._frames[position]
                self._waiting[stream] -= 1
                self.dropped[stream] += 1
                return
