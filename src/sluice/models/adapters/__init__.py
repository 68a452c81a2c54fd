"""Models that other packages run: their own pre- and post-processing stays, the results become `Detections`.

`load_model` takes an adapter for a file that only its package can read (an Ultralytics or RF-DETR checkpoint), or where
the runtime is named after the package; and for PyTorch modules made in Python.
"""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

from sluice.errors import ModelError
from sluice.runtimes import RUNTIMES, choose_runtime
from sluice.runtimes.torch_files import TorchFile, torch_file

#: Name of an adapter, which is given as the runtime, to "module:class".
ADAPTERS = {
    "ultralytics": "sluice.models.adapters.ultralytics:UltralyticsModel",
    "rfdetr": "sluice.models.adapters.rfdetr:RfDetrModel",
}
#: Which adapter runs a kind of PyTorch file by itself.
CHECKPOINTS = {TorchFile.ULTRALYTICS: "ultralytics", TorchFile.RFDETR: "rfdetr"}
SUFFIXES = (".pt", ".pth")


def adapter_for(path: str | Path, runtime: str = "auto") -> str | None:
    """Name of the adapter that runs a file; None for a network file, which a runtime runs.

    Args:
        path: the file; only ``.pt`` and ``.pth`` files are looked into, and nothing in them is run.
        runtime: "auto", or the name of a runtime or an adapter.
    """
    if runtime in ADAPTERS:
        return runtime
    if runtime in RUNTIMES or Path(path).suffix.lower() not in SUFFIXES:
        return None
    return CHECKPOINTS.get(torch_file(path))


def adapter_class(name: str) -> Any:
    """The class of an adapter; its package is imported when the model is loaded."""
    module, _, cls = ADAPTERS[name].partition(":")
    return getattr(import_module(module), cls)


def executor(path: str | Path, runtime: str = "auto") -> str:
    """Name of what runs a model file: an adapter or a runtime.

    Raises:
        ConfigurationError: there is none of the name asked for.
        ModelError: none runs such files.
    """
    return adapter_for(path, runtime) or choose_runtime(path, runtime)


def check_runtime(name: str, runtime: str) -> None:
    """Refuse a runtime that is neither "auto" nor the adapter's own name."""
    if runtime not in ("auto", name):
        raise ModelError(f"the runtime {runtime!r} does not run this model; right is {name} or auto")


def is_torch_module(candidate: Any) -> bool:
    """Whether something is a PyTorch module, or a class of them; PyTorch is not imported to find out."""
    torch = sys.modules.get("torch")
    if torch is None:
        return False
    kind = candidate if isinstance(candidate, type) else type(candidate)
    return issubclass(kind, torch.nn.Module)


def makes_torch_module(candidate: Any) -> bool:
    """Whether something is a PyTorch module, a class of them, or one of torchvision's functions that make one."""
    home = str(getattr(candidate, "__module__", ""))
    is_builder = callable(candidate) and home.startswith("torchvision.models.") and not isinstance(candidate, type)
    return is_torch_module(candidate) or is_builder
