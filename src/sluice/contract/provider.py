"""The functions that create, fill, copy and attach metadata: NVIDIA's libraries, or Sluice's portable twin.

Exactly one provider owns ``NvDsMeta`` in a process. `provider` chooses it once, by the environment variable
``SLUICE_PROVIDER``:

* ``auto`` (the default): NVIDIA's library where it is already mapped, else that of an installed DeepStream, else the
  portable one;
* ``nvidia``: as above, and also the libraries of the wheel ``nvidia-deepstream-videodecode-cu13``;
* ``portable``: Sluice's own, refused where NVIDIA's library is mapped.

The choice is for good: NVIDIA's library, pulled in by one of its plugins after the portable provider was chosen, hangs
when it registers NvDsMeta. So a pipeline with plugins of the wheel needs ``SLUICE_PROVIDER=nvidia``.
"""

import ctypes
import importlib.util
import os
import threading
from pathlib import Path

from sluice.contract._native import library as native_library
from sluice.contract._provider import Provider, interned
from sluice.contract.layout import BUILT_IN, LAYOUT_VARIABLE, layout, read_layout
from sluice.errors import ContractError

__all__ = [
    "DEEPSTREAM",
    "META_LIBRARY",
    "Provider",
    "interned",
    "mapped_library",
    "open_provider",
    "provider",
    "wheel_folder",
]

PROVIDER_VARIABLE = "SLUICE_PROVIDER"
CHOICES = ("auto", "nvidia", "portable")
DEEPSTREAM = Path("/opt/nvidia/deepstream/deepstream/lib")
WHEEL = "nvidia-deepstream-videodecode-cu13"
META_LIBRARY = "libnvds_meta.so"
GST_LIBRARY = "libnvdsgst_meta.so"


def mapped_library() -> Path | None:
    """Return the path of NVIDIA's metadata library if it is mapped into this process."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        path = Path(line.split(maxsplit=5)[-1])
        if path.name.startswith((META_LIBRARY, GST_LIBRARY)):
            return path.parent / META_LIBRARY
    return None


def wheel_folder() -> Path | None:
    """Return the folder of the wheel's libraries if it is installed."""
    spec = importlib.util.find_spec("nvidia")
    for root in (spec.submodule_search_locations or []) if spec else []:
        folder = Path(root) / "deepstream_videodecode" / "_libs"
        if (folder / META_LIBRARY).exists():
            return folder
    return None


def _nvidia_folder(with_wheel: bool) -> Path | None:
    mapped = mapped_library()
    if mapped:
        return mapped.parent
    if (DEEPSTREAM / META_LIBRARY).exists():
        return DEEPSTREAM
    return wheel_folder() if with_wheel else None


def open_provider(name: str) -> Provider:
    """Return a provider by name for bare batches, which may be read and filled by either.

    Raises:
        ContractError: an unknown name, no such library, or another layout.
    """
    if name == "portable":
        library = native_library()
        portable = Provider("portable", str(library._name), library, library, "sluice_", layout())
        compiled = read_layout(BUILT_IN).structs
        for struct in layout().structs.values():
            if struct.name in compiled and struct != compiled[struct.name]:
                raise ContractError(
                    f"{layout().origin} gives {struct.name} other fields than DeepStream 9.0/9.1, which is the only "
                    f"layout of the portable provider; unset {LAYOUT_VARIABLE}"
                )
        return portable
    if name != "nvidia":
        raise ContractError(f"there is no metadata provider {name!r}; there are nvidia and portable")
    folder = _nvidia_folder(with_wheel=True)
    if folder is None:
        raise ContractError(
            f"no {META_LIBRARY}: it is neither mapped, nor in {DEEPSTREAM}, nor in an installed wheel; "
            f"install DeepStream, or `pip install --no-deps {WHEEL}`"
        )
    try:
        meta = ctypes.CDLL(str(folder / META_LIBRARY), mode=ctypes.RTLD_GLOBAL)
        gst = ctypes.CDLL(str(folder / GST_LIBRARY), mode=ctypes.RTLD_GLOBAL)
    except OSError as error:
        raise ContractError(f"NVIDIA's metadata library cannot be opened: {error}") from error
    return Provider("nvidia", str(folder / META_LIBRARY), meta, gst, "", layout())


_choice_lock = threading.Lock()
_chosen: list[Provider] = []


def provider() -> Provider:
    """Return the provider of this process, choosing it at the first call.

    Raises:
        ContractError: the one asked for is not there, has another layout, or cannot own ``NvDsMeta``.
    """
    if _chosen:
        return _chosen[0]
    with _choice_lock:
        if not _chosen:
            chosen = open_provider(_choose())
            chosen.own_buffers()
            _chosen.append(chosen)
    return _chosen[0]


def _choose() -> str:
    asked = os.environ.get(PROVIDER_VARIABLE, "auto")
    if asked not in CHOICES:
        raise ContractError(f"{PROVIDER_VARIABLE} is {asked!r}; it can be {', '.join(CHOICES)}")
    if asked == "portable" and (mapped := mapped_library()):
        raise ContractError(
            f"{PROVIDER_VARIABLE} is portable, but NVIDIA's {mapped} is mapped into this process and owns NvDsMeta; "
            f"set {PROVIDER_VARIABLE} to nvidia or auto"
        )
    if asked == "auto":
        return "nvidia" if _nvidia_folder(with_wheel=False) else "portable"
    return asked
