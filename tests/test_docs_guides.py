"""The pages about models and what is made of their results, run from top to bottom as a reader would."""

from pathlib import Path

import pytest

from doc_pages import ROOT, SECONDS, run_page

pytestmark = pytest.mark.timeout(SECONDS + 60)
GUIDES = (
    "docs/analytics.md",
    "docs/brokers.md",
    "docs/cascades.md",
    "docs/contract.md",
    "docs/gpu.md",
    "docs/messages.md",
    "docs/overlay.md",
    "docs/recording.md",
    "docs/rotated-boxes.md",
    "docs/runtimes.md",
    "docs/tracking.md",
    "docs/vlm.md",
)


@pytest.mark.parametrize("page", GUIDES)
def test_a_page_runs_from_top_to_bottom(page: str, tmp_path: Path) -> None:
    run_page(ROOT / page, tmp_path)
