"""The trackers of all streams of one element: made at a stream's first frame, freed when it ends."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from sluice.errors import ConfigurationError
from sluice.tracking.algorithms import DEFAULTS, THRESHOLDS, algorithm, make_tracker, with_defaults
from sluice.tracking.batched import BatchedStream, BatchedTracker
from sluice.tracking.library import LibraryTracker
from sluice.tracking.observations import ObservationTracker
from sluice.tracking.records import Detected, IntArray, Settings, StreamTracker
from sluice.tracking.rules import Rules, rules_of

# With ids unique over all streams, a stream's ids begin at its number times this: the upper half of the 64 bits tells
# the stream, as the upper half of the ids of NVIDIA's tracker tells the tracker.
_IDS_PER_STREAM = 1 << 32


class ResetMode(enum.IntFlag):
    """nvtracker's ``tracking-id-reset-mode``."""

    NEW_ID_AFTER_STREAM_RESET = 1
    FROM_ZERO_AFTER_EOS = 2


def batched_rules(settings: Settings) -> Rules | None:
    """Return the rules for tracking all streams in one pass, or None for the library.

    Raises:
        ConfigurationError: the algorithm or an option of it is not right, or has not the implementation asked for.
    """
    row = algorithm(settings.algorithm)
    checkable = settings.options.keys() - set(THRESHOLDS)  # the library takes any thresholds
    if row.class_name is not None and (checkable or settings.algorithm not in DEFAULTS):
        make_tracker(settings.algorithm, settings.options)  # which checks the options
    rules = rules_of(settings.algorithm, with_defaults(settings.algorithm, settings.options))
    if settings.implementation == "library":
        if row.class_name is None:
            raise ConfigurationError(f"implementation=library: the trackers library has no {settings.algorithm}")
        return None
    if rules is None and (settings.implementation == "batched" or row.class_name is None):
        raise ConfigurationError(
            f"implementation=batched: {settings.algorithm} with {dict(settings.options)} has none; there is one for "
            "bytetrack, sort, ocsort, iou, deepsort, and botsort with enable_cmc=false, with thresholds above 0"
        )
    return rules


def batched_tracker(settings: Settings, rules: Rules) -> BatchedTracker:
    """Return the tracker of all streams for some rules."""
    return (BatchedTracker if rules.observations is None else ObservationTracker)(settings, rules)


def stream_tracker(settings: Settings, *, first_id: int = 0) -> StreamTracker:
    """Return a tracker for one stream alone.

    Raises:
        ConfigurationError: as `batched_rules`.
    """
    rules = batched_rules(settings)
    if rules is None:
        return LibraryTracker(settings, first_id=first_id)
    return BatchedStream(batched_tracker(settings, rules), first_id=first_id)


class StreamTrackers:
    """One ``StreamTracker`` per stream, by the stream's number (``pad_index``).

    One stream's frames never touch another stream's tracks. What is left of an ended stream is one whole number, the
    next id it would give, until ``forget``.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        reset_mode: ResetMode = ResetMode.NEW_ID_AFTER_STREAM_RESET,
        global_ids: bool = False,
    ) -> None:
        """Start with no streams.

        Args:
            settings: what defines a tracker.
            reset_mode: what a stream's reset and end do to its ids.
            global_ids: ids are unique over all streams (stream << 32 | n) instead of per stream (n).

        Raises:
            ConfigurationError: the algorithm or an option of it is not right.
        """
        self._settings = settings
        self._reset_mode = reset_mode
        self._global_ids = global_ids
        self._active: dict[int, StreamTracker] = {}
        self._given: dict[int, int] = {}
        self._tracks_ended_streams = 0
        rules = batched_rules(settings)
        self._batched = None if rules is None else batched_tracker(settings, rules)

    def __len__(self) -> int:
        """Return how many streams hold tracks at present."""
        return len(self._active)

    @property
    def tracks_started(self) -> int:
        """How many tracks have been given an id, over all streams."""
        return self._tracks_ended_streams + sum(tracker.tracks_started for tracker in self._active.values())

    def of(self, stream: int) -> StreamTracker:
        """Return the stream's tracker, made at its first frame; ids go on where the stream's last tracker ended."""
        tracker = self._active.get(stream)
        if tracker is None:
            first = stream * _IDS_PER_STREAM if self._global_ids else 0
            first += self._given.get(stream, 0)
            if self._batched is not None:
                tracker = BatchedStream(self._batched, first_id=first)
            else:
                tracker = LibraryTracker(self._settings, first_id=first)
            self._active[stream] = tracker
        return tracker

    def update(self, frames: Sequence[tuple[StreamTracker, Detected, npt.NDArray[np.uint8] | None]]) -> list[IntArray]:
        """Track one frame of each of some streams; see `StreamTracker.update`.

        Args:
            frames: trackers of `of`, none of them twice, each with its frame's detections and picture.
        """
        if self._batched is None:
            return [tracker.update(rows, image) for tracker, rows, image in frames]
        batched: Any = [(tracker, rows) for tracker, rows, _ in frames]
        return self._batched.update(batched) if frames else []

    def change(self, settings: Settings) -> None:
        """Go on with the tracks there are by other options of the same algorithm.

        Raises:
            ConfigurationError: the algorithm is another one, or has no batched form, whose tracks alone can go on.
        """
        rules = batched_rules(settings)
        same = (settings.algorithm, settings.class_aware, settings.timestamps) == (
            self._settings.algorithm,
            self._settings.class_aware,
            self._settings.timestamps,
        )
        if self._batched is None or rules is None or not same:
            raise ConfigurationError(
                f"tracks of {self._settings.algorithm} cannot go on as those of {settings.algorithm}; while playing, "
                "only the options of a batched algorithm can change"
            )
        self._settings = settings
        self._batched.change_rules(settings, rules)

    def reset(self, stream: int) -> None:
        """The stream starts anew (``nv-stream-reset``): with NEW_ID_AFTER_STREAM_RESET its tracks end, ids go on."""
        if ResetMode.NEW_ID_AFTER_STREAM_RESET in self._reset_mode:
            self._free(stream)

    def end(self, stream: int) -> None:
        """The stream has ended (``nv-stream-eos``): its tracks end; FROM_ZERO_AFTER_EOS starts its ids at 0 again."""
        self._free(stream)
        if ResetMode.FROM_ZERO_AFTER_EOS in self._reset_mode:
            self._given.pop(stream, None)

    def forget(self, stream: int) -> None:
        """The stream is gone (``nv-pad-deleted``): nothing of it stays."""
        self._free(stream)
        self._given.pop(stream, None)

    def clear(self) -> None:
        """All tracks of all streams end (flush, seek); ids go on."""
        for stream in list(self._active):
            self._free(stream)

    def _free(self, stream: int) -> None:
        tracker = self._active.pop(stream, None)
        if tracker is not None:
            tracker.end_tracks()
            self._tracks_ended_streams += tracker.tracks_started
            self._given[stream] = self._given.get(stream, 0) + tracker.tracks_started
