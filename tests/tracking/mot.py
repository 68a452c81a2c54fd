"""Reads MOT detection files, and runs the ``trackers`` library directly on them."""

from pathlib import Path

import numpy as np
import supervision
import trackers

Frames = dict[int, np.ndarray]


def read_detections(path: Path, last_frame: int | None = None) -> Frames:
    """Return frame number (from 1, none left out) -> float32 [N, 5]: left, top, width, height, confidence."""
    table = np.loadtxt(path, delimiter=",", dtype=np.float64, ndmin=2)
    numbers = table[:, 0].astype(int)
    last = min(last_frame or numbers.max(), numbers.max())
    return {number: table[numbers == number][:, 2:7].astype(np.float32) for number in range(1, last + 1)}


def run_library(frames: Frames, class_name: str, times: dict[int, float] | None = None, **options) -> list[np.ndarray]:
    """Return, for each frame, the library's id of every row (-1 for rows without a track), and nothing of our code."""
    tracker = getattr(trackers, class_name)(**options)
    ids = []
    for number, rows in frames.items():
        detections = supervision.Detections(
            xyxy=np.concatenate([rows[:, :2], rows[:, :2] + rows[:, 2:4]], axis=1),
            confidence=rows[:, 4],
            class_id=np.zeros(len(rows), dtype=int),
            data={"row": np.arange(len(rows))},
        )
        time = None if times is None else times[number]
        result = tracker.update(detections, timestamp=time)
        of_rows = np.full(len(rows), -1, dtype=int)
        if len(result):
            of_rows[result.data["row"]] = result.tracker_id
        ids.append(of_rows)
    return ids
