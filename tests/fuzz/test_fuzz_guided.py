"""The targets of `make fuzz`: each takes what it begins with, and a short run with coverage, the same every time."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import targets

GUIDED = Path(__file__).parent / "guided.py"
TARGETS = targets.load()
RUNS = 200  # of each target
needs_atheris = pytest.mark.skipif(
    importlib.util.find_spec("atheris") is None, reason="atheris is not installed: it has no wheels for this Python"
)


def guided(*arguments: str, code: str | None = None) -> subprocess.CompletedProcess[str]:
    """Run the fuzzer, or code with its module; nothing in it may depend on the order of sets."""
    return subprocess.run(
        [sys.executable, *([str(GUIDED)] if code is None else ["-c", code]), *arguments],
        env={**os.environ, "PYTHONHASHSEED": "0", "PYTHONPATH": str(GUIDED.parent)},
        capture_output=True,
        text=True,
    )


def test_every_module_of_targets_is_found() -> None:
    there = {path.stem for path in GUIDED.parent.joinpath("targets").rglob("*.py")} - {"__init__"}
    assert set(targets.modules()) == there


def test_what_was_found_before_belongs_to_a_target() -> None:
    assert {path.name for path in targets.CORPUS.iterdir()} <= set(TARGETS)
    assert all(path.is_file() for folder in targets.CORPUS.iterdir() for path in folder.iterdir())


@pytest.mark.parametrize("name", sorted(TARGETS))
def test_a_target_takes_what_it_begins_with(name: str) -> None:
    begun = targets.inputs(name, TARGETS[name])
    assert begun
    for content in begun:
        TARGETS[name].run(content)


@needs_atheris
@pytest.mark.timeout(1800)
def test_a_short_run_of_every_target_finds_nothing(tmp_path: Path) -> None:
    done = guided("--runs", str(RUNS), "--out", str(tmp_path))
    assert done.returncode == 0, "\n".join([done.stdout, done.stderr[-2000:], *map(_end, tmp_path.glob("*.log"))])
    assert done.stdout.splitlines() == [f"{name}: nothing found" for name in sorted(TARGETS)]
    for name in TARGETS:
        assert any((tmp_path / "corpus" / name).iterdir())
        done_runs = re.search(r"Done (\d+) runs", _end(tmp_path / f"{name}.log"))
        assert done_runs is not None
        assert int(done_runs[1]) >= RUNS


@needs_atheris
def test_what_ends_a_target_is_kept_and_told(tmp_path: Path) -> None:
    """A fault that only shows behind three bytes, which the fuzzer has to come to one by one."""
    code = f"""
import guided, targets, sys, atheris
@atheris.instrument_func
def faulty(content):
    if content[:1] == b"b":
        if content[1:2] == b"a":
            if content[2:3] == b"d":
                raise KeyError("bad")
sys.argv = ["guided", "--runs", "100000", "--out", {str(tmp_path)!r}]
sys.exit(guided.main({{"faulty": targets.Target(faulty, (b"good",)), "right": targets.Target(bytes, (b"good",))}}))
"""
    done = guided(code=code)
    assert done.returncode == 1, done.stderr[-2000:]
    assert done.stdout.splitlines() == [f"faulty: FOUND something, see {tmp_path}/faulty.log", "right: nothing found"]
    [kept] = (tmp_path / "findings").iterdir()
    assert kept.read_bytes().startswith(b"bad")
    assert "KeyError" in (tmp_path / "faulty.log").read_text()


def _end(log: Path) -> str:
    return log.read_text(errors="replace")[-3000:]
