"""The tracker of one stream: detections of one frame in, an identity for each of them out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from sluice.tracking.algorithms import make_tracker

UNTRACKED = -1
"""The id of a row that belongs to no confirmed track."""

CLOCK_TIME_NONE = 0xFFFFFFFFFFFFFFFF
"""A timestamp that is not known (GST_CLOCK_TIME_NONE)."""

# Equal timestamps make the library warn and skip the motion step; this much later, nothing moves measurably.
_SMALLEST_STEP = 1e-6

FloatArray = npt.NDArray[np.float32]
IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Settings:
    """What defines a tracker: the same for every stream of an element.

    Attributes:
        algorithm: a name of ``tracking.ALGORITHMS``.
        options: arguments of the algorithm's constructor. ``frame_rate`` (frames/s, 30 unless given) only scales
            ``lost_track_buffer``, which counts frames at 30 frames/s.
        class_aware: a track never takes over a detection of another class: one tracker per class.
        timestamps: motion and ageing follow the frames' timestamps instead of counting frames.
    """

    algorithm: str
    options: Mapping[str, Any]
    class_aware: bool = False
    timestamps: bool = False


@dataclass(frozen=True)
class Detected:
    """The rows of one frame, in the order of the frame's objects.

    Attributes:
        boxes: float32 [N, 4], left, top, width, height in pixels of the surface.
        confidences: float32 [N].
        class_ids: [N].
        unique_ids: [N], the component that detected each row.
        labels: N texts.
    """

    boxes: FloatArray
    confidences: FloatArray
    class_ids: npt.NDArray[np.integer[Any]]
    unique_ids: npt.NDArray[np.integer[Any]]
    labels: Sequence[str]


@dataclass(frozen=True)
class Predicted:
    """Where a track is on a frame that the model did not see, with what was known of it when last seen.

    ``box`` is left, top, width, height in pixels of the surface, not clipped.
    """

    id: int
    box: tuple[float, float, float, float]
    confidence: float
    class_id: int
    unique_id: int
    label: str


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


class StreamTracker:
    """Tracks the objects of one stream; not for use by two threads at once.

    Ids are 64-bit whole numbers that start at ``first_id`` and are never given twice.
    Memory is bounded by the objects in view: the library forgets a track when its lost-track time is over.
    """

    def __init__(self, settings: Settings, *, first_id: int = 0) -> None:
        """Start with no tracks.

        Raises:
            ConfigurationError: the algorithm or an option of it is not right.
        """
        self._settings = settings
        self._frame_rate = float(settings.options.get("frame_rate", 30.0))
        self._first_id = first_id
        self._next_id = first_id
        self._newest_pts = 0
        # Made now, so that wrong options are refused before the first frame.
        self._spare: Any = make_tracker(settings.algorithm, settings.options)
        self._forget_tracks()

    @property
    def tracks_started(self) -> int:
        """How many tracks have been given an id since the stream began."""
        return self._next_id - self._first_id

    def begin_frame(self, pts: int) -> bool:
        """Tell the frame's timestamp (ns, CLOCK_TIME_NONE when unknown); call it once per frame, before its rows.

        A timestamp that jumps back means another piece of video: all tracks end. Returns True when that happened.
        """
        jumped = pts < self._newest_pts
        if jumped:
            self._forget_tracks()
        if pts != CLOCK_TIME_NONE:
            self._newest_pts = pts
        self._pts = pts
        return jumped

    def update(self, rows: Detected, image: npt.NDArray[np.uint8] | None = None) -> IntArray:
        """Track the detections of a frame that the model saw (perhaps none).

        Args:
            rows: the frame's detections.
            image: the frame's picture, HWC uint8 in the order that ``reads_pixels`` told; None for all others.

        Returns:
            int64 [N]: the id of each row, UNTRACKED for rows of no confirmed track.
        """
        timestamp = self._timestamp()
        ids = np.full(len(rows.boxes), UNTRACKED, dtype=np.int64)
        for key, members in self._split(rows.class_ids).items():
            group = self._groups.get(key)
            if group is None:
                group = self._groups[key] = _Group(self._new_tracker())
            raw = _run(group.tracker, rows, members, image, timestamp)
            ids[members], self._next_id = group.give_ids(raw, self._next_id)
        self._remember(rows, ids)
        return ids

    def predict(self) -> list[Predicted]:
        """Return where the tracks of the last seen frame are now, on a frame that the model did not see.

        Nothing of the trackers changes: such frames neither age a track nor count as a miss, so that with an interval
        the identities equal those of the seen frames alone. The motion per frame is the tracker's own, scaled by
        the timestamps, or by the last interval between seen frames (a track stays in place until one is known).
        """
        self._skipped += 1
        step = self._elapsed_frames()
        predicted = []
        for group in self._groups.values():
            for track in group.tracker.tracks:
                seen = self._seen.get(group.ids.get(track.tracker_id, UNTRACKED))
                if seen is not None:
                    predicted.append(_predict(seen, track.state_estimator, step))
        return predicted

    def _forget_tracks(self) -> None:
        self._groups: dict[int, _Group] = {}
        self._seen: dict[int, Predicted] = {}
        self._pts = CLOCK_TIME_NONE
        self._newest_pts = 0
        self._last_timestamp: float | None = None
        self._started = False
        self._skipped = 0
        self._interval = 0

    def _new_tracker(self) -> Any:
        spare, self._spare = self._spare, None
        return spare or make_tracker(self._settings.algorithm, self._settings.options)

    def _split(self, class_ids: npt.NDArray[np.integer[Any]]) -> dict[int, npt.NDArray[np.intp]]:
        """Return the rows of each group; groups without rows still have to see the frame pass."""
        if not self._settings.class_aware:
            return {0: np.arange(len(class_ids))}
        keys = self._groups.keys() | {int(value) for value in class_ids}
        return {key: np.flatnonzero(class_ids == key) for key in sorted(keys)}

    def _timestamp(self) -> float | None:
        """Return the frame's time in seconds as the library takes it: strictly increasing, or None to count frames."""
        if not self._settings.timestamps or self._pts == CLOCK_TIME_NONE:
            return None
        seconds = self._pts / 1e9
        if self._last_timestamp is not None:
            seconds = max(seconds, self._last_timestamp + _SMALLEST_STEP)
        self._last_timestamp = seconds
        return seconds

    def _elapsed_frames(self) -> float:
        """Return the time since the last seen frame in the tracker's steps."""
        if self._settings.timestamps and self._last_timestamp is not None and self._pts != CLOCK_TIME_NONE:
            return max(0.0, self._pts / 1e9 - self._last_timestamp) * self._frame_rate
        return self._skipped / self._interval if self._interval else 0.0

    def _remember(self, rows: Detected, ids: IntArray) -> None:
        self._interval = self._skipped + 1 if self._started else 0
        self._started, self._skipped = True, 0
        self._seen = {
            int(ids[row]): Predicted(
                int(ids[row]),
                (0.0, 0.0, 0.0, 0.0),
                float(rows.confidences[row]),
                int(rows.class_ids[row]),
                int(rows.unique_ids[row]),
                rows.labels[row],
            )
            for row in np.flatnonzero(ids != UNTRACKED).tolist()
        }


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


def _predict(seen: Predicted, estimator: Any, step: float) -> Predicted:
    """Move a copy of the track's motion state by ``step`` steps, and return its box there."""
    state = estimator.get_state()
    if step > 0:
        estimator.predict(step)
    left, top, right, bottom = (float(value) for value in estimator.state_to_bbox())
    estimator.set_state(state)
    box = (left, top, max(0.0, right - left), max(0.0, bottom - top))
    return Predicted(seen.id, box, seen.confidence, seen.class_id, seen.unique_id, seen.label)
