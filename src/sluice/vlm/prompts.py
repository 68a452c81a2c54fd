"""Prompts with placeholders, filled in for each segment."""

from __future__ import annotations

import string
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timezone

from sluice.errors import ConfigurationError

DEFAULT_PROMPT = "Describe in one short sentence what happens in this video."

PLACEHOLDERS = {
    "stream": "number of the stream",
    "name": "its name",
    "time": "wall-clock time of the last picture (UTC), or its time in the stream where that is not known",
    "pts": "seconds in the stream of the last picture",
    "duration": "seconds from the first picture to the last",
    "frames": "number of pictures",
    "objects": 'objects on the last picture by class, as in "2 person, 1 car", or "nothing"',
    "count": "number of objects on it; {count:person} of one class",
    "labels": "classes of the objects on it",
    "cause": "why the segment was selected",
}


@dataclass(frozen=True)
class Situation:
    """What placeholders stand for.

    Attributes:
        stream: number of the stream.
        name: its name.
        pts: time of the last picture in the stream in ns, None if unknown.
        utc: its wall-clock time in ns since 1970, None if unknown.
        duration: ns from the first picture to the last.
        frames: number of pictures.
        labels: class of each object on the last picture.
        cause: why the segment was selected.
    """

    stream: int
    name: str
    pts: int | None = None
    utc: int | None = None
    duration: int = 0
    frames: int = 1
    labels: Sequence[str] = ()
    cause: str = "time"


class Prompt:
    """A text with placeholders in braces; ``{{`` and ``}}`` stand for braces."""

    def __init__(self, text: str) -> None:
        """Read a prompt.

        Raises:
            ConfigurationError: an unknown placeholder, or a brace alone.
        """
        self.text = text
        try:
            self._parts = list(string.Formatter().parse(text))
        except ValueError as error:
            raise ConfigurationError(
                f"the prompt {text[:60]!r} cannot be read: {error}; a brace that is meant itself is written twice"
            ) from error
        for _, name, spec, conversion in self._parts:
            if name is None:
                continue
            if name not in PLACEHOLDERS or conversion or (spec and name != "count"):
                raise ConfigurationError(
                    f"the prompt has the unknown placeholder {{{name}}}; there are {', '.join(PLACEHOLDERS)} and "
                    "count:LABEL; a brace that is meant itself is written twice"
                )

    def fill(self, situation: Situation) -> str:
        """Return the text for a segment."""
        return "".join(
            literal + (_value(name, spec or "", situation) if name is not None else "")
            for literal, name, spec, _ in self._parts
        )


def _value(name: str, spec: str, situation: Situation) -> str:
    counts = Counter(situation.labels)
    if name == "count":
        return str(counts[spec] if spec else counts.total())
    if name == "objects":
        return ", ".join(f"{count} {label or 'object'}" for label, count in counts.most_common()) or "nothing"
    if name == "labels":
        return ", ".join(label for label, _ in counts.most_common()) or "none"
    if name == "time":
        return _utc(situation.utc) if situation.utc else _clock(situation.pts)
    if name == "pts":
        return "unknown" if situation.pts is None else f"{situation.pts / 1e9:.3f}"
    if name == "duration":
        return f"{situation.duration / 1e9:.1f}"
    return str(getattr(situation, name))


def _utc(nanoseconds: int) -> str:
    return f"{datetime.fromtimestamp(nanoseconds // 1_000_000_000, timezone.utc):%Y-%m-%d %H:%M:%S} UTC"


def _clock(pts: int | None) -> str:
    if pts is None:
        return "unknown"
    minutes, seconds = divmod(pts // 1_000_000_000, 60)
    return f"{minutes // 60}:{minutes % 60:02}:{seconds:02}"
