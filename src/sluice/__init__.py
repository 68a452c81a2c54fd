"""Sluice: your own Python model inside a live video pipeline."""

from sluice.errors import SluiceError

__version__ = "0.1.0"
__all__ = ["SluiceError", "__version__"]
