"""What the service needs of the pipeline and of its outputs; `sluice.Pipeline` and `LiveOutputs` are made so."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from sluice.app.options import UNCHANGED, Unchanged
from sluice.app.streams import EventLog, StreamPolicy, StreamStatus


class Engine(Protocol):
    """A pipeline whose streams come and go. Every method may wait, and is called on threads that may."""

    @property
    def streams(self) -> Sequence[StreamStatus]:
        """All streams that were not removed."""

    def stream(self, name: str) -> StreamStatus:
        """One stream; a ConfigurationError where there is none of that name."""

    @property
    def events(self) -> EventLog:
        """What happened."""

    @property
    def model(self) -> Mapping[str, Any]:
        """The model's name, runtime and state."""

    @property
    def model_seconds(self) -> float:
        """Seconds that all calls of the model took so far."""

    def add(self, source: str | Path, *, name: str | None = None, policy: StreamPolicy | None = None) -> str:
        """Add a stream; return its name."""

    def remove(self, name: str) -> None:
        """Take a stream out."""

    def restart(self, name: str) -> None:
        """Open a stream anew."""

    def ask(self, stream: str, prompt: str | None = None) -> bool:
        """Have the slow model asked about a stream; False where no frame of it has come by yet."""

    def update(self, name: str, policy: StreamPolicy) -> None:
        """Change how a stream is treated."""

    def swap_model(self, text: str, policy: str = "beside") -> int:
        """Change the model; return the number of the event "model-loading", behind which is told how that ended."""

    def set_thresholds(
        self,
        confidence: float | Unchanged | None = UNCHANGED,
        iou: float | Unchanged | None = UNCHANGED,
        classes: Sequence[int | str] | Unchanged | None = UNCHANGED,
    ) -> None:
        """Change which detections count; None: the model's own.

        The event "model-swapped" has all thresholds of the model that runs then in its details.
        """


class Pictures(Protocol):
    """Live pictures of the streams, with what is drawn on them."""

    @property
    def webrtc_available(self) -> bool:
        """Whether WebRTC can be used here."""

    def snapshot(self, name: str) -> bytes | None:
        """Return the newest picture of a stream as JPEG; None while there is none."""

    def subscribe_mjpeg(self, name: str, callback: Callable[[bytes], None]) -> Callable[[], None]:
        """Have each picture passed to a function that returns at once; return what ends it."""

    def names(self) -> list[str]:
        """Return what there are pictures of: streams, and the view of all of them."""

    def clip(self, name: str, reason: str = "request") -> None:
        """Write a clip around this moment."""

    def enable(self, name: str, output: str, on: bool) -> None:
        """Switch an output of a stream."""

    def rtsp_url(self, name: str) -> str | None:
        """Return where a stream can be viewed by RTSP."""

    def stats(self) -> dict[str, dict[str, int]]:
        """Return what was made of each stream."""

    def webrtc_answer(self, name: str, offer: str) -> tuple[str, str]:
        """Begin a WebRTC session; return its id and the answer, with all candidates."""

    def webrtc_close(self, session: str) -> None:
        """End a session."""
