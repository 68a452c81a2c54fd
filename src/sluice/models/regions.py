"""Regions of interest per stream: from a line of text, or from nvdspreprocess's configuration file."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sluice.errors import ConfigurationError
from sluice.models.nvinfer.document import read_document

Box = tuple[float, float, float, float]
Regions = dict[int, tuple[Box, ...]]

_KEY = re.compile(r"^(?:roi-params-src-)?([0-9]{1,9})$")
LARGEST = 100_000  # pixels, beyond any picture's side
MOST_REGIONS = 1024  # of a stream that an event brings
_FORM = "left;top;width;height, four numbers for each region"


def read_regions(text: str | None) -> Regions:
    """Read the regions of each stream, in pixels of its surface: left, top, width, height.

    Args:
        text: ``STREAM=left;top;width;height;left;...``, one such entry per stream, separated by commas; the stream may
            be written as nvdspreprocess does, ``roi-params-src-STREAM``. Or the path of nvdspreprocess's configuration
            file, of which the ``roi-params-src-*`` of every group with ``process-on-roi=1`` count. Empty for none.

    Raises:
        ConfigurationError: naming what cannot be read, and what would be right.
    """
    if not text or not text.strip():
        return {}
    if "=" not in text:
        return _of_file(Path(text))
    entries = [entry.partition("=") for entry in text.split(",") if entry.strip()]
    keys = [key.strip() for key, _, _ in entries]
    twice = [key for key in keys if keys.count(key) > 1]
    if twice:
        raise ConfigurationError(f"roi-params has {twice[0]} twice; right is STREAM={_FORM}, all in one entry")
    return _regions({key: value for key, (_, _, value) in zip(keys, entries, strict=True)}, "roi-params")


def regions_of_event(fields: Mapping[str, Any]) -> tuple[str, tuple[Box, ...]]:
    """Return the stream and its regions, none for the whole frame, from the fields of an ``nv-roi-update`` event.

    Args:
        fields: stream_id (text), roi-count, and left_0, top_0, width_0, height_0 and so on.

    Raises:
        ConfigurationError: naming the field that is missing or cannot be used.
    """
    missing = [name for name in ("stream_id", "roi-count") if fields.get(name) is None]
    count = 0 if missing else fields["roi-count"]
    if not isinstance(count, int) or not 0 <= count <= MOST_REGIONS:
        raise ConfigurationError(f"nv-roi-update: roi-count is {count}; right is 0 to {MOST_REGIONS}")
    names = [[f"{side}_{i}" for side in ("left", "top", "width", "height")] for i in range(count)]
    missing += [name for row in names for name in row if name not in fields]
    if missing:
        raise ConfigurationError(f"nv-roi-update has no field {missing[0]}")
    place = f"nv-roi-update: stream {fields['stream_id']}"
    numbers = [str(fields[name]) for row in names for name in row]
    return str(fields["stream_id"]), _boxes(";".join(numbers), place) if numbers else ()


def _of_file(path: Path) -> Regions:
    found: Regions = {}
    for name, group in read_document(path).groups.items():
        values = {key: entry.text or "" for key, entry in group.items()}
        if not name.startswith("group-") or values.get("process-on-roi", "0").strip() != "1":
            continue
        for stream, boxes in _regions(
            {key: value for key, value in values.items() if key.startswith("roi-params-src-")}, f"{path} [{name}]"
        ).items():
            found[stream] = (*found.get(stream, ()), *boxes)
    if not found:
        raise ConfigurationError(
            f"{path} has no region of interest: no group with process-on-roi=1 and roi-params-src-STREAM={_FORM}"
        )
    return found


def _regions(entries: Mapping[str, str], place: str) -> Regions:
    found: Regions = {}
    for key, value in entries.items():
        match = _KEY.match(key)
        if match is None:
            raise ConfigurationError(f"{place}: {key!r} is no stream; right is STREAM={_FORM}")
        found[int(match[1])] = _boxes(value, f"{place}: stream {match[1]}")
    return found


def _boxes(value: str, place: str) -> tuple[Box, ...]:
    words = [word.strip() for word in value.split(";") if word.strip()]
    try:
        numbers = [float(word) for word in words]
    except ValueError:
        raise ConfigurationError(f"{place} has {value!r}; right is {_FORM}") from None
    if not numbers or len(numbers) % 4:
        raise ConfigurationError(f"{place} has {len(numbers)} numbers; right is {_FORM}")
    boxes = tuple((a, b, c, d) for a, b, c, d in zip(*[iter(numbers)] * 4, strict=True))
    for box in boxes:
        if not all(0 <= number < LARGEST for number in box) or box[2] < 1 or box[3] < 1:  # which NaN is not either
            raise ConfigurationError(f"{place} has the region {box}; right are left, top from 0 and sizes from 1")
    return boxes
