"""nvdsanalytics' configuration files: what to count on which stream.

A key file (GLib's syntax) with a group ``[property]`` and groups such as ``[line-crossing-stream-0]``. Every key is
honoured or refused by name. Points are pixels of a picture of config-width by config-height, whatever size the
stream's frames have.
"""

from __future__ import annotations

import configparser
import enum
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from sluice.analytics.geometry import Point, cross
from sluice.errors import ConfigurationError

T = TypeVar("T")

_FARTHEST = 1e6
"""Pixels; no picture reaches so far, and the squares of longer numbers leave the range of a float."""

ALL_CLASSES: frozenset[int] = frozenset()
"""class-id=-1."""


class Mode(enum.Enum):
    """How sure a direction or a crossing has to be."""

    STRICT = "strict"
    BALANCED = "balanced"
    LOOSE = "loose"


@dataclass(frozen=True)
class RegionRule:
    """A region: ``roi-filtering`` counts the objects in it, ``overcrowding`` also says when they are too many.

    Attributes:
        name: the label after ``roi-``.
        points: three or more corners.
        classes: the class ids to count; empty for all.
        inverse: whether the region is what is outside the corners.
        object_threshold: from how many objects on it is overcrowded; None: it is not watched for that.
        time_threshold: nanoseconds that it must have been so.
    """

    name: str
    points: tuple[Point, ...]
    classes: frozenset[int]
    inverse: bool = False
    object_threshold: int | None = None
    time_threshold: int = 0


@dataclass(frozen=True)
class LineRule:
    """A line segment that is crossed in one direction.

    Attributes:
        name: the label after ``line-crossing-``.
        direction: two points; from the first's side of the line to the other.
        line: the two ends of the segment.
        extended: whether the whole straight line through the segment counts.
    """

    name: str
    direction: tuple[Point, Point]
    line: tuple[Point, Point]
    classes: frozenset[int]
    extended: bool
    mode: Mode


@dataclass(frozen=True)
class DirectionRule:
    """A direction, from the first of two points to the second."""

    name: str
    direction: tuple[Point, Point]
    classes: frozenset[int]
    mode: Mode


@dataclass(frozen=True)
class StreamRules:
    """What to find on one stream."""

    regions: tuple[RegionRule, ...] = ()
    crowds: tuple[RegionRule, ...] = ()
    lines: tuple[LineRule, ...] = ()
    directions: tuple[DirectionRule, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.regions or self.crowds or self.lines or self.directions)


@dataclass(frozen=True)
class AnalyticsConfig:
    """A whole configuration.

    Attributes:
        enable: whether anything is done at all.
        width, height: size of the picture that the points are in.
        osd_mode: 0 shows nothing, 1 shapes and their names, 2 numbers too.
        font_size: of what is shown, in points.
        show_counts: whether the number of objects of each class is shown.
        streams: rules by stream number.
    """

    enable: bool = True
    width: int = 1920
    height: int = 1080
    osd_mode: int = 2
    font_size: int = 12
    show_counts: bool = False
    streams: Mapping[int, StreamRules] = field(default_factory=dict)


_GROUP = re.compile(r"(roi-filtering|overcrowding|line-crossing|direction-detection)-stream-(\d+)")
_SHAPES = {
    "roi-filtering": ("roi-", 3, None),
    "overcrowding": ("roi-", 3, None),
    "line-crossing": ("line-crossing-", 4, 4),
    "direction-detection": ("direction-", 2, 2),
}
_KEYS = {
    "roi-filtering": ("enable", "class-id", "inverse-roi"),
    "overcrowding": ("enable", "class-id", "object-threshold", "time-threshold"),
    "line-crossing": ("enable", "class-id", "extended", "mode"),
    "direction-detection": ("enable", "class-id", "mode"),
}
_PROPERTIES = ("enable", "config-width", "config-height", "osd-mode", "display-font-size", "display-obj-cnt")
_WINDOW = "obj-cnt-win-in-ms"
_LARGEST_STREAM = 2**32 - 1  # NvDsFrameMeta.source_id is a guint


