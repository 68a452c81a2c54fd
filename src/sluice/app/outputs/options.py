"""What is made of the annotated streams of a pipeline that runs for long, checked before any element exists."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from sluice.errors import ConfigurationError

Container = Literal["mp4", "mkv"]
OUTPUTS = ("record", "clips", "hls", "rtsp")
"""The outputs that can be switched on and off per stream while it runs; viewers come and go by themselves."""
MOST_PORT = 65_535


def _check(options: object, name: str, least: float, *, none: bool = False) -> None:
    value = getattr(options, name)
    if none and value is None:
        return
    if not isinstance(value, int | float) or isinstance(value, bool) or not least <= value < float("inf"):
        raise ConfigurationError(f"{type(options).__name__}: {name} is {value!r}; it is a number from {least:g} on")


def _check_container(options: RecordOptions | ClipOptions) -> None:
    if options.container not in ("mp4", "mkv"):
        raise ConfigurationError(
            f"{type(options).__name__}: container is {options.container!r}; it is 'mp4' (fragmented) or 'mkv'"
        )


@dataclass(frozen=True)
class RecordOptions:
    """Recordings in segments, one after another without a gap; each can be played even where the process was killed.

    Attributes:
        folder: where they go, in one folder per stream.
        container: "mp4", written in fragments of a second, or "mkv".
        segment_seconds: length of a segment; None: no limit.
        segment_bytes: size of a segment; None: no limit.
        keep_segments: finished segments kept per stream, the oldest are deleted; None: all.
        keep_bytes: bytes of finished segments kept per stream; None: no limit.
        delivery: "every" waits for the disk, for sources that can wait; "freshest" loses what the disk does not take;
            "auto": every for files, freshest for live sources.
    """

    folder: Path
    container: Container = "mp4"
    segment_seconds: float | None = 60.0
    segment_bytes: int | None = None
    keep_segments: int | None = None
    keep_bytes: int | None = None
    delivery: Literal["auto", "every", "freshest"] = "auto"

    def __post_init__(self) -> None:
        """Check the values; raises ConfigurationError by name."""
        _check_container(self)
        _check(self, "segment_seconds", 0.5, none=True)
        _check(self, "segment_bytes", 10_000, none=True)
        _check(self, "keep_segments", 1, none=True)
        _check(self, "keep_bytes", 1, none=True)
        if self.delivery not in ("auto", "every", "freshest"):
            raise ConfigurationError(f"RecordOptions: delivery is {self.delivery!r}; it is auto, every or freshest")


@dataclass(frozen=True)
class ClipOptions:
    """Clips around events. What triggers them besides `LiveOutputs.clip`: objects of a class, and lines crossed.

    Attributes:
        folder: where they go, in one folder per stream.
        container: "mp4", written in fragments of a second, or "mkv".
        before: seconds before the trigger that are in the clip, from the key frame before.
        after: seconds after the last trigger; a trigger during a clip makes it longer.
        longest: seconds after which a clip ends whatever happens.
        classes: labels of objects that trigger.
        confidence: least confidence of these, 0..1.
        lines: names of line crossings of sluiceanalytics that trigger.
        keep_clips: finished clips kept per stream, the oldest are deleted; None: all.
        keep_bytes: bytes of finished clips kept per stream; None: no limit.
        ring_bytes: the most memory per stream for the seconds before.
    """

    folder: Path
    container: Container = "mp4"
    before: float = 5.0
    after: float = 5.0
    longest: float = 300.0
    classes: tuple[str, ...] = ()
    confidence: float = 0.0
    lines: tuple[str, ...] = ()
    keep_clips: int | None = None
    keep_bytes: int | None = None
    ring_bytes: int = 64 * 2**20

    def __post_init__(self) -> None:
        """Check the values; raises ConfigurationError by name."""
        _check_container(self)
        for name in ("before", "after", "confidence"):
            _check(self, name, 0)
        _check(self, "longest", 1)
        _check(self, "keep_clips", 1, none=True)
        _check(self, "keep_bytes", 1, none=True)
        _check(self, "ring_bytes", 2**20)
        if isinstance(self.classes, str) or isinstance(self.lines, str):
            raise ConfigurationError("ClipOptions: classes and lines are lists of names, not one text")


@dataclass(frozen=True)
class HlsOptions:
    """HTTP live streaming: ``index.m3u8`` and its segments, in one folder per stream.

    Attributes:
        folder: where they go; any web server can give them out from there.
        segment_seconds: length of a segment.
        playlist_length: segments in the playlist.
        keep_segments: segments kept on the disk, at least as many as are in the playlist.
    """

    folder: Path
    segment_seconds: int = 4
    playlist_length: int = 5
    keep_segments: int = 10

    def __post_init__(self) -> None:
        """Check the values; raises ConfigurationError by name."""
        _check(self, "segment_seconds", 1)
        _check(self, "playlist_length", 1)
        _check(self, "keep_segments", self.playlist_length)


@dataclass(frozen=True)
class RtspOptions:
    """An RTSP server with one path per stream: ``rtsp://address:port/NAME``.

    Attributes:
        address: what it listens on; the loopback unless told otherwise.
        port: where; 0: a free one.
        user: who may view; None: everybody.
        password: the user's.
        clients: the most sessions at a time.
    """

    address: str = "127.0.0.1"
    port: int = 8554
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    clients: int = 64

    def __post_init__(self) -> None:
        """Check the values; raises ConfigurationError by name."""
        _check(self, "port", 0)
        if self.port > MOST_PORT:
            raise ConfigurationError(f"RtspOptions: port is {self.port}; it is a number from 0 to {MOST_PORT}")
        _check(self, "clients", 1)
        if (self.user is None) != (self.password is None):
            raise ConfigurationError("RtspOptions: user and password go together; give both or neither")


@dataclass(frozen=True)
class PictureOptions:
    """JPEG pictures of the annotated streams, made only while somebody wants them.

    Attributes:
        fps: the most pictures per second and stream.
        quality: of JPEG, 1..100.
        viewers: the most subscriptions per stream.
    """

    fps: int = 10
    quality: int = 80
    viewers: int = 64

    def __post_init__(self) -> None:
        """Check the values; raises ConfigurationError by name."""
        _check(self, "fps", 1)
        _check(self, "quality", 1)
        _check(self, "viewers", 1)
        if self.quality > 100:
            raise ConfigurationError(f"PictureOptions: quality is {self.quality}; it is a number from 1 to 100")


@dataclass(frozen=True)
class WebRtcOptions:
    """WebRTC to browsers.

    Attributes:
        viewers: the most connections at a time.
        stun: ``stun://host:port`` for viewers behind address translation; None: this network only.
    """

    viewers: int = 32
    stun: str | None = None

    def __post_init__(self) -> None:
        """Check the values; raises ConfigurationError by name."""
        _check(self, "viewers", 1)
        if self.stun is not None and not self.stun.startswith("stun://"):
            raise ConfigurationError(f"WebRtcOptions: stun is {self.stun!r}; right is stun://HOST:PORT")


@dataclass(frozen=True)
class OutputOptions:
    """All live outputs; those that are None are off.

    Attributes:
        record: recordings in segments.
        clips: clips around events.
        hls: HTTP live streaming.
        rtsp: the RTSP server.
        pictures: snapshots and MJPEG.
        webrtc: WebRTC.
        tiled: whether there is also a view of all streams for viewers, under the name "tiled".
        tiled_size: its width and height in pixels.
        overlay: whether boxes, labels and masks are drawn.
        key_seconds: the most seconds between key frames, which is how long a late viewer may wait.
        bitrate: of the encoded streams in bit/s; None: constant quality.
    """

    record: RecordOptions | None = None
    clips: ClipOptions | None = None
    hls: HlsOptions | None = None
    rtsp: RtspOptions | None = None
    pictures: PictureOptions | None = field(default_factory=PictureOptions)
    webrtc: WebRtcOptions | None = None
    tiled: bool = False
    tiled_size: tuple[int, int] = (1280, 720)
    overlay: bool = True
    key_seconds: float = 2.0
    bitrate: int | None = None

    @property
    def folders(self) -> dict[str, Path]:
        """The folders of the outputs that write files, by the outputs' names."""
        parts = {"record": self.record, "clips": self.clips, "hls": self.hls}
        return {name: part.folder for name, part in parts.items() if part is not None}

    @property
    def key_interval(self) -> float:
        """Seconds between key frames: as many go into a segment as are needed, so that segments can end in time."""
        record, hls = self.record, self.hls
        segments = [record.segment_seconds if record else None, hls.segment_seconds if hls else None]
        lengths = [length / math.ceil(length / self.key_seconds) for length in segments if length is not None]
        return min(lengths, default=self.key_seconds)

    def __post_init__(self) -> None:
        """Check the values; raises ConfigurationError by name."""
        _check(self, "key_seconds", 0.1)
        _check(self, "bitrate", 10_000, none=True)
        if len(self.tiled_size) != 2 or min(self.tiled_size) < 16 or any(side % 2 for side in self.tiled_size):
            raise ConfigurationError(
                f"OutputOptions: tiled_size is {self.tiled_size}; it is an even width and height, as (1280, 720)"
            )
