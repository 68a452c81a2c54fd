"""ONNX Runtime."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy.typing as npt

from sluice.errors import ConfigurationError, ModelError
from sluice.runtimes.base import NetworkInfo, TensorInfo, size_values, split_inputs
from sluice.runtimes.quantized import multiplies_int8, with_unsigned_activations
from sluice.runtimes.unwinding import import_compiled

onnxruntime: Any = import_compiled("onnxruntime")

NUMBERS = frozenset(
    ("float16", "float32", "float64", "bool", *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)))
)
# onnxruntime names types as "tensor(float)".
DTYPES = {"float": "float32", "float16": "float16", "double": "float64", "bool": "bool"}
WARNINGS_OFF = 3  # OrtLoggingLevel: only errors; each initializer that is also an input is a warning line otherwise
# Operators of a network log to the process's logger while a session is made, whatever the session's own options say.
onnxruntime.set_default_logger_severity(WARNINGS_OFF)


class OnnxRuntimeNetwork:
    """An ONNX file in an ONNX Runtime session. See `sluice.runtimes.base.Network`."""

    def __init__(
        self,
        path: Path,
        device: str = "auto",
        *,
        size: tuple[int | None, int | None] = (None, None),  # noqa: ARG002 - an ONNX file says its sizes
        precision: str | None = None,
        threads: int | None = None,
    ) -> None:
        providers = _providers(device)
        network = str(path) if precision is None else _in_precision(path, precision, providers)
        options = onnxruntime.SessionOptions()
        options.log_severity_level = WARNINGS_OFF
        options.intra_op_num_threads = threads or len(os.sched_getaffinity(0))
        options.inter_op_num_threads = 1
        # Spinning threads win microseconds for the network and take whole cores from the decoders beside it.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        try:
            self._session = onnxruntime.InferenceSession(network, options, providers=providers)
        except Exception as error:  # onnxruntime's own exceptions share no public base class
            raise ModelError(f"ONNX Runtime cannot open {path}: {_first_line(error)}") from error
        if providers[0] != "CPUExecutionProvider":
            self._check_provider(providers[0][0], device)
        # get_inputs leaves out initializers that old exporters list as inputs too.
        inputs, self._sizes = split_inputs([_tensor(item) for item in self._session.get_inputs()])
        self.info = NetworkInfo(
            inputs=inputs,
            outputs=tuple(_tensor(item) for item in self._session.get_outputs()),
            metadata=dict(self._session.get_modelmeta().custom_metadata_map),
        )
        if len(self.info.inputs) != 1:
            names = ", ".join(str(item) for item in self.info.inputs)
            raise ModelError(f"{path} has {len(self.info.inputs)} inputs ({names}); right is one, the picture")
        for item in self.info.outputs:
            if item.dtype not in NUMBERS:
                raise ModelError(f"{path}: the output {item} is no array of numbers; right are outputs that are")
        self._input, self._path = self.info.inputs[0].name, path

    def run(self, array: npt.NDArray[Any]) -> Sequence[npt.NDArray[Any]]:
        """All outputs for one array given to the only input; see `SIZE_INPUTS` for those that may be beside it."""
        sizes = size_values(self._sizes, array) if self._sizes else {}
        try:
            outputs: Sequence[npt.NDArray[Any]] = self._session.run(None, {self._input: array, **sizes})
        except Exception as error:  # onnxruntime's own exceptions share no public base class
            raise ModelError(f"ONNX Runtime cannot run {self._path}: {' '.join(str(error).split())}") from error
        return outputs

    def close(self) -> None:
        """Drop the session and its memory."""
        del self._session

    def _check_provider(self, wanted: str, device: str) -> None:
        """A provider that cannot start is only a log line in ONNX Runtime, which then computes on the processor."""
        active = self._session.get_providers()
        if wanted not in active:
            raise ConfigurationError(
                f"device {device!r}: ONNX Runtime could not start {wanted} (it would use {', '.join(active)}); "
                "its log says why, most often a missing CUDA or cuDNN library"
            )


def _in_precision(path: Path, precision: str, providers: list[Any]) -> bytes:
    """The network of a file, written so that it is computed in this precision."""
    if precision != "int8":
        raise ConfigurationError(
            f"precision {precision!r}: ONNX Runtime computes in the types the file is written in; right is none, "
            "or int8 for a quantised network; else convert the file, or use the runtime openvino"
        )
    if providers != ["CPUExecutionProvider"]:
        raise ConfigurationError("precision 'int8' is for ONNX Runtime on a processor; on a GPU it is to be left out")
    if not multiplies_int8():
        raise ConfigurationError(
            "precision 'int8': this processor has no VNNI, without which ONNX Runtime gives other numbers; leave it out"
        )
    network = with_unsigned_activations(path)
    if network is None:
        raise ConfigurationError(
            f"precision 'int8': {path} has no int8 activations that could be computed so: it is not quantised, or they "
            "are unsigned already, in a file of their own, or looked at by operators that know int8; leave it out"
        )
    return network


def _providers(device: str) -> list[Any]:
    """Execution providers for a device; "auto" is the processor."""
    if device in ("auto", "cpu"):
        return ["CPUExecutionProvider"]
    match = re.fullmatch(r"cuda(?::(\d+))?", device)
    if match is None:
        raise ConfigurationError(f"device is {device!r}; right is auto, cpu, cuda or cuda:N")
    if "CUDAExecutionProvider" not in onnxruntime.get_available_providers():
        raise ConfigurationError(
            f"device {device!r}: this onnxruntime has no CUDA provider (it has "
            f"{', '.join(onnxruntime.get_available_providers())}); install onnxruntime-gpu, or use device cpu"
        )
    return [("CUDAExecutionProvider", {"device_id": int(match[1] or 0)}), "CPUExecutionProvider"]


def _tensor(item: Any) -> TensorInfo:
    kind = item.type.removeprefix("tensor(").removesuffix(")")
    shape = tuple(size if isinstance(size, int) and size > 0 else None for size in item.shape)
    return TensorInfo(item.name, shape, DTYPES.get(kind, kind))


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
