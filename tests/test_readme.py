"""Every command and program in the README, run as it stands there."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)
COMMANDS = [text for language, text in BLOCKS if language == "bash" and not text.startswith("make ")]
PROGRAMS = [text for language, text in BLOCKS if language == "python"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder that looks like the repository's root, where the README's commands can write what they want."""
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    (tmp_path / "bright.py").write_text(PROGRAMS[0])
    return tmp_path


def run(command: list[str], folder: Path) -> str:
    """Run with the virtual environment's commands on the path; return what was printed, or fail with it."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        command, cwd=folder, env={**os.environ, "PATH": path}, capture_output=True, text=True, timeout=110
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_readme_has_its_blocks() -> None:
    assert len(COMMANDS) == 4
    assert len(PROGRAMS) == 2


@pytest.mark.parametrize("command", COMMANDS, ids=lambda text: " ".join(text.split()[:3]))
def test_a_command_runs_as_written(command: str, folder: Path) -> None:
    printed = run(["bash", "-euo", "pipefail", "-c", command], folder)
    if "fpsdisplaysink" in command:
        assert "current:" in printed


def test_the_program_of_a_newcomer(folder: Path) -> None:
    printed = run([sys.executable, "-c", PROGRAMS[1]], folder)
    assert "person (" in printed
    assert sorted(path.name for path in (folder / "out" / "python").iterdir()) == ["pedestrians.mp4", "test_ball.mp4"]
