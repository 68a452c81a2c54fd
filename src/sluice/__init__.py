"""Sluice: your own Python model inside a live video pipeline."""

import contextlib
import ctypes
import importlib
import sys
from typing import TYPE_CHECKING, Any

from sluice.errors import SluiceError

if TYPE_CHECKING:
    from sluice import pyservicemaker
    from sluice.app.pipeline import Pipeline
    from sluice.models.detections import Detections
    from sluice.models.frame import Frame
    from sluice.models.loading import load_model
    from sluice.models.model import Model

if sys.platform == "linux":
    # Before GStreamer brings in libunwind, whose functions of the same names would take over in C++ modules imported
    # later and end the process at their first exception (see `sluice.runtimes.unwinding`).
    with contextlib.suppress(OSError):
        ctypes.CDLL("libgcc_s.so.1", ctypes.RTLD_GLOBAL)

__version__ = "0.1.0"
__all__ = ["Detections", "Frame", "Model", "Pipeline", "SluiceError", "__version__", "load_model", "pyservicemaker"]

# Imported at first use: `import sluice` stays light, and works before and after gi, cv2 and onnxruntime.
_HOMES = {
    "Detections": "sluice.models.detections",
    "Frame": "sluice.models.frame",
    "Model": "sluice.models.model",
    "Pipeline": "sluice.app.pipeline",
    "load_model": "sluice.models.loading",
}


def __getattr__(name: str) -> Any:
    if name == "pyservicemaker":
        return importlib.import_module("sluice.pyservicemaker")
    if name not in _HOMES:
        raise AttributeError(f"module 'sluice' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
