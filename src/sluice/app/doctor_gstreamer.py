"""The doctor's checks of GStreamer: its version, decoders and encoders, the Python plugin loader and the registry."""

from __future__ import annotations

import json
import os
import shutil
import sys
import sysconfig
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from sluice.app.doctor import Check, Finding
from sluice.app.doctor_python import run_child
from sluice.app.env import environment, plugin_path
from sluice.elements import ELEMENTS

OLDEST_GSTREAMER = (1, 20)
_GOOD = "apt-get install gstreamer1.0-plugins-good"
_BASE = "apt-get install gstreamer1.0-plugins-base"
_BAD = "apt-get install gstreamer1.0-plugins-bad"
_LIBAV = "apt-get install gstreamer1.0-libav"
# Elements that a run is made of, and what brings them.
ELEMENTS_NEEDED = {
    **dict.fromkeys(("uridecodebin3", "appsrc", "videotestsrc", "videoconvert", "videoscale"), _BASE),
    **dict.fromkeys(("qtdemux", "matroskademux", "rtspsrc", "videoflip", "videobox", "mp4mux"), _GOOD),
    **dict.fromkeys(("tsdemux", "h264parse", "h265parse"), _BAD),
}
# Codec caps, and what brings a decoder for them.
CODECS = {
    "video/x-h264": _LIBAV,
    "video/x-h265": _LIBAV,
    "video/mpeg, mpegversion=4, systemstream=false": _LIBAV,
    "video/x-vp8": _GOOD,
    "video/x-vp9": _GOOD,
    "video/x-av1": _BAD,
    "image/jpeg": _GOOD,
}

_LOOK = """
import json, gi
gi.require_version("Gst", "1.0")
from gi.repository import Gst
Gst.init(None)
needed, codecs, own = json.loads({question!r})
decoders = Gst.ElementFactory.list_get_elements(Gst.ELEMENT_FACTORY_TYPE_DECODER, Gst.Rank.MARGINAL)
def decodable(text):
    caps = Gst.Caps.from_string(text)
    return any(d.can_sink_any_caps(caps) for d in decoders)
print("\\n" + json.dumps({{
    "version": Gst.version()[:3],
    "missing": [name for name in needed if Gst.ElementFactory.find(name) is None],
    "undecodable": [text for text in codecs if not decodable(text)],
    "loader": Gst.Registry.get().find_plugin("python") is not None,
    "own": [name for name in own if Gst.ElementFactory.find(name) is None],
}}))
"""


def look(**environment: str) -> tuple[str | None, dict[str, object]]:
    """Ask GStreamer, in a child process with these variables set, what it has; return (problem, answer)."""
    question = json.dumps([list(ELEMENTS_NEEDED), list(CODECS), list(ELEMENTS)])
    problem, output = run_child(_LOOK.format(question=question), **environment)
    return (problem, {}) if problem is not None else (None, json.loads(output.splitlines()[-1]))


def check_gstreamer() -> Iterator[Finding]:
    """The version, the elements and the decoders."""
    problem, found = look()
    if problem is not None:
        yield Finding("gstreamer", "fault", f"GStreamer cannot be started: {problem}", _BASE)
        return
    version = ".".join(map(str, found["version"]))  # type: ignore[call-overload]
    if tuple(found["version"]) < OLDEST_GSTREAMER:  # type: ignore[arg-type]
        yield Finding("gstreamer", "fault", f"{version}; Sluice needs 1.20 or newer", "apt-get dist-upgrade")
    else:
        yield Finding("gstreamer", "ok", version)
    yield from _missing("elements", found["missing"], ELEMENTS_NEEDED, "GStreamer has no {}")  # type: ignore[arg-type]
    yield from _missing("decoders", found["undecodable"], CODECS, "nothing decodes {}")  # type: ignore[arg-type]


def _missing(check: str, missing: list[str], fixes: dict[str, str], text: str) -> Iterator[Finding]:
    """Yield one fault per command that mends some of what is missing."""
    for fix in dict.fromkeys(fixes[name] for name in missing):
        names = [name for name in missing if fixes[name] == fix]
        yield Finding(check, "fault", text.format(", ".join(names)), fix)
    if not missing:
        yield Finding(check, "ok", f"all {len(fixes)} are there")


def check_encoders() -> Iterator[Finding]:
    """A video encoder for annotated files."""
    code = "import gi; gi.require_version('Gst', '1.0'); from gi.repository import Gst; Gst.init(None); "
    code += "from sluice.app.outputs import find_encoder; print(find_encoder()[0])"
    problem, output = run_child(code)
    if problem is None:
        yield Finding("encoder", "ok", output.splitlines()[-1])
    else:
        yield Finding("encoder", "fault", problem, "apt-get install gstreamer1.0-plugins-ugly")


