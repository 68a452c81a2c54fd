"""What tracked objects look like: embeddings of a re-identification model, one running mean per track."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from sluice.errors import ConfigurationError
from sluice.tracking.assignment import Groups, Indices, Pairs, same_group
from sluice.tracking.motion import Floats, Motion, Tracks, take
from sluice.tracking.records import Detected

Features = npt.NDArray[np.float32]

# The 95 % quantile of the chi-square distribution with 4 degrees of freedom: the gate of DeepSORT
# (https://arxiv.org/abs/1703.07402, section 2.2).
_FARTHEST = 9.4877
# How much of a track's embedding stays at each detection (BoT-SORT, https://arxiv.org/abs/2206.14651, section 3.3).
_MEMORY = np.float32(0.9)


class Appearance:
    """The embeddings of tracks, by the tracks' serial numbers."""

    def __init__(self, minimum: float) -> None:
        """Start with none; ``minimum`` is the smallest cosine of two embeddings of the same object."""
        self.minimum = minimum
        self._serials = np.empty(0, np.int64)
        self._vectors: Features = np.empty((0, 0), np.float32)

    def __len__(self) -> int:
        """Return how many tracks have an embedding."""
        return len(self._serials)

    def gather(self, frames: Sequence[Detected]) -> Features | None:
        """Return the embeddings of all rows of some frames, of length 1 or 0 (none); None if no row has one.

        Raises:
            ConfigurationError: they are not of one size, which two models would give.
        """
        sizes = {rows.features.shape[1] for rows in frames if rows.features is not None}
        if len(self):
            sizes.add(self._vectors.shape[1])
        if len(sizes) > 1:
            raise ConfigurationError(
                f"embeddings of {' and '.join(map(str, sorted(sizes)))} values cannot be compared; one model must make "
                "those of all objects (reid-component-id chooses it)"
            )
        if not any(rows.features is not None for rows in frames):
            return None
        size = sizes.pop()
        given = [
            np.zeros((len(rows.boxes), size), np.float32) if rows.features is None else rows.features for rows in frames
        ]
        return _unit(np.concatenate(given))

    def join(
        self,
        pairs: Pairs,
        motion: Motion,
        tracks: Tracks,
        now: npt.NDArray[np.bool_],
        boxes: Floats,
        slots: Groups,
        features: Features,
    ) -> Pairs:
        """Return the pairs with those added that look alike and are not too far apart; the greater value counts.

        Args:
            pairs: tracks, detections and how they overlap.
            motion: how tracks move.
            tracks: all tracks.
            now: bool [T], those that take part.
            boxes: the detections, x1, y1, x2, y2, float64 [D, 4].
            slots: the slot of each, int32 [D].
            features: the embedding of each, float32 [D, K].
        """
        place = self._places(tracks["serial"])
        known = np.flatnonzero(now & (place >= 0))
        shown = np.flatnonzero(features.any(axis=1))
        rows, columns, values = [pairs.rows], [pairs.columns], [pairs.values]
        for a, b in same_group(tracks["slot"][known], slots[shown]):
            a, b = known[a], shown[b]
            near = motion.distance(take(tracks, a), boxes[b]) <= _FARTHEST
            a, b = a[near], b[near]
            cosine = np.einsum("ij,ij->i", self._vectors[place[a]], features[b])
            alike = cosine >= self.minimum
            rows.append(a[alike])
            columns.append(b[alike])
            values.append(cosine[alike])
        return _greatest(np.concatenate(rows), np.concatenate(columns), np.concatenate(values), len(boxes))

    def update(self, serials: npt.NDArray[np.int64], features: Features) -> None:
        """Take the embeddings of matched or new tracks' detections into account; rows of 0 are none."""
        shown = features.any(axis=1)
        serials, features = serials[shown], features[shown]
        if not len(serials):
            return
        places = self._places(serials)
        known = places >= 0
        if known.any():
            mixed = _MEMORY * self._vectors[places[known]] + (1 - _MEMORY) * features[known]
            self._vectors[places[known]] = _unit(mixed)
        if not known.all():
            serials = np.concatenate([self._serials, serials[~known]])
            old = self._vectors if len(self._vectors) else np.empty((0, features.shape[1]), np.float32)
            order = np.argsort(serials)
            self._serials, self._vectors = serials[order], np.concatenate([old, features[~known]])[order]

    def forget(self, serials: npt.NDArray[np.int64]) -> None:
        """Drop the embeddings of ended tracks."""
        keep = ~np.isin(self._serials, serials)
        self._serials, self._vectors = self._serials[keep], self._vectors[keep]

    def _places(self, serials: npt.NDArray[np.int64]) -> Indices:
        """Return where each track's embedding is, -1 for none."""
        if not len(self._serials):
            return np.full(len(serials), -1, np.intp)
        places = np.minimum(np.searchsorted(self._serials, serials), len(self._serials) - 1)
        return np.where(self._serials[places] == serials, places, -1)


def _unit(vectors: Features) -> Features:
    """Return vectors of length 1; zero stays zero."""
    length = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit: Features = np.divide(vectors, length, out=np.zeros_like(vectors), where=length > 0)
    return unit


def _greatest(rows: Indices, columns: Indices, values: npt.NDArray[np.float32], width: int) -> Pairs:
    """Return each pair once, with its greatest value."""
    if not len(rows):
        return Pairs(rows, columns, values)
    order = np.argsort(rows * width + columns, kind="stable")
    rows, columns, values = rows[order], columns[order], values[order]
    begins = np.flatnonzero(np.concatenate([[True], (np.diff(rows) != 0) | (np.diff(columns) != 0)]))
    return Pairs(rows[begins], columns[begins], np.maximum.reduceat(values, begins))
