"""TensorRT engines (``.engine``), by the calls of TensorRT 10 and 11.

No engine was executed in the making of this: every name called here is checked against NVIDIA's bindings, and the
logic against a stand-in with the same names. `docs/runtimes.md` says so too.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sluice.errors import ConfigurationError, ModelError
from sluice.runtimes.base import NetworkInfo, TensorInfo
from sluice.runtimes.cuda_memory import Cuda
from sluice.runtimes.engine_file import read_engine
from sluice.runtimes.tensorrt_module import dims, import_tensorrt

log = logging.getLogger("sluice.runtimes")

#: Names of TensorRT's types that NumPy has too; bfloat16, fp8 and 4-bit types it has not.
DTYPES = {
    "FLOAT": "float32",
    "HALF": "float16",
    "INT8": "int8",
    "UINT8": "uint8",
    "INT32": "int32",
    "INT64": "int64",
    "BOOL": "bool",
}
PROFILE = 0  # an engine of several optimisation profiles is run with its first, which is the one a context starts with


class TensorRtNetwork:
    """An engine on one GPU. See `sluice.runtimes.base.Network`.

    A call copies the input to the GPU, runs the engine on a stream of its own and copies the outputs back.
    """

    def __init__(
        self,
        path: Path,
        device: str = "auto",
        *,
        size: tuple[int | None, int | None] = (None, None),  # noqa: ARG002 - an engine says its sizes
        precision: str | None = None,
        threads: int | None = None,  # noqa: ARG002 - the GPU computes
    ) -> None:
        if precision is not None:
            raise ConfigurationError(f"precision {precision!r}: an engine's precision was chosen when it was built")
        self._path = path
        self._trt = import_tensorrt()
        file = read_engine(path)
        self._cuda = Cuda(gpu_of(device))
        self._log = make_logger(self._trt)
        self._runtime = self._trt.Runtime(self._log)
        if file.dla_core is not None:
            self._runtime.DLA_core = file.dla_core
        self._engine = self._runtime.deserialize_cuda_engine(file.engine)
        if self._engine is None:
            raise ModelError(
                f"TensorRT {self._trt.__version__} cannot open {path}: {self._log.last or 'it does not say why'}; an "
                "engine runs only on the TensorRT version and the kind of GPU it was built for"
            )
        self._context = self._engine.create_execution_context()
        if self._context is None:
            raise ModelError(f"TensorRT cannot run {path}: {self._log.last or 'too little GPU memory'}")
        self.info = _describe(self._trt, self._engine, path, file.metadata)
        self._memory: dict[str, tuple[int, int]] = {}  # name to address and size in bytes

    def run(self, array: npt.NDArray[Any]) -> Sequence[npt.NDArray[Any]]:
        """All outputs for one array given to the only input."""
        self._cuda.use()
        entry = self.info.inputs[0]
        array = np.ascontiguousarray(array, np.dtype(entry.dtype))
        if not self._context.set_input_shape(entry.name, array.shape):
            raise ModelError(
                f"{self._path}: the engine does not take an input of {list(array.shape)}; {self._profile_text()}"
            )
        self._cuda.upload(array, self._bind(entry.name, array.nbytes))
        outputs = [self._output(item) for item in self.info.outputs]
        if not self._context.execute_async_v3(self._cuda.stream):
            raise ModelError(f"{self._path}: TensorRT could not run the engine: {self._log.last or 'no reason given'}")
        for item, output in zip(self.info.outputs, outputs, strict=True):
            self._cuda.download(self._memory[item.name][0], output)
        self._cuda.wait()
        return outputs

    def close(self) -> None:
        """Free the engine and its memory."""
        self._cuda.use()
        for address, _ in self._memory.values():
            self._cuda.free(address)
        self._memory = {}
        # In this order: each keeps a pointer into the next.
        del self._context, self._engine, self._runtime
        self._cuda.close()

    def _output(self, item: TensorInfo) -> npt.NDArray[Any]:
        """Room for an output of the size that the input's size makes, on the GPU (bound) and here (returned)."""
        shape = dims(self._context.get_tensor_shape(item.name))
        if any(size < 0 for size in shape):
            raise ModelError(
                f"{self._path}: the size of the output {item} depends on what is in the picture; right is an engine "
                "whose suppression gives a fixed number of rows (EfficientNMS_TRT), or none"
            )
        output = np.empty(shape, np.dtype(item.dtype))
        self._bind(item.name, output.nbytes)
        return output

    def _bind(self, name: str, size: int) -> int:
        """Address of at least `size` bytes that the engine reads or writes a tensor at; grown when too small."""
        address, there = self._memory.get(name, (0, 0))
        if there < size or not there:
            if there:
                self._cuda.free(self._memory.pop(name)[0])
            address = self._cuda.allocate(size)
            self._memory[name] = address, max(size, 1)
        self._context.set_tensor_address(name, address)
        return address

    def _profile_text(self) -> str:
        low, _, high = self._engine.get_tensor_profile_shape(self.info.inputs[0].name, PROFILE)
        return f"its profile takes {list(dims(low))} to {list(dims(high))}"


