"""What is shipped: the wheel, installed into an environment that has nothing of this repository."""

import os
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def run(*command: str | Path, cwd: Path, **variables: str) -> str:
    """Run a command and return what it printed, or fail with that."""
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "GST_PLUGIN_PATH")}
    done = subprocess.run(
        [str(word) for word in command], cwd=cwd, env={**environment, **variables}, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=110,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built of what git knows."""
    folder = tmp_path_factory.mktemp("wheel")
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    run("git", "clone", "-q", ROOT, folder / "source", cwd=folder)
    run(sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", folder, folder / "source", cwd=folder)
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


def test_the_wheel_has_what_is_no_python(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    for wanted in ("py.typed", "contract/layouts/deepstream-9.json", "messages/schema/sluice-1.json"):
        assert f"sluice/{wanted}" in names
    assert any(name.startswith("sluice/contract/_libsluice") and name.endswith(".so") for name in names)
    assert any(name.endswith("licenses/LICENSE") for name in names)
    assert any(name.startswith("sluice/gstplugin/python/sluice_") for name in names)


def test_gstreamer_finds_the_elements_of_an_installed_wheel(environment: Path, tmp_path: Path) -> None:
    where = run(environment / "bin" / "python", "-c", "import sluice; print(sluice.__file__)", cwd=tmp_path)
    assert where.startswith(str(environment))
    command = f'eval "$({environment}/bin/sluice env)"; gst-inspect-1.0 sluiceinfer'
    printed = run("bash", "-c", command, cwd=tmp_path, GST_REGISTRY=str(tmp_path / "registry.bin"))
    assert "confidence-threshold" in printed


def test_an_installed_wheel_runs_a_pipeline(environment: Path, tmp_path: Path) -> None:
    out = tmp_path / "ball.mp4"
    printed = run(
        environment / "bin" / "sluice",
        "run",
        "test:ball?frames=20",
        "--model",
        "none",
        "--out",
        out,
        "-q",
        cwd=tmp_path,
    )
    assert "20 frames in, 20 out" in printed
    assert out.stat().st_size > 1000
