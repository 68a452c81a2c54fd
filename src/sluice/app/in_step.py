"""Files beside one another in one picture: their frames go to the model in the order of their times.

Else each file would give as many frames as any other, and one of 30 frames per second beside one of 10 would be shown
at a third of its speed, and what is left of it at the other's end within a moment.
"""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import gi

gi.require_version("Gst", "1.0")
from gi.repository import Gst

from sluice.contract.metadata import BatchMeta, Lease
from sluice.elements.guard import guarded

_TOGETHER = 10_000_000  # nanoseconds between frames that may be in one batch: rates such as 29.97 and 30 go together
_LOOK = 0.05  # seconds between looks whether a file that is waited for has ended
_PATIENCE = 5.0  # seconds for which a file that gives no frame, though the model takes them, is waited for


@dataclass(eq=False)
class _Lane:
    """What is known of one file; times are running times in nanoseconds.

    Attributes:
        gives_none: whether no frame of it waits for the model, so that it is not the model that it waits for.
        ended: whether it has given all its frames.
        absent: called on its thread when other files' frames come before its next one, so that no batch waits for it.
        position: of its last frame, be it that this one still waits; -1 before the first.
        next: when its next one is due.
        held: whether it waits, and was called absent.
        moved: when that frame came, or the file was opened, in seconds; infinite before.
        left_out: whether nobody waits for it, until its next frame.
        inside: of its frames that wait in the mux; a batch has the newest time of its frames.
    """

    gives_none: Callable[[], bool]
    ended: Callable[[], bool]
    absent: Callable[[], object]
    position: int = -1
    next: int = 0
    held: bool = False
    moved: float = math.inf
    left_out: bool = False
    inside: deque[int] = field(default_factory=deque)


class InStep:
    """Holds frames back until all other files are as far. Every method may be called by any thread."""

    def __init__(self, clock: Callable[[], float] = time.monotonic, patience: float = _PATIENCE) -> None:
        """Begin without files; `clock` gives seconds, `patience` is for how many a file is waited for."""
        self._clock = clock
        self._patience = patience
        self._changed = threading.Condition()
        self._lanes: dict[int, _Lane] = {}
        self._left = clock()  # when a batch left the mux last

    def join(
        self, number: int, gives_none: Callable[[], bool], ended: Callable[[], bool], absent: Callable[[], object]
    ) -> None:
        """Wait for a file from now on; see `_Lane` for what the functions say."""
        with self._changed:
            self._lanes[number] = _Lane(gives_none, ended, absent)

    def leave(self, number: int) -> None:
        """Wait for a file no more, and hold it back no more."""
        with self._changed:
            self._lanes.pop(number, None)
            self._changed.notify_all()

    def close(self) -> None:
        """Hold nothing back any more."""
        with self._changed:
            self._lanes.clear()
            self._changed.notify_all()

    def watch_batches(self, pad: Gst.Pad) -> None:
        """Take note of what leaves the mux."""
        pad.add_probe(Gst.PadProbeType.BUFFER, _note_leaving, self)

    def left(self, numbers: Iterable[int]) -> None:
        """Take note that a frame of each of these files has left the mux."""
        with self._changed:
            for lane in filter(None, map(self._lanes.get, numbers)):
                if lane.inside:
                    lane.inside.popleft()
            self._left = self._clock()
            self._changed.notify_all()

    def watch(self, pad: Gst.Pad, number: int) -> None:
        """Hold back what passes the last source pad of a file, which is being opened, in front of the mux."""
        with self._changed:
            if (lane := self._lanes.get(number)) is not None:
                lane.moved = self._clock()
        pad.add_probe(Gst.PadProbeType.BUFFER, _hold_back, self, number)

    def wait(self, number: int, at: int, duration: int = 0) -> None:
        """Return when the frame of a running time may go on to the model; both are in nanoseconds."""
        with self._changed:
            lane = self._lanes.get(number)
            if lane is None:
                return
            before, lane.position, lane.next = lane.position, at, at + duration
            lane.moved, lane.left_out = self._clock(), False
            lane.held = any(
                before + _TOGETHER < other_at < at - _TOGETHER
                for other in self._others(lane)
                for other_at in (*other.inside, other.position, other.next)
                if not other.left_out
            )
            self._changed.notify_all()
        if lane.held:
            lane.absent()
        while not self._is_free(number, lane):
            for other in self._behind(lane):
                late = self._clock() - other.moved > self._patience
                other.left_out = other.ended() or (late and other.gives_none())

    def _is_free(self, number: int, lane: _Lane) -> bool:
        """Whether a lane's frame may go on; where not, a moment later."""
        with self._changed:
            if self._lanes.get(number) is lane and self._waited_for(lane):
                self._changed.wait(_LOOK)
            if self._lanes.get(number) is lane and self._waited_for(lane):
                return False
            lane.held = False
            lane.inside.append(lane.position)
            self._changed.notify_all()
            return True

    def _waited_for(self, lane: _Lane) -> list[_Lane]:
        """The files that are not as far, those whose earlier frames wait in the mux, and those that a batch lacks."""
        least, most = lane.position - _TOGETHER, lane.position + _TOGETHER
        moves = self._clock() - self._left < self._patience
        return self._behind(lane) + [
            other
            for other in self._others(lane)
            if (moves and other.inside and other.inside[0] < least)
            or (other.held and not lane.held and other.position <= most)
        ]

    def _behind(self, lane: _Lane) -> list[_Lane]:
        least = lane.position - _TOGETHER
        return [other for other in self._others(lane) if other.position < least and not other.left_out]

    def _others(self, lane: _Lane) -> list[_Lane]:
        return [other for other in tuple(self._lanes.values()) if other is not lane]


@guarded(failure=Gst.PadProbeReturn.OK)
def _note_leaving(_pad: Gst.Pad, info: Gst.PadProbeInfo, steps: InStep) -> Gst.PadProbeReturn:
    with Lease() as lease:
        batch = BatchMeta.of(info.get_buffer(), lease)
        steps.left([frame.pad_index for frame in batch.frames] if batch is not None else [])
    return Gst.PadProbeReturn.OK


@guarded(failure=Gst.PadProbeReturn.OK)
def _hold_back(pad: Gst.Pad, info: Gst.PadProbeInfo, steps: InStep, number: int) -> Gst.PadProbeReturn:
    segment = pad.get_sticky_event(Gst.EventType.SEGMENT, 0)
    buffer = info.get_buffer()
    pts, duration = buffer.pts, buffer.duration
    del buffer  # elements behind may write into one that nobody else holds
    if segment is not None and pts != Gst.CLOCK_TIME_NONE:
        at = segment.parse_segment().to_running_time(Gst.Format.TIME, pts)
        if at != Gst.CLOCK_TIME_NONE:  # else it lies before what is shown
            steps.wait(number, at, 0 if duration == Gst.CLOCK_TIME_NONE else duration)
    return Gst.PadProbeReturn.OK
