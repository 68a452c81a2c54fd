"""An engine without GStreamer for tests of the service, with the behaviour that `sluice.app.serve.engine` describes."""

from __future__ import annotations

import dataclasses
import itertools
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from sluice.app.sources import redact
from sluice.app.streams import EventLog, StreamPolicy, StreamState, StreamStatus
from sluice.errors import ConfigurationError


class FakeEngine:
    """Streams that play at once; one whose source holds "dead" is lost, one with "stuck" hangs when it is touched.

    A model whose name holds "bad" is refused; one with "slow" is never through with loading.
    """

    def __init__(self) -> None:
        self.events = EventLog(time.time)
        self.model = {"name": "none", "runtime": "none", "state": "ready"}
        self.model_seconds = 0.0
        self.sources: dict[str, str] = {}
        self.policies: dict[str, StreamPolicy] = {}
        self.restarts: list[str] = []
        self.questions: list[tuple[str, str | None]] = []
        self.thresholds: dict[str, Any] = {"confidence": None, "iou": None, "classes": None}
        self.hung = False
        self.release = threading.Event()
        self.stuck = threading.Event()
        self._statuses: dict[str, StreamStatus] = {}
        self._numbers = itertools.count()

    @property
    def streams(self) -> list[StreamStatus]:
        if self.hung:
            self.release.wait(60)
        return [dataclasses.replace(s, frames_in=s.frames_in + 1) for s in list(self._statuses.values())]

    def stream(self, name: str) -> StreamStatus:
        found = {stream.name: stream for stream in self.streams}
        if name not in found:
            raise ConfigurationError(f"there is no stream {name!r}; there are: {', '.join(found) or 'none'}")
        return found[name]

    def add(self, source: str | Path, *, name: str | None = None, policy: StreamPolicy | None = None) -> str:
        assert name is not None
        if name in self._statuses:
            raise ConfigurationError(f"there is a stream {name!r} already")
        if str(source).startswith("wrong:"):
            raise ConfigurationError(f"source {source!r} has an unknown scheme")
        dead = "dead" in str(source)
        state = StreamState.LOST if dead else StreamState.PLAYING
        self.sources[name] = str(source)
        self.policies[name] = policy or StreamPolicy()
        self._statuses[name] = StreamStatus(
            name, next(self._numbers), redact(str(source)), True, state, time.time(), fps=0.0 if dead else 25.0
        )
        self.events.add("stream-added", name, f"{name} was added: {source}", source=str(source))
        return name

    def remove(self, name: str) -> None:
        self._wait(name)
        del self._statuses[name]

    def restart(self, name: str) -> None:
        self._wait(name)
        self.restarts.append(name)

    def ask(self, stream: str, prompt: str | None = None) -> bool:
        self.questions.append((stream, prompt))
        return self._statuses[stream].state is StreamState.PLAYING

    def update(self, name: str, policy: StreamPolicy) -> None:
        self.policies[name] = policy

    def swap_model(self, text: str, policy: str = "beside") -> int:
        begun = self.events.add("model-loading", None, f"the model {text} is being loaded", model=text)
        if "bad" in text:
            self.events.add("model-refused", None, f"the model {text} was refused: it is bad", reason="it is bad")
        elif "slow" not in text:
            self.model = {"name": text, "runtime": "python", "state": "ready"}
            self.events.add("model-swapped", None, f"the model {text} runs", model=text, thresholds=self.thresholds)
        return begun.number

    def set_thresholds(self, **changes: Any) -> None:
        wanted = {**self.thresholds, **changes}
        if "unicorn" in (wanted["classes"] or ()):
            self.events.add("model-refused", None, "there is no label 'unicorn'", reason="there is no label 'unicorn'")
        else:
            self.thresholds = wanted
            name = self.model["name"]
            self.events.add("model-swapped", None, "the model runs", model=name, thresholds=wanted)

    def change(self, name: str, **numbers: Any) -> None:
        """Have other numbers shown of a stream."""
        self._statuses[name] = dataclasses.replace(self._statuses[name], **numbers)

    def _wait(self, name: str) -> None:
        if "stuck" in self.sources[name]:
            self.stuck.set()
            self.release.wait(60)


class FakePictures:
    """Gives a new picture every 20 ms to everybody who subscribed, and counts how long that takes."""

    webrtc_available = False

    def __init__(self) -> None:
        self.subscribers: dict[str, list[Callable[[bytes], None]]] = {}
        self.clips: list[tuple[str, str]] = []
        self.enabled: dict[tuple[str, str], bool] = {}
        self.slowest = 0.0
        self.made = 0
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._make, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._stop.set()
        self._thread.join(5)

    def snapshot(self, name: str) -> bytes | None:
        return None if name == "dark" else self._jpeg()

    def subscribe_mjpeg(self, name: str, callback: Callable[[bytes], None]) -> Callable[[], None]:
        if name == "gone":
            raise ConfigurationError("there is no stream 'gone'")
        with self._lock:
            self.subscribers.setdefault(name, []).append(callback)

        def unsubscribe() -> None:
            with self._lock:
                self.subscribers[name].remove(callback)

        return unsubscribe

    def webrtc_answer(self, name: str, offer: str) -> tuple[str, str]:
        if not offer.startswith("v=0"):
            raise ConfigurationError("this is no SDP offer")
        return "session-1", "v=0\r\n"

    def webrtc_close(self, session: str) -> None:
        if session != "session-1":
            raise ConfigurationError(f"there is no session {session!r}")

    def names(self) -> list[str]:
        return ["tiled"]

    def clip(self, name: str, reason: str = "request") -> None:
        self.clips.append((name, reason))

    def enable(self, name: str, output: str, on: bool) -> None:
        if output == "hls":
            raise ConfigurationError(f"{name}: hls is not configured")
        self.enabled[name, output] = on

    def rtsp_url(self, name: str) -> str | None:
        return f"rtsp://viewer:secret@127.0.0.1:8554/{name}"

    def stats(self) -> dict[str, dict[str, int]]:
        return {"lobby": {"frames": 7}}

    def watched(self, name: str) -> int:
        with self._lock:
            return len(self.subscribers.get(name, []))

    def _jpeg(self) -> bytes:
        picture = np.full((48, 64, 3), self.made % 256, np.uint8)
        return cv2.imencode(".jpg", picture)[1].tobytes()

    def _make(self) -> None:
        while not self._stop.wait(0.02):
            self.made += 1
            jpeg = self._jpeg()
            with self._lock:
                callbacks = [callback for found in self.subscribers.values() for callback in found]
            begun = time.monotonic()
            for callback in callbacks:
                callback(jpeg)
            self.slowest = max(self.slowest, time.monotonic() - begun)
