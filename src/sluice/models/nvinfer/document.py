"""The text of a configuration file as groups of keys, in both forms that nvinfer reads.

A name ending in ``.yml`` or ``.yaml`` is YAML; anything else is a GLib key file, and is read by GLib's own parser, the
one nvinfer uses: its rules for comments, spaces, CR line ends and keys given twice are then the same by construction.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import gi

gi.require_version("GLib", "2.0")
import yaml
from gi.repository import GLib

from sluice.errors import ConfigurationError
from sluice.yaml_text import compose_yaml

Form = Literal["key-file", "yaml"]
GROUP_LINE = re.compile(r"^\[(?P<name>[^\]]*)\][ \t]*$")


@dataclass(frozen=True)
class Entry:
    """One value as it stands in the file.

    Attributes:
        text: the value; None where YAML has a list or a mapping, which nvinfer's files never have.
        line: its line, counted from 1.
    """

    text: str | None
    line: int


@dataclass(frozen=True)
class Document:
    """A configuration file, read but not yet understood.

    Attributes:
        path: the file; relative paths in it start from its folder.
        form: how it is written.
        groups: entries by group and key, in the order of the file; of a key given twice the last counts.
        loose: keys of a YAML file outside any group.
    """

    path: Path
    form: Form
    groups: dict[str, dict[str, Entry]]
    loose: dict[str, Entry] = field(default_factory=dict)


class SyntaxFault(ConfigurationError):
    """The text is neither a key file nor YAML."""


def form_of(path: Path) -> Form:
    """How a file of this name is written: nvinfer looks at nothing but its ending."""
    return "yaml" if path.name.endswith((".yml", ".yaml")) else "key-file"


def read_document(path: str | Path) -> Document:
    """Read a configuration file.

    Raises:
        ConfigurationError: there is no such file, or it is no UTF-8 text.
        SyntaxFault: it is not written as its ending says; names the line.
    """
    path = Path(path)
    try:
        if path.is_fifo() or path.is_char_device():  # reading would wait or go on for ever
            raise ConfigurationError(f"cannot read the configuration file {str(path)!r}: it is a pipe or a device")
        text = path.read_bytes().decode("utf-8")
    except OSError as error:
        raise ConfigurationError(f"cannot read the configuration file {str(path)!r}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"{path} is no UTF-8 text ({error.reason} at byte {error.start})") from error
    return _yaml(path, text) if form_of(path) == "yaml" else _key_file(path, text)


def _key_file(path: Path, text: str) -> Document:
    if text.startswith("\ufeff"):
        raise SyntaxFault(
            f"{path} begins with a byte order mark, which DeepStream does not read either; right is UTF-8 without one"
        )
    file = GLib.KeyFile()
    try:
        # As bytes: of a text PyGObject copies what stands before a NUL, and GLib would read on behind the copy.
        file.load_from_bytes(GLib.Bytes.new(text.encode()), GLib.KeyFileFlags.NONE)
    except GLib.Error as error:
        raise SyntaxFault(f"{path} is no key file: {error.message}") from error
    lines = _lines(text)
    groups: dict[str, dict[str, Entry]] = {}
    for group in file.get_groups()[0]:
        groups[group] = {}
        for key in file.get_keys(group)[0]:
            try:
                value = file.get_string(group, key)
            except GLib.Error as error:
                raise ConfigurationError(
                    f"{path}, line {lines.get((group, key), 0)}: [{group}] {key}: {error.message}"
                ) from error
            groups[group][key] = Entry(value.strip(), lines.get((group, key), 0))
    return Document(path, "key-file", groups)


def _lines(text: str) -> dict[tuple[str, str], int]:
    """Line of each (group, key) for messages, of the last where there are several; GLib does not tell."""
    found: dict[tuple[str, str], int] = {}
    group = ""
    for number, line in enumerate(text.split("\n"), 1):
        match = GROUP_LINE.match(line.rstrip("\r").lstrip(" \t"))
        if match:
            group = match["name"]
        elif "=" in line and not line.lstrip().startswith("#"):
            found[group, line.partition("=")[0].strip()] = number
    return found


def _yaml(path: Path, text: str) -> Document:
    # OpenCV writes a line %YAML:1.0, which YAML's own grammar does not know; yaml-cpp skips it.
    text = re.sub(r"^%YAML:.*", "", text, count=1, flags=re.MULTILINE)
    try:
        # Every value is left the text it is, as yaml-cpp hands it to nvinfer.
        root = compose_yaml(text)
    except ValueError as error:
        raise SyntaxFault(f"{path} is no YAML: {error}") from error
    except RecursionError:
        raise SyntaxFault(f"{path} is no configuration file: its lists and mappings are nested too deeply") from None
    if root is None:
        return Document(path, "yaml", {})
    if not isinstance(root, yaml.MappingNode):
        raise SyntaxFault(f"{path} is no configuration file: right are groups of keys, such as property:")
    groups: dict[str, dict[str, Entry]] = {}
    loose: dict[str, Entry] = {}
    for key, value in root.value:
        if isinstance(value, yaml.MappingNode):
            groups[str(key.value)] = {str(k.value): _entry(v) for k, v in value.value}
        else:
            loose[str(key.value)] = _entry(value)
    return Document(path, "yaml", groups, loose)


def _entry(node: yaml.Node) -> Entry:
    text = node.value if isinstance(node, yaml.ScalarNode) else None
    return Entry(text, node.start_mark.line + 1)
