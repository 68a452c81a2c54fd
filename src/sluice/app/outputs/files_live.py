"""Recordings in segments, clips around events, and HLS: the outputs of a stream that are files."""

from __future__ import annotations

import contextlib
import datetime
import time
import weakref
from collections import deque
from pathlib import Path
from typing import Any

import gi

gi.require_version("Gst", "1.0")
from gi.repository import Gst

from sluice.app.gst import make_element
from sluice.app.outputs.encoding import find_encoder
from sluice.app.outputs.options import ClipOptions, HlsOptions, RecordOptions
from sluice.app.outputs.relay import Relay
from sluice.app.outputs.stage import MOST_PACKETS, Stage
from sluice.app.outputs.standing import (
    Around,
    Standing,
    Tidying,
    free_path,
    last_written,
    make_file_sink,
    make_muxer,
    prune,
    safe_name,
    utc_name,
)
from sluice.elements.guard import guarded

_WAITING_PACKETS = 50  # that may wait for the disk where the source waits for it too
_MOST_WAITING = 5000  # encoded frames of a clip that may wait for the disk, those before the event included
_STALL = 10.0  # seconds beyond its end after which a clip of a stream that stands still is finished


def _parser() -> Gst.Element:
    return make_element(find_encoder()[1])


class Recorder(Standing):
    """Segments, one after another; see `RecordOptions`."""

    kind = "record"

    def __init__(self, around: Around, options: RecordOptions, every: bool) -> None:
        """Prepare it; with `every` the source waits for the disk."""
        super().__init__(around)
        self._options, self._every = options, every
        self._folder = Path(options.folder).expanduser() / safe_name(around.name)
        self._written = last_written()
        self._current: Path | None = None
        self._closed: deque[Path] = deque()  # whose sizes are still to be counted
        self._tidying = Tidying(around.hub, self._tidy)
        self._looking = Tidying(around.hub, self._look_for_current)
        self.counts |= {"segments": 0, "bytes": 0, "deleted": 0, "lost": 0}

    def make_room(self) -> None:
        """Make the folder; if it is deleted, it is made again with the next segment."""
        self._folder.mkdir(parents=True, exist_ok=True)

    def build(self) -> Stage:
        """Make the recorder."""
        options = self._options
        splitter = make_element(
            "splitmuxsink",
            muxer=make_muxer(options.container),
            sink=make_file_sink(),
            max_size_time=int((options.segment_seconds or 0) * 1e9),
            max_size_bytes=options.segment_bytes or 0,
            send_keyframe_requests=options.segment_seconds is not None and options.segment_bytes is None,
        )
        splitter.connect("format-location-full", _name_segment, weakref.ref(self))
        return Stage(
            self.around.hub,
            f"record-{self.around.name}",
            [_parser(), splitter],
            most=_WAITING_PACKETS if self._every else MOST_PACKETS,
            waits=self._every,
            on_end=self._ended,
            on_message=self.on_message,
        )

    def name_segment(self, first: Gst.Sample | None) -> str:
        """Name the next segment after the moment its first frame came; called on the recorder's own thread.

        splitmuxsink asks for the name only once it has all up to the next key frame.
        """
        self._folder.mkdir(parents=True, exist_ok=True)
        name = f"{safe_name(self.around.name)}_{utc_name(self._came(first))}.{self._options.container}"
        path = free_path(self._folder / name)
        self._written.append(path)  # before it is there: it must never be taken for an old one
        return str(path)

    def _came(self, sample: Gst.Sample | None) -> datetime.datetime | None:
        relay, buffer = self.relay, sample.get_buffer() if sample is not None else None
        came = relay.arrival(buffer.pts) if relay is not None and buffer is not None else None
        return None if came is None else datetime.datetime.fromtimestamp(came, datetime.timezone.utc)

    def on_message(self, structure: Gst.Structure) -> None:
        """Count segments, report them, and delete the oldest."""
        path = Path(structure.get_string("location") or "")
        if structure.get_name() == "splitmuxsink-fragment-opened":
            self._current = path
        elif structure.get_name() == "splitmuxsink-fragment-closed":
            self._current = None if self._current == path else self._current
            self.counts["segments"] += 1
            self._closed.append(path)
            self.around.tell("segment-finished", f"{self.around.name}: recorded {path.name}", file=str(path))
            self._tidying.ask()

    def _tidy(self) -> None:
        while self._closed:
            with contextlib.suppress(OSError):  # somebody has deleted it
                self.counts["bytes"] += self._closed.popleft().stat().st_size
        options = self._options
        kept = options.keep_segments, options.keep_bytes
        gone = prune(self._folder, f".{options.container}", *kept, self._current, self._written)
        self.counts["deleted"] += len(gone)

    def look(self) -> None:
        """Have it looked whether somebody has deleted the segment that is being written."""
        if self._current is not None and not self._looking.is_at_work:
            self._looking.ask()

    def _look_for_current(self) -> None:
        current = self._current
        if current is not None and not current.exists():
            self.around.hub.post(lambda: self._lost_segment(current))

    def _lost_segment(self, path: Path) -> None:
        """Begin a new segment in place of one that was deleted."""
        if self._current != path:
            return
        self.counts["lost"] += 1
        self.around.tell("record-lost", f"{self.around.name}: {path} was deleted", file=str(path))
        self._current = None
        self.finish()


