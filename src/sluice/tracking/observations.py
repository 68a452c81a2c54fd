"""OC-SORT for all streams of a batch: tracks led by what was observed, not by what was predicted.

Beside the overlap, a match is worth how well the way to a detection goes on in the track's direction; what that left is
matched by the last observations; and a track that was lost gets the state it would have had, had it been seen on a
straight way meanwhile. The results are those of the ``trackers`` library, which computes with float32 where its
detections are.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from sluice.contract.pairs import overlapping
from sluice.tracking.assignment import assign, overlaps, same_group
from sluice.tracking.batched import BatchedTracker
from sluice.tracking.motion import TRACK, Floats, Tracks, join, put, take
from sluice.tracking.records import UNTRACKED, IntArray, Settings
from sluice.tracking.rules import Rules
from sluice.tracking.solver import linear_sum_assignment
from sluice.tracking.steps import Detections, Indices, Mask, Step

Boxes = npt.NDArray[np.float32]

_STATE = ("position", "velocity", "p00", "p01", "p11")

# Half the width of the band of steps that count as one frame in the replay of a lost track's way, in frames (the
# library's motion_models.py).
_NOMINAL_FRAMES = 0.1


class ObservationTracker(BatchedTracker):
    """The tracks of many streams by OC-SORT; ``rules.observations`` must be set."""

    def __init__(self, settings: Settings, rules: Rules) -> None:
        super().__init__(settings, rules)
        self._memory: npt.NDArray[np.void] = np.empty(0, self._memory_type())
        self._frames = np.zeros(0, np.int64)  # seen by each slot before this one

    def _memory_type(self) -> np.dtype[Any]:
        """Return the type of what is kept of each track beside its state."""
        assert self.rules.observations is not None
        kept = max(1, self.rules.observations.delta + 1)
        return np.dtype(
            [
                ("last", np.float32, 4),  # the last observation
                ("boxes", np.float32, (kept, 4)),  # that of age a is in place a % kept
                ("ages", np.int32, kept),  # -1 for none
                ("direction", np.float32, 2),  # y, x, of length 1
                ("directed", np.bool_),
                ("lost", np.bool_),  # the state below is that before the track was lost
                *((name, TRACK[name]) for name in _STATE),
            ]
        )

    def change_rules(self, settings: Settings, rules: Rules) -> None:
        super().change_rules(settings, rules)
        kind = self._memory_type()
        if kind != self._memory.dtype:  # of another delta: the tracks' directions begin anew
            memory: npt.NDArray[np.void] = np.zeros(len(self._memory), kind)
            for name in ("last", "lost", *_STATE):
                memory[name] = self._memory[name]
            memory["ages"] = -1
            self._memory = memory

    def _advance(self, step: Step) -> None:
        tracks, memory = self._tracks, self._memory
        seen = np.zeros(len(step.now), bool)
        seen[tracks["slot"]] = True
        self._had_tracks = seen
        losing = np.flatnonzero(step.here(tracks["slot"]) & (tracks["missed"] > 0) & ~memory["lost"])
        for name in _STATE:
            memory[name][losing] = tracks[name][losing]
        memory["lost"][losing] = True
        super()._advance(step)

    def _match(self, step: Step, found: Detections) -> tuple[Indices, Indices]:
        rules, tracks = self.rules, self._tracks
        early = self._count_frames(step, found)
        free = step.here(tracks["slot"])
        left = found.confidences >= rules.sure
        first = self._directed_round(np.flatnonzero(free), np.flatnonzero(left), found)
        free[first[0]] = left[first[1]] = False
        second = self._last_observations_round(np.flatnonzero(free), np.flatnonzero(left), found)
        matched, of_detection = (np.concatenate(pair) for pair in zip(first, second, strict=True))
        which_round = np.repeat([0, 1], [len(first[0]), len(second[0])])
        self._observe(step, matched, of_detection, found)
        self._sure = early[tracks["slot"][matched]] | (tracks["hits"][matched] >= rules.confirm_after)
        due = (tracks["id"][matched] == UNTRACKED) & self._sure
        self._give_ids(step, matched[due], which_round[due])
        return matched, of_detection

    def _shown_ids(self, matched: Indices) -> IntArray:
        """A track that was lost shows its id again once it has been found in enough frames."""
        return np.where(self._sure, self._tracks["id"][matched], UNTRACKED)

    def _count_frames(self, step: Step, found: Detections) -> Mask:
        """Count the frames of each slot; return which slots are in their first frames, when ids are given at once."""
        frames = np.zeros(len(step.now), np.int64)
        frames[: len(self._frames)] = self._frames
        frames[step.fresh] = 0
        early: Mask = frames <= self.rules.confirm_after
        active = self._had_tracks.copy()
        active[found.slots] = True
        self._frames = frames + (step.now & active)
        return early

    def _directed_round(self, rows: Indices, columns: Indices, found: Detections) -> tuple[Indices, Indices]:
        """Match by overlap and direction: the best assignment in each slot, without pairs that overlap too little."""
        solve = linear_sum_assignment()
        tracks = self._tracks
        rows = rows[np.argsort(tracks["slot"][rows], kind="stable")]
        columns = columns[np.argsort(found.slots[columns], kind="stable")]
        slots, of_columns = tracks["slot"][rows], found.slots[columns]
        boxes, others = self.rules.motion.boxes(take(tracks, rows)), found.boxes[columns]
        overlap, worth = [], []
        directions = self._directions(rows, others, found.confidences[columns])
        for a, b in same_group(slots, of_columns):
            similar = np.zeros(len(a), np.float32)
            near, values = overlapping(boxes, others, a, b)
            similar[near] = values
            overlap.append(similar)
            worth.append(similar + directions.worth(a, b))
        if not overlap:
            return np.empty(0, np.intp), np.empty(0, np.intp)
        similar, value = np.concatenate(overlap), np.concatenate(worth)
        matched, of_detection = [], []
        place = row = 0
        for count, begin, width in _blocks(slots, of_columns):
            block = value[place : place + count * width].reshape(count, width)
            picked, chosen = solve(block, maximize=True)
            near = similar[place + picked * width + chosen] >= self.rules.first
            matched.append(rows[row + picked[near]])
            of_detection.append(columns[begin + chosen[near]])
            place, row = place + count * width, row + count
        return np.concatenate(matched), np.concatenate(of_detection)

    def _directions(self, rows: Indices, boxes: Floats, confidences: Boxes) -> _Directions:
        assert self.rules.observations is not None
        memory, tracks = take(self._memory, rows), self._tracks
        reference, known = _previous(memory, tracks["age"][rows], self.rules.observations.delta)
        reference = np.where(known[:, None], reference, memory["last"])
        slots = tracks["slot"][rows]
        return _Directions(
            self.rules.observations.weight,
            reference,
            memory["direction"],
            memory["directed"],
            np.isin(slots, slots[~memory["directed"]]),
            boxes.astype(np.float32),
            confidences,
        )

    def _last_observations_round(self, rows: Indices, columns: Indices, found: Detections) -> tuple[Indices, Indices]:
        last = self._memory["last"][rows].astype(np.float64)
        pairs = overlaps(last, self._tracks["slot"][rows], found.boxes[columns], found.slots[columns])
        best = assign(pairs, len(rows), len(columns))
        best = best.keep(best.values >= self.rules.first)
        order = np.argsort(best.rows, kind="stable")
        return rows[best.rows[order]], columns[best.columns[order]]

    def _observe(self, step: Step, matched: Indices, of_detection: Indices, found: Detections) -> None:
        """Correct matched tracks by their detections, lost ones after the way that they must have come."""
        assert self.rules.observations is not None
        delta = self.rules.observations.delta
        boxes: Boxes = found.boxes[of_detection].astype(np.float32)
        memory, ages = take(self._memory, matched), self._tracks["age"][matched]
        before, known = _previous(memory, ages, delta)
        memory["direction"][known] = _direction(before[known], boxes[known])
        memory["directed"] |= known
        lost = np.flatnonzero(memory["lost"])
        if len(lost):
            self._replay(matched[lost], memory[lost], boxes[lost], step.steps[self._tracks["slot"][matched[lost]]])
        self._correct(matched, of_detection, found)
        memory["lost"], memory["last"] = False, boxes
        memory["ages"][memory["ages"] < (ages - delta)[:, None]] = -1
        rows, places = np.arange(len(matched)), ages % memory["ages"].shape[1]
        memory["boxes"][rows, places], memory["ages"][rows, places] = boxes, ages
        put(self._memory, matched, memory)

    def _replay(self, rows: Indices, memory: npt.NDArray[np.void], boxes: Boxes, steps: Floats) -> None:
        """Give found tracks the state of a straight way at even speed from the last observation to this one."""
        motion, tracks = self.rules.motion, take(self._tracks, rows)
        for name in _STATE:
            tracks[name] = memory[name]
        gaps = tracks["missed"]
        start, change = _way(memory["last"], boxes, gaps)
        for passed in range(int(gaps.max())):
            going = np.flatnonzero(gaps > passed)
            some = take(tracks, going)
            place = start[going] + np.float32(passed + 1) * change[going]
            width, height = place[:, 2], place[:, 3]
            measured = np.stack([place[:, 0], place[:, 1], width * height, _ratio(width, height)], axis=1)
            motion.correct(some, measured.astype(np.float64))
            more = np.flatnonzero(gaps[going] > passed + 1)
            on = take(some, more)
            motion.predict(on, steps[going[more]][:, None], _NOMINAL_FRAMES)
            put(some, more, on)
            put(tracks, going, some)
        put(self._tracks, rows, tracks)

    def _begin(self, found: Detections, rows: Indices, begun: Tracks) -> None:
        super()._begin(found, rows, begun)
        begun["hits"] = 0
        memory: npt.NDArray[np.void] = np.zeros(len(rows), self._memory.dtype)
        memory["last"], memory["ages"] = found.boxes[rows], -1
        self._memory = join(self._memory, memory)

    def _keep(self, mask: Mask) -> None:
        if not mask.all():
            self._memory = take(self._memory, mask)
        super()._keep(mask)


class _Directions:
    """What it is worth that the way to a detection goes on in a track's direction, for some tracks."""

    def __init__(
        self,
        weight: float,
        reference: Boxes,
        direction: Boxes,
        directed: Mask,
        mixed: Mask,
        boxes: Boxes,
        confidences: Boxes,
    ) -> None:
        """Take the tracks and the detections.

        Args:
            weight: of a half turn.
            reference: where the tracks' ways begin, [T, 4].
            direction: y, x, [T, 2].
            directed: whether a track has a direction, [T].
            mixed: whether a track of the same slot has none, for which the library computes with float64, [T].
            boxes: of the detections, [D, 4].
            confidences: of the detections, [D].
        """
        self._weight = np.float32(weight)
        self._from, self._to = _centres(reference), _centres(boxes)
        self._ahead = direction[:, 0].copy(), direction[:, 1].copy()
        self._directed, self._mixed = directed.astype(np.float32), mixed
        self._confidences = confidences

    def worth(self, rows: Indices, columns: Indices) -> Boxes:
        """Return the worth of pairs, float32 [P]."""
        if not self._weight:
            return np.zeros(len(rows), np.float32)
        y, x = _way_between(*(whole[rows] for whole in self._from), *(whole[columns] for whole in self._to))
        turn = np.empty(len(rows), np.float32)
        mixed = self._mixed[rows]
        for which, kind in ((np.flatnonzero(~mixed), np.float32), (np.flatnonzero(mixed), np.float64)):
            of = rows[which]
            ahead: list[Any] = [np.asarray(part[of], kind) for part in self._ahead]
            turn[which] = self._directed[of] * _consistency(ahead[0], ahead[1], y[which], x[which])
        worth: Boxes = self._weight * (turn * self._confidences[columns])
        return worth


