"""``sluice search``: what was recorded that looks like a text, or like another entry."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from sluice.errors import ConfigurationError
from sluice.models.text import load_text_encoder
from sluice.search import Archive, Hit
from sluice.search.archive import Filter


@dataclass(frozen=True)
class Wanted:
    """What is looked for.

    Attributes:
        text: a description, for a text encoder; None to look for entries like another one.
        text_model: the text encoder, see `load_text_encoder`.
        like: key of the entry to look for others like it.
        count: how many at most.
        stream: number or name of a stream; None for all.
        since, until: times as ISO 8601, in UTC unless they say otherwise; None for any.
        label: class of the object; None for any.
    """

    text: str | None = None
    text_model: str | None = None
    like: int | None = None
    count: int = 10
    stream: str | None = None
    since: str | None = None
    until: str | None = None
    label: str | None = None


def search(index: Path, wanted: Wanted) -> list[Hit]:
    """Return the entries of an archive that are most like what is looked for.

    Raises:
        ConfigurationError: the archive, the text encoder or a value cannot be used.
        ModelError: the text encoder cannot be loaded.
    """
    if (wanted.text is None) == (wanted.like is None):
        raise ConfigurationError("give a text to look for, or --like with the key of an entry")
    stream = int(wanted.stream) if wanted.stream is not None and wanted.stream.isdecimal() else wanted.stream
    where = Filter(stream, _time("since", wanted.since), _time("until", wanted.until), wanted.label or "")
    with Archive(index) as archive:
        if wanted.like is not None:
            hits = archive.search(archive.vector(wanted.like), wanted.count + 1, where)
            return [hit for hit in hits if hit.key != wanted.like][: wanted.count]
        if not wanted.text_model:
            raise ConfigurationError(
                "--text-model is not given; right is the text encoder that belongs to the model which made the "
                "embeddings: text.onnx with tokenizer.json beside it, a name for transformers, or file.py:Class"
            )
        assert wanted.text is not None
        (vector,) = load_text_encoder(wanted.text_model).encode([wanted.text])
        return archive.search(vector, wanted.count, where)


def as_members(hit: Hit) -> dict[str, Any]:
    """Return a hit as JSON takes it, without its vector."""
    entry = hit.entry
    return {
        "key": hit.key,
        "similarity": round(hit.similarity, 4),
        "stream": entry.stream,
        "name": entry.name,
        "frame": entry.frame,
        "pts": entry.pts,
        "utc": None if entry.utc is None else _shown(entry.utc),
        "id": entry.object_id,
        "label": entry.label,
        "box": None if entry.box is None else list(entry.box),
    }


def render(hits: list[Hit]) -> str:
    """Return hits for people, one a line."""
    if not hits:
        return "nothing was found"
    return "\n".join(map(_line, hits))


def render_json(hits: list[Hit]) -> str:
    """Return hits as JSON lines."""
    return "\n".join(json.dumps(as_members(hit)) for hit in hits)


def _line(hit: Hit) -> str:
    entry = hit.entry
    time = "" if entry.pts is None else f" {entry.pts / 1e9:.2f} s"
    time += "" if entry.utc is None else f" ({_shown(entry.utc)})"
    what = "the frame" if entry.box is None else entry.label or "object"
    what += "" if entry.object_id is None else f" {entry.object_id}"
    place = "" if entry.box is None else " at " + ",".join(f"{side:.0f}" for side in entry.box)
    return f"{hit.similarity:6.3f}  {entry.name or entry.stream}, frame {entry.frame}{time}: {what}{place}  [{hit.key}]"


def _shown(utc: int) -> str:
    return datetime.fromtimestamp(utc / 1e9, timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _time(name: str, text: str | None) -> int | None:
    if text is None:
        return None
    try:
        # Python 3.10 reads no "Z".
        moment = datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError as error:
        raise ConfigurationError(
            f"--{name} is {text!r}; right is a time such as 2026-01-31T09:30:00, in UTC, or with an offset +01:00"
        ) from error
    moment = moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)
    return round(moment.timestamp() * 1e9)
