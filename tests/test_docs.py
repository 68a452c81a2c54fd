"""What holds for all pages: each is in the contents, and each of its blocks runs or is listed with a reason."""

import re
from pathlib import Path

import pytest
import yaml

from doc_pages import DOCS, PAGES, ROOT, SHOWN, blocks, name, reason, steps
from test_docs_guides import GUIDES
from test_docs_service import SERVICE
from test_docs_start import START


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_block_runs_or_is_listed_with_a_reason(page: Path) -> None:
    runs = steps(page)
    idle = [block.first for block in blocks(page) if block not in runs and reason(page, block) is None]
    assert idle == [], "these blocks do not run, and tests/doc_pages.py has no reason for it"


@pytest.mark.parametrize("page", SHOWN)
def test_every_reason_is_for_a_block_that_is_there(page: str) -> None:
    firsts = [block.first for block in blocks(ROOT / page)]
    assert [start for start in SHOWN[page] if not any(first.startswith(start) for first in firsts)] == []


def test_every_page_with_something_to_run_is_run_by_one_of_the_tests() -> None:
    run = [*START, *SERVICE, *GUIDES]
    assert sorted(run) == sorted(name(page) for page in PAGES if steps(page))


def test_every_page_is_in_the_contents_and_every_entry_is_a_page() -> None:
    def pages(entry: object) -> list[str]:
        if isinstance(entry, str):
            return [entry]
        values = entry.values() if isinstance(entry, dict) else entry
        return [page for value in values for page in pages(value)]  # type: ignore[union-attr]

    contents = yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"]
    assert sorted(pages(contents)) == sorted(str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md"))


def test_the_files_that_contributing_names_are_there() -> None:
    words = re.findall(r"`([\w./]+/[\w./]*)`", (ROOT / "CONTRIBUTING.md").read_text())
    named = [word for word in words if "NAME" not in word]
    assert len(named) > 15
    assert [word for word in named if not any((top / word).exists() for top in (ROOT, ROOT / "src" / "sluice"))] == []
