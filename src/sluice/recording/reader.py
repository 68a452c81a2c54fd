"""Reads a recording and finds its frames."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from sluice.errors import ConfigurationError
from sluice.recording.frames import FORMAT

_KEY = re.compile(rb'\{"stream":(\d{1,20}),"frame":(-?\d{1,20}),')


class Recording:
    """The frames of a file, kept in memory as they stand in it, so that the stream never waits for the disk."""

    def __init__(self, path: str | Path) -> None:
        """Read the file. A last line that is cut off, by the end of a recorder that was killed, is left out.

        Raises:
            ConfigurationError: it cannot be read, or is none of ours, with the line.
        """
        self._path = Path(path)
        self._lines: dict[tuple[int, int], bytes] = {}
        self.cut = False
        """Whether the file ends in the middle of a line."""
        if self._path.exists() and not self._path.is_file():
            raise ConfigurationError(f"the recording {self._path} is a folder, device or pipe, not a file")
        try:
            with self._path.open("rb") as lines:
                self._check_head(lines.readline())
                for number, line in enumerate(lines, 2):
                    self.cut = not line.endswith(b"\n")
                    if not self.cut:
                        self._add(number, line)
        except OSError as error:
            raise ConfigurationError(f"the recording cannot be read: {error}") from error

    def _check_head(self, line: bytes) -> None:
        try:
            found = json.loads(line)["format"]
        except (ValueError, LookupError, TypeError, RecursionError):
            found = None
        if found != FORMAT:
            said = f"its format is {found}" if found else "its first line tells no format"
            raise ConfigurationError(f"{self._path} is no recording that can be replayed: {said}; right is {FORMAT}")

    def _add(self, number: int, line: bytes) -> None:
        match = _KEY.match(line)
        if match is None or not line.endswith(b"}\n"):
            raise ConfigurationError(f"{self._path}, line {number}: no whole frame; the recording was cut or changed")
        self._lines[int(match[1]), int(match[2])] = line

    def __len__(self) -> int:
        return len(self._lines)

    def find(self, stream: int, frame: int) -> dict[str, Any] | None:
        """Return a frame as `sluice.recording.read_frame` made it, or None when there is none."""
        line = self._lines.get((stream, frame))
        return None if line is None else json.loads(line)

    def mismatch(self, found: dict[str, Any] | None, pts: int, size: tuple[int, int]) -> str | None:
        """Say in what a frame of the stream is not the one that was recorded; None when it is.

        Args:
            found: what `find` returned for it.
            pts: its timestamp in ns.
            size: width and height of its surface.
        """
        if found is None:
            return f"the recording {self._path} has no such frame; it must be of the same video, from its start"
        if found["pts"] != pts:
            return f"its timestamp is {pts} ns, and {found['pts']} ns in the recording {self._path}: another video"
        if tuple(found["size"]) != tuple(size):
            here, there = ("x".join(map(str, pair)) for pair in (size, found["size"]))
            return f"its surface is {here}, and was {there} in the recording {self._path}: boxes would not fit"
        return None
