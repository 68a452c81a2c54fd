"""A YAML file as plain data, with the line of every key and list item.

PyYAML's composed nodes carry the marks; its loaders throw them away.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from sluice.errors import ConfigurationError
from sluice.yaml_text import Loader

Location = tuple[str | int, ...]
"""Keys and list indexes from the top of the file down to a value."""

LARGEST_FILE = 1 << 20
"""Bytes; far more than a thousand cameras need."""
MOST_VALUES = 100_000
"""Anchors that refer to one another can stand for more values than memory holds."""


@dataclass
class Marked:
    """A file that was read.

    Attributes:
        path: the file.
        data: what it holds.
        lines: line of each key or list item, counted from 1.
        faults: location and text of what is wrong with the YAML itself without keeping it from being read.
    """

    path: Path
    data: Any
    lines: dict[Location, int] = field(default_factory=dict)
    faults: list[tuple[Location, str]] = field(default_factory=list)

    def line(self, location: Location) -> int:
        """Line of a value, or of the nearest value around it that the file has."""
        while location and location not in self.lines:
            location = location[:-1]
        return self.lines.get(location, 1)


def read_yaml(path: Path, largest: int = LARGEST_FILE, most_values: int = MOST_VALUES) -> Marked:
    """Read a YAML file.

    Args:
        path: the file.
        largest: bytes that it may have.
        most_values: values that it may stand for.

    Raises:
        ConfigurationError: it cannot be read, or is no YAML; names the line.
    """
    try:
        if not path.is_file():
            raise ConfigurationError(f"{str(path)!r} is {'no file' if path.exists() else 'not there'}")
        with path.open("rb") as file:
            raw = file.read(largest + 1)
        text = raw.decode("utf-8")
    except OSError as error:
        raise ConfigurationError(f"{str(path)!r} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"{path} is no UTF-8 text ({error.reason} at byte {error.start})") from error
    if len(raw) > largest:
        raise ConfigurationError(f"{path} is larger than {largest >> 10} KiB, which no configuration needs")
    return parse_yaml(text, path, most_values)


def parse_yaml(text: str, path: Path, most_values: int = MOST_VALUES) -> Marked:
    """Parse YAML text; the path is for messages. Raises as `read_yaml`."""
    try:
        loader = Loader(text)
        root = loader.get_single_node()
        marked = Marked(path, None)
        marked.data = _Reading(loader, marked, most_values).value(root, ()) if root is not None else {}
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise ConfigurationError(f"{path}, line {line}: no YAML: {error.problem or error.context}") from error
    except yaml.YAMLError as error:
        raise ConfigurationError(f"{path}: no YAML: {' '.join(str(error).split())}") from error
    except (ValueError, OverflowError) as error:  # an escape that is no character, such as "\\UFFFFFFFF"
        raise ConfigurationError(f"{path}: no YAML: an escape or a number in it cannot be read: {error}") from error
    except RecursionError:
        raise ConfigurationError(f"{path}: lists and mappings are nested without end or too deeply") from None
    return marked


class _Reading:
    """One pass over the nodes of a file."""

    def __init__(self, loader: Loader, marked: Marked, most_values: int) -> None:
        self._loader = loader
        self._marked = marked
        self._most = most_values
        self._values = 0

    def value(self, node: yaml.Node, at: Location) -> Any:
        """Return a node's value and note the lines of what is in it."""
        self._values += 1
        if self._values > self._most:
            raise ConfigurationError(f"{self._marked.path}: more than {self._most} values, by anchors or otherwise")
        self._marked.lines.setdefault(at, node.start_mark.line + 1)
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, at)
        if isinstance(node, yaml.SequenceNode):
            return [self.value(item, (*at, index)) for index, item in enumerate(node.value)]
        try:
            return self._loader.construct_object(node)
        except yaml.constructor.ConstructorError as error:  # such as the date 2026-02-31
            self._marked.faults.append((at, f"cannot be read: {error.problem}; put it in quotes if it is a text"))
            return None

    def _mapping(self, node: yaml.MappingNode, at: Location) -> dict[str | int, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise yaml.constructor.ConstructorError(None, None, "a key must be a plain name", key.start_mark)
            if key.tag != "tag:yaml.org,2002:merge" and key.value in seen:
                line = key.start_mark.line + 1
                self._marked.faults.append((at, f"has the key {key.value!r} twice, again in line {line}; keep one"))
            seen.add(key.value)
        self._loader.flatten_mapping(node)  # `<<: *defaults`
        found: dict[str | int, Any] = {}
        for key, value in node.value:
            inner = (*at, str(key.value))
            found.pop(str(key.value), None)
            self._marked.lines[inner] = key.start_mark.line + 1
            found[str(key.value)] = self.value(value, inner)
        return found
