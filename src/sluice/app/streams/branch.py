"""What stands behind the demuxer for one stream, or behind the tiler for all."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from sluice.app.sources import Source


class Branch(Protocol):
    """The end of one stream.

    Attributes:
        bin: a ``Gst.Bin`` whose ghost pad "sink" takes single frames with metadata.
    """

    bin: Any

    @property
    def path(self) -> Path | None:
        """The file written, where it is one file."""

    @property
    def frames_out(self) -> int:
        """Frames that left the branch."""

    def end(self) -> None:
        """Finish with what has arrived; may wait."""

    def close(self) -> None:
        """Let go of what keeps the branch alive, after its bin was stopped."""


BranchFactory = Callable[[int, Source | None, str], Branch]
"""Makes the branch of a stream from its number, source and name; of the tiled view from -1, None and "tiled"."""
