"""A stream that is to be, before there is a graph for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sluice.app.sources import Source
from sluice.app.streams.policy import StreamPolicy


@dataclass(frozen=True)
class Planned:
    """What a stream shows, its name (None: after the source) and the user's choices (None: the pipeline's).

    `members` are JSON values that its messages have besides. `number` is given where several pipelines share streams
    out; None: the next one.
    """

    source: Source
    name: str | None = None
    policy: StreamPolicy | None = None
    members: Mapping[str, Any] = field(default_factory=dict)
    number: int | None = None
