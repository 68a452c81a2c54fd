"""Where the tracks of each stream have been lately."""

import math
from collections import OrderedDict

import numpy as np
import numpy.typing as npt

from sluice.drawing.palette import track_color
from sluice.drawing.shapes import Trail

UNTRACKED = 0xFFFFFFFFFFFFFFFF
"""The id of an object that no tracker has seen (UNTRACKED_OBJECT_ID of nvdsmeta.h)."""

MAX_TRACKS = 1024
"""The most tracks of a stream whose way is remembered; those seen longest ago are forgotten first."""

_Points = list[tuple[float, float]]


class _Stream:
    def __init__(self) -> None:
        self.frame = 0
        # Of each track the last frame it was seen in and its places; the track seen longest ago comes first.
        self.tracks: OrderedDict[int, tuple[int, _Points]] = OrderedDict()


class Trails:
    """Remembers the last places of each track of each stream, within fixed bounds. Not for two threads at once."""

    def __init__(self) -> None:
        self._streams: dict[int, _Stream] = {}

    def update(
        self, stream: int, ids: npt.NDArray[np.uint64], boxes: npt.NDArray[np.float32], length: int
    ) -> list[Trail]:
        """Take in one frame of a stream and return the ways of the tracks in it, at most `length` points each.

        A track is forgotten once it has not been seen for `length` frames.

        Args:
            stream: number of the stream.
            ids: uint64 [N]; `UNTRACKED` objects have no way.
            boxes: float32 [N,4] left, top, width, height in pixels; the centre is the place. Those that are not finite
                are left out.
            length: points of a way, at least 2.
        """
        known = self._streams.setdefault(stream, _Stream())
        known.frame += 1
        trails = []
        for number, (left, top, width, height) in zip(ids.tolist(), boxes.tolist(), strict=True):
            place = left + width / 2.0, top + height / 2.0
            if number == UNTRACKED or not all(map(math.isfinite, place)):
                continue
            points = [*known.tracks.get(number, (0, []))[1], place][-length:]
            known.tracks[number] = known.frame, points
            known.tracks.move_to_end(number)
            if len(points) > 1:
                red, green, blue, _ = track_color(number)
                trails.append(Trail(tuple(points), 2, (red / 255.0, green / 255.0, blue / 255.0, 1.0)))
        self._forget_old(known, length)
        return trails

    def forget(self, stream: int) -> None:
        """Forget a stream's tracks, if there are any."""
        self._streams.pop(stream, None)

    def clear(self) -> None:
        """Forget everything."""
        self._streams.clear()

    @staticmethod
    def _forget_old(known: _Stream, length: int) -> None:
        while known.tracks:
            first = next(iter(known.tracks))
            if known.frame - known.tracks[first][0] < length and len(known.tracks) <= MAX_TRACKS:
                break
            del known.tracks[first]