def check_plugin_path() -> Iterator[Finding]:
    """GST_PLUGIN_PATH, which gst-launch and gst-inspect need; `sluice run` does not."""
    given = os.environ.get("GST_PLUGIN_PATH_1_0") or os.environ.get("GST_PLUGIN_PATH", "")
    folders = [Path(folder) for folder in given.split(os.pathsep) if folder]
    own = plugin_path()
    if own / "python" in folders:
        yield Finding(
            "plugin path",
            "fault",
            f"GST_PLUGIN_PATH names {own / 'python'}; it must name the folder above",
            'eval "$(sluice env)"',
        )
    elif own in folders:
        yield Finding("plugin path", "ok", given)
    else:
        yield Finding("plugin path", "note", 'not set for this shell; gst-launch needs: eval "$(sluice env)"')


def check_plugin_loader() -> Iterator[Finding]:
    """GStreamer's loader of elements written in Python, the library it opens, and its cache."""
    library = _libpython()
    if library is None:
        name = f"libpython{sysconfig.get_config_var('LDVERSION')}.so"
        yield Finding(
            "libpython",
            "fault",
            f"{name} is missing: GStreamer's loader opens it by this name and fails silently",
            "apt-get install libpython3-dev",
        )
    else:
        yield Finding("libpython", "ok", str(library))
    variables = environment()
    other = _python_in_the_way(variables)
    if other is not None:
        yield Finding(
            "python on PATH",
            "fault",
            f"{other} comes first on PATH, and GStreamer's loader looks for packages there ('pygobject initialization "
            "failed'): gst-launch, gst-inspect and their cache have none of Sluice's elements",
            f'export PATH="{sys.base_prefix}/bin:$PATH"; rm -f {_registry_files()}',
        )
        return
    problem, found = look(**variables)
    if problem is None and found["loader"] and not found["own"]:
        yield Finding("plugin loader", "ok", f"GStreamer finds all {len(ELEMENTS)} elements in {plugin_path()}")
        return
    with tempfile.TemporaryDirectory() as folder:
        fresh_problem, fresh = look(**variables, GST_REGISTRY=f"{folder}/registry.bin")
    if fresh_problem is None and not fresh["loader"]:
        yield Finding(
            "plugin loader",
            "fault",
            "GStreamer's loader of Python elements is missing: gst-launch does not find Sluice's elements",
            "apt-get install gstreamer1.0-python3-plugin-loader",
        )
        return
    missing = problem or ", ".join(map(str, found["own"]))  # type: ignore[call-overload]
    if fresh_problem is None and not fresh["own"]:
        yield Finding(
            "registry cache",
            "fault",
            "GStreamer's cache was made when Sluice's elements could not be loaded, perhaps since another Python came "
            f"first on PATH, which is no longer so: {missing}",
            f"rm -f {_registry_files()}",
        )
    else:
        yield Finding(
            "plugin loader",
            "fault",
            f"GStreamer finds no {missing} in {plugin_path()}, nor does it after a new scan; "
            "GST_DEBUG=python:6 gst-inspect-1.0 python says why",
            "apt-get install gstreamer1.0-python3-plugin-loader libpython3-dev python3-gst-1.0",
        )


def _python_in_the_way(variables: Mapping[str, str]) -> str | None:
    """Return the python3 of PATH that keeps GStreamer's loader from working, None if none does.

    A libpython that is opened by another program looks for its packages around the first python3 on PATH, if that is of
    the same version.
    """
    first = shutil.which("python3")
    if first is None:
        return None
    prefix = Path(first).resolve().parents[1]
    packages = prefix / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "os.py"
    if prefix == Path(sys.base_prefix).resolve() or not packages.exists():
        return None
    with tempfile.TemporaryDirectory() as folder:  # as from a shell: without the paths that our children are given
        problem, found = look(**variables, GST_REGISTRY=f"{folder}/registry.bin", PYTHONPATH="")
    return first if problem is not None or not found["loader"] or found["own"] else None


def _libpython() -> Path | None:
    """Return the unversioned libpython3.X.so that the loader opens, None if there is none."""
    name = f"libpython{sysconfig.get_config_var('LDVERSION')}.so"
    folders = [sysconfig.get_config_var("LIBDIR"), sysconfig.get_config_var("LIBPL"), "/usr/lib", "/usr/local/lib"]
    multiarch = sysconfig.get_config_var("MULTIARCH")
    folders += [f"/usr/lib/{multiarch}"] if multiarch else []
    candidates = (Path(folder) / name for folder in folders if folder)
    return next((path for path in candidates if path.exists()), None)


def _registry_files() -> str:
    named = os.environ.get("GST_REGISTRY_1_0") or os.environ.get("GST_REGISTRY")
    if named:
        return named
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return f"{cache}/gstreamer-1.0/registry.*.bin"


CHECKS: tuple[Check, ...] = (check_gstreamer, check_encoders, check_plugin_path, check_plugin_loader)
