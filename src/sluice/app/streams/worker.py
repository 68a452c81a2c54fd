"""Work that may take long, done in order: opening and closing a source must block neither a caller nor the engine."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable

_log = logging.getLogger(__name__)


class Worker:
    """Does what it is given one after the other, on a daemon thread that lives only while there is work."""

    def __init__(self, name: str) -> None:
        """Prepare a worker; `name` is for its thread."""
        self._name = name
        self._work: deque[Callable[[], None]] = deque()
        self._changed = threading.Condition()
        self._running = False

    def submit(self, work: Callable[[], None]) -> None:
        """Have something done behind everything submitted before; returns at once."""
        with self._changed:
            self._work.append(work)
            if self._running:
                return
            self._running = True
        threading.Thread(target=self._run, name=self._name, daemon=True).start()

    def join(self, seconds: float) -> bool:
        """Wait until nothing is left to do, at most so long; return whether that is so."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._running, seconds)

    def _run(self) -> None:
        while True:
            with self._changed:
                if not self._work:
                    self._running = False
                    self._changed.notify_all()
                    return
                work = self._work.popleft()
            try:
                work()
            except Exception:
                _log.exception("%s failed", self._name)
