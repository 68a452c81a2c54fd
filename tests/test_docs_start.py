"""The pages that one reads first, run from top to bottom as a reader would."""

from pathlib import Path

import pytest

from doc_pages import ROOT, SECONDS, run_page

pytestmark = pytest.mark.timeout(SECONDS + 60)
START = ("README.md", "docs/tutorial.md", "docs/deepstream.md", "docs/own-element.md", "docs/changing-models.md")


@pytest.mark.parametrize("page", START[1:])
def test_a_page_runs_from_top_to_bottom(page: str, tmp_path: Path) -> None:
    run_page(ROOT / page, tmp_path)


def test_the_readme_runs_from_top_to_bottom(tmp_path: Path) -> None:
    printed = run_page(ROOT / "README.md", tmp_path)
    assert "person (" in printed, "the program of a newcomer printed its summary"
    assert "current:" in printed, "fpsdisplaysink told the rate"
    assert sorted(path.name for path in (tmp_path / "out" / "python").iterdir()) == ["pedestrians.mp4", "test_ball.mp4"]
