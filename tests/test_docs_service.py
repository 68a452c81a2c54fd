"""The pages about cameras, services and what they give, run from top to bottom as a reader would."""

from pathlib import Path

import pytest

from doc_pages import ROOT, SECONDS, run_page

pytestmark = pytest.mark.timeout(SECONDS + 60)
SERVICE = ("docs/cameras.md", "docs/serve.md", "docs/outputs.md", "docs/observability.md", "docs/fleet.md")


@pytest.mark.parametrize("page", SERVICE)
def test_a_page_runs_from_top_to_bottom(page: str, tmp_path: Path) -> None:
    run_page(ROOT / page, tmp_path)