def read_config(path: str | Path) -> AnalyticsConfig:
    """Read a configuration file of nvdsanalytics.

    Raises:
        ConfigurationError: the file cannot be read, or a group, key or value is wrong, by name.
    """
    path = Path(path)
    if path.exists() and not path.is_file():
        raise ConfigurationError(f"{path} cannot be read: it is a folder, device or pipe, not a file")
    parser = configparser.RawConfigParser(
        strict=False, delimiters=("=",), comment_prefixes=("#",), empty_lines_in_values=False, default_section=""
    )
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    try:
        with path.open(encoding="utf-8-sig") as lines:
            parser.read_file(lines)
    except OSError as error:
        raise ConfigurationError(f"config-file {str(path)!r} cannot be read: {error.strerror}") from error
    except (UnicodeDecodeError, configparser.Error) as error:
        raise ConfigurationError(f"{path}: {error}") from error
    if not parser.sections():
        raise ConfigurationError(f"{path} has no group; there are [property] and, say, [line-crossing-stream-0]")
    found: dict[int, StreamRules] = {}
    for name in parser.sections():
        if name == "property":
            continue
        match = _GROUP.fullmatch(name)
        if match is None:
            raise ConfigurationError(
                f"{path}: [{name}] is no group of nvdsanalytics; there are [property] and, for stream N, "
                + ", ".join(f"[{kind}-stream-N]" for kind in _KEYS)
            )
        section = _Section(path, name, dict(parser.items(name)))
        stream = int(match[2])
        if stream > _LARGEST_STREAM:
            raise ConfigurationError(f"{path}: [{name}] is for no stream; their numbers go up to {_LARGEST_STREAM}")
        found[stream] = _add_rules(section, match[1], found.get(stream, StreamRules()))
    head = _Section(path, "property", dict(parser.items("property")) if parser.has_section("property") else {})
    return _head(head, {stream: rules for stream, rules in found.items() if rules})


def _head(section: _Section, streams: Mapping[int, StreamRules]) -> AnalyticsConfig:
    section.refuse_others((*_PROPERTIES, _WINDOW))
    if section.whole(_WINDOW, 0) != 0:
        raise section.wrong(_WINDOW, "objects are counted frame by frame here; 0, or no such key")
    return AnalyticsConfig(
        enable=section.flag("enable", True),
        width=section.whole("config-width", 1920, least=1),
        height=section.whole("config-height", 1080, least=1),
        osd_mode=section.whole("osd-mode", 2, most=2),
        font_size=section.whole("display-font-size", 12),
        show_counts=section.flag("display-obj-cnt", False),
        streams=streams,
    )


def _add_rules(section: _Section, kind: str, rules: StreamRules) -> StreamRules:
    prefix, least, most = _SHAPES[kind]
    names = [key for key in section.values if key.startswith(prefix) and key not in _KEYS[kind]]
    section.refuse_others((*_KEYS[kind], *names), f"{prefix}LABEL")
    shapes = [(key.removeprefix(prefix), section.points(key, least, most)) for key in names]
    classes = section.classes()
    made: Any
    if kind == "roi-filtering":
        inverse = section.flag("inverse-roi", False)
        made = {"regions": tuple(RegionRule(name, points, classes, inverse) for name, points in shapes)}
    elif kind == "overcrowding":
        threshold = section.whole("object-threshold", 0)
        wait = section.whole("time-threshold", 0) * 1_000_000
        made = {"crowds": tuple(RegionRule(name, points, classes, False, threshold, wait) for name, points in shapes)}
    elif kind == "line-crossing":
        extended, mode = section.flag("extended", False), section.mode()
        made = {"lines": tuple(_line(section, name, points, classes, extended, mode) for name, points in shapes)}
    else:
        mode = section.mode()
        made = {"directions": tuple(_direction(section, name, points, classes, mode) for name, points in shapes)}
    if not section.flag("enable", True):
        return rules
    return StreamRules(**{**vars(rules), **made})


