"""GStreamer's Python plugin loader finds the elements, from any shell, and scanning them imports nothing heavy."""

import importlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import sluice
from sluice.app import env
from sluice.elements import ELEMENTS, register_all

PLUGINS = Path(sluice.__file__).parent / "gstplugin" / "python"
HEAVY = ("numpy", "cv2", "onnxruntime", "trackers", "torch", "pydantic", "typer", "rich", "supervision", "scipy")


def plugin_file(name: str) -> Path:
    return PLUGINS / f"sluice_{name.removeprefix('sluice')}.py"


def inspect(path: str | Path, tmp_path: Path, element: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run gst-inspect-1.0 with an empty registry, nothing of this process's environment, and the system's Python."""
    environment = {
        "PATH": "/usr/bin:/bin",
        "HOME": str(tmp_path),
        "GST_PLUGIN_PATH": str(path),
        "GST_REGISTRY": str(tmp_path / "registry.bin"),
        **variables,
    }
    return subprocess.run(
        ["gst-inspect-1.0", element], env=environment, capture_output=True, text=True, timeout=60, check=False
    )


def test_one_file_per_element() -> None:
    assert {path.name for path in PLUGINS.glob("*.py")} == {plugin_file(name).name for name in ELEMENTS}


@pytest.mark.parametrize("name", ELEMENTS)
def test_the_files_register_what_the_table_says(name: str) -> None:
    text = plugin_file(name).read_text()
    module, _, class_name = ELEMENTS[name].partition(":")
    assert f"from {module} import {class_name}\n" in text
    assert f'__gstelementfactory__ = ("{name}", 0, {class_name})' in text
    assert len([line for line in text.splitlines() if line]) <= 5


@pytest.mark.parametrize("name", ELEMENTS)
def test_scanning_imports_gi_and_the_standard_library_only(name: str) -> None:
    """With every other package missing, the file loads and the element is made, has its pads and its properties."""
    code = f"""
import sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {HEAVY!r}:
            raise ImportError(name + " is not there")
sys.meta_path.insert(0, Missing())
import gi
gi.require_version("Gst", "1.0")
from gi.repository import Gst
Gst.init(None)
import runpy
found = runpy.run_path({str(plugin_file(name))!r})
name, rank, element = found["__gstelementfactory__"]
assert Gst.Element.register(None, name, rank, element)
made = Gst.ElementFactory.make(name)
assert made is not None
for spec in made.list_properties():
    if spec.flags & 1:  # readable
        made.get_property(spec.name)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.skipif(shutil.which("gst-inspect-1.0", path="/usr/bin:/bin") is None, reason="no gst-inspect-1.0")
class TestInspect:
    """What `sluice env` prints, in the hands of GStreamer's own program."""

    def test_finds_every_element_without_the_environment(self, tmp_path: Path) -> None:
        for name in ELEMENTS:
            done = inspect(env.plugin_path(), tmp_path, name)
            assert done.returncode == 0, done.stdout + done.stderr
            assert "Traceback" not in done.stderr
            assert re.search(rf"\+----\S*{ELEMENTS[name].partition(':')[2]}\n", done.stdout)

    def test_finds_them_with_the_environment_active(self, tmp_path: Path) -> None:
        active = {"VIRTUAL_ENV": sys.prefix, "PATH": f"{sys.prefix}/bin:/usr/bin:/bin"}
        assert inspect(env.plugin_path(), tmp_path, "sluicemux", **active).returncode == 0

    def test_shows_every_property_with_its_text(self, tmp_path: Path) -> None:
        shown = inspect(env.plugin_path(), tmp_path, "sluicemux").stdout
        for name in ("batch-size", "batched-push-timeout", "sync-inputs", "max-same-source-frames", "stats", "width"):
            line = re.search(rf"^ +{name} *: (.+)$", shown, re.MULTILINE)
            assert line is not None
            assert len(line.group(1)) > 20

    def test_the_element_runs_with_the_environment_s_packages(self, tmp_path: Path) -> None:
        """NULL→READY imports numpy and the contract, which the system's Python does not have."""
        environment = {
            "PATH": "/usr/bin:/bin",
            "HOME": str(tmp_path),
            "GST_PLUGIN_PATH": str(env.plugin_path()),
            "GST_REGISTRY": str(tmp_path / "registry.bin"),
        }
        command = "gst-launch-1.0 -q videotestsrc num-buffers=3 ! m.sink_0 sluicemux name=m batch-size=1 ! fakesink"
        done = subprocess.run(command.split(), env=environment, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr


def test_writing_the_plugin_files_again_changes_nothing() -> None:
    folder = env.plugin_path() / "python"
    before = {path: path.stat().st_mtime_ns for path in folder.glob("*.py")}
    assert env.plugin_path() / "python" == folder
    assert {path: path.stat().st_mtime_ns for path in folder.glob("*.py")} == before
    assert len(before) == len(ELEMENTS)


def test_files_out_of_date_are_written_anew_and_strangers_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "prefix", str(tmp_path))  # other tests' programs read this environment's files meanwhile
    folder = env.plugin_path() / "python"
    assert folder.is_relative_to(tmp_path)
    (folder / "sluice_mux.py").write_text("# old\n")
    (folder / "sluice_gone.py").write_text("# old\n")
    env.plugin_path()
    assert "SluiceMux" in (folder / "sluice_mux.py").read_text()
    assert not (folder / "sluice_gone.py").exists()


def test_the_user_s_cache_serves_where_the_environment_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "file"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = env.plugin_path()
    assert folder.is_relative_to(tmp_path / "cache")
    assert len(list((folder / "python").glob("sluice_*.py"))) == len(ELEMENTS)


def test_the_variables_keep_what_was_set_before(monkeypatch: pytest.MonkeyPatch) -> None:
    own = str(env.plugin_path())
    monkeypatch.setenv("GST_PLUGIN_PATH", os.pathsep.join(["/opt/other", own]))
    assert env.environment()["GST_PLUGIN_PATH"].split(os.pathsep) == [own, "/opt/other"]
    examples = env.environment(Path("/x/examples"))["GST_PLUGIN_PATH"].split(os.pathsep)
    assert examples == [own, "/x/examples", "/opt/other"]


def test_register_all_needs_no_plugin_path_and_may_be_called_again() -> None:
    from gi.repository import Gst

    register_all()
    register_all()
    for name, target in ELEMENTS.items():
        module, _, class_name = target.partition(":")
        assert isinstance(Gst.ElementFactory.make(name), getattr(importlib.import_module(module), class_name))
