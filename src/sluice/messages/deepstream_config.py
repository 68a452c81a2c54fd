"""nvmsgconv's configuration: what is known of sensors, places and analytics modules, by number.

A name ending in ``.yml`` or ``.yaml`` is YAML, one in ``.csv`` a table, anything else a GLib key file, read by GLib's
own parser. A group such as ``[sensor0]`` counts only with ``enable=1``; its number is what frames and events name.
"""

from __future__ import annotations

import csv
import difflib
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gi

gi.require_version("GLib", "2.0")
import yaml
from gi.repository import GLib

from sluice.errors import ConfigurationError
from sluice.yaml_text import compose_yaml

Triple = tuple[float, float, float]
_ZERO: Triple = (0.0, 0.0, 0.0)

_KEYS: dict[str, tuple[str, ...]] = {
    "sensor": ("enable", "id", "type", "description", "location", "coordinate"),
    "place": (
        "enable",
        "id",
        "type",
        "name",
        "location",
        "coordinate",
        "place-sub-field1",
        "place-sub-field2",
        "place-sub-field3",
    ),
    "analytics": ("enable", "id", "description", "source", "version"),
}
"""Keys by kind of group."""

_GROUP = re.compile(r"(sensor|place|analytics)(\d{1,10})")
_FORMS = {"location": "lat;lon;alt", "coordinate": "x;y;z"}
_CSV_COLUMNS = 7
_IGNORED_GROUPS = ("ds3d::datamap",)
"""Groups for other kinds of input than video: no fault, but without effect."""


@dataclass(frozen=True)
class Sensor:
    """A ``[sensorN]`` group. ``location`` is latitude, longitude, altitude; ``coordinate`` x, y, z."""

    id: str = ""
    type: str = ""
    description: str = ""
    location: Triple = _ZERO
    coordinate: Triple = _ZERO


@dataclass(frozen=True)
class Place:
    """A ``[placeN]`` group; ``sub_fields`` are its place-sub-field1 to 3."""

    id: str = ""
    name: str = ""
    type: str = ""
    location: Triple = _ZERO
    coordinate: Triple = _ZERO
    sub_fields: tuple[str, str, str] = ("", "", "")


@dataclass(frozen=True)
class Analytics:
    """An ``[analyticsN]`` group."""

    id: str = ""
    description: str = ""
    source: str = ""
    version: str = ""


@dataclass
class Configuration:
    """What a file says, by the groups' numbers.

    Attributes:
        warnings: groups and keys that are not known, each with the nearest that is; nvmsgconv ignores them.
    """

    sensors: dict[int, Sensor] = field(default_factory=dict)
    places: dict[int, Place] = field(default_factory=dict)
    analytics: dict[int, Analytics] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)

    def table(self, kind: str) -> dict[int, Any]:
        """Return ``sensors``, ``places`` or ``analytics``, named by the groups' word: sensor, place or analytics."""
        tables: dict[str, dict[int, Any]] = {
            "sensor": self.sensors,
            "place": self.places,
            "analytics": self.analytics,
        }
        return tables[kind]


