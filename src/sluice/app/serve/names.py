"""Relative names in a configuration file start from the file's folder, whatever the process's folder is."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from sluice.app.serve.paths import OutsideError, inside
from sluice.app.vlm import VlmOptions
from sluice.models.loading import MODELS
from sluice.models.nvinfer import CONFIGURATIONS
from sluice.runtimes import FILES

_SCHEME = re.compile(r"[a-zA-Z][\w+.-]*:")
_CLASS_IN_FILE = re.compile(r"(.+\.py)(:\w+)?", re.DOTALL)
LONGEST_BEGINNING = 1 << 16
"""Bytes of a configuration file in which its first group is looked for."""
MOST_LISTED = 500
"""Models of a directory that are listed; the others can be named all the same."""


def located_source(source: str, folder: Path) -> str:
    """Return a source with its path, if it is one, from a folder."""
    return source if _SCHEME.match(source) else str(folder / Path(source).expanduser())


def located_model(model: str, folder: Path) -> str:
    """Return a model's name; where it is the name of a file from that folder, with its whole path."""
    if model in MODELS:
        return model
    file, rest = _file_and_class(model)
    path = folder / Path(file).expanduser()
    return f"{path}{rest}" if path.exists() else model


def located_vlm(options: VlmOptions, folder: Path) -> VlmOptions:
    """Return the options of a slow model with its files from a folder."""
    files = {name: folder / value for name in ("schema", "config") if (value := getattr(options, name)) is not None}
    return dataclasses.replace(options, backend=located_model(str(options.backend), folder), **files)


def allowed_model(model: str, named: Sequence[str], directories: Sequence[Path]) -> str:
    """Return the model that a caller of the API means, if it may be used.

    Args:
        model: a registered name, one of those named in the configuration, or a file in the directories.
        named: what the configuration names.
        directories: where files may lie.

    Raises:
        OutsideError: it is none of those.
    """
    if model in MODELS or model in named:
        return model
    file, rest = _file_and_class(model)
    if not Path(file).suffix:
        known = ", ".join(dict.fromkeys([*MODELS, *named]))
        raise OutsideError(
            f"{model!r} is no model that may be used here; right are {known}, a file in directories.models, or what "
            "model.offered lists"
        )
    return f"{inside(file, directories, 'directories.models')}{rest}"


def models_in(directories: Sequence[Path]) -> Iterator[str]:
    """Give the models that lie in directories, relative to them, `MOST_LISTED` at most."""
    suffixes = {*FILES, ".py", *CONFIGURATIONS}
    count = 0
    for directory in directories:
        for path in sorted(directory.rglob("*")):
            if path.suffix.lower() in suffixes and path.is_file() and _may_be_a_model(path) and count < MOST_LISTED:
                count += 1
                yield str(path.relative_to(directory))


def _may_be_a_model(path: Path) -> bool:
    """Whether a file is no list of labels or other text with the ending of nvinfer's configuration files."""
    if path.suffix.lower() not in CONFIGURATIONS:
        return True
    try:
        with path.open("rb") as file:
            beginning = file.read(LONGEST_BEGINNING)
    except OSError:
        return False
    return b"[property]" in beginning or b"property:" in beginning


def _file_and_class(model: str) -> tuple[str, str]:
    match = _CLASS_IN_FILE.fullmatch(model)
    return (match[1], match[2] or "") if match else (model, "")
