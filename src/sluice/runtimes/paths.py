"""What somebody typed: whether it is a path, and a file."""

from __future__ import annotations

from pathlib import Path


def is_path(text: str) -> bool:
    """Whether the name of a model is a path, whose folders may have colons in their names, and no ``module:Class``."""
    return ":" not in text or "/" in text.rpartition(":")[2] or is_file(text)


def is_file(path: str | Path) -> bool:
    """Whether there is such a file; a text that can be no path, such as one that is too long, is none.

    Before Python 3.14 `Path.is_file` raises OSError for those.
    """
    try:
        return Path(path).is_file()
    except OSError:
        return False
