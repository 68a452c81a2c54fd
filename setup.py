"""Builds the contract's C library beside the Python package; everything else is in pyproject.toml."""

import shutil
import subprocess
import sys
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext

PACKAGES = ["gstreamer-1.0", "gstreamer-video-1.0"]
FLAGS = ["-std=c11", "-O2", "-Wall", "-Wextra", "-Werror=implicit-function-declaration"]


def pkg_config(option: str) -> list[str]:
    """Return the words pkg-config prints for the GStreamer packages, or stop the build saying what to install."""
    command = ["pkg-config", option, *PACKAGES]
    if shutil.which("pkg-config") is None or subprocess.run([*command[:1], "--exists", *PACKAGES]).returncode:
        sys.exit(
            "sluice: the GStreamer headers are missing; install them with: "
            "apt-get install gcc pkg-config libgstreamer1.0-dev libgstreamer-plugins-base1.0-dev"
        )
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()


class PlainName(build_ext):
    """Names the library without the interpreter's tag, since every interpreter loads the same file."""

    def get_ext_filename(self, fullname: str) -> str:
        return str(Path(*fullname.split("."))) + ".so"


class AnyPython(bdist_wheel):
    """Tags the wheel with the platform only: the library calls no function of Python's."""

    def get_tag(self) -> tuple[str, str, str]:
        return "py3", "none", super().get_tag()[2]


setup(
    cmdclass={"build_ext": PlainName, "bdist_wheel": AnyPython},
    ext_modules=[
        Extension(
            # A plain shared library loaded through ctypes, not an importable module: it never touches Python objects,
            # so that GStreamer's threads can call it without the GIL.
            "sluice.contract._libsluice",
            sources=[str(path) for path in sorted(Path("src/sluice/contract/native").glob("*.c"))],
            depends=[str(path) for path in sorted(Path("src/sluice/contract/native").glob("*.h"))],
            extra_compile_args=[*FLAGS, *pkg_config("--cflags")],
            extra_link_args=[*pkg_config("--libs"), "-lm"],
        )
    ],
)
