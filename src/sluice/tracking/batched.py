"""SORT, ByteTrack, BoT-SORT and kin for all streams of a batch in one pass over arrays.

The tracks of all streams lie in one array of records; a slot number tells the stream (and the class, where classes are
tracked apart). Each step of an algorithm is done for all frames of the batch together, so that its cost in Python is
paid once per batch. The order in which tracks are made, matched and given their ids within a stream is that of the
``trackers`` library, and so are the results.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from sluice.contract._rows import all_or
from sluice.tracking.appearance import Appearance
from sluice.tracking.assignment import Pairs, assign, overlaps
from sluice.tracking.motion import TRACK, Floats, Tracks, join, put, take
from sluice.tracking.records import UNTRACKED, Detected, IntArray, Settings, StreamTracker
from sluice.tracking.rules import Rules
from sluice.tracking.steps import Detections, Indices, Mask, Step

# Half the width of the band of timestamps that count as one frame apart, in seconds (the library's motion_models.py).
_NOMINAL_SECONDS = 0.004


class BatchedTracker:
    """The tracks of many streams; one algorithm for all of them."""

    def __init__(self, settings: Settings, rules: Rules) -> None:
        """Start with no streams and no tracks."""
        self.settings = settings
        self.rules = rules
        self._tracks: Tracks = np.empty(0, TRACK)
        self._looks = Appearance(rules.appearance) if rules.appearance is not None else None
        self._free: list[int] = []
        self._owners: list[BatchedStream | None] = []
        self._serial = 0

    def change_rules(self, settings: Settings, rules: Rules) -> None:
        """Go on with the same tracks by other rules of the same algorithm."""
        self.settings, self.rules = settings, rules
        if self._looks is not None and rules.appearance is not None:
            self._looks.minimum = rules.appearance

    def update(self, frames: Sequence[tuple[BatchedStream, Detected]]) -> list[IntArray]:
        """Track one frame of each of some streams.

        Args:
            frames: streams, none of them twice, with the detections of their frames.

        Returns:
            For each frame int64 [N]: the id of each row, UNTRACKED for rows of no confirmed track.
        """
        detections = self._gather(frames)
        step = self._step([stream for stream, _ in frames])
        self._advance(step)
        ids = np.full(sum(len(rows.boxes) for _, rows in frames), UNTRACKED, dtype=np.int64)
        matched, of_detection = self._match(step, detections)
        ids[detections.rows[of_detection]] = self._shown_ids(matched)
        self._start_tracks(step, detections, of_detection, ids)
        self._end_lost(step)
        given, first = [], 0
        for stream, rows in frames:
            given.append(ids[first : first + len(rows.boxes)])
            first += len(rows.boxes)
            stream.remember(rows, given[-1])
        return given

    def _shown_ids(self, matched: Indices) -> IntArray:
        """Return the ids that the detections of matched tracks get."""
        ids: IntArray = self._tracks["id"][matched]
        return ids

    def tracks_of(self, stream: BatchedStream) -> Tracks:
        """Return a copy of a stream's tracks, confirmed or not, oldest first."""
        return take(self._tracks, np.isin(self._tracks["slot"], stream.slots))

    def boxes_after(self, tracks: Tracks, step: float) -> Floats:
        """Return where tracks will be ``step`` frames on, x1, y1, x2, y2, float64 [T, 4]; ``tracks`` is changed."""
        if step > 0:
            # How the noise grows does not matter: it moves no box.
            self.rules.motion.predict(tracks, np.full((len(tracks), 1), step), 0.0)
        return self.rules.motion.boxes(tracks)

    def new_slot(self, stream: BatchedStream) -> int:
        """Return a free slot for a stream."""
        if self._free:
            slot = self._free.pop()
            self._owners[slot] = stream
            return slot
        self._owners.append(stream)
        return len(self._owners) - 1

    def release(self, slots: Sequence[int]) -> None:
        """End the tracks of some slots and take the slots back."""
        if slots:
            self._keep(~np.isin(self._tracks["slot"], slots))
            for slot in slots:
                self._owners[slot] = None
            self._free.extend(slots)

    def _gather(self, frames: Sequence[tuple[BatchedStream, Detected]]) -> Detections:
        """Put the usable detections of all frames behind one another."""
        minimum = self.settings.minimum_confidence
        ltwh = np.concatenate([rows.boxes for _, rows in frames]).reshape(-1, 4)
        # In float32, as the library gets them.
        with np.errstate(invalid="ignore", over="ignore"):
            corners = np.concatenate([ltwh[:, :2], ltwh[:, :2] + ltwh[:, 2:]], axis=1)
        confidences = np.concatenate([rows.confidences for _, rows in frames]).astype(np.float32, copy=False)
        class_ids = np.concatenate([rows.class_ids for _, rows in frames]).astype(np.int32, copy=False)
        slots = self._slots(frames)
        usable = np.isfinite(corners).all(axis=1) & (confidences >= minimum)
        some = all_or(usable)
        features = None if self._looks is None else self._looks.gather([rows for _, rows in frames])
        return Detections(
            corners[some].astype(np.float64),
            confidences[some],
            slots[some],
            class_ids[some],
            None if features is None else features[some],
            np.flatnonzero(usable),
        )

    def _slots(self, frames: Sequence[tuple[BatchedStream, Detected]]) -> npt.NDArray[np.int32]:
        """Return the slot of each row of all frames, int32 [N]."""
        if self.settings.class_aware:
            return np.concatenate([stream.slots_for(rows.class_ids) for stream, rows in frames]).astype(np.int32)
        return np.repeat(
            np.array([stream.only_slot() for stream, _ in frames], np.int32), [len(rows.boxes) for _, rows in frames]
        )

    def _step(self, streams: Sequence[BatchedStream]) -> Step:
        count = len(self._owners)
        now, fresh, rank = [False] * count, [False] * count, [0] * count
        steps, seconds = [0.0] * count, [math.nan] * count
        before = 0
        for stream in streams:
            passed = stream.tick()
            for slot in stream.slots:
                now[slot], rank[slot] = True, before
                steps[slot], seconds[slot] = passed
                before += 1
            for slot in stream.take_fresh():
                fresh[slot] = True
        return Step(
            np.array(now, bool),
            np.array(steps, np.float64),
            np.array(seconds, np.float64),
            np.array(rank, np.int64),
            np.array(fresh, bool),
        )

    def _advance(self, step: Step) -> None:
        """Move the tracks of the frames' streams to the frames' time."""
        tracks = self._tracks
        now = step.here(tracks["slot"])
        moving = tracks if now.all() else take(tracks, now)
        slots = moving["slot"]
        timed = step.timed(slots)
        tolerance = _NOMINAL_SECONDS * self.rules.frame_rate if timed.any() else 0.0
        self.rules.motion.predict(moving, step.steps[slots][:, None], tolerance)
        if self.rules.consecutive:
            moving["hits"][moving["missed"] > 0] = 0
        moving["missed"] += 1
        moving["age"] += 1
        counted = np.where(timed, moving["missed_seconds"] + step.seconds[slots], 0.0) if timed.any() else 0.0
        moving["missed_seconds"] = counted
        if moving is not tracks:
            put(tracks, now, moving)
        if timed.any():
            # By the clock a track ends before it can be matched, by frames after (as the library has it).
            timed = step.timed(tracks["slot"])
            self._keep(~(timed & (tracks["missed_seconds"] > self.rules.longest_gap_seconds)))

    def _match(self, step: Step, found: Detections) -> tuple[Indices, Indices]:
        """Match tracks and detections in two or three rounds, and return the pairs, as indices.

        Matched tracks are corrected, and confirmed when they have been detected often enough.
        """
        rules, tracks = self.rules, self._tracks
        now = step.here(tracks["slot"])
        boxes = rules.motion.boxes(tracks)
        sure = found.confidences >= rules.sure
        weak = ~sure & (found.confidences > rules.weak)
        unconfirmed = np.zeros(len(tracks), bool)
        if rules.third is not None:
            unconfirmed = now & (tracks["missed"] == 1) & (tracks["id"] == UNTRACKED)
            unconfirmed &= tracks["hits"] < rules.confirm_after
        pairs = self._similarities(tracks, boxes, found, now)
        fused = (
            Pairs(pairs.rows, pairs.columns, pairs.values * found.confidences[pairs.columns]) if rules.fuse else pairs
        )
        first = fused
        if self._looks is not None and found.features is not None:
            first = self._looks.join(fused, rules.motion, tracks, now, found.boxes, found.slots, found.features)
        free = now & ~unconfirmed
        rounds = [self._round(first, free, sure, rules.first)]
        free[rounds[0][0]] = False
        sure = sure.copy()
        sure[rounds[0][1]] = False
        if rules.third is not None:
            free &= tracks["missed"] == 1
        if weak.any():
            rounds.append(self._round(pairs, free, weak, rules.second))
        if rules.third is not None:
            rounds.append(self._round(fused, unconfirmed, sure, rules.third))
            unconfirmed[rounds[-1][0]] = False
        matched = np.concatenate([rows for rows, _ in rounds])
        of_detection = np.concatenate([columns for _, columns in rounds])
        which_round = np.repeat(np.arange(len(rounds)), [len(rows) for rows, _ in rounds])
        lost = tracks["missed"][matched] > 1 if rules.third is not None else np.zeros(len(matched), bool)
        self._correct(matched, of_detection, found)
        due = (tracks["id"][matched] == UNTRACKED) & (tracks["hits"][matched] >= rules.confirm_after)
        self._give_ids(step, matched[due], which_round[due], lost[due])
        if unconfirmed.any():
            # BoT-SORT ends unconfirmed tracks at their first miss, whatever their age.
            places = np.cumsum(~unconfirmed) - 1
            self._keep(~unconfirmed)
            matched = places[matched]
        return matched, of_detection

    def _similarities(self, tracks: Tracks, boxes: Floats, found: Detections, now: Mask) -> Pairs:
        """Return the overlaps of tracks and detections of the same slot."""
        if now.all():
            return overlaps(boxes, tracks["slot"], found.boxes, found.slots)
        active = np.flatnonzero(now)
        pairs = overlaps(boxes[active], tracks["slot"][active], found.boxes, found.slots)
        return Pairs(active[pairs.rows], pairs.columns, pairs.values)

    def _round(self, pairs: Pairs, rows: Mask, columns: Mask, least: float) -> tuple[Indices, Indices]:
        """Return the best assignment among some tracks and detections, without the pairs that are too unlike."""
        best = assign(pairs.keep(rows[pairs.rows] & columns[pairs.columns]), len(rows), len(columns))
        best = best.keep(best.values >= least)
        return best.rows, best.columns

    def _correct(self, matched: Indices, of_detection: Indices, found: Detections) -> None:
        rows = take(self._tracks, matched)
        self.rules.motion.update(rows, found.boxes[of_detection])
        rows["missed"] = 0
        rows["missed_seconds"] = 0.0
        rows["hits"] += 1
        rows["confidence"] = found.confidences[of_detection]
        rows["class_id"] = found.class_ids[of_detection]
        put(self._tracks, matched, rows)
        if self._looks is not None and found.features is not None:
            self._looks.update(rows["serial"], found.features[of_detection])

    def _give_ids(self, step: Step, rows: Indices, *order: npt.NDArray[Any]) -> None:
        """Give tracks the next ids of their streams; within a slot in the order of some keys, the first counts most."""
        tracks = self._tracks
        slots = tracks["slot"][rows]
        for place in np.lexsort((rows, *reversed(order), step.rank[slots])).tolist():
            stream = self._owners[int(slots[place])]
            assert stream is not None
            tracks["id"][rows[place]] = stream.next_id()

    def _start_tracks(self, step: Step, found: Detections, of_detection: Indices, ids: IntArray) -> None:
        """Start a track for each sure detection that belongs to none."""
        rules = self.rules
        starts = found.confidences >= rules.sure
        # The library compares as Python numbers where it has three or two rounds, which tells 0.7 from float32's 0.7.
        wide = rules.consecutive or rules.third is not None
        confidences = found.confidences.astype(np.float64) if wide else found.confidences
        starts &= confidences >= rules.activation
        starts[of_detection] = False
        rows = np.flatnonzero(starts)
        if not len(rows):
            return
        begun = np.zeros(len(rows), TRACK)
        begun["slot"], begun["id"], begun["hits"] = found.slots[rows], UNTRACKED, 1
        begun["serial"] = np.arange(self._serial, self._serial + len(rows))
        self._serial += len(rows)
        begun["confidence"], begun["class_id"] = found.confidences[rows], found.class_ids[rows]
        self._begin(found, rows, begun)
        first = len(self._tracks)
        self._tracks = join(self._tracks, begun)
        if rules.instant:
            instant = np.flatnonzero(step.fresh[begun["slot"]])
            self._give_ids(step, first + instant)
            ids[found.rows[rows[instant]]] = self._tracks["id"][first + instant]

    def _begin(self, found: Detections, rows: Indices, begun: Tracks) -> None:
        """Set the state of new tracks from their detections, and what is kept beside it."""
        self.rules.motion.start(begun, found.boxes[rows])
        if self._looks is not None and found.features is not None:
            self._looks.update(begun["serial"], found.features[rows])

    def _end_lost(self, step: Step) -> None:
        """End the tracks that were not found for too long, and those that were never confirmed."""
        tracks, rules = self._tracks, self.rules
        now, timed = step.here(tracks["slot"]), step.timed(tracks["slot"])
        in_time = np.where(
            timed, tracks["missed_seconds"] <= rules.longest_gap_seconds, tracks["missed"] <= rules.longest_gap
        )
        confirmed = (tracks["id"] != UNTRACKED) | (tracks["hits"] >= rules.confirm_after) | rules.patient
        self._keep(~now | (in_time & (confirmed | (tracks["missed"] == 0))))

    def _keep(self, mask: Mask) -> None:
        if not mask.all():
            if self._looks is not None:
                self._looks.forget(self._tracks["serial"][~mask])
            self._tracks = take(self._tracks, mask)


