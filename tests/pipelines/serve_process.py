"""`sluice serve` as a process of its own, for tests that look at it from outside."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import httpx

from waiting import PATIENCE, until


def corner_model(name: str = "corner", side: int = 16) -> str:
    """The text of a model's file: on each frame one object of that name, a square of so many pixels near the corner."""
    return f"""
from sluice import Detections

class {name.capitalize()}:
    labels = ["{name}"]

    def infer(self, frames):
        return [Detections(xyxy=[[4, 4, {4 + side}, {4 + side}]], scores=[0.9], class_ids=[0]) for _ in frames]
"""


class ServeProcess:
    """A service.

    Attributes:
        url: where it is.
        output: what it printed so far, on both streams.
    """

    def __init__(
        self,
        config: Path,
        environment: dict[str, str] | None = None,
        *,
        patience: float = PATIENCE,
        verbose: bool = True,
        processes: int = 1,
    ) -> None:
        """Start it, and wait until it takes streams, for so many seconds at most."""
        options = ["--verbose"] if verbose else []
        options += ["--processes", str(processes)] if processes > 1 else []
        self.output = ""
        self.url = ""
        self._process = subprocess.Popen(
            [sys.executable, "-m", "sluice.app.cli", "serve", str(config), *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=environment,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        try:
            until(lambda: self.url or self.ended, seconds=patience)
            assert self.url, self.output
            until(lambda: self.ended or self.status("/readyz") == 200, seconds=patience)
            assert not self.ended, self.output
        except BaseException:
            self._process.kill()
            raise

    @property
    def ended(self) -> bool:
        return self._process.poll() is not None

    @property
    def pid(self) -> int:
        return self._process.pid

    def status(self, path: str) -> int:
        try:
            return httpx.get(self.url + path, timeout=PATIENCE).status_code
        except httpx.TransportError:
            return 0

    def get(self, path: str) -> Any:
        answer = httpx.get(self.url + path, timeout=PATIENCE)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def streams(self) -> dict[str, dict[str, Any]]:
        return {stream["name"]: stream for stream in self.get("/api/streams")["streams"]}

    def stop(self, number: int = signal.SIGTERM) -> int:
        """End it by a signal and return the exit status."""
        if not self.ended:
            self._process.send_signal(number)
        try:
            return self._process.wait(PATIENCE)
        finally:
            self._process.kill()
            self._reader.join(PATIENCE)

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.output += line
            if line.startswith("sluice: http"):
                self.url = line.split()[1].rstrip("/")
