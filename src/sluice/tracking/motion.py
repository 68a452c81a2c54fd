"""How tracks move: constant-velocity Kalman filters of many tracks at once, as arrays.

The filters of SORT, ByteTrack and BoT-SORT couple a coordinate of the box with its own speed only: their noise matrices
are diagonal, and the transition adds ``step x speed`` to the coordinate. So the 8 x 8 filter of a track is four
filters of two values each, whose covariance is three numbers, and predict and update are a few products of arrays.
The results equal those of the matrices, but for the last bits. The constants are those of the ``trackers`` library.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Tracks = npt.NDArray[np.void]
"""Records of `TRACK`, [T]."""

TRACK = np.dtype(
    [
        ("slot", np.int32),  # which stream and class group it belongs to
        ("serial", np.int64),  # never given twice
        ("id", np.int64),  # -1 until confirmed
        ("hits", np.int32),
        ("missed", np.int32),  # frames since the last detection
        ("missed_seconds", np.float64),
        ("age", np.int32),  # frames since the first detection
        ("class_id", np.int32),
        ("confidence", np.float32),  # of the last detection
        ("position", np.float64, 4),
        ("velocity", np.float64, 4),
        ("p00", np.float64, 4),  # variance of the position,
        ("p01", np.float64, 4),  # covariance of position and velocity,
        ("p11", np.float64, 4),  # variance of the velocity
    ]
)

_SMALLEST_SIDE = 1e-3


def take(records: Tracks, rows: npt.NDArray[Any]) -> Tracks:
    """Return a copy of some tracks, or other records of one dimension, by indices or by a mask."""
    taken: Tracks = _as_bytes(records)[rows].view(records.dtype)
    return taken


def join(records: Tracks, more: Tracks) -> Tracks:
    """Return records with others behind them."""
    return np.concatenate([_as_bytes(records), _as_bytes(more)]).view(records.dtype)


def put(records: Tracks, rows: npt.NDArray[Any], values: Tracks) -> None:
    """Write records back to where they were taken from."""
    _as_bytes(records)[rows] = _as_bytes(values)


def _as_bytes(records: Tracks) -> Tracks:
    """Return records as so many bytes each: numpy copies those at once, but records with fields one field at a time."""
    return records.view(np.dtype((np.void, records.dtype.itemsize)))


class Motion(ABC):
    """What a track's state is and how it moves; boxes are x1, y1, x2, y2 in pixels of the surface, float64 [T, 4]."""

    _sides: ClassVar[slice] = slice(4, 4)  # the values of the position that stay above 0
    _still: ClassVar[Any] = False  # the values that have no speed, whose noise is the same for every step

    @abstractmethod
    def measured(self, boxes: Floats) -> Floats:
        """Return boxes in the coordinates of the state."""

    @abstractmethod
    def boxes(self, tracks: Tracks) -> Floats:
        """Return where tracks are."""

    @abstractmethod
    def _first_variances(self, position: Floats) -> tuple[Any, Any]:
        """Return the variance of position and velocity of a track that begins at a position."""

    @abstractmethod
    def _process_noise(self, position: Floats) -> tuple[Any, Any]:
        """Return the variance that one frame adds to position and velocity."""

    @abstractmethod
    def _measurement_noise(self, position: Floats) -> Any:
        """Return the variance of a detection."""

    def _settle(self, tracks: Tracks) -> None:
        """Make the state valid again after a step."""
        tracks["position"][:, self._sides] = np.maximum(tracks["position"][:, self._sides], _SMALLEST_SIDE)

    def start(self, tracks: Tracks, boxes: Floats) -> None:
        """Set the state of new tracks from their first detections."""
        tracks["position"] = self.measured(boxes)
        tracks["velocity"] = 0.0
        tracks["p01"] = 0.0
        tracks["p00"], tracks["p11"] = self._first_variances(tracks["position"])

    def predict(self, tracks: Tracks, steps: Floats, tolerance: float) -> None:
        """Move tracks by ``steps`` frames each, float64 [T, 1].

        A step within ``tolerance`` of one frame adds the noise of one frame; a longer or shorter one adds that of
        white noise in the acceleration, as in the library (motion_models.py, ``ScalableProcessNoise``).
        """
        of_position, of_velocity = self._process_noise(tracks["position"])
        nominal = (np.abs(steps - 1.0) <= tolerance) | self._still
        square = steps * steps
        q00: Any = of_position
        q01: Any = 0.0
        q11: Any = of_velocity
        if not nominal.all():
            q00 = np.where(nominal, of_position, of_velocity * square * square / 4)
            q01 = np.where(nominal, 0.0, of_velocity * square * steps / 2)
            q11 = np.where(nominal, of_velocity, of_velocity * square)
        p01, p11 = tracks["p01"], tracks["p11"]
        tracks["position"] += steps * tracks["velocity"]
        tracks["p00"] += 2 * steps * p01 + square * p11 + q00
        tracks["p01"] = p01 + steps * p11 + q01
        tracks["p11"] = p11 + q11
        self._settle(tracks)

    def update(self, tracks: Tracks, boxes: Floats) -> None:
        """Correct tracks by a detection each."""
        self.correct(tracks, self.measured(boxes))

    def correct(self, tracks: Tracks, measured: Floats) -> None:
        """Correct tracks by a detection each, in the coordinates of the state."""
        noise = self._measurement_noise(tracks["position"])
        error = measured - tracks["position"]
        p00, p01 = tracks["p00"], tracks["p01"]
        total = p00 + noise
        tracks["position"] += p00 / total * error
        tracks["velocity"] += p01 / total * error
        tracks["p11"] -= p01 * p01 / total
        tracks["p00"] = p00 * noise / total
        tracks["p01"] = p01 * noise / total
        self._settle(tracks)

    def distance(self, tracks: Tracks, boxes: Floats) -> Floats:
        """Return the squared Mahalanobis distance of a detection from each track, float64 [T]."""
        error = self.measured(boxes) - tracks["position"]
        total = tracks["p00"] + self._measurement_noise(tracks["position"])
        distance: Floats = (error * error / total).sum(axis=1)
        return distance


