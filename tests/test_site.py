"""The documentation as a site, and the parts of it that are generated."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    pytest.importorskip("mkdocs", reason="mkdocs-material is not installed (pip install 'sluice-video[docs]')")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path / "site")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=110)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "site" / "tutorial" / "index.html").is_file()


def test_the_reference_of_elements_is_what_the_elements_say() -> None:
    script = ROOT / "scripts" / "element_reference.py"
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=110)
    assert done.returncode == 0, done.stderr
    written = (ROOT / "docs" / "elements.md").read_text()
    assert done.stdout == written, f"run: {script.relative_to(ROOT)} > docs/elements.md"
