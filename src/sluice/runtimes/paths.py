"""Whether a path that somebody typed is a file."""

from __future__ import annotations

from pathlib import Path


def is_file(path: str | Path) -> bool:
    """Whether there is such a file; a text that can be no path, such as one that is too long, is none.

    Before Python 3.14 `Path.is_file` raises OSError for those.
    """
    try:
        return Path(path).is_file()
    except OSError:
        return False
