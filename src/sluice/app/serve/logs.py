"""The log on the standard error, without secrets."""

from __future__ import annotations

import logging
from collections.abc import Callable

from sluice.app.serve.journal import LOGGER


class _Scrubbing(logging.Formatter):
    """Removes secrets from whole lines, tracebacks included."""

    def __init__(self, scrub: Callable[[str], str]) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")
        self._scrub = scrub

    def format(self, record: logging.LogRecord) -> str:
        return self._scrub(super().format(record))


def log_to_stderr(scrub: Callable[[str], str], verbose: bool) -> None:
    """Log to the standard error from now on: what the service has to say, warnings, and with `verbose` all."""
    handler = logging.StreamHandler()
    handler.setFormatter(_Scrubbing(scrub))
    logging.basicConfig(level=logging.INFO if verbose else logging.WARNING, handlers=[handler], force=True)
    logging.getLogger(LOGGER).setLevel(logging.INFO)
