"""The numbers of the last minutes, so that a page that is opened shows a chart at once."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass

from sluice.app.serve.engine import Engine

INTERVAL = 2.0
"""Seconds between two samples."""
KEPT = 150
"""Samples: five minutes."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Sample:
    """All streams at one moment.

    Attributes:
        time: in seconds since 1970.
        fps: frames per second of each stream by its name.
        dropped: frames dropped so far, of all streams there were.
    """

    time: float
    fps: Mapping[str, float]
    dropped: int


class History:
    """Samples the engine on a thread of its own, so that a slow answer delays nobody."""

    def __init__(self, engine: Engine) -> None:
        """Sample this engine once started."""
        self._engine = engine
        self._samples: deque[Sample] = deque(maxlen=KEPT)
        self._stop = threading.Event()

    def start(self) -> None:
        """Begin to sample."""
        threading.Thread(target=self._run, name="sluice-history", daemon=True).start()

    def stop(self) -> None:
        """Sample no more."""
        self._stop.set()

    def samples(self) -> list[Sample]:
        """The samples, oldest first."""
        return list(self._samples.copy())

    def sample(self, now: float) -> None:
        """Take one sample."""
        streams = self._engine.streams
        fps = {stream.name: round(stream.fps, 2) for stream in streams}
        self._samples.append(Sample(round(now, 2), fps, sum(stream.dropped for stream in streams)))

    def _run(self) -> None:
        while not self._stop.wait(INTERVAL):
            try:
                self.sample(time.time())
            except Exception:  # the chart has a gap; the service goes on
                _log.exception("the streams could not be sampled")
