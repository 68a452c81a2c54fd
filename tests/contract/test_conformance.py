"""Every case of conformance/ on both metadata providers, each in a process of its own, since NvDsMeta has one owner.

The cases are ordinary pytest functions. To run them by hand, set SLUICE_PROVIDER and give pytest their files.
"""

import ast
import os
import subprocess
import sys
import xml.etree.ElementTree as ET
from functools import cache
from pathlib import Path

import pytest

from sluice.contract.provider import DEEPSTREAM, META_LIBRARY, wheel_folder

FOLDER = Path(__file__).parent / "conformance"
CASES = [
    f"{file.stem}.{node.name}"
    for file in sorted(FOLDER.glob("cases_*.py"))
    for node in ast.parse(file.read_text()).body
    if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
]
SECONDS = 300


@cache
def outcome(provider: str, folder: Path) -> tuple[dict[str, str], str]:
    """Run all cases on a provider; return each case's failure ('' when it passed) and what the run printed."""
    report = folder / f"{provider}.xml"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={report}"]
    run = subprocess.run(
        [*command, *map(str, sorted(FOLDER.glob("cases_*.py")))],
        env={**os.environ, "SLUICE_PROVIDER": provider},
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    printed = f"exit status {run.returncode}\n{run.stdout[-6000:]}\n{run.stderr[-3000:]}"
    results: dict[str, str] = {}
    if report.exists():
        for case in ET.parse(report).iter("testcase"):
            name = f"{case.get('classname', '').rsplit('.', 1)[-1]}.{case.get('name', '').partition('[')[0]}"
            problems = [text for kind in ("failure", "error", "skipped") for text in case.findall(kind)]
            results[name] = results.get(name, "") + "\n".join(f"{p.get('message')}\n{p.text}" for p in problems)
    return results, printed


@pytest.fixture(scope="session")
def reports(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("conformance")


@pytest.mark.timeout(SECONDS + 20)
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("provider", ["portable", "nvidia"])
def test_case(provider: str, case: str, reports: Path) -> None:
    if provider == "nvidia" and wheel_folder() is None and not (DEEPSTREAM / META_LIBRARY).exists():
        pytest.skip("NVIDIA's metadata library is not installed")
    results, printed = outcome(provider, reports)
    assert case in results, f"the case did not run:\n{printed}"
    assert results[case] == ""


def test_there_are_cases() -> None:
    assert len(CASES) > 30
