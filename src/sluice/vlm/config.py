"""What each stream is asked: the element's own settings, and those of a YAML file for single streams."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sluice.errors import ConfigurationError
from sluice.vlm.answers import Check, make_check, read_schema
from sluice.vlm.prompts import DEFAULT_PROMPT, Prompt
from sluice.vlm.selection import Selection, parse_triggers
from sluice.yaml_text import load_yaml

_MOST_BYTES = 1 << 20

_NUMBERS: dict[str, type] = {
    "every": float,
    "frames": int,
    "overlap": int,
    "spacing": float,
    "cooldown": float,
}
_TEXTS = ("prompt", "trigger", "answer-mode", "schema-file")
KEYS = (*_TEXTS, *_NUMBERS, "labels", "schema")
"""What may be set for all streams, and for each."""


@dataclass(frozen=True)
class StreamSettings:
    """What one stream is asked, and when."""

    selection: Selection
    prompt: Prompt
    check: Check


class Settings:
    """The settings of all streams."""

    def __init__(self, default: StreamSettings, streams: Mapping[str, StreamSettings]) -> None:
        """Take the settings of streams that have none of their own, and those of others by name or number."""
        self.default = default
        self._streams = dict(streams)

    def of(self, number: int, name: str) -> StreamSettings:
        """Return the settings of a stream: by its name, else by its number, else those of all."""
        return self._streams.get(name) or self._streams.get(str(number)) or self.default

    @property
    def all(self) -> list[StreamSettings]:
        """Every different setting."""
        return [self.default, *self._streams.values()]


def read_settings(values: Mapping[str, Any], path: str | Path | None = None) -> Settings:
    """Put settings together.

    Args:
        values: settings by the names in `KEYS`; what is missing has its default.
        path: a YAML file with the same keys, which count more, and under ``streams`` those of single streams by name or
            number, which count more still.

    Raises:
        ConfigurationError: a value, a key or the file cannot be used.
    """
    document = {} if path is None else _document(Path(path))
    place = "" if path is None else f"{path}: "
    streams = document.pop("streams", None) or {}
    if not isinstance(streams, dict):
        raise ConfigurationError(f"{place}streams is a {type(streams).__name__}; right is a name or number per stream")
    _check_keys(document, f"{place}", (*KEYS, "streams"))
    folder = None if path is None else Path(path).parent
    common = _merged(values, document, folder)
    made = {}
    for name, own in streams.items():
        here = f"{place}stream {name}: "
        if not isinstance(own, dict):
            raise ConfigurationError(f"{here}is a {type(own).__name__}; right are keys such as prompt and every")
        _check_keys(own, here, KEYS)
        made[str(name)] = _made(_merged(common, own, folder), here)
    return Settings(_made(common, place), made)


def _document(path: Path) -> dict[str, Any]:
    try:
        data = path.read_bytes()
        if len(data) > _MOST_BYTES:
            raise ConfigurationError(f"{path} has {len(data)} bytes; a configuration has at most {_MOST_BYTES}")
        found = load_yaml(data)
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"the configuration {str(path)!r} cannot be read: {error}") from error
    except (RecursionError, ValueError) as error:
        raise ConfigurationError(f"{path} is no YAML: {error}") from error
    if not isinstance(found or {}, dict):
        raise ConfigurationError(f"{path} holds a {type(found).__name__}; right are keys such as prompt and every")
    return found or {}


def _check_keys(found: Mapping[Any, Any], place: str, known: tuple[str, ...]) -> None:
    for key in found:
        if key not in known:
            near = difflib.get_close_matches(str(key), known, 1)
            hint = f"did you mean {near[0]!r}" if near else f"there are {', '.join(known)}"
            raise ConfigurationError(f"{place}there is no key {key!r}; {hint}")


def _merged(values: Mapping[str, Any], own: Mapping[str, Any], folder: Path | None) -> dict[str, Any]:
    merged = {**values, **own}
    if "schema-file" in own and own["schema-file"] and folder is not None:
        merged["schema-file"] = str(folder / str(own["schema-file"]))
    # What an answer must be is one choice: the nearest place that makes it decides.
    choices = {"labels", "schema", "schema-file"}
    if choices & own.keys():
        for name in choices - own.keys():
            merged.pop(name, None)
    return merged


def _made(values: Mapping[str, Any], place: str) -> StreamSettings:
    try:
        numbers = {name: _number(name, values[name], kind) for name, kind in _NUMBERS.items() if name in values}
        texts = {name: _text(name, values.get(name)) for name in _TEXTS}
        selection = Selection(**numbers, triggers=parse_triggers(texts["trigger"]))
        schema = values.get("schema")
        if texts["schema-file"]:
            if schema is not None:
                raise ConfigurationError("both schema and schema-file are given; right is one of them")
            schema = read_schema(texts["schema-file"])
        check = make_check(texts["answer-mode"] or "auto", _labels(values.get("labels")), schema)
        return StreamSettings(selection, Prompt(texts["prompt"] or DEFAULT_PROMPT), check)
    except ConfigurationError as error:
        raise ConfigurationError(f"{place}{error}") from error


def _number(name: str, value: Any, kind: type) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | float) or (kind is int and not isinstance(value, int)):
        raise ConfigurationError(f"{name} is {value!r}; right is a {'whole ' if kind is int else ''}number")
    return kind(value)


def _text(name: str, value: Any) -> str:
    if value is not None and not isinstance(value, str):
        raise ConfigurationError(f"{name} is {value!r}; right is a text")
    return value or ""


def _labels(value: Any) -> list[str]:
    if isinstance(value, list):
        for label in value:
            if isinstance(label, bool) or not isinstance(label, str | int | float):
                raise ConfigurationError(
                    f"labels holds {label!r}, which YAML makes of words such as yes, no, on, off and null; right are "
                    'texts, those words in quotes: ["yes", "no"]'
                )
        return [str(label) for label in value]
    return [label for label in _text("labels", value).split(";") if label.strip()]
