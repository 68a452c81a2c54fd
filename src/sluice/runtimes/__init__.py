"""Runtimes: what executes a network file. They are found by name, and imported only when used."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from sluice.errors import ConfigurationError, ModelError
from sluice.runtimes.base import Network, NetworkInfo, TensorInfo
from sluice.runtimes.paths import is_file

__all__ = [
    "FILES",
    "RUNTIMES",
    "Network",
    "NetworkInfo",
    "TensorInfo",
    "calls_at_once",
    "choose_runtime",
    "installed",
    "open_network",
]

#: Name of a runtime to "module:class"; see `sluice.runtimes.base.Network` for what the class is called with.
RUNTIMES = {
    "onnxruntime": "sluice.runtimes.onnxruntime:OnnxRuntimeNetwork",
    "openvino": "sluice.runtimes.openvino:OpenVinoNetwork",
    "torch": "sluice.runtimes.torch:TorchNetwork",
    "tensorrt": "sluice.runtimes.tensorrt:TensorRtNetwork",
}

#: Runtimes whose networks, on a processor, are best called by so many threads at the same time, each call computed by
#: its share of the cores. Two, because `sluiceinfer` has two batches in flight by default: every core has work then.
CALLS_AT_ONCE = {"onnxruntime": 2}

#: More than any machine has cores for; a larger number is a slip that would take the machine down.
MOST_THREADS = 1024

#: The modules a runtime stands on; one of them must be there.
MODULES = {
    "onnxruntime": ("onnxruntime",),
    "openvino": ("openvino",),
    "torch": ("torch",),
    "tensorrt": ("tensorrt", "tensorrt_lean", "tensorrt_dispatch"),
}

#: Which runtimes read a kind of file, best first.
FILES = {
    ".onnx": ("onnxruntime", "openvino"),
    ".xml": ("openvino",),
    ".torchscript": ("torch",),
    ".pt": ("torch",),
    ".pt2": ("torch",),
    ".engine": ("tensorrt",),
    ".plan": ("tensorrt",),
}


def choose_runtime(path: str | Path, runtime: str = "auto") -> str:
    """Name of the runtime for a file.

    Args:
        path: the network file; only its suffix matters.
        runtime: a name of `RUNTIMES`, or "auto" for the first that reads such files and is installed (the first of all
            if none is, whose `open_network` then says what to install).

    Raises:
        ConfigurationError: no runtime of that name; with the names there are.
        ModelError: no runtime, or not the one asked for, reads such files.
    """
    check_name(runtime, RUNTIMES)
    suffix = Path(path).suffix.lower()
    readers = FILES.get(suffix, ())
    if not readers:
        raise ModelError(
            f"{path}: no runtime reads {suffix or 'files without a suffix'}; right is {', '.join(FILES)}, "
            "or .py with a model of one's own"
        )
    if runtime == "auto":
        return next((reader for reader in readers if installed(reader)), readers[0])
    if runtime not in readers:
        raise ModelError(f"{path}: the runtime {runtime!r} does not read {suffix}; {' or '.join(readers)} does")
    return runtime


def check_name(runtime: str, known: Iterable[str]) -> None:
    """Refuse what is neither "auto" nor one of the names; raises ConfigurationError with the names there are."""
    names = list(known)
    if runtime != "auto" and runtime not in names:
        near = difflib.get_close_matches(runtime, names, 1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise ConfigurationError(f"there is no runtime {runtime!r}{hint} (there are: auto, {', '.join(names)})")


def installed(runtime: str) -> bool:
    """Whether a module that a runtime stands on is there; it is looked for, not imported."""
    return any(find_spec(module) is not None for module in MODULES[runtime])


def calls_at_once(path: str | Path, runtime: str = "auto", device: str = "auto") -> int:
    """By how many threads `Network.run` is best called at the same time, if each call has its share of the cores.

    Args:
        path, runtime, device: as `open_network` takes them, with ``threads`` the share of the cores.
    """
    on_processor = device in ("auto", "cpu")
    most = CALLS_AT_ONCE.get(choose_runtime(path, runtime), 1) if on_processor else 1
    return min(most, len(os.sched_getaffinity(0)))


def open_network(
    path: str | Path,
    runtime: str = "auto",
    device: str = "auto",
    *,
    size: tuple[int | None, int | None] = (None, None),
    precision: str | None = None,
    threads: int | None = None,
) -> Network:
    """Open a network file.

    Args:
        path: the file.
        runtime: see `choose_runtime`.
        device: "auto", or a device that the runtime knows, such as "cpu" or "cuda:0".
        size: width and height to use where the file does not say them.
        precision: "f32", "f16" or "bf16" for runtimes that choose it themselves; "int8" for quantised networks on ONNX
            Runtime; None for float32 arithmetic on a processor, and for what the file says elsewhere.
        threads: how many threads compute, 1 to `MOST_THREADS`; None for as many as the process has cores.

    Raises:
        ConfigurationError: unknown runtime, device or precision, or the runtime is not installed.
        ModelError: the file is missing, is no network, or cannot be run.
    """
    name = choose_runtime(path, runtime)
    if threads is not None and not 1 <= threads <= MOST_THREADS:
        raise ConfigurationError(f"threads is {threads}; right is 1 to {MOST_THREADS}")
    if not is_file(path):
        raise ModelError(f"there is no model file {str(path)!r}")
    if not installed(name):
        raise ConfigurationError(
            f"{path} needs the runtime {name!r}, which is not installed: pip install 'sluice-video[{name}]'"
        )
    module, _, cls = RUNTIMES[name].partition(":")
    kind = getattr(import_module(module), cls)
    network: Network = kind(Path(path), device, size=size, precision=precision, threads=threads)
    return network