def _blocks(slots: npt.NDArray[np.int32], of_columns: npt.NDArray[np.int32]) -> list[tuple[int, int, int]]:
    """Return of each slot with rows its number of rows, its first column and its number of columns; both are sorted."""
    present, counts = np.unique(slots, return_counts=True)
    begins = np.searchsorted(of_columns, present, side="left")
    ends = np.searchsorted(of_columns, present, side="right")
    return list(zip(counts.tolist(), begins.tolist(), (ends - begins).tolist(), strict=True))


def _previous(memory: npt.NDArray[np.void], ages: npt.NDArray[np.int32], delta: int) -> tuple[Boxes, Mask]:
    """Return the oldest observation of the last ``delta`` frames, else the newest, and whether there is any."""
    known = memory["ages"]
    recent = (known >= 0) & (known >= (ages - delta)[:, None]) & (known < ages[:, None])
    oldest = np.where(recent, known, np.iinfo(np.int32).max).argmin(axis=1)
    places = np.where(recent.any(axis=1), oldest, known.argmax(axis=1))
    boxes: Boxes = memory["boxes"][np.arange(len(memory)), places]
    return boxes, known.max(axis=1) >= 0


def _centres(boxes: Boxes) -> tuple[Boxes, Boxes]:
    """Return y and x of boxes' centres."""
    half = np.float32(2)
    return (boxes[:, 1] + boxes[:, 3]) / half, (boxes[:, 0] + boxes[:, 2]) / half


