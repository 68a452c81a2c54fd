"""The doctor's checks of Python, its packages and the contract's library. Imports the standard library only.

Packages with native code are imported in a child process: one that crashes must not take the doctor with it.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import signal
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

from sluice.app.doctor import Check, Finding

OLDEST_PYTHON = (3, 10)
_INSTALL_GI = "apt-get install python3-gi python3-gst-1.0"
_IMPORT_SECONDS = 60
# Package, what Sluice needs it for, and the command that installs it.
REQUIRED = (
    ("numpy", "import numpy; print(numpy.__version__)", "pip install 'numpy>=2.0.2'"),
    (
        "cv2",
        "import cv2; cv2.HOGDescriptor_getDefaultPeopleDetector(); print(cv2.__version__)",
        "pip install 'opencv-python>=4.8,<5'",
    ),
    ("onnxruntime", "import onnxruntime as o; print(o.__version__, *o.get_available_providers())",
     "pip install 'onnxruntime>=1.19'"),
    ("trackers", "import trackers, importlib.metadata as m; print(m.version('trackers'))",
     "pip install 'trackers>=2.6'"),
)  # fmt: skip
OPTIONAL = (
    ("torch", "import torch; print(torch.__version__)", "pip install 'sluice-video[torch]'"),
    ("openvino", "import openvino; print(openvino.__version__)", "pip install 'sluice-video[openvino]'"),
    ("tensorrt", "import tensorrt; print(tensorrt.__version__)", "pip install tensorrt"),
)


def run_child(code: str, **environment: str) -> tuple[str | None, str]:
    """Run Python code in a child and return (None, its output), or (what went wrong, its error output)."""
    try:
        child = subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            timeout=_IMPORT_SECONDS,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), **environment},
        )
    except subprocess.TimeoutExpired:
        return f"did not end within {_IMPORT_SECONDS} s", ""
    if child.returncode < 0:
        return f"crashed with {signal.Signals(-child.returncode).name}", child.stderr
    if child.returncode > 0:
        return (child.stderr.strip().splitlines() or [f"exit status {child.returncode}"])[-1], child.stderr
    return None, child.stdout.strip()


def check_python() -> Iterator[Finding]:
    """The interpreter: version, and whether it has a GIL."""
    version = f"{sys.version.split()[0]} at {sys.executable}"
    if sys.version_info < OLDEST_PYTHON:
        yield Finding(
            "python", "fault", f"{version}; Sluice needs 3.10 or newer", "apt-get install python3 python3-venv"
        )
    elif sysconfig.get_config_var("Py_GIL_DISABLED"):
        yield Finding(
            "python",
            "fault",
            f"{version} is a free-threaded build; GStreamer's bindings crash in it",
            "/usr/bin/python3 -m venv --clear --system-site-packages .venv",
        )
    else:
        yield Finding("python", "ok", version)


def check_switch_interval() -> Iterator[Finding]:
    """How often threads change: what the elements will set."""
    name = "SLUICE_SWITCH_INTERVAL"
    text = os.environ.get(name)
    try:
        valid = text is None or float(text) > 0
    except ValueError:
        valid = False
    if not valid:
        yield Finding(
            "switch interval", "fault", f"{name}={text!r} is not a number of seconds above 0", f"unset {name}"
        )
        return
    yield Finding("switch interval", "ok", f"{text} s" if text else "0.0002 s (the default)")


@functools.cache
def _gi_problem() -> tuple[str | None, str]:
    return run_child(
        "import gi; gi.require_version('Gst', '1.0'); from gi.repository import Gst; print(gi.__version__)"
    )


def gi_works() -> bool:
    """Return whether PyGObject and GStreamer's typelib can be imported; asked once."""
    return _gi_problem()[0] is None


