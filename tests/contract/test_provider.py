"""Which provider owns NvDsMeta: chosen once per process, so each choice is made in a process of its own."""

import os
import subprocess
import sys

import pytest

from sluice.contract.provider import DEEPSTREAM, META_LIBRARY, Provider, interned, open_provider, wheel_folder
from sluice.errors import ContractError

WHEEL = wheel_folder()
needs_nvidia = pytest.mark.skipif(WHEEL is None, reason="NVIDIA's metadata library is not installed")

CHOOSE = """
from sluice.contract.provider import provider
from sluice.errors import ContractError
try:
    print(provider().name, provider() is provider())
except ContractError as error:
    print(error)
"""
MAP_NVIDIA = f"import ctypes\nctypes.CDLL({str(WHEEL and WHEEL / META_LIBRARY)!r})\n"
REGISTER_NVIDIA = f"""
import ctypes, gi
gi.require_version("Gst", "1.0")
from gi.repository import Gst
Gst.init(None)
ctypes.CDLL({str(WHEEL and WHEEL / META_LIBRARY)!r}, mode=ctypes.RTLD_GLOBAL)
ctypes.CDLL({str(WHEEL and WHEEL / "libnvdsgst_meta.so")!r}).nvds_meta_get_info()
"""
TWENTY_THREADS = """
import threading
from sluice.contract.provider import provider
start, found = threading.Barrier(20), []
def choose():
    start.wait()
    found.append(provider())
threads = [threading.Thread(target=choose) for _ in range(20)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(len(found), len(set(map(id, found))))
"""


def choose(asked: str | None, code: str = CHOOSE) -> str:
    environment = {**os.environ, "SLUICE_PROVIDER": asked or ""}
    if asked is None:
        del environment["SLUICE_PROVIDER"]
    run = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=60)
    assert run.returncode == 0, run.stderr
    return run.stdout.strip()


@pytest.mark.parametrize("asked", [None, "auto", "portable"])
def test_the_wheel_alone_does_not_decide(asked: str | None) -> None:
    if DEEPSTREAM.exists() and asked != "portable":
        pytest.skip("DeepStream is installed")
    assert choose(asked) == "portable True"


@needs_nvidia
def test_the_wheel_is_used_when_asked_for() -> None:
    assert choose("nvidia") == "nvidia True"


@needs_nvidia
def test_auto_takes_the_library_that_is_mapped() -> None:
    assert choose("auto", MAP_NVIDIA + CHOOSE) == "nvidia True"


@needs_nvidia
def test_auto_takes_the_library_that_has_registered() -> None:
    assert choose("auto", REGISTER_NVIDIA + CHOOSE) == "nvidia True"


@needs_nvidia
@pytest.mark.parametrize("before", [MAP_NVIDIA, REGISTER_NVIDIA])
def test_portable_is_refused_where_nvidias_is_mapped(before: str) -> None:
    printed = choose("portable", before + CHOOSE)
    assert printed.startswith("SLUICE_PROVIDER is portable, but NVIDIA's /")
    assert "libnvds_meta.so is mapped" in printed


def test_an_unknown_provider_is_refused() -> None:
    assert choose("vendor") == "SLUICE_PROVIDER is 'vendor'; it can be auto, nvidia, portable"
    with pytest.raises(ContractError, match="no metadata provider 'vendor'"):
        open_provider("vendor")


def test_nvidia_without_its_library_is_refused() -> None:
    without = "from pathlib import Path\nimport sluice.contract.provider as p\np.wheel_folder = lambda: None\n"
    printed = choose("nvidia", without + CHOOSE)
    if printed == "nvidia True":
        pytest.skip("DeepStream is installed")
    assert "neither mapped, nor in /opt/nvidia" in printed
    assert "pip install --no-deps nvidia-deepstream-videodecode-cu13" in printed


def test_threads_choose_one() -> None:
    assert choose("portable", TWENTY_THREADS) == "20 1"


def test_portable_does_not_register_over_another_library() -> None:
    code = (
        "import ctypes, gi\ngi.require_version('Gst', '1.0')\nfrom gi.repository import Gst\nGst.init(None)\n"
        "lib = ctypes.CDLL('libgstreamer-1.0.so.0')\n"
        "lib.gst_meta_api_type_register.restype = ctypes.c_size_t\n"
        "tags = (ctypes.c_char_p * 1)(None)\n"
        "lib.gst_meta_api_type_register(b'NvDsMetaAPI', tags)\n" + CHOOSE
    )
    assert "another library has registered NvDsMeta in this process" in choose("portable", code)


def test_another_library_is_refused_by_name() -> None:
    code = (
        "import ctypes\nfrom sluice.contract.layout import layout\n"
        "from sluice.contract.provider import Provider\nfrom sluice.errors import ContractError\n"
        "glib = ctypes.CDLL('libglib-2.0.so.0')\n"
        "try: Provider('nvidia', 'libglib-2.0.so.0', glib, glib, '', layout())\n"
        "except ContractError as error: print(error)\n"
    )
    assert choose("portable", code).startswith("libglib-2.0.so.0 is not a metadata library of DeepStream 9")


def test_interned_strings_stay() -> None:
    assert interned("SLUICE.A") == interned("SLUICE.A") != interned("SLUICE.B")
    with pytest.raises(ContractError, match="NUL"):
        interned("a\0b")


def test_a_provider_is_named() -> None:
    bare: Provider = open_provider("portable")
    assert bare.name == "portable"
    assert "_libsluice" in bare.path
