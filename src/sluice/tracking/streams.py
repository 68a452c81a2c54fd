"""The trackers of all streams of one element: made at a stream's first frame, freed when it ends."""

from __future__ import annotations

import enum

from sluice.tracking.stream import Settings, StreamTracker

# With ids unique over all streams, a stream's ids begin at its number times this: the upper half of the 64 bits tells
# the stream, as the upper half of the ids of NVIDIA's tracker tells the tracker.
_IDS_PER_STREAM = 1 << 32


class ResetMode(enum.IntFlag):
    """nvtracker's ``tracking-id-reset-mode``."""

    NEW_ID_AFTER_STREAM_RESET = 1
    FROM_ZERO_AFTER_EOS = 2


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
        StreamTracker(settings)

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
            tracker = StreamTracker(self._settings, first_id=first + self._given.get(stream, 0))
            self._active[stream] = tracker
        return tracker

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
            self._tracks_ended_streams += tracker.tracks_started
            self._given[stream] = self._given.get(stream, 0) + tracker.tracks_started
