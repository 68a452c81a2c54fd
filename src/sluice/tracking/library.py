"""The tracker of one stream by the ``trackers`` library: detections of a frame in, an identity for each of them out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from sluice.tracking.algorithms import make_tracker
from sluice.tracking.records import UNTRACKED, Detected, IntArray, Settings, StreamTracker


@dataclass
class _Group:
    """One tracker of the library, and the ids given to the tracks that it numbers 0, 1, 2, ..."""

    tracker: Any
    ids: dict[int, int] = field(default_factory=dict)
    numbered: int = 0

    def give_ids(self, raw: IntArray, next_id: int) -> tuple[IntArray, int]:
        """Return the stream's ids for the library's (-1 stays), and the next free id.

        Every number the library has used takes one id, in its order, so that with one group an id is the library's
        number plus a constant.
        """
        while self.numbered <= raw.max(initial=-1):
            self.ids[self.numbered] = next_id
            self.numbered += 1
            next_id += 1
        given = np.array([self.ids[number] if number >= 0 else UNTRACKED for number in raw.tolist()], dtype=np.int64)
        alive = {track.tracker_id for track in self.tracker.tracks}
        self.ids = {number: given_id for number, given_id in self.ids.items() if number in alive}
        return given, next_id


class LibraryTracker(StreamTracker):
    """Tracks the objects of one stream with one tracker of the library, or one per class.

    Memory is bounded by the objects in view: the library forgets a track when its lost-track time is over.
    """

    def __init__(self, settings: Settings, *, first_id: int = 0) -> None:
        """Start with no tracks.

        Raises:
            ConfigurationError: the algorithm or an option of it is not right.
        """
        super().__init__(settings, first_id=first_id)
        # Made now, so that wrong options are refused before the first frame.
        self._spare: Any = make_tracker(settings.algorithm, settings.options)
        self._groups: dict[int, _Group] = {}

    def update(self, rows: Detected, image: npt.NDArray[np.uint8] | None = None) -> IntArray:
        timestamp = self._timestamp()
        ids = np.full(len(rows.boxes), UNTRACKED, dtype=np.int64)
        for key, members in self._split(rows).items():
            group = self._groups.get(key)
            if group is None:
                group = self._groups[key] = _Group(self._new_tracker())
            raw = _run(group.tracker, rows, members, image, timestamp)
            ids[members], self._next_id = group.give_ids(raw, self._next_id)
        self.remember(rows, ids)
        return ids

    def _positions(self, ids: Mapping[int, int], step: float) -> list[tuple[int, tuple[float, float, float, float]]]:
        return [
            (number, _box_after(track.state_estimator, step))
            for group in self._groups.values()
            for track in group.tracker.tracks
            if (number := group.ids.get(track.tracker_id, UNTRACKED)) in ids
        ]

    def end_tracks(self) -> None:
        super().end_tracks()
        self._groups = {}

    def _new_tracker(self) -> Any:
        spare, self._spare = self._spare, None
        return spare or make_tracker(self._settings.algorithm, self._settings.options)

    def _split(self, rows: Detected) -> dict[int, npt.NDArray[np.intp]]:
        """Return the rows of each group; groups without rows still have to see the frame pass."""
        tracked = np.flatnonzero(rows.usable(self._settings.minimum_confidence))
        if not self._settings.class_aware:
            return {0: tracked}
        classes = rows.class_ids[tracked]
        keys = self._groups.keys() | {int(value) for value in classes}
        return {key: tracked[classes == key] for key in sorted(keys)}


def _run(
    tracker: Any, rows: Detected, members: npt.NDArray[np.intp], image: npt.NDArray[np.uint8] | None, time: float | None
) -> IntArray:
    """Give the library one frame and return its number for each member, -1 for those it left out or did not confirm."""
    import supervision

    boxes = rows.boxes[members]
    corners = np.concatenate([boxes[:, :2], boxes[:, :2] + boxes[:, 2:]], axis=1)
    detections = supervision.Detections(
        xyxy=corners,
        confidence=rows.confidences[members],
        class_id=rows.class_ids[members].astype(np.int64),
        # The library may reorder and leave out rows; each row carries its place.
        data={"row": np.arange(len(members))},
    )
    arguments: dict[str, Any] = {} if image is None else {"frame": image}
    result = tracker.update(detections, timestamp=time, **arguments)
    raw = np.full(len(members), UNTRACKED, dtype=np.int64)
    if len(result):
        raw[result.data["row"]] = result.tracker_id
    return raw


def _box_after(estimator: Any, step: float) -> tuple[float, float, float, float]:
    """Move a copy of a track's motion state by ``step`` steps, and return its box there: left, top, width, height."""
    state = estimator.get_state()
    if step > 0:
        estimator.predict(step)
    left, top, right, bottom = (float(value) for value in estimator.state_to_bbox())
    estimator.set_state(state)
    return left, top, max(0.0, right - left), max(0.0, bottom - top)