def _line(
    section: _Section, name: str, points: tuple[Point, ...], classes: frozenset[int], extended: bool, mode: Mode
) -> LineRule:
    first, second, start, end = points
    key = f"line-crossing-{name}"
    if start == end:
        raise section.wrong(key, "two different ends of the line, the third and fourth point")
    if cross(start, end, (start[0] + second[0] - first[0], start[1] + second[1] - first[1])) == 0:
        raise section.wrong(key, "a direction, the first and second point, that does not run along the line")
    return LineRule(name, (first, second), (start, end), classes, extended, mode)


def _direction(
    section: _Section, name: str, points: tuple[Point, ...], classes: frozenset[int], mode: Mode
) -> DirectionRule:
    if points[0] == points[1]:
        raise section.wrong(f"direction-{name}", "two different points")
    return DirectionRule(name, (points[0], points[1]), classes, mode)


def _is_near(number: float) -> bool:
    return abs(number) <= _FARTHEST


@dataclass
class _Section:
    """One group of the file; its methods raise `ConfigurationError` with the file, group and key."""

    path: Path
    name: str
    values: dict[str, str]

    def wrong(self, key: str, right: str) -> ConfigurationError:
        """Return the error for a key's value, which names what would be right."""
        value = self.values.get(key, "")
        return ConfigurationError(f"{self.path}: [{self.name}] {key}={value}: right would be {right}")

    def refuse_others(self, known: tuple[str, ...], shape: str = "") -> None:
        """Refuse any key that is not known; `shape` describes those that have a name of the user's in them."""
        for key in self.values:
            if key not in known:
                listed = ", ".join([*(key for key in known if key not in self.values or not shape), shape]).strip(", ")
                raise ConfigurationError(f"{self.path}: [{self.name}] has no key {key}; there are {listed}")

    def _read(self, key: str, default: T, read: Callable[[str], T], right: str) -> T:
        if key not in self.values:
            return default
        try:
            return read(self.values[key].strip())
        except (ValueError, KeyError):
            raise self.wrong(key, right) from None

    def flag(self, key: str, default: bool) -> bool:
        """Read 0 or 1."""
        return self._read(key, default, lambda text: bool(("0", "1").index(text)), "0 or 1")

    def whole(self, key: str, default: int, *, least: int = 0, most: int | None = None) -> int:
        """Read a whole number from `least` to `most`."""

        def read(text: str) -> int:
            number = int(text)
            if number < least or (most is not None and number > most):
                raise ValueError(text)
            return number

        upper = "" if most is None else f" to {most}"
        return self._read(key, default, read, f"a whole number from {least}{upper}{'' if upper else ' on'}")

    def mode(self) -> Mode:
        """Read how strictly a line's direction is taken."""
        return self._read("mode", Mode.BALANCED, Mode, "strict, balanced or loose")

    def classes(self) -> frozenset[int]:
        """Read the class ids that count."""

        def read(text: str) -> frozenset[int]:
            numbers = frozenset(int(item) for item in text.split(";") if item.strip())
            return ALL_CLASSES if -1 in numbers else numbers

        return self._read("class-id", ALL_CLASSES, read, "class ids as in 0;2, or -1 for all")

    def points(self, key: str, least: int, most: int | None) -> tuple[Point, ...]:
        """Read so many points, x and y in pixels of the configured size, with semicolons between."""

        def read(text: str) -> tuple[Point, ...]:
            numbers = [float(item) for item in text.split(";") if item.strip()]
            count, odd = divmod(len(numbers), 2)
            if odd or count < least or (most is not None and count > most) or not all(map(_is_near, numbers)):
                raise ValueError(text)
            return tuple(zip(numbers[::2], numbers[1::2], strict=True))

        amount = f"{least} points" if least == most else f"{least} or more points"
        return self._read(key, (), read, f"{amount} as in x1;y1;x2;y2, in pixels of config-width by config-height")
