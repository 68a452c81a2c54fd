"""Imports go down only: app, pyservicemaker, elements, models, runtimes, contract, what is below all; not sideways."""

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src" / "sluice"
BESIDE = {"tracking", "drawing", "messages", "analytics", "metrics", "recording", "vlm", "search"}
"""What happens to results: each knows the contract, none of the others."""

ALLOWED = {
    "errors": set(),
    "protobuf": set(),
    "yaml_text": set(),
    "contract": {"errors"},
    "runtimes": {"errors", "protobuf", "yaml_text", "contract"},
    "models": {"errors", "yaml_text", "contract", "runtimes"},
    **{name: {"errors", "yaml_text", "contract"} for name in BESIDE},
    "messages": {"errors", "protobuf", "yaml_text", "contract"},
    "elements": {"errors", "contract", "runtimes", "models", *BESIDE},
    "pyservicemaker": {"errors", "contract", "elements"},
    "app": {"errors", "yaml_text", "contract", "runtimes", "models", *BESIDE, "elements"},
    "gstplugin": {"elements", "app"},
}
FILES = sorted(path for path in SOURCE.rglob("*.py") if path.parent != SOURCE)


def imported(path: Path) -> set[str]:
    """The parts of Sluice that a file imports, anywhere in it; users' programs in texts do not count."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: a relative import hides where it goes"
            names |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
    return {name.split(".")[1] for name in names if name.startswith("sluice.")} & set(ALLOWED)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_go_down(path: Path) -> None:
    part = path.relative_to(SOURCE).parts[0]
    beyond = imported(path) - ALLOWED[part] - {part}
    assert not beyond, f"{path.relative_to(SOURCE)} may not import sluice.{', sluice.'.join(sorted(beyond))}"


def test_every_part_has_its_place() -> None:
    folders = {path.name for path in SOURCE.iterdir() if path.is_dir() and any(path.rglob("*.py"))}
    assert folders <= set(ALLOWED)
