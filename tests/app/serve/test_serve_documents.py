"""The documents made from the code are what the repository has."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from sluice.app.serve.documents import config_schema, openapi

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize(("which", "page"), [("config", "serve-config.md"), ("rest", "rest.md")])
def test_the_reference_pages_are_what_the_code_says(which: str, page: str) -> None:
    script = ROOT / "scripts" / "serve_reference.py"
    made = subprocess.run([sys.executable, script, which], capture_output=True, text=True, timeout=100, check=True)
    assert made.stdout == (ROOT / "docs" / page).read_text(), f"run scripts/serve_reference.py {which} > docs/{page}"


def test_everything_in_the_api_and_in_the_configuration_is_described() -> None:
    document = json.loads(openapi())
    assert document["openapi"].startswith("3.")
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            assert operation.get("description"), (method, path)
            assert path in ("/healthz", "/readyz") or "401" in operation["responses"], (method, path)
    schema = json.loads(config_schema())
    for group in (schema, *schema["$defs"].values()):
        for name, about in group.get("properties", {}).items():
            assert about.get("description") or "$ref" in about, (group["title"], name)
