"""What a stream is doing, in words that people and programs can act on."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Literal

CaptureTime = Literal["rtcp", "arrival", "none"]


class StreamState(str, Enum):
    """The states of a stream. While a faulty one waits for its next attempt it keeps the name of its fault."""

    CONNECTING = "connecting"
    """It was opened and has given no frame yet."""
    PLAYING = "playing"
    """Frames come."""
    STALLED = "stalled"
    """It is open, and no frame has come for too long."""
    LOST = "lost"
    """The connection broke, or the other side ended it."""
    UNAUTHORIZED = "unauthorized"
    """User name or password are missing or wrong."""
    UNKNOWN_HOST = "unknown-host"
    """There is no host of that name."""
    REFUSED = "refused"
    """The host cannot be reached, or nothing listens at that port."""
    NOT_FOUND = "not-found"
    """The host answers and has no such stream, or there is no such file or device."""
    UNSUPPORTED = "unsupported"
    """Nothing here decodes it, or it holds no video."""
    CORRUPT = "corrupt"
    """What comes is damaged beyond decoding."""
    FORMAT_CHANGED = "format-changed"
    """The pictures' size changed; it goes on."""
    CODEC_CHANGED = "codec-changed"
    """It is encoded in another way than before, in mid-stream or since it was opened again; it goes on."""
    CLOCK_JUMPED = "clock-jumped"
    """The sender's clock jumped; it goes on with its times continued."""
    ENDED = "ended"
    """It came to its end."""
    FAILED = "failed"
    """It is not opened again."""
    REMOVED = "removed"
    """It was taken out."""

    def __str__(self) -> str:
        return self.value

    @property
    def is_final(self) -> bool:
        """Whether nothing more comes unless the stream is restarted."""
        return self in (StreamState.ENDED, StreamState.FAILED, StreamState.REMOVED)

    @property
    def is_fault(self) -> bool:
        """Whether the source gives no frames and this is why."""
        return not self.is_final and self not in _WORKING

    @property
    def is_passing(self) -> bool:
        """Whether it tells of a change that the stream survives, and passes by itself."""
        return self in (StreamState.FORMAT_CHANGED, StreamState.CODEC_CHANGED, StreamState.CLOCK_JUMPED)


_WORKING = (
    StreamState.CONNECTING,
    StreamState.PLAYING,
    StreamState.FORMAT_CHANGED,
    StreamState.CODEC_CHANGED,
    StreamState.CLOCK_JUMPED,
)


@dataclass(frozen=True)
class StreamStatus:
    """One stream at one moment.

    Attributes:
        name: unique within the pipeline.
        number: the mux pad's, and the frames' ``source_id`` and ``pad_index``; never given to another stream.
        uri: where it comes from, without credentials.
        live: whether frames come at the pace of the outside world.
        state: what it is doing.
        since: when the state began, in seconds since 1970 (UTC).
        reason: why it is in this state, for people; "" where there is nothing to say.
        frames_in: frames that left its decoder, over all restarts.
        frames_out: frames that were seen behind the model and the tracker.
        dropped: frames left out by policy: freshest delivery, target rate, a program that did not take them.
        overtaken: those of them that gave way to newer ones in front of the model.
        fps: frames per second that came lately.
        reconnects: how often it was opened again.
        decoder: the decoding element, "" before it is known.
        width: of the decoded picture in pixels, 0 before it is known.
        height: as width.
        last_frame_age: seconds since the last frame came from the decoder; None before the first.
        next_retry: when it is opened again, in seconds since 1970 (UTC); None where no attempt is due.
        capture_time_from: where the frames' ``ntp_timestamp`` comes from: "rtcp" the camera's clock, as its sender
            reports say, "arrival" this machine's clock, "none" not known yet.
        waiting: frames that wait in front of the batches now.
    """

    name: str
    number: int
    uri: str
    live: bool
    state: StreamState
    since: float
    reason: str = ""
    frames_in: int = 0
    frames_out: int = 0
    dropped: int = 0
    overtaken: int = 0
    fps: float = 0.0
    reconnects: int = 0
    decoder: str = ""
    width: int = 0
    height: int = 0
    last_frame_age: float | None = None
    next_retry: float | None = None
    capture_time_from: CaptureTime = "none"
    waiting: int = 0
