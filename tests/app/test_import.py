"""`import sluice`: light, and in any order with the packages it works with."""

import itertools
import subprocess
import sys

import pytest

import sluice

HEAVY = ("gi", "numpy", "cv2", "onnxruntime")
USE = """
import threading
import onnxruntime, sluice
def run():
    found = sluice.Pipeline("test:ball?frames=3&size=64x48", model="people", tracker=None).run()
    assert [stream.frames_out for stream in found.streams] == [3], found
thread = threading.Thread(target=run)
thread.start()
thread.join(60)
print("done" if not thread.is_alive() else "hangs", onnxruntime.get_available_providers()[-1])
"""


def run(code: str) -> str:
    child = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=100)
    assert child.returncode == 0, child.stderr
    return child.stdout.strip()


def test_import_brings_in_nothing_heavy() -> None:
    code = "import sys, sluice; from sluice import SluiceError; print(*sys.modules)"
    assert not {*HEAVY, "typer", "rich", "trackers"} & set(run(code).split())


@pytest.mark.parametrize("order", list(itertools.permutations(HEAVY)), ids="-".join)
def test_any_import_order_works(order: tuple[str, ...]) -> None:
    assert run(f"import {', '.join(order)}\n{USE}").splitlines()[-1] == "done CPUExecutionProvider"


def test_sluice_first() -> None:
    assert run("import sluice; sluice.Pipeline, sluice.load_model, sluice.Frame\n" + USE).startswith("done")


@pytest.mark.parametrize("name", sluice.__all__)
def test_public_names(name: str) -> None:
    assert getattr(sluice, name) is not None
    assert name in dir(sluice)


def test_other_names_are_refused() -> None:
    with pytest.raises(AttributeError, match="Pipelin"):
        sluice.Pipelin  # noqa: B018
