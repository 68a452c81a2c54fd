"""Every fault the doctor knows, produced, and the command it names for it."""

import os
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path

import pytest

from sluice.app import doctor, doctor_gstreamer, doctor_python
from sluice.app.doctor import Finding
from sluice.app.env import plugin_path

System = Callable[..., None]


def one(findings: list[Finding], check: str) -> Finding:
    (found,) = [finding for finding in findings if finding.check == check]
    return found


@pytest.fixture
def shadow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], None]:
    """A function that puts a module in front of all others, for this process's children."""

    def write(name: str, code: str) -> None:
        (tmp_path / f"{name}.py").write_text(code)
        monkeypatch.syspath_prepend(str(tmp_path))

    return write


@pytest.fixture
def plugins_without(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """A function that hides plugin files of the system's GStreamer from this process's children."""

    def hide(*hidden: str) -> None:
        import gi

        gi.require_version("Gst", "1.0")
        from gi.repository import Gst

        Gst.init(None)
        core = Gst.Registry.get().find_plugin("coreelements").get_filename()
        folder = tmp_path / "plugins"
        folder.mkdir()
        for plugin in Path(core).parent.glob("*.so"):
            if plugin.stem not in hidden:
                (folder / plugin.name).symlink_to(plugin)
        monkeypatch.setenv("GST_PLUGIN_SYSTEM_PATH", str(folder))
        monkeypatch.setenv("GST_REGISTRY", str(tmp_path / "registry.bin"))
        monkeypatch.setenv("GST_REGISTRY_FORK", "no")

    return hide


# Python


def test_old_python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor_python, "OLDEST_PYTHON", (4, 0))
    found = one(list(doctor_python.check_python()), "python")
    assert found.status == "fault"
    assert found.fix == "apt-get install python3 python3-venv"


def test_free_threaded_python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sysconfig, "get_config_var", lambda name: 1 if name == "Py_GIL_DISABLED" else None)
    found = one(list(doctor_python.check_python()), "python")
    assert found.status == "fault"
    assert "free-threaded" in found.text
    assert found.fix is not None


