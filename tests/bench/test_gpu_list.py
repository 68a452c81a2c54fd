"""The list of what is measured on a GPU: limits, failures and going on, with programs that need none."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

import pytest

BENCH = str(Path(__file__).parents[2] / "bench")
sys.path.append(BENCH)
import gpu_list
from gpu_list import DONE, FAILED, LATE, UNTRIED, Form, forms, measure

sys.path.remove(BENCH)  # it has modules of the same names as folders of tests


@pytest.fixture(autouse=True)
def beside_it(monkeypatch):
    """What it imports when it is asked to is found."""
    monkeypatch.syspath_prepend(BENCH)


def python(name, text, seconds=20.0, out=None):
    return Form(name, seconds, ("-c", text), out)


def test_a_form_that_fails_or_hangs_does_not_stop_the_next(tmp_path):
    """And what it started ends with it."""
    hangs = (
        "import subprocess, sys, time; child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)']);"
        "print(child.pid, flush=True); time.sleep(60)"
    )
    listed = [
        python("fails", "import sys; sys.exit('no such thing')"),
        python("hangs", hangs, 3.0),
        python("crashes", "import os; os.abort()"),
        python("works", "print('numbers')"),
    ]
    found = measure(listed, tmp_path / "list.json", 60)
    assert [found[form.name]["status"] for form in listed] == [FAILED, LATE, FAILED, DONE]
    assert found["fails"]["said"] == ["no such thing"]
    assert found["works"]["said"] == ["numbers"]
    child, end = int(found["hangs"]["said"][0]), time.monotonic() + 10
    while (state := state_of(child)) not in (None, "Z") and time.monotonic() < end:
        time.sleep(0.05)
    assert state in (None, "Z"), "the child goes on"
    assert json.loads((tmp_path / "list.json").read_text()).keys() == found.keys()


def state_of(process):
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return None


def test_it_goes_on_where_it_stopped(tmp_path):
    note = tmp_path / "note"
    text = f"open({str(note)!r}, 'a').write('x')"
    listed = [
        python("first", text),
        python("second", f"import os, sys; sys.exit(not os.path.exists({str(note)!r} + '2'))"),
    ]
    file = tmp_path / "list.json"
    assert measure(listed, file, 60)["second"]["status"] == FAILED
    Path(f"{note}2").touch()
    found = measure(listed, file, 60)
    assert (found["first"]["status"], found["second"]["status"], note.read_text()) == (DONE, DONE, "x")
    measure(listed, file, 60, frozenset({"first"}))
    assert note.read_text() == "xx"


def test_no_form_is_begun_without_time(tmp_path):
    found = measure([python("late", "print('x')")], tmp_path / "list.json", 0.0)
    assert found["late"] == {"status": UNTRIED}
    assert measure([python("late", "print('x')")], tmp_path / "list.json", 60.0)["late"]["status"] == DONE


def test_numbers_of_before_the_limit_are_kept(tmp_path):
    out = tmp_path / "numbers.json"
    text = f"import time; open({str(out)!r}, 'w').write('{{\"runs\": [{{\"frames\": 5}}]}}'); time.sleep(60)"
    found = measure([python("slow", text, 3.0, out)], tmp_path / "list.json", 60)
    assert (found["slow"]["status"], found["slow"]["result"]) == (LATE, {"runs": [{"frames": 5}]})


def test_a_run_that_says_that_it_failed_is_tried_again(tmp_path):
    out = tmp_path / "numbers.json"
    text = f"open({str(out)!r}, 'w').write('{{\"runs\": [{{\"failed\": true}}]}}')"
    assert measure([python("bad", text, 20.0, out)], tmp_path / "list.json", 60)["bad"]["status"] == FAILED


def test_every_command_line_is_taken(tmp_path, monkeypatch):
    monkeypatch.setattr(gpu_list, "made", lambda network: [])
    monkeypatch.setattr(gpu_list, "find_spec", lambda name: object())
    monkeypatch.setattr(gpu_list.shutil, "which", lambda name: name)
    clip = tmp_path / "clip.h264"
    clip.touch()
    listed = forms(str(clip), str(clip), tmp_path)
    assert gpu_list.check(listed) == []
    assert len({form.name for form in listed}) == len(listed)
    assert all(form.out is None or form.out.parent == tmp_path for form in listed)
    assert gpu_list.check(forms(str(tmp_path / "none"), None, tmp_path)) != []


@pytest.mark.parametrize("name", ["swap", "swap-network", "network-compiled", "gil", "run-in-2"])
def test_the_other_programs_take_theirs(tmp_path, name):
    """They parse their command lines before they need a GPU; --help behind the arguments ends them there.

    That refuses wrong values, and tells which options there are.
    """
    import subprocess

    form = next(form for form in forms("clip.h264", None, tmp_path) if form.name == name)
    command = [sys.executable, *form.command]
    if name == "gil":
        command = [sys.executable, "-m", "sluice.app.cli", "run", *form.command[2:]]
    done = subprocess.run([*command, "--help"], cwd=gpu_list.HERE, capture_output=True, text=True, env=os.environ)
    if name == "network-compiled" and "No module named 'torch'" in done.stderr:
        pytest.skip("needs torch")
    assert done.returncode == 0, done.stderr[-2000:]
    assert [part for part in command if part.startswith("--") and part not in done.stdout] == []
