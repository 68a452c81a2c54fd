"""Keeps what callers of the API name inside the directories that the configuration allows."""

from __future__ import annotations

import re
from collections.abc import Sequence
from glob import has_magic
from pathlib import Path
from urllib.parse import unquote, urlsplit

from sluice.errors import ConfigurationError

_DEVICE = re.compile(r"/dev/video\d+")


class OutsideError(ConfigurationError):
    """A path that is outside the directories allowed."""


def inside(name: str | Path, directories: Sequence[Path], key: str) -> Path:
    """Return the real path of a name, all links followed, if it lies in one of the directories.

    A relative name is looked for in each directory, and the first that has it counts.

    Args:
        name: as the caller wrote it.
        directories: the directories, absolute.
        key: the key of the configuration that lists them, for the message.

    Raises:
        OutsideError: it lies elsewhere, is not there, or no directory is allowed. Says the same in all three cases,
            so that nobody learns which files exist elsewhere.
    """
    text = str(name)
    path = Path(text)
    if "\0" not in text and text:
        for directory in directories:
            root = directory.resolve()
            try:
                found = (root / path).resolve(strict=True)
            except (OSError, RuntimeError):  # not there, a loop of links, a name that is too long
                continue
            if found == root or root in found.parents:
                return found
    where = ", ".join(map(str, directories)) or "none is configured"
    raise OutsideError(f"there is no {text!r} in the directories allowed ({key}: {where})")


def check_source(text: str, directories: Sequence[Path]) -> str:
    """Return a source that a caller of the API may add: a network source, a pattern, a camera, or a file inside.

    Raises:
        OutsideError: it names a file or device elsewhere.
    """
    key = "directories.media"
    scheme, colon, rest = text.partition(":")
    if not (colon and (scheme in ("file", "v4l2", "test") or rest.startswith("//"))):
        return _file(text, directories, key)  # "a:b" is a name of a file too
    if scheme.lower() == "file":
        parts = urlsplit(text)
        if parts.netloc not in ("", "localhost"):
            raise OutsideError(f"{text!r} names another host; right is file:///path")
        return _file(unquote(parts.path), directories, key)
    if scheme.lower() == "v4l2":
        device = rest.removeprefix("//") or "/dev/video0"
        if not _DEVICE.fullmatch(device):
            raise OutsideError(f"{text!r} is no camera of this machine; right is v4l2:/dev/video0")
    return text


def _file(text: str, directories: Sequence[Path], key: str) -> str:
    if has_magic(text):
        raise OutsideError(f"{text!r} is a pattern of names; one stream has one source, name the file")
    return str(inside(text, directories, key))
