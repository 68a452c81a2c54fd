"""What is shipped: the sdist, and the wheel that comes of it, in an environment that has nothing of this repository."""

import json
import os
import re
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.timeout(400)  # a busy machine compiles, and packages come from elsewhere
ROOT = Path(__file__).parent.parent


def run(*command: str | Path, cwd: Path, **variables: str) -> str:
    """Run a command and return what it printed, or fail with that."""
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "GST_PLUGIN_PATH")}
    done = subprocess.run(
        [str(word) for word in command], cwd=cwd, env={**environment, **variables}, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The source distribution, built of what git knows by the build backend itself, as `python -m build` would."""
    folder = tmp_path_factory.mktemp("sdist")
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    run("git", "clone", "-q", ROOT, folder / "source", cwd=folder)
    backend = re.findall(r'requires = \["(.+?)"\]', (ROOT / "pyproject.toml").read_text())
    run(sys.executable, "-m", "pip", "install", "-q", "--target", folder / "backend", *backend, cwd=folder)
    build = f"import setuptools.build_meta; setuptools.build_meta.build_sdist({str(folder)!r})"
    run(sys.executable, "-c", build, cwd=folder / "source", PYTHONPATH=str(folder / "backend"))
    (built,) = folder.glob("*.tar.gz")
    return built


@pytest.fixture(scope="module")
def wheel(sdist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built of the source distribution: what is missing in that is missing here too."""
    folder = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", folder, sdist, cwd=folder)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment with the wheel, which borrows the dependencies of this one."""
    venv = tmp_path_factory.mktemp("environment") / "venv"
    run("/usr/bin/python3", "-m", "venv", "--system-site-packages", venv, cwd=venv.parent)
    run(venv / "bin" / "python", "-m", "pip", "install", "-q", "--no-deps", wheel, cwd=venv.parent)
    (packages,) = venv.glob("lib/python3*/site-packages")
    (packages / "borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return venv


def test_the_sdist_has_what_a_wheel_is_made_of_and_the_texts_that_go_with_it(sdist: Path) -> None:
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    sources = {str(path.relative_to(ROOT)) for path in (ROOT / "src" / "sluice").glob("contract/native/*.[ch]")}
    assert sources <= names
    assert {"pyproject.toml", "setup.py", "README.md", "CHANGELOG.md", "LICENSE", "NOTICE", "PKG-INFO"} <= names
    assert not [name for name in names if name.startswith("tests")], "some tests without the others cannot run"


def test_the_wheel_has_all_that_git_knows_of_the_package_but_the_sources_in_c(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    known = {path.removeprefix("src/") for path in run("git", "ls-files", "src/sluice", cwd=ROOT).splitlines()}
    assert "sluice/py.typed" in known
    assert {name for name in known if "/native/" not in name} <= set(names)
    assert "sluice/contract/_libsluice.so" in names
    assert any(name.endswith("licenses/LICENSE") for name in names)


def test_the_wheel_is_for_every_python_on_this_platform(wheel: Path) -> None:
    platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
    assert wheel.name.endswith(f"-py3-none-{platform}.whl"), wheel.name
    library = zipfile.ZipFile(wheel).read("sluice/contract/_libsluice.so")
    assert not re.search(rb"\0_?Py[A-Z_]\w*\0", library), "a library that calls Python is bound to its version"


def test_gstreamer_finds_the_elements_of_an_installed_wheel(environment: Path, tmp_path: Path) -> None:
    where = run(environment / "bin" / "python", "-c", "import sluice; print(sluice.__file__)", cwd=tmp_path)
    assert where.startswith(str(environment))
    command = f'eval "$({environment}/bin/sluice env)"; gst-inspect-1.0 sluiceinfer'
    printed = run("bash", "-c", command, cwd=tmp_path, GST_REGISTRY=str(tmp_path / "registry.bin"))
    assert "confidence-threshold" in printed


def test_an_installed_wheel_does_the_main_job(environment: Path, tmp_path: Path) -> None:
    clip, out, messages = ROOT / "examples" / "data" / "pedestrians.mp4", tmp_path / "out.mp4", tmp_path / "out.jsonl"
    words = ["run", clip, "--model", "people", "--frames", "20", "--out", out, "--messages", messages, "-q"]
    printed = run(environment / "bin" / "sluice", *words, cwd=tmp_path)
    assert "20 frames in, 20 out" in printed
    assert out.stat().st_size > 1000
    found = [json.loads(line) for line in messages.read_text().splitlines()]
    assert [message["frame"] for message in found] == list(range(20))
    assert any(thing["label"] == "person" for message in found for thing in message["objects"])