def gpu_of(device: str) -> int:
    """Number of the GPU that a device names; "auto" is the first.

    Raises:
        ConfigurationError: it names no GPU.
    """
    match = re.fullmatch(r"auto|cuda(?::(\d+))?", device)
    if match is None:
        raise ConfigurationError(f"device is {device!r}; right for TensorRT is auto, cuda or cuda:N")
    return int(match[1] or 0)


def make_logger(trt: Any) -> Any:
    """A TensorRT logger that writes to Python's logging, and keeps the last error for messages as ``last``."""
    severity = trt.ILogger.Severity
    levels = {
        severity.INTERNAL_ERROR: logging.ERROR,
        severity.ERROR: logging.ERROR,
        severity.WARNING: logging.WARNING,
        severity.INFO: logging.DEBUG,
        severity.VERBOSE: logging.DEBUG,
    }

    class Log(trt.ILogger):  # type: ignore[misc]
        """TensorRT calls it from threads of its own."""

        def __init__(self) -> None:
            trt.ILogger.__init__(self)
            self.last = ""

        def log(self, severity: Any, text: str) -> None:
            """One line of TensorRT's."""
            level = levels.get(severity, logging.DEBUG)
            if level == logging.ERROR:
                self.last = text.strip()
            log.log(level, "TensorRT: %s", text.strip())

    return Log()


def _describe(trt: Any, engine: Any, path: Path, metadata: dict[str, str]) -> NetworkInfo:
    """Inputs and outputs of an engine.

    Raises:
        ModelError: it has not one input, or a tensor that cannot be copied as a plain array.
    """
    names = [engine.get_tensor_name(index) for index in range(engine.num_io_tensors)]
    is_input = {name: engine.get_tensor_mode(name) == trt.TensorIOMode.INPUT for name in names}
    tensors = {name: _tensor(trt, engine, name, path) for name in names}
    inputs = tuple(tensors[name] for name in names if is_input[name])
    if len(inputs) != 1:
        raise ModelError(f"{path} has {len(inputs)} inputs ({', '.join(map(str, inputs))}); right is one, the picture")
    return NetworkInfo(inputs, tuple(tensors[name] for name in names if not is_input[name]), metadata)


def _tensor(trt: Any, engine: Any, name: str, path: Path) -> TensorInfo:
    kind = engine.get_tensor_dtype(name).name
    if kind not in DTYPES:
        raise ModelError(f"{path}: the tensor {name} is of type {kind}; right is one of {', '.join(DTYPES)}")
    if engine.get_tensor_location(name) != trt.TensorLocation.DEVICE:
        raise ModelError(f"{path}: the tensor {name} holds a shape, not data; right is an engine of plain tensors")
    if engine.get_tensor_vectorized_dim(name) != -1:
        raise ModelError(f"{path}: the tensor {name} is laid out in vectors; right is the linear format (kLINEAR)")
    shape = tuple(size if size >= 0 else None for size in dims(engine.get_tensor_shape(name)))
    return TensorInfo(name, shape, DTYPES[kind])