@pytest.mark.parametrize("value", ["soon", "0", "-1"])
def test_switch_interval_that_is_none(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLUICE_SWITCH_INTERVAL", value)
    found = one(list(doctor_python.check_switch_interval()), "switch interval")
    assert (found.status, found.fix) == ("fault", "unset SLUICE_SWITCH_INTERVAL")


@pytest.mark.parametrize(("value", "text"), [(None, "0.0002 s (the default)"), ("0.005", "0.005 s")])
def test_switch_interval_is_told_with_its_unit(value: str | None, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SLUICE_SWITCH_INTERVAL", raising=False)
    if value is not None:
        monkeypatch.setenv("SLUICE_SWITCH_INTERVAL", value)
    assert one(list(doctor_python.check_switch_interval()), "switch interval").text == text


@pytest.fixture
def ask_gi_again() -> Callable[[], None]:
    doctor_python._gi_problem.cache_clear()
    yield doctor_python._gi_problem.cache_clear
    doctor_python._gi_problem.cache_clear()


@pytest.mark.usefixtures("ask_gi_again")
def test_pygobject_missing(shadow: Callable[[str, str], None], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    shadow("gi", "raise ModuleNotFoundError(\"No module named 'gi'\")")
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    found = one(list(doctor_python.check_pygobject()), "pygobject")
    assert (found.status, found.fix) == ("fault", "apt-get install python3-gi python3-gst-1.0")
    assert not doctor_python.gi_works()


@pytest.mark.usefixtures("ask_gi_again")
def test_virtual_environment_that_does_not_see_the_system(
    shadow: Callable[[str, str], None], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    shadow("gi", "raise ModuleNotFoundError(\"No module named 'gi'\")")
    (tmp_path / "pyvenv.cfg").write_text("include-system-site-packages = false\n")
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    found = one(list(doctor_python.check_pygobject()), "pygobject")
    assert found.fix == f"/usr/bin/python3 -m venv --upgrade --system-site-packages {tmp_path}"


@pytest.mark.usefixtures("ask_gi_again")
def test_pygobject_too_new_for_the_system(shadow: Callable[[str, str], None]) -> None:
    shadow("gi", "raise ImportError('libgirepository-2.0.so.0: cannot open shared object file')")
    found = one(list(doctor_python.check_pygobject()), "pygobject")
    assert found.status == "fault"
    assert "3.51" in found.text


@pytest.mark.usefixtures("ask_gi_again")
def test_typelib_missing(shadow: Callable[[str, str], None]) -> None:
    shadow("gi", "def require_version(name, version): raise ValueError('Namespace Gst not available')")
    found = one(list(doctor_python.check_pygobject()), "pygobject")
    assert (found.status, found.fix) == ("fault", "apt-get install gir1.2-gstreamer-1.0")


def test_overrides_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    real = doctor_python.importlib.util.find_spec
    monkeypatch.setattr(
        doctor_python.importlib.util, "find_spec", lambda name: None if name == "gi.overrides.Gst" else real(name)
    )
    found = one(list(doctor_python.check_pygobject()), "gst overrides")
    assert (found.status, found.fix) == ("fault", "apt-get install python3-gst-1.0")


@pytest.mark.parametrize("package", [name for name, _, _ in doctor_python.REQUIRED])
def test_package_missing(package: str, shadow: Callable[[str, str], None], monkeypatch: pytest.MonkeyPatch) -> None:
    shadow(package, f"raise ModuleNotFoundError('No module named {package}')")
    only = tuple(entry for entry in doctor_python.REQUIRED if entry[0] == package)
    monkeypatch.setattr(doctor_python, "REQUIRED", only)
    monkeypatch.setattr(doctor_python, "OPTIONAL", ())
    found = one(list(doctor_python.check_packages()), package)
    assert (found.status, found.fix) == ("fault", only[0][2])


def test_package_that_crashes_at_import_is_named(
    shadow: Callable[[str, str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    shadow("onnxruntime", "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)")
    monkeypatch.setattr(doctor_python, "REQUIRED", doctor_python.REQUIRED[2:3])
    monkeypatch.setattr(doctor_python, "OPTIONAL", ())
    found = one(list(doctor_python.check_packages()), "onnxruntime")
    assert found.status == "fault"
    assert "SIGSEGV" in found.text


def test_package_of_another_numpy_abi_is_explained(
    shadow: Callable[[str, str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    shadow("cv2", "raise AttributeError('_ARRAY_API not found')")
    monkeypatch.setattr(doctor_python, "REQUIRED", doctor_python.REQUIRED[1:2])
    monkeypatch.setattr(doctor_python, "OPTIONAL", ())
    assert "another NumPy ABI" in one(list(doctor_python.check_packages()), "cv2").text


def test_optional_package_that_is_broken_is_a_fault_and_an_absent_one_is_not(
    shadow: Callable[[str, str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    shadow("tensorrt", "raise OSError('libnvinfer.so: wrong ELF class')")
    monkeypatch.setattr(doctor_python, "REQUIRED", ())
    monkeypatch.setattr(doctor_python, "OPTIONAL", (*doctor_python.OPTIONAL[2:], ("not_there", "", "pip install it")))
    findings = list(doctor_python.check_packages())
    assert one(findings, "tensorrt").status == "fault"
    assert one(findings, "not_there").status == "note"


def test_native_library_not_built(shadow: Callable[[str, str], None], monkeypatch: pytest.MonkeyPatch) -> None:
    code = (
        "from pathlib import Path\n"
        "exists = Path.exists\n"
        "Path.exists = lambda path, **how: path.name != '_libsluice.so' and exists(path, **how)\n"
    )
    shadow("sitecustomize", code)
    found = one(list(doctor_python.check_library()), "native library")
    assert (found.status, "_libsluice.so" in found.text) == ("fault", True)
    assert "pip install" in (found.fix or "")


def test_provider_that_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLUICE_PROVIDER", "nobody")
    found = one(list(doctor_python.check_library()), "provider")
    assert (found.status, found.fix) == ("fault", "unset SLUICE_PROVIDER")


# GStreamer


def test_gstreamer_that_cannot_start(shadow: Callable[[str, str], None]) -> None:
    shadow("sitecustomize", "import sys; sys.modules['gi'] = None")
    found = one(list(doctor_gstreamer.check_gstreamer()), "gstreamer")
    assert found.status == "fault"


def test_old_gstreamer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor_gstreamer, "OLDEST_GSTREAMER", (9, 0))
    assert one(list(doctor_gstreamer.check_gstreamer()), "gstreamer").status == "fault"


def test_decoder_missing(plugins_without: Callable[..., None]) -> None:
    plugins_without("libgstlibav", "libgstopenh264", "libgstde265", "libgstva", "libgstx265", "libgstvaapi")
    found = one(list(doctor_gstreamer.check_gstreamer()), "decoders")
    assert (found.status, found.fix) == ("fault", "apt-get install gstreamer1.0-libav")
    assert "video/x-h264" in found.text


def test_element_missing(plugins_without: Callable[..., None]) -> None:
    plugins_without("libgstisomp4")
    found = one(list(doctor_gstreamer.check_gstreamer()), "elements")
    assert (found.status, found.fix) == ("fault", "apt-get install gstreamer1.0-plugins-good")
    assert "qtdemux" in found.text


def test_encoder_missing(plugins_without: Callable[..., None]) -> None:
    plugins_without("libgstx264", "libgstlibav", "libgstopenh264", "libgstnvcodec")
    found = one(list(doctor_gstreamer.check_encoders()), "encoder")
    assert (found.status, found.fix) == ("fault", "apt-get install gstreamer1.0-plugins-ugly")


def test_plugin_path_that_names_the_inner_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GST_PLUGIN_PATH", str(plugin_path() / "python"))
    found = one(list(doctor_gstreamer.check_plugin_path()), "plugin path")
    assert (found.status, found.fix) == ("fault", 'eval "$(sluice env)"')


def test_plugin_path_not_set_is_only_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GST_PLUGIN_PATH", raising=False)
    assert one(list(doctor_gstreamer.check_plugin_path()), "plugin path").status == "note"


def test_unversioned_libpython_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sysconfig, "get_config_var", lambda name: "3.99" if name == "LDVERSION" else None)
    found = one(list(doctor_gstreamer.check_plugin_loader()), "libpython")
    assert (found.status, found.fix) == ("fault", "apt-get install libpython3-dev")


def test_plugin_loader_missing(plugins_without: Callable[..., None]) -> None:
    plugins_without("libgstpython")
    found = one(list(doctor_gstreamer.check_plugin_loader()), "plugin loader")
    assert found.fix == "apt-get install gstreamer1.0-python3-plugin-loader"


def test_stale_registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shadow: Callable[[str, str], None]) -> None:
    """A scan made while Sluice could not be imported is remembered as plugins without elements."""
    registry = tmp_path / "registry.bin"
    monkeypatch.setenv("GST_REGISTRY", str(registry))
    broken = tmp_path / "broken" / "sluice"
    broken.mkdir(parents=True)
    (broken / "__init__.py").write_text("raise ImportError('broken for a while')")
    scan = {**os.environ, "GST_PLUGIN_PATH": str(plugin_path()), "PYTHONPATH": str(broken.parent)}
    subprocess.run(["gst-inspect-1.0", "sluiceinfer"], env=scan, capture_output=True, timeout=100)
    assert registry.exists()
    found = one(list(doctor_gstreamer.check_plugin_loader()), "registry cache")
    assert (found.status, found.fix) == ("fault", f"rm -f {registry}")


def test_another_python_first_on_path_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One of the same version without PyGObject, as pyenv makes them: GStreamer's loader looks for packages there."""
    monkeypatch.setenv("GST_REGISTRY", str(tmp_path / "registry.bin"))
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    (tmp_path / "other" / "lib").mkdir(parents=True)
    (tmp_path / "other" / "lib" / version).symlink_to(sysconfig.get_path("stdlib"))
    python = tmp_path / "other" / "bin" / "python3"
    python.parent.mkdir()
    python.write_text("#!/bin/sh\nexit 1\n")
    python.chmod(0o755)
    monkeypatch.setenv("PATH", f"{python.parent}{os.pathsep}{os.environ['PATH']}")
    scan = {**os.environ, "GST_PLUGIN_PATH": str(plugin_path())}
    scan.pop("PYTHONPATH", None)
    inspected = subprocess.run(
        ["gst-inspect-1.0", "sluiceinfer"], env=scan, capture_output=True, text=True, timeout=100
    )
    assert "No such element" in inspected.stdout + inspected.stderr
    found = one(list(doctor_gstreamer.check_plugin_loader()), "python on PATH")
    assert found.status == "fault"
    assert str(python) in found.text
    assert found.fix is not None
    subprocess.run(["sh", "-c", found.fix], check=True)
    mended = f"{found.fix}; gst-inspect-1.0 sluiceinfer"
    assert (
        "Factory Details"
        in subprocess.run(["sh", "-c", mended], env=scan, capture_output=True, text=True, timeout=100).stdout
    )


def test_plugins_that_cannot_be_imported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A new scan does not help: the loader itself is at fault."""
    monkeypatch.setenv("GST_REGISTRY", str(tmp_path / "registry.bin"))
    monkeypatch.setattr(doctor_gstreamer, "ELEMENTS", {"sluicenothing": "x:Y"})
    found = one(list(doctor_gstreamer.check_plugin_loader()), "plugin loader")
    assert found.status == "fault"
    assert "sluicenothing" in found.text


# The whole


def test_a_check_that_fails_itself_does_not_stop_the_others() -> None:
    def check_broken() -> list[Finding]:
        raise RuntimeError("unexpected")

    def check_fine() -> list[Finding]:
        return [Finding("fine", "ok", "fine")]

    findings = doctor._run([check_broken, check_fine])
    assert [(finding.check, finding.status) for finding in findings] == [("broken", "fault"), ("fine", "ok")]


def test_render_names_the_command() -> None:
    text = doctor.render([Finding("encoder", "fault", "none", "apt-get install x")])
    assert "mend it with: apt-get install x" in text