@guarded(failure="")
def _name_segment(
    _splitter: Gst.Element, _number: int, first: Gst.Sample | None, recorder: weakref.ref[Recorder]
) -> str:
    """Name a segment. The reference is weak, since GStreamer's of a recorder would keep it alive in a circle."""
    known = recorder()
    return known.name_segment(first) if known is not None else ""


class Hls(Standing):
    """A playlist and its segments; see `HlsOptions`."""

    kind = "hls"

    def __init__(self, around: Around, options: HlsOptions, every: bool) -> None:
        """Prepare it; with `every` the source waits for the disk."""
        super().__init__(around)
        self._options, self._every = options, every
        self.folder = Path(options.folder).expanduser() / safe_name(around.name)

    def make_room(self) -> None:
        """Make the folder, and delete what an earlier run left in it."""
        self.folder.mkdir(parents=True, exist_ok=True)
        for old in [*self.folder.glob("segment*.ts"), *self.folder.glob("index.m3u8")]:
            old.unlink(missing_ok=True)

    def build(self) -> Stage:
        """Make it."""
        options = self._options
        sink = make_element(
            "hlssink2",
            location=str(self.folder / "segment%05d.ts"),
            playlist_location=str(self.folder / "index.m3u8"),
            target_duration=options.segment_seconds,
            playlist_length=options.playlist_length,
            max_files=options.keep_segments,
        )
        return Stage(
            self.around.hub,
            f"hls-{self.around.name}",
            [_parser(), sink],
            most=_WAITING_PACKETS if self._every else MOST_PACKETS,
            waits=self._every,
            on_end=self._ended,
        )