class CornerMotion(Motion):
    """The state is the box's corners, with noise in pixels: SORT and ByteTrack."""

    def measured(self, boxes: Floats) -> Floats:
        return boxes

    def boxes(self, tracks: Tracks) -> Floats:
        position: Floats = tracks["position"]
        return position

    def _first_variances(self, position: Floats) -> tuple[Any, Any]:
        del position
        return 1.0, 1.0

    def _process_noise(self, position: Floats) -> tuple[Any, Any]:
        del position
        return 0.01, 0.01

    def _measurement_noise(self, position: Floats) -> Any:
        del position
        return 0.1


class CentreMotion(Motion):
    """The state is the box's centre, width and height, with noise in parts of its size: BoT-SORT and DeepSORT."""

    _sides = slice(2, 4)
    _OF_POSITION, _OF_VELOCITY, _OF_MEASUREMENT = 0.05, 0.00625, 0.05

    def measured(self, boxes: Floats) -> Floats:
        size = boxes[:, 2:] - boxes[:, :2]
        return np.concatenate([boxes[:, :2] + size / 2, size], axis=1)

    def boxes(self, tracks: Tracks) -> Floats:
        centre, half = tracks["position"][:, :2], tracks["position"][:, 2:] / 2
        return np.concatenate([centre - half, centre + half], axis=1)

    def _first_variances(self, position: Floats) -> tuple[Any, Any]:
        size = position[:, [2, 3, 2, 3]]
        return (2 * self._OF_POSITION * size) ** 2, (10 * self._OF_VELOCITY * size) ** 2

    def _process_noise(self, position: Floats) -> tuple[Any, Any]:
        size = np.maximum(position[:, [2, 3, 2, 3]], _SMALLEST_SIDE)
        return (self._OF_POSITION * size) ** 2, (self._OF_VELOCITY * size) ** 2

    def _measurement_noise(self, position: Floats) -> Any:
        return (self._OF_MEASUREMENT * np.maximum(position[:, [2, 3, 2, 3]], _SMALLEST_SIDE)) ** 2


class NoMotion(CornerMotion):
    """A track stays where it was last detected: NVIDIA's IOU tracker."""

    def predict(self, tracks: Tracks, steps: Floats, tolerance: float) -> None:
        del tracks, steps, tolerance

    def update(self, tracks: Tracks, boxes: Floats) -> None:
        tracks["position"] = boxes


class ScaleMotion(Motion):
    """The state is the box's centre, area and ratio of width to height, which has no speed: OC-SORT."""

    _still = np.array([False, False, False, True])
    _FIRST = np.full(4, 10.0), np.array([1e4, 1e4, 1e4, 0.0])
    _PROCESS = np.ones(4), np.array([1e-2, 1e-2, 1e-4, 0.0])
    _MEASUREMENT = np.array([1.0, 1.0, 10.0, 10.0])

    def measured(self, boxes: Floats) -> Floats:
        # In float32, as the library gets detections.
        low, high = boxes[:, :2].astype(np.float32), boxes[:, 2:].astype(np.float32)
        width, height = (high - low).T
        centre = low + (high - low) * np.float32(0.5)
        ratio = width / (height + np.float32(1e-6))
        return np.stack([centre[:, 0], centre[:, 1], width * height, ratio], axis=1).astype(np.float64)

    def boxes(self, tracks: Tracks) -> Floats:
        x, y, area, ratio = tracks["position"].T
        width = np.sqrt(np.maximum(area * ratio, 0.0))
        height = np.divide(area, width, out=np.zeros_like(width), where=width != 0)
        half = np.stack([width, height], axis=1) * 0.5
        centre = np.stack([x, y], axis=1)
        return np.concatenate([centre - half, centre + half], axis=1)

    def _first_variances(self, position: Floats) -> tuple[Any, Any]:
        del position
        return self._FIRST

    def _process_noise(self, position: Floats) -> tuple[Any, Any]:
        del position
        return self._PROCESS

    def _measurement_noise(self, position: Floats) -> Any:
        del position
        return self._MEASUREMENT

    def predict(self, tracks: Tracks, steps: Floats, tolerance: float) -> None:
        # An area does not shrink to nothing.
        vanishing = tracks["position"][:, 2] + steps[:, 0] * tracks["velocity"][:, 2] <= 0
        tracks["velocity"][vanishing, 2] = 0.0
        super().predict(tracks, steps, tolerance)
