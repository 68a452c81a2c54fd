"""The numbers of the last minutes, so that a page that is opened shows a chart at once."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sluice.app.pace import WINDOW, Pace
from sluice.app.serve.engine import Engine
from sluice.app.streams import StreamStatus

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
        self._paces: deque[Pace] = deque(maxlen=1 + round(WINDOW / INTERVAL))
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

    @property
    def advice(self) -> str:
        """What helps where the model did not keep up with the streams lately; "" where it did."""
        paces = list(self._paces.copy())
        return paces[-1].advice_since(paces[0]) if paces else ""

    def sample(self, now: float) -> None:
        """Take one sample."""
        streams = self._engine.streams
        fps = {stream.name: round(stream.fps, 2) for stream in streams}
        self._samples.append(Sample(round(now, 2), fps, sum(stream.dropped for stream in streams)))
        self._paces.append(_pace(streams, self._engine.model_seconds))

    def _run(self) -> None:
        while not self._stop.wait(INTERVAL):
            try:
                self.sample(time.time())
            except Exception:  # the chart has a gap; the service goes on
                _log.exception("the streams could not be sampled")


def _pace(streams: Sequence[StreamStatus], busy: float) -> Pace:
    return Pace(
        time.monotonic(),
        busy,
        {stream.name: (stream.frames_in, stream.overtaken) for stream in streams},
        {stream.name for stream in streams if stream.live and stream.waiting > 1},
    )
