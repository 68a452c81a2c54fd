"""The GPU side of preprocessing: one launch writes the network's input for a whole batch of surfaces."""

from __future__ import annotations

from typing import Any

import triton

from sluice.errors import ConfigurationError
from sluice.models.gpu.kernels import BLOCK, letterbox_kernel
from sluice.models.gpu.table import FLOATS, ROW
from sluice.models.preprocess import Preprocessing
from sluice.runtimes.unwinding import import_compiled

torch: Any = import_compiled("torch")


def check_spec(spec: Preprocessing) -> None:
    """Refuse what the kernel does not do.

    Raises:
        ConfigurationError: an interpolation other than linear.
    """
    if spec.interpolation != "linear":
        raise ConfigurationError(
            f"interpolation is {spec.interpolation!r}, which the GPU path does not have; right is linear, or surfaces "
            "in system memory"
        )


def new_input(spec: Preprocessing, batch: int, device: Any) -> Any:
    """A network input of the spec's shape and type on a device, filled with padding."""
    value = spec.pad * spec.scale
    filled = torch.full(spec.shape(batch), 0, dtype=getattr(torch, spec.dtype), device=device)
    for channel, view in enumerate(_channels(filled, spec)):
        view.fill_((value - spec.mean[channel]) / spec.std[channel])
    return filled


def letterbox(table: Any, target: Any, spec: Preprocessing) -> None:
    """Write the input of a network from the surfaces that a table describes, on the current stream.

    Args:
        table: int64 tensor [batch, ROW] on the GPU, see `sluice.models.gpu.table`.
        target: tensor of the spec's shape and type, for the same batch.
        spec: what the network wants.
    """
    batch, channel, line, column = (target.stride(i) for i in ((0, 1, 2, 3) if spec.layout == "NCHW" else (0, 3, 1, 2)))
    letterbox_kernel[(len(table), triton.cdiv(spec.width * spec.height, BLOCK))](
        table,
        table.view(torch.float32),
        target,
        spec.width,
        spec.height,
        batch,
        channel,
        line,
        column,
        ROW=ROW,
        FLOATS=FLOATS,
        ROUND=spec.dtype == "uint8",
        BLOCK=BLOCK,
    )


def _channels(pictures: Any, spec: Preprocessing) -> Any:
    return pictures.unbind(1 if spec.layout == "NCHW" else 3)
