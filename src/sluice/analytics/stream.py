"""The analytics of one stream: what its objects do, from frame to frame.

An object stands where the middle of its box's lower edge is. Objects without an id are counted in regions and classes;
lines, directions and dwell times are of tracked objects, and others do not disturb them.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sluice.analytics.config import LineRule, Mode, RegionRule, StreamRules
from sluice.analytics.geometry import Point, between, cosine, distance, inside, position
from sluice.analytics.results import Crossing, FrameFindings, ObjectFindings, Seen

FORGET_AFTER = 900
"""Frames after which an object that was not seen is forgotten: half a minute at 30 frames/s."""

_HISTORY = 30
"""Frames over which a direction is taken."""
_MIN_HISTORY = 11
"""Positions that nvdsanalytics needs for a direction."""
_MIN_MOVE = 55.0
"""Pixels an object must have moved for one: nvdsanalytics names none yet at 55 and one at 60."""
_MIN_COSINE = {Mode.STRICT: math.cos(math.radians(22.5)), Mode.BALANCED: math.cos(math.radians(45)), Mode.LOOSE: 0.5}
"""How near the movement must be to a direction: 22.5, 45 and 60 degrees."""


@dataclass
class _Track:
    """What is known of one object."""

    seen: int
    place: Point
    history: deque[Point] = field(default_factory=lambda: deque(maxlen=_HISTORY))
    beyond: dict[str, bool] = field(default_factory=dict)
    """Line to whether the object is on the far side, in the line's direction."""
    entered: dict[str, int] = field(default_factory=dict)
    """Region to the time at which the object came in."""