class BatchedStream(StreamTracker):
    """One stream of a `BatchedTracker`, which can track several in one pass."""

    def __init__(self, tracker: BatchedTracker, *, first_id: int = 0) -> None:
        """Start with no tracks."""
        super().__init__(tracker.settings, first_id=first_id)
        self.tracker = tracker
        self._slot_of: dict[int, int] = {}
        self._fresh: list[int] = []
        self._previous: float | None = None

    @property
    def slots(self) -> list[int]:
        """The slots of the stream, by class where classes are tracked apart."""
        return [self._slot_of[key] for key in sorted(self._slot_of)]

    def slots_for(self, class_ids: npt.NDArray[np.integer[Any]]) -> npt.NDArray[np.integer[Any]]:
        """Return the slot of each row by its class, [N]; a class seen for the first time gets one."""
        classes, places = np.unique(class_ids, return_inverse=True)
        return np.array([self._slot(int(key)) for key in classes], np.intp)[places]

    def only_slot(self) -> int:
        """Return the slot of all rows where classes are tracked together."""
        return self._slot(0)

    def take_fresh(self) -> list[int]:
        """Return the slots made since the last call."""
        fresh, self._fresh = self._fresh, []
        return fresh

    def tick(self) -> tuple[float, float]:
        """Return the time since the last frame, in frames and in seconds (NaN where frames are counted)."""
        time, previous = self._timestamp(), self._previous
        self._previous = time
        if time is None:
            return 1.0, math.nan
        if previous is None:
            return 1.0, 1 / self._frame_rate
        return (time - previous) * self._frame_rate, time - previous

    def next_id(self) -> int:
        """Take the next id."""
        self._next_id += 1
        return self._next_id - 1

    def update(self, rows: Detected, image: npt.NDArray[np.uint8] | None = None) -> IntArray:
        del image
        return self.tracker.update([(self, rows)])[0]

    def _positions(self, ids: Mapping[int, int], step: float) -> list[tuple[int, tuple[float, float, float, float]]]:
        tracks = self.tracker.tracks_of(self)
        numbers = tracks["id"].tolist()
        boxes = self.tracker.boxes_after(tracks, step)
        boxes[:, 2:] = np.maximum(boxes[:, 2:] - boxes[:, :2], 0)
        return [(number, tuple(box)) for number, box in zip(numbers, boxes.tolist(), strict=True) if number in ids]

    def end_tracks(self) -> None:
        super().end_tracks()
        self.tracker.release(self.slots)
        self._slot_of, self._fresh, self._previous = {}, [], None

    def _slot(self, key: int) -> int:
        slot = self._slot_of.get(key)
        if slot is None:
            slot = self._slot_of[key] = self.tracker.new_slot(self)
            self._fresh.append(slot)
        return slot
