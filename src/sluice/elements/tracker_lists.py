"""The lists of targets that ``sluicetracker`` puts on a batch: past frames, shadow tracks and terminated tracks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sluice.contract.metadata import BatchMeta, FrameMeta
from sluice.contract.target_meta import Target, TargetFrame, TargetList, TargetStream, TrackerState, attach_targets
from sluice.tracking import Detected, StreamTracker
from sluice.tracking.batched import BatchedStream
from sluice.tracking.history import LONGEST, History, Path


@dataclass(frozen=True)
class Wanted:
    """Which lists are written, and how many frames are kept of a track at most."""

    past_frames: bool = False
    shadow: bool = False
    terminated: bool = False
    longest: int = LONGEST

    def __bool__(self) -> bool:
        """Whether any list is written."""
        return self.past_frames or self.shadow or self.terminated


class TargetLists:
    """Collects what is to be told of each stream, until the batch is complete."""

    def __init__(self, wanted: Wanted) -> None:
        """Start with nothing to tell."""
        self._wanted = wanted
        self._histories: dict[int, History] = {}
        self._told: dict[TargetList, dict[int, list[Target]]] = {kind: {} for kind in TargetList}

    def observe(self, frame: FrameMeta, tracker: StreamTracker, rows: Detected, ids: npt.NDArray[np.int64]) -> None:
        """Take a tracked frame into account."""
        assert isinstance(tracker, BatchedStream)
        stream = frame.pad_index
        history = self._histories.setdefault(stream, History(self._wanted.longest))
        told = history.observe(tracker, frame.frame_num, rows, ids)
        self._tell(TargetList.PAST_FRAMES, stream, told.past)
        self._tell(TargetList.SHADOW, stream, told.shadow)
        self._tell(TargetList.TERMINATED, stream, told.terminated)

    def end(self, stream: int) -> None:
        """All tracks of a stream have ended: they are told with the next batch."""
        history = self._histories.pop(stream, None)
        if history is not None:
            self._tell(TargetList.TERMINATED, stream, history.end())

    def end_all(self) -> None:
        """All tracks of all streams have ended."""
        for stream in list(self._histories):
            self.end(stream)

    def attach(self, batch: BatchMeta) -> None:
        """Put the lists on a batch: that of past frames always, as nvtracker does, the others where there are any."""
        wanted = {
            TargetList.PAST_FRAMES: self._wanted.past_frames,
            TargetList.SHADOW: self._wanted.shadow,
            TargetList.TERMINATED: self._wanted.terminated,
        }
        for kind, told in self._told.items():
            if wanted[kind] and (told or kind is TargetList.PAST_FRAMES):
                attach_targets(batch, kind, [TargetStream(stream, targets) for stream, targets in told.items()])
            told.clear()

    def _tell(self, kind: TargetList, stream: int, paths: Sequence[Path]) -> None:
        if paths:
            self._told[kind].setdefault(stream, []).extend(map(_target, paths))


def _target(path: Path) -> Target:
    frames = []
    for moment in path.moments:
        found = TrackerState.ACTIVE if moment.matched else TrackerState.INACTIVE
        state = found if moment.confirmed else TrackerState.TENTATIVE
        frames.append(TargetFrame(moment.frame, moment.box, moment.confidence, moment.age, state))
    return Target(path.id, path.class_id, path.label, frames)