def check_pygobject() -> Iterator[Finding]:
    """PyGObject, GStreamer's description for it, and GStreamer's own overrides."""
    problem, output = _gi_problem()
    if problem is None:
        yield Finding("pygobject", "ok", f"PyGObject {output}")
        yield from _check_overrides()
        return
    if "Namespace Gst not available" in problem:
        yield Finding(
            "pygobject", "fault", f"GStreamer's typelib is missing: {problem}", "apt-get install gir1.2-gstreamer-1.0"
        )
        return
    venv = Path(sys.prefix) / "pyvenv.cfg"
    isolated = venv.is_file() and "include-system-site-packages = false" in venv.read_text().lower()
    if isolated:
        yield Finding(
            "pygobject",
            "fault",
            f"this virtual environment does not see the system's python3-gi: {problem}",
            f"/usr/bin/python3 -m venv --upgrade --system-site-packages {sys.prefix}",
        )
        return
    hint = ""
    if "girepository" in problem.lower():
        hint = " (PyGObject 3.51 and newer need girepository-2.0; this system has an older one)"
    yield Finding("pygobject", "fault", f"gi cannot be imported: {problem}{hint}", _INSTALL_GI)


def _check_overrides() -> Iterator[Finding]:
    if importlib.util.find_spec("gi.overrides.Gst") is None:
        yield Finding(
            "gst overrides",
            "fault",
            "GStreamer's Python overrides are missing: elements written in Python are not registered without them",
            "apt-get install python3-gst-1.0",
        )
    else:
        yield Finding("gst overrides", "ok", "gi.overrides.Gst is there")


def check_packages() -> Iterator[Finding]:
    """The packages that Sluice needs, each imported in a child process, and those that it can use."""
    for name, code, fix in REQUIRED:
        problem, output = run_child(code)
        if problem is None:
            yield Finding(name, "ok", output)
        else:
            yield Finding(name, "fault", f"{name} cannot be used: {_explain(problem, output)}", fix)
    for name, code, fix in OPTIONAL:
        if importlib.util.find_spec(name) is None:
            yield Finding(name, "note", f"not installed; models that need it are refused ({fix})")
            continue
        problem, output = run_child(code)
        status, fix_now = ("ok", None) if problem is None else ("fault", fix)
        yield Finding(name, status, output if problem is None else _explain(problem, output), fix_now)  # type: ignore[arg-type]


def _explain(problem: str, errors: str) -> str:
    if "_ARRAY_API" in errors or "compiled using NumPy 1" in errors:
        return f"{problem}: it was compiled for another NumPy ABI than the one installed"
    return problem


def check_library() -> Iterator[Finding]:
    """The contract's C library and the metadata provider."""
    problem, _ = run_child("from sluice.contract._native import library; library()")
    if problem is not None:
        yield Finding(
            "native library", "fault", problem, f"{sys.executable} -m pip install --force-reinstall --no-deps -e ."
        )
        return
    yield Finding("native library", "ok", "the contract's C library loads")
    if not gi_works():
        return
    code = "from sluice.contract.provider import provider; p = provider(); print(p.name, p.path or '')"
    problem, output = run_child(code)
    if problem is None:
        yield Finding("provider", "ok", output)
    else:
        yield Finding("provider", "fault", problem, "unset SLUICE_PROVIDER")


def check_gpu() -> Iterator[Finding]:
    """An NVIDIA GPU and DeepStream; neither is needed."""
    present = Path("/proc/driver/nvidia/version").is_file()
    yield Finding("gpu", "ok" if present else "note", "NVIDIA's driver is loaded" if present else "no NVIDIA driver")
    deepstream = Path("/opt/nvidia/deepstream/deepstream")
    found = deepstream.is_dir()
    yield Finding("deepstream", "ok" if found else "note", str(deepstream.resolve()) if found else "not installed")


CHECKS: tuple[Check, ...] = (
    check_python,
    check_switch_interval,
    check_pygobject,
    check_packages,
    check_library,
    check_gpu,
)