def read_configuration(path: str | Path, *, table: bool = True) -> Configuration:
    """Read a configuration file.

    Args:
        path: the file.
        table: whether a CSV table is allowed; nvmsgconv takes one for payload-type 0 only.

    Raises:
        ConfigurationError: it cannot be read, is not written as its ending says, has a number twice or a value that is
            not of the right form; names the file, the group and the key.
    """
    path = Path(path)
    if path.exists() and not path.is_file():
        raise ConfigurationError(f"config {str(path)!r} cannot be read: it is a folder, device or pipe, not a file")
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise ConfigurationError(f"config {str(path)!r} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"config {str(path)!r} is no UTF-8 text: {error}") from error
    if path.name.endswith(".csv"):
        if not table:
            raise ConfigurationError(
                f"config {str(path)!r} is a CSV table, which is for payload-type 0 only; "
                "for this payload-type write a key file or YAML"
            )
        return _read_table(path, text)
    groups = _yaml_groups(path, text) if path.name.endswith((".yml", ".yaml")) else _key_file_groups(path, text)
    configuration = Configuration()
    for name, keys in groups:
        _add_group(configuration, path, name, keys)
    return configuration


def _key_file_groups(path: Path, text: str) -> list[tuple[str, Mapping[str, str]]]:
    file = GLib.KeyFile()
    try:
        # As bytes: of a text PyGObject copies what stands before a NUL, and GLib would read on behind the copy.
        file.load_from_bytes(GLib.Bytes.new(text.encode()), GLib.KeyFileFlags.NONE)
        return [
            (group, {key: file.get_string(group, key).strip() for key in file.get_keys(group)[0]})
            for group in file.get_groups()[0]
        ]
    except GLib.Error as error:
        raise ConfigurationError(f"config {str(path)!r} is no key file: {error.message}") from error


def _yaml_groups(path: Path, text: str) -> list[tuple[str, Mapping[str, str]]]:
    try:
        root = compose_yaml(text)
    except ValueError as error:
        raise ConfigurationError(f"config {str(path)!r} is no YAML: {error}") from error
    except RecursionError:
        raise ConfigurationError(f"config {str(path)!r} is nested deeper than any configuration is") from None
    if root is None:
        return []
    if not isinstance(root, yaml.MappingNode):
        raise ConfigurationError(f"config {str(path)!r} has no groups; right are maps such as sensor0:")
    return [(str(key.value), _yaml_keys(path, str(key.value), value)) for key, value in root.value]


def _yaml_keys(path: Path, group: str, node: Any) -> Mapping[str, str]:
    if group in _IGNORED_GROUPS:
        return {}
    if not isinstance(node, yaml.MappingNode) or not all(isinstance(v, yaml.ScalarNode) for _, v in node.value):
        raise ConfigurationError(f"config {str(path)!r}: {group} is not a map of plain values, such as id: CAM_0")
    return {str(key.value): str(value.value).strip() for key, value in node.value}


def _add_group(configuration: Configuration, path: Path, name: str, keys: Mapping[str, str]) -> None:
    matched = _GROUP.fullmatch(name)
    if matched is None:
        configuration.warnings.append(_unknown_group(path, name))
        return
    kind, number = matched[1], int(matched[2])
    where = f"config {str(path)!r}: [{name}]"
    if _whole_number(where, keys.get("enable", "0")) != 1:
        return
    known = _KEYS[kind]
    for key in keys:
        if key not in known:
            near = difflib.get_close_matches(key, known, 1)
            hint = f"; did you mean {near[0]!r}?" if near else f"; known are {', '.join(known)}"
            configuration.warnings.append(f"{where} has an unknown key {key!r}, which is ignored{hint}")
    table = configuration.table(kind)
    if number in table:
        raise ConfigurationError(f"{where} is the second group for {kind} {number}; give each its own number")
    table[number] = _made(kind, where, keys)


def _made(kind: str, where: str, keys: Mapping[str, str]) -> Sensor | Place | Analytics:
    def text(key: str) -> str:
        return keys.get(key, "")

    if kind == "analytics":
        return Analytics(text("id"), text("description"), text("source"), text("version"))
    location, coordinate = (_triple(where, key, keys[key]) if key in keys else _ZERO for key in _FORMS)
    if kind == "sensor":
        return Sensor(text("id"), text("type"), text("description"), location, coordinate)
    fields = (text("place-sub-field1"), text("place-sub-field2"), text("place-sub-field3"))
    return Place(text("id"), text("name"), text("type"), location, coordinate, fields)


def _triple(where: str, key: str, text: str) -> Triple:
    parts = text.rstrip().removesuffix(";").split(";")
    try:
        first, second, third = (float(part) for part in parts)
        if not all(map(math.isfinite, (first, second, third))):
            raise ValueError("JSON has no such number")
    except ValueError:
        raise ConfigurationError(f"{where} {key}={text} is not of the form {_FORMS[key]}: three numbers") from None
    return (first, second, third)


def _whole_number(where: str, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ConfigurationError(f"{where} enable={text}; it can be 0 or 1") from None


def _unknown_group(path: Path, name: str) -> str:
    if name in _IGNORED_GROUPS:
        return f"config {str(path)!r}: the group [{name}] is for lidar data and has no effect"
    near = difflib.get_close_matches(name, [f"{kind}0" for kind in _KEYS], 1)
    hint = f"; did you mean [{near[0]}]?" if near else "; known are [sensorN], [placeN] and [analyticsN]"
    return f"config {str(path)!r} has an unknown group [{name}], which is ignored{hint}"


def _read_table(path: Path, text: str) -> Configuration:
    """Read nvmsgconv's table: a heading, then a row per source, whose number counts from 0.

    Columns 1 and 2 are the sensor's id and description, 4 to 6 the place's sub fields; the rest is constant.
    """
    configuration = Configuration()
    rows = [(place, line) for place, line in enumerate(text.splitlines(), 1) if line.strip()][1:]
    if not rows:
        configuration.warnings.append(f"config {str(path)!r} has no row below its first line, which is the heading")
    for number, (place, line) in enumerate(rows):
        columns = [column.strip() for column in next(csv.reader([line]))]
        if len(columns) < _CSV_COLUMNS:
            raise ConfigurationError(
                f"config {str(path)!r}, line {place}: {len(columns)} columns; a row has {_CSV_COLUMNS}: "
                "number, sensor id, description, unused, and three fields of the place"
            )
        configuration.sensors[number] = Sensor(columns[1], "Camera", columns[2])
        configuration.places[number] = Place(
            "Id", "endeavor", "building/garage", sub_fields=(columns[4], columns[5], columns[6])
        )
        configuration.analytics[number] = Analytics(version="1.0")
    return configuration
