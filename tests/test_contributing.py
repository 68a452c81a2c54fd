"""The table in CONTRIBUTING.md, by which a newcomer finds where something is added, names what is there."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
TEXT = (ROOT / "CONTRIBUTING.md").read_text()
ROWS = re.findall(r"^\| (an? .+?) \|(.+)\|$", TEXT, re.MULTILINE)
ABOVE = ("bench", "docs", "scripts", "tests", "mkdocs.yml", "README.md", "pyproject.toml", "src")


def place(path: str) -> Path:
    """Where a path of the text is."""
    return (ROOT if path.startswith(ABOVE) else ROOT / "src" / "sluice") / path


def paths(text: str) -> list[str]:
    """The paths in backquotes, without those that stand for something new."""
    found = re.findall(r"`([\w./*-]+)[^`]*`", text)
    return [path for path in found if re.search(r"/|\.(py|md|yml|toml)$", path) and "NAME" not in path]


def test_the_table_tells_where_the_usual_things_are_added() -> None:
    wanted = {"a runtime", "a decoder of a network's head", "a broker", "an element", "a property"}
    assert wanted <= {name for name, _ in ROWS}


@pytest.mark.parametrize(("name", "cells"), ROWS, ids=[name for name, _ in ROWS])
def test_what_a_row_names_is_there(name: str, cells: str) -> None:
    assert paths(cells)
    for path in paths(cells):
        assert any(place(path).parent.glob(place(path).name)), path
    for names, path in re.findall(r"((?:`\w+`(?:, )?)+) of `([\w./]+)`", cells):
        for word in re.findall(r"\w+", names):
            assert re.search(rf"^{word}\b", place(path).read_text(), re.MULTILINE), f"{word} of {path}"


def test_what_the_rest_names_is_there() -> None:
    for path in paths(TEXT[TEXT.index("## The architecture") :]):
        assert any(place(path).parent.glob(place(path).name)), path
