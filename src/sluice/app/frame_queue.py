"""The bounded queue between a running pipeline and a program that iterates its frames."""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

import gi

gi.require_version("Gst", "1.0")
from gi.repository import Gst

if TYPE_CHECKING:
    from sluice.models.frame import Frame

MOST_WAITING = 8
"""Frames per stream that wait for the program before a file is held back or a live source loses its oldest."""
MOST_PIXELS = 6_400_000
"""Pixels of a file's frames that wait likewise, which are three frames of 1080p in 10 MB; one frame always may."""
_LOOK_AGAIN = 0.05  # seconds between looks at the gates while the queue is empty


def _keep_blocked(_pad: Gst.Pad, _info: Gst.PadProbeInfo) -> Gst.PadProbeReturn:
    return Gst.PadProbeReturn.OK


class Gate:
    """Holds a stream back at a pad in front of the mux, so that no thread which other streams need ever waits.

    `shut` is called by one thread and `open` by another.
    """

    def __init__(self) -> None:
        """Prepare an open gate that has no pad yet."""
        self._pad: Gst.Pad | None = None
        self._probe: int | None = None

    def move(self, pad: Gst.Pad) -> None:
        """Stand open at the source pad of a stream's present source from now on; the one before must be ending.

        A gate that is shut meanwhile may be so in vain; it is shut again with the next frame that finds a crowd.
        """
        self._probe = None
        self._pad = pad

    def shut(self) -> None:
        """Let nothing more pass; without effect where it is shut."""
        if self._probe is None and self._pad is not None:
            self._probe = self._pad.add_probe(Gst.PadProbeType.BLOCK_DOWNSTREAM, _keep_blocked)

    def open(self) -> None:
        """Let everything pass; without effect where it is open."""
        probe, self._probe = self._probe, None
        if probe is not None and self._pad is not None:
            self._pad.remove_probe(probe)


@dataclass
class _Lane:
    """What the queue knows of one stream."""

    held_back: bool
    gate: Gate
    waiting: int = 0
    dropped: int = 0
    most: int = MOST_WAITING

    def measure(self, frame: Frame) -> None:
        """Let fewer frames wait where they are large."""
        if self.held_back:
            self.most = max(1, min(MOST_WAITING, MOST_PIXELS // max(1, frame.width * frame.height)))


class FrameQueue:
    """Frames on their way to the program: of some streams none is lost, of others the newest are kept.

    A stream that is held back waits at its gate while its frames wait here; frames already past it still come, so that
    it may have a few more than `MOST_WAITING` or `MOST_PIXELS` waiting.
    """

    def __init__(self) -> None:
        """Make an empty queue without streams."""
        self._lanes: dict[int, _Lane] = {}
        self._frames: deque[tuple[_Lane, Frame]] = deque()
        self._changed = threading.Condition()
        self._closed = False

    def join(self, stream: int, gate: Gate, *, held_back: bool) -> None:
        """Take frames of a stream, which is held back where they wait, or else loses its oldest."""
        with self._changed:
            self._lanes[stream] = _Lane(held_back, gate)

    def hold(self, stream: int, held_back: bool) -> None:
        """Hold a stream back from now on where its frames wait, or let it lose its oldest."""
        with self._changed:
            if (lane := self._lanes.get(stream)) is not None:
                lane.held_back = held_back

    def leave(self, stream: int) -> None:
        """Take no more frames of a stream; those that wait can still be taken."""
        with self._changed:
            lane = self._lanes.pop(stream, None)
        if lane is not None:
            lane.gate.open()

    def dropped(self, stream: int) -> int:
        """Return how many frames of a stream made room for newer ones."""
        with self._changed:
            lane = self._lanes.get(stream)
            return 0 if lane is None else lane.dropped

    def put(self, stream: int, frame: Frame) -> None:
        """Add a frame; never waits. Called by the one thread that collects."""
        with self._changed:
            lane = self._lanes.get(stream)
            if self._closed or lane is None:
                return
            lane.measure(frame)
            crowded = lane.waiting >= lane.most
            if crowded and not lane.held_back:
                self._drop_oldest(lane, frame)
            self._frames.append((lane, frame))
            lane.waiting += 1
            self._changed.notify_all()
        if crowded and lane.held_back:
            lane.gate.shut()
            if self._closed or self._lanes.get(stream) is not lane:  # meanwhile: nobody would open the gate
                lane.gate.open()

    def get(self) -> Frame | None:
        """Wait for the next frame and return it; None when the queue was closed and is empty."""
        while True:
            with self._changed:
                if not self._frames and not self._closed:
                    self._changed.wait(_LOOK_AGAIN)
                lane, frame = self._frames.popleft() if self._frames else (None, None)
                if lane is not None:
                    lane.waiting -= 1
                calm = [lane.gate for lane in self._lanes.values() if lane.waiting <= lane.most // 2]
                finished = self._closed and frame is None
            for gate in calm:
                gate.open()
            if frame is not None or finished:
                return frame

    def close(self, discard: bool = False) -> None:
        """Accept no more frames and hold nothing back; those waiting can still be taken unless they are discarded."""
        with self._changed:
            self._closed = True
            if discard:
                self._frames.clear()
            gates = [lane.gate for lane in self._lanes.values()]
            self._changed.notify_all()
        for gate in gates:
            gate.open()

    def _drop_oldest(self, lane: _Lane, newest: Frame) -> None:
        """Drop a stream's oldest frame; what a slow model said goes on with the one behind it."""
        own = [(position, frame) for position, (owner, frame) in enumerate(self._frames) if owner is lane]
        if not own:
            return
        position, dropped = own[0]
        del self._frames[position]
        lane.waiting -= 1
        lane.dropped += 1
        if dropped.answers:
            heir = own[1][1] if len(own) > 1 else newest
            heir.answers = dropped.answers + heir.answers
