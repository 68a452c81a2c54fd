"""What numbers hang on besides the model: the processor."""

import platform
from pathlib import Path


def int8_saturates() -> bool:
    """Whether ONNX Runtime's int8 kernels for this processor cut sums off at 16 bits (x86-64 without VNNI)."""
    return platform.machine() == "x86_64" and "vnni" not in Path("/proc/cpuinfo").read_text()