class Clips(Standing):
    """Clips around events; see `ClipOptions`. The encoder runs all the time, for the seconds before an event."""

    kind = "clips"

    def __init__(self, around: Around, options: ClipOptions) -> None:
        """Prepare it."""
        super().__init__(around)
        self._options = options
        self._folder = Path(options.folder).expanduser() / safe_name(around.name)
        self._written = last_written()
        self._relay: Relay | None = None
        self._path: Path | None = None
        self._last = self._due = 0.0
        self._until = 0
        self._starting = False  # a place for the next one is being found
        self._reasons: list[str] = []
        self._tidying = Tidying(around.hub, self._prune)
        self.counts |= {"clips": 0, "triggers": 0, "deleted": 0}

    def make_room(self) -> None:
        """Make the folder; if it is deleted, it is made again with the next clip."""
        self._folder.mkdir(parents=True, exist_ok=True)

    def tick(self) -> None:
        """Have the stream encoded, and finish a clip whose stream stands still."""
        self.count()
        if self.enabled and not self._closing and self.around.flowing and self._relay is None:
            if time.monotonic() >= self._next_try:
                try:
                    self._relay = self.around.encoded(self, self._lost)
                except Exception as error:
                    self._failed(str(error))
        elif self.stage is not None and time.monotonic() > self._due:
            self.finish()

    def switch(self, on: bool) -> None:
        """Switch it on or off; off finishes the clip and lets the encoder go."""
        self.enabled = on
        if not on:
            self.finish()
            self._relay = None
            self.around.release(self)
        self.tick()

    @property
    def idle(self) -> bool:
        """Whether nothing is being written, or about to be."""
        return super().idle and not self._starting

    def trigger(self, reason: str, at: int) -> None:
        """Begin a clip around a running time in nanoseconds, or make the one that is being written longer."""
        if self._relay is None or not self.enabled or self._closing:
            return
        options = self._options
        self.counts["triggers"] += 1
        until = at + int(options.after * 1e9)
        self._due = time.monotonic() + options.after + _STALL
        if self._starting:
            self._until = max(self._until, min(until, int(self._last)))
            if reason not in self._reasons:
                self._reasons.append(reason)
            return
        if self.stage is not None and self.stage.target is not None and not self.stage.target.ended:
            self.stage.target.extend(min(until, int(self._last)))
            if reason not in self._reasons:
                self._reasons.append(reason)
            return
        if self.stage is not None:  # one is just being finished
            self.around.hub.after(0.2, lambda: self.trigger(reason, at))
            return
        self._start(reason, at, until)

    def _start(self, reason: str, at: int, until: int) -> None:
        """Have a place for the clip found beside the hub's thread; what comes meanwhile is kept in the relay's ring."""
        assert self._relay is not None
        options, relay = self._options, self._relay
        self._reasons = [reason]
        self._last = at + options.longest * 1e9
        self._until = min(until, int(self._last))
        name = f"{safe_name(self.around.name)}_{utc_name()}_{safe_name(reason)[:40]}.{options.container}"

        def find() -> None:
            try:
                self.make_room()
                path = free_path(self._folder / name)
                self.around.hub.post(lambda: self._write(relay, path, at))
            except OSError as error:
                reason = str(error)
                self.around.hub.post(lambda: self._not_started(reason))

        self._starting = True
        self.around.hub.aside(find)

    def _not_started(self, reason: str) -> None:
        self._starting = False
        self._failed(reason)

    def _write(self, relay: Relay, path: Path, at: int) -> None:
        self._starting = False
        if not self.enabled:  # any more
            return
        self._path = path
        self._written.append(path)
        try:
            sink = make_file_sink()
            sink.set_property("location", str(path))
            chain = [_parser(), make_muxer(self._options.container), sink]
            self.stage = Stage(
                self.around.hub, f"clip-{self.around.name}", chain, most=_MOST_WAITING, on_end=self._ended
            )
        except Exception as error:
            self._failed(str(error))
            return
        self.stage.begin(relay, since=max(0, at - int(self._options.before * 1e9)), until=self._until)
        self.around.tell(
            "clip-started", f"{self.around.name}: {self._reasons[0]}", file=str(path), reason=self._reasons[0]
        )

    def _lost(self) -> None:
        self._relay = None
        self.finish()

    def _ended(self, reason: str | None) -> None:
        self.count()
        self._before = (self.counts["frames"], self.counts["dropped"])
        self.stage = None
        if reason is not None:
            self._failed(reason)
            return
        self.counts["clips"] += 1
        details: dict[str, Any] = {"file": str(self._path), "reasons": list(self._reasons)}
        self.around.tell("clip-finished", f"{self.around.name}: {self._path and self._path.name}", **details)
        self._tidying.ask()

    def _prune(self) -> None:
        options = self._options
        kept = options.keep_clips, options.keep_bytes
        current = self._path if self.stage is not None else None  # the next one may have begun
        self.counts["deleted"] += len(prune(self._folder, f".{options.container}", *kept, current, self._written))