def _way_between(from_y: Boxes, from_x: Boxes, to_y: Boxes, to_x: Boxes) -> tuple[Boxes, Boxes]:
    """Return the directions from places to others, y and x, of length 1."""
    y, x = to_y - from_y, to_x - from_x
    length = np.sqrt(x * x + y * y) + np.float32(1e-6)
    return y / length, x / length


def _consistency(a_y: Any, a_x: Any, b_y: Boxes, b_x: Boxes) -> Any:
    """Return how well directions go together: 0.5 for the same one, -0.5 for the opposite one."""
    angle = np.arccos(np.clip(a_x * b_x + a_y * b_y, -1.0, 1.0))
    return (np.pi / 2.0 - np.abs(angle)) / np.pi


def _direction(a: Boxes, b: Boxes) -> Boxes:
    """Return the directions from boxes' centres to others', y, x, float32 [P, 2]."""
    return np.stack(_way_between(*_centres(a), *_centres(b)), axis=1)


def _way(a: Boxes, b: Boxes, gaps: npt.NDArray[np.int32]) -> tuple[Boxes, Boxes]:
    """Return centres and sizes of boxes, and what changes of them per frame on the way to others, float32 [T, 4]."""
    start = _sizes(a)
    change: Boxes = np.divide(_sizes(b) - start, gaps[:, None], dtype=np.float32)
    return start, change


def _sizes(boxes: Boxes) -> Boxes:
    """Return centre, width and height by way of area and ratio, as the library rounds them."""
    width, height = boxes[:, 2] - boxes[:, 0], boxes[:, 3] - boxes[:, 1]
    half = np.float32(0.5)
    area, ratio = width * height, width / (height + np.float32(1e-6))
    tall = np.sqrt(np.divide(area, ratio, out=np.zeros_like(area), where=ratio != 0))
    return np.stack([boxes[:, 0] + width * half, boxes[:, 1] + height * half, np.sqrt(area * ratio), tall], axis=1)


def _ratio(width: Boxes, height: Boxes) -> Boxes:
    return np.divide(width, height, out=np.zeros_like(width), where=height != 0)
