"""nvinfer's label files: a line per class or output, texts between ``;``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from sluice.models.labels import read_lines

Lines = tuple[tuple[str, ...], ...]


def read_label_lines(path: str | Path) -> Lines:
    """The texts of each line; a byte order mark at the start is none of them.

    Raises:
        ModelError: see `sluice.models.labels.read_lines`.
    """
    lines = read_lines(path, "labelfile-path: ")
    return tuple(tuple(part.strip() for part in line.rstrip("; ").split(";")) for line in lines)


def detector_labels(lines: Lines) -> tuple[str, ...]:
    """Label of class c: the first text of line c."""
    return tuple(line[0] for line in lines)


def classifier_labels(lines: Lines, outputs: int, path: str) -> tuple[Lines, str | None]:
    """Label of class c of output i: text c of line i; and what to say of a file that has the other form.

    A file with one class a line gives nvinfer a label for the first class only, so that nothing is attached for any
    other. No file that is right for nvinfer looks like this, so it is read as it was meant.
    """
    if len(lines) > outputs and all(len(line) == 1 for line in lines):
        warning = (
            f"{path} has a class a line; nvinfer's classifiers want the classes of one output on one line, between "
            "';'. It is read as the classes of the first output"
        )
        return (detector_labels(lines),), warning
    return lines, None


def as_lines(labels: Sequence[str], detector: bool) -> Lines:
    """Labels that were given in the place of the file's."""
    return tuple((label,) for label in labels) if detector else (tuple(labels),)
