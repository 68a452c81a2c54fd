"""Runtimes: what executes a network file. They are found by name, and imported only when used."""

from __future__ import annotations

import difflib
from importlib import import_module
from pathlib import Path

from sluice.errors import ConfigurationError, ModelError
from sluice.runtimes.base import Network, NetworkInfo, TensorInfo

__all__ = ["RUNTIMES", "Network", "NetworkInfo", "TensorInfo", "choose_runtime", "open_network"]

#: Name of a runtime to "module:class"; the class is called with a path and a device.
RUNTIMES = {"onnxruntime": "sluice.runtimes.onnxruntime:OnnxRuntimeNetwork"}

#: Which runtimes read a kind of file, best first.
FILES = {".onnx": ("onnxruntime",)}


def choose_runtime(path: str | Path, runtime: str = "auto") -> str:
    """Name of the runtime for a file.

    Args:
        path: the network file; only its suffix matters.
        runtime: a name of `RUNTIMES`, or "auto" for the first that reads such files.

    Raises:
        ConfigurationError: no runtime of that name; with the names there are.
        ModelError: no runtime, or not the one asked for, reads such files.
    """
    if runtime != "auto" and runtime not in RUNTIMES:
        near = difflib.get_close_matches(runtime, RUNTIMES, 1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise ConfigurationError(f"there is no runtime {runtime!r}{hint} (there are: auto, {', '.join(RUNTIMES)})")
    suffix = Path(path).suffix.lower()
    readers = FILES.get(suffix, ())
    if not readers:
        raise ModelError(f"{path}: no runtime reads {suffix or 'files without a suffix'}; right is {', '.join(FILES)}")
    if runtime == "auto":
        return readers[0]
    if runtime not in readers:
        raise ModelError(f"{path}: the runtime {runtime!r} does not read {suffix}; {', '.join(readers)} does")
    return runtime


def open_network(path: str | Path, runtime: str = "auto", device: str = "auto") -> Network:
    """Open a network file.

    Args:
        path: the file.
        runtime: see `choose_runtime`.
        device: "auto", or a device that the runtime knows, such as "cpu" or "cuda:0".

    Raises:
        ConfigurationError: unknown runtime or device.
        ModelError: the file is missing, is no network, or cannot be run.
    """
    name = choose_runtime(path, runtime)
    if not Path(path).is_file():
        raise ModelError(f"there is no model file {str(path)!r}")
    module, _, cls = RUNTIMES[name].partition(":")
    network: Network = getattr(import_module(module), cls)(Path(path), device)
    return network