class StreamAnalytics:
    """Follows the objects of one stream."""

    def __init__(self, rules: StreamRules, config_size: tuple[int, int], *, hysteresis: float = 12.0) -> None:
        """Begin with nothing seen.

        Args:
            rules: what to find.
            config_size: width and height of the picture that the rules' points are in.
            hysteresis: how far, in pixels of that picture, an object must go back behind a line before another
                crossing of it counts, so that a box that trembles on the line counts once.
        """
        self._rules = rules
        self._size = config_size
        self._hysteresis = hysteresis
        self._frame = 0
        self._tracks: dict[int, _Track] = {}
        self._totals = {line.name: 0 for line in rules.lines}
        self._classes: dict[int, int] = {}
        self._crowded_since: dict[str, int] = {}

    def forget(self) -> None:
        """Forget the objects, as after a jump in the stream; the totals go on."""
        self._tracks.clear()
        self._crowded_since.clear()

    def update(self, objects: Sequence[Seen], size: tuple[int, int], time: int) -> FrameFindings:
        """Take the stream's next frame.

        Args:
            objects: what is on it.
            size: width and height of its surface in pixels.
            time: its time in nanoseconds, for dwell times and time thresholds.
        """
        self._frame += 1
        places = [self._place(seen.box, size) for seen in objects]
        findings = [ObjectFindings() for _ in objects]
        crossings: list[Crossing] = []
        done: set[int] = set()
        for seen, place, found in zip(objects, places, findings, strict=True):
            # A second object with the id, such as a part of the first, must not tear the track to and fro; nor must a
            # box that is nowhere.
            follows = seen.id is not None and seen.id not in done and all(map(math.isfinite, place))
            track = self._follow(seen.id, place) if seen.id is not None and follows else None
            self._find_regions(seen, place, found, track, time)
            if track is not None and seen.id is not None:
                done.add(seen.id)
                self._find_lines(seen.class_id, place, found, track)
                self._find_direction(seen.class_id, found, track)
                crossings += [Crossing(line, seen.id, seen.class_id) for line in found.lines]
        for crossing in crossings:
            self._totals[crossing.line] += 1
        self._forget_old()
        inside_counts = self._count_regions(findings)
        return FrameFindings(
            findings,
            inside_counts,
            self._crowds(inside_counts, time),
            crossings,
            dict(self._totals),
            self._count_classes(objects),
        )

    def _place(self, box: Sequence[float], size: tuple[int, int]) -> Point:
        """Where an object stands, in pixels of the configuration's picture."""
        left, top, width, height = box
        return (left + width / 2) * self._size[0] / size[0], (top + height) * self._size[1] / size[1]

    def _follow(self, identity: int, place: Point) -> _Track:
        track = self._tracks.get(identity)
        if track is None:
            track = self._tracks[identity] = _Track(self._frame, place)
        track.seen = self._frame
        track.history.append(place)
        return track

    def _forget_old(self) -> None:
        gone = [identity for identity, track in self._tracks.items() if self._frame - track.seen > FORGET_AFTER]
        for identity in gone:
            del self._tracks[identity]

    # ---- regions ----

    def _find_regions(self, seen: Seen, place: Point, found: ObjectFindings, track: _Track | None, time: int) -> None:
        # An object that touches the picture's edge stands on its last row, not below it.
        kept = (min(max(place[0], 0.0), self._size[0] - 1.0), min(max(place[1], 0.0), self._size[1] - 1.0))
        for rules, names in ((self._rules.regions, found.regions), (self._rules.crowds, found.crowds)):
            for rule in rules:
                if _concerns(rule.classes, seen.class_id) and inside(rule.points, kept) != rule.inverse:
                    names.append(rule.name)
        if track is None:
            return
        names = [*found.regions, *found.crowds]
        track.entered = {name: track.entered.get(name, time) for name in names}
        found.dwell = {name: max(0, time - since) for name, since in track.entered.items()}

    def _count_regions(self, findings: Sequence[ObjectFindings]) -> dict[str, int]:
        counts = {rule.name: 0 for rule in (*self._rules.regions, *self._rules.crowds)}
        for found in findings:
            for name in {*found.regions, *found.crowds}:
                counts[name] += 1
        return counts

    def _crowds(self, counts: Mapping[str, int], time: int) -> dict[str, bool]:
        return {rule.name: self._is_crowded(rule, counts[rule.name], time) for rule in self._rules.crowds}

    def _is_crowded(self, rule: RegionRule, count: int, time: int) -> bool:
        if rule.object_threshold is None or count < rule.object_threshold:
            self._crowded_since.pop(rule.name, None)
            return False
        return time - self._crowded_since.setdefault(rule.name, time) >= rule.time_threshold

    def _count_classes(self, objects: Sequence[Seen]) -> dict[int, int]:
        self._classes = dict.fromkeys(self._classes, 0)
        for seen in objects:
            self._classes[seen.class_id] = self._classes.get(seen.class_id, 0) + 1
        return dict(self._classes)

    # ---- lines ----

    def _find_lines(self, class_id: int, place: Point, found: ObjectFindings, track: _Track) -> None:
        for rule in self._rules.lines:
            if _concerns(rule.classes, class_id) and self._crosses(rule, track, place):
                found.lines.append(rule.name)
        track.place = place

    def _crosses(self, rule: LineRule, track: _Track, place: Point) -> bool:
        """Whether an object comes over a line now, in its direction."""
        before, now = _depth(rule, track.place), _depth(rule, place)
        # Loose counts an object that reaches the line, the others one that is past it, as nvdsanalytics does.
        past = now >= 0 if rule.mode is Mode.LOOSE else now > 0
        was_past = track.beyond.get(rule.name)
        if was_past is None:
            if now != 0 or past:
                track.beyond[rule.name] = past
            return False
        if was_past:
            if now < -self._hysteresis:
                track.beyond[rule.name] = False
            return False
        if not past:
            return False
        track.beyond[rule.name] = True
        meeting = between(track.place, place, before / (before - now)) if before < now else place
        return rule.extended or 0 <= position(*rule.line, meeting) <= 1

    # ---- directions ----

    def _find_direction(self, class_id: int, found: ObjectFindings, track: _Track) -> None:
        if len(track.history) < _MIN_HISTORY:
            return
        first, last = track.history[0], track.history[-1]
        moved = (last[0] - first[0], last[1] - first[1])
        if math.hypot(*moved) <= _MIN_MOVE:
            return
        near = [
            (cosine(moved, (end[0] - start[0], end[1] - start[1])), rule)
            for rule in self._rules.directions
            if _concerns(rule.classes, class_id)
            for start, end in [rule.direction]
        ]
        likeness, best = max(near, key=lambda pair: pair[0], default=(-1.0, None))
        if best is not None and likeness >= _MIN_COSINE[best.mode]:
            found.direction = best.name


def _concerns(classes: frozenset[int], class_id: int) -> bool:
    return not classes or class_id in classes


def _depth(rule: LineRule, place: Point) -> float:
    """How far a place is past a line, in its direction; negative in front of it."""
    first, second = rule.direction
    start, end = rule.line
    towards = (start[0] + second[0] - first[0], start[1] + second[1] - first[1])
    return math.copysign(1.0, distance(start, end, towards)) * distance(start, end, place)
