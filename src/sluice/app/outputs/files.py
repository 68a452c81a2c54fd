"""Where videos are written: the file of each stream, and never one that is read."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from sluice.app.options import Options
from sluice.app.sources import Source
from sluice.errors import ConfigurationError


def output_paths(out: str | Path, sources: Iterable[Source], tile: bool) -> list[Path]:
    """Return the file of each stream, or one path for all streams where they are tiled.

    A name that ends in ".mp4" is a file, anything else a folder (made here), with one file per stream named after it.

    Raises:
        ConfigurationError: the path is neither, or cannot be written.
    """
    names = [source.name for source in sources]
    out = Path(out).expanduser()
    is_file = out.suffix.lower() == ".mp4" and not out.is_dir()
    if not is_file and out.suffix and not out.is_dir() and not str(out).endswith("/"):
        raise ConfigurationError(f"out is {str(out)!r}; it is an .mp4 file, or a folder for one .mp4 per stream")
    make_folder("out", out.parent if is_file else out)
    if is_file:
        return [out]
    if tile:
        return [out / "tiled.mp4"]
    return [out / f"{name}.mp4" for name in distinct_names(names)]


def folder_fault(folder: Path) -> str:
    """Return why nothing can be written into a folder, which need not be there yet; "" where it can be."""
    folder = folder.expanduser()
    known = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    shown = repr(str(folder)) + ("" if known == folder else f" in {str(known)!r}")
    if not known.is_dir():
        return f"is {shown}, which is a file; name a folder"
    if not os.access(known, os.W_OK | os.X_OK):
        return f"is {shown}, which cannot be written"
    return ""


def make_folder(what: str, folder: Path) -> None:
    """Make a folder for an output's files.

    Raises:
        ConfigurationError: naming the output and the folder, which cannot be made or written.
    """
    if fault := folder_fault(folder):
        raise ConfigurationError(f"{what}: the folder {fault}")
    try:
        folder.expanduser().mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigurationError(f"{what}: the folder {str(folder)!r} cannot be made: {error.strerror}") from error


def distinct_names(names: Iterable[str]) -> list[str]:
    """Return names that are safe in a file system and differ: a, a-2, a-3, b."""
    taken: set[str] = set()
    result = []
    for name in (re.sub(r"[^\w.()\[\] -]+", "_", name) or "stream" for name in names):
        candidate, number = name, 1
        while candidate.lower() in taken:
            number += 1
            candidate = f"{name}-{number}"
        taken.add(candidate.lower())
        result.append(candidate)
    return result


def check_distinct(sources: Sequence[Source], options: Options, summary: Path | None = None) -> None:
    """Refuse to write into a file that is read, or twice into one file; to be called before any of them is opened.

    Devices and pipes may be named several times.

    Raises:
        ConfigurationError: naming the file and both its uses.
    """
    uses = {file.resolve(): "a source" for source in sources for file in source.files}
    uses |= {Path(name).resolve(): "a file" for name in (options.model, options.labels) if isinstance(name, str | Path)}
    written: list[tuple[str, Path]] = []
    if options.out is not None:
        written += [("out", path) for path in output_paths(options.out, sources, options.tile)]
    if options.messages is not None and str(options.messages) != "-":
        written.append(("messages", Path(options.messages)))
    if summary is not None:
        written.append(("summary", summary))
    for name, path in written:
        file = path.expanduser().resolve()
        if file.exists() and not file.is_file():
            continue
        if file in uses:
            raise ConfigurationError(f"{name}: {str(path)!r} is {uses[file]} of this run too; name another file")
        uses[file] = f"the {name}"
