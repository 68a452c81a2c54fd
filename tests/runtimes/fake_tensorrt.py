"""A stand-in for TensorRT and CUDA with the attribute names of the real ones, computing with NumPy on the host."""

from __future__ import annotations

import ctypes
from enum import Enum, auto
from types import SimpleNamespace
from typing import Any

import numpy as np


class Dims:
    """As TensorRT's: a length and an index, whose end is no IndexError but the end of the process."""

    def __init__(self, sizes: Any) -> None:
        self._sizes = list(sizes)

    def __len__(self) -> int:
        return len(self._sizes)

    def __getitem__(self, index: int) -> int:
        assert 0 <= index < len(self._sizes), "read past the end: a C++ exception"
        return self._sizes[index]


class DataType(Enum):
    FLOAT = auto()
    HALF = auto()
    INT32 = auto()
    BF16 = auto()


class TensorIOMode(Enum):
    INPUT = auto()
    OUTPUT = auto()


class TensorLocation(Enum):
    DEVICE = auto()
    HOST = auto()


class ILogger:
    Severity = Enum("Severity", "INTERNAL_ERROR ERROR WARNING INFO VERBOSE")


class FakeCuda:
    """The calls of ``cuda.bindings.runtime``: addresses are those of host arrays."""

    cudaError_t = SimpleNamespace(cudaSuccess=0)
    cudaMemcpyKind = SimpleNamespace(cudaMemcpyHostToDevice=1, cudaMemcpyDeviceToHost=2)

    def __init__(self, count: int = 1, fail: str | None = None) -> None:
        self.blocks: dict[int, Any] = {}
        self.calls: list[str] = []
        self._count, self._fail = count, fail

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("cuda"):
            raise AttributeError(name)

        def call(*arguments: Any) -> tuple[Any, ...]:
            self.calls.append(name)
            if name == self._fail:
                return (700, None)
            return (0, *self._do(name, arguments))

        return call

    def cudaGetErrorString(self, code: int) -> tuple[int, bytes]:
        return 0, b"an illegal memory access was encountered"

    def _do(self, name: str, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
        if name == "cudaGetDeviceCount":
            return (self._count,)
        if name == "cudaStreamCreate":
            return (77,)
        if name == "cudaMalloc":
            block = ctypes.create_string_buffer(arguments[0])
            self.blocks[ctypes.addressof(block)] = block
            return (ctypes.addressof(block),)
        if name == "cudaFree":
            del self.blocks[arguments[0]]
        if name == "cudaMemcpyAsync":
            target, source, size, kind, stream = arguments
            device = target if kind == 1 else source
            assert stream == 77
            assert len(self.blocks[device]) >= size, "copied past the end of a block"
            ctypes.memmove(target, source, size)
        return ()


class Engine:
    """One input "images" [-1,3,H,W]; output "mean" [-1,1] and, if asked for, other tensors described by name."""

    def __init__(self, most: int = 4, **tensors: Any) -> None:
        self.most = most
        self.tensors = {
            "images": (TensorIOMode.INPUT, DataType.FLOAT, (-1, 3, 8, 8)),
            "mean": (TensorIOMode.OUTPUT, DataType.FLOAT, (-1, 1)),
            **tensors,
        }
        self.host: set[str] = set()
        self.num_io_tensors = len(self.tensors)

    def get_tensor_name(self, index: int) -> str:
        return list(self.tensors)[index]

    def get_tensor_mode(self, name: str) -> TensorIOMode:
        return self.tensors[name][0]

    def get_tensor_dtype(self, name: str) -> DataType:
        return self.tensors[name][1]

    def get_tensor_shape(self, name: str) -> Dims:
        return Dims(self.tensors[name][2])

    def get_tensor_location(self, name: str) -> TensorLocation:
        return TensorLocation.HOST if name in self.host else TensorLocation.DEVICE

    def get_tensor_vectorized_dim(self, name: str) -> int:
        return -1

    def get_tensor_profile_shape(self, name: str, profile: int) -> list[Dims]:
        return [Dims((batch, 3, 8, 8)) for batch in (1, self.most, self.most)]

    def create_execution_context(self) -> Context:
        return Context(self)


class Context:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._shape: tuple[int, ...] = ()
        self._addresses: dict[str, int] = {}

    def set_input_shape(self, name: str, shape: tuple[int, ...]) -> bool:
        self._shape = tuple(shape)
        return shape[0] <= self._engine.most

    def get_tensor_shape(self, name: str) -> Dims:
        sizes = self._engine.tensors[name][2]
        return Dims((self._shape[0], *sizes[1:]))

    def set_tensor_address(self, name: str, address: int) -> bool:
        self._addresses[name] = address
        return True

    def execute_async_v3(self, stream: int) -> bool:
        count = int(np.prod(self._shape))
        source = (ctypes.c_float * count).from_address(self._addresses["images"])
        means = np.array(source, np.float32).reshape(self._shape).mean(axis=(1, 2, 3))
        (ctypes.c_float * len(means)).from_address(self._addresses["mean"])[:] = means.tolist()
        return True


def module(engine: Engine | None) -> Any:
    """A TensorRT module whose runtime gives this engine; None as for a file that cannot be read."""

    class Runtime:
        def __init__(self, log: Any) -> None:
            self._log = log
            self.DLA_core = -1

        def deserialize_cuda_engine(self, content: bytes) -> Engine | None:
            module.content = content
            if engine is None:
                self._log.log(ILogger.Severity.ERROR, "Version tag does not match")
            return engine

    module = SimpleNamespace(
        __version__="10.0", Dims=Dims, ILogger=ILogger, TensorIOMode=TensorIOMode, TensorLocation=TensorLocation
    )
    module.Runtime = Runtime
    return module
