"""A stream that is to be, before there is a graph for it."""

from __future__ import annotations

from dataclasses import dataclass

from sluice.app.sources import Source
from sluice.app.streams.policy import StreamPolicy


@dataclass(frozen=True)
class Planned:
    """What a stream shows, its name (None: after the source) and the user's choices (None: the pipeline's)."""

    source: Source
    name: str | None = None
    policy: StreamPolicy | None = None
