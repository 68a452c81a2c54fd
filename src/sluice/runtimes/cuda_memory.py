"""The few CUDA calls that running an engine needs, through NVIDIA's ``cuda.bindings``.

``cuda.bindings`` rather than PyTorch: a machine that runs engines needs no PyTorch. The runtime's interface works in
the device's primary context, which every other library in the process shares; a context of one's own, as
``pycuda.autoinit`` makes, breaks TensorRT.
"""

from __future__ import annotations

import contextlib
from typing import Any

import numpy.typing as npt

from sluice.errors import ConfigurationError, SluiceError


class CudaError(SluiceError):
    """A CUDA call failed; the text says which and why."""


def import_cuda() -> Any:
    """The module ``cuda.bindings.runtime``.

    Raises:
        ConfigurationError: it is not installed.
    """
    try:
        from cuda.bindings import runtime
    except ImportError as error:
        raise ConfigurationError(
            f"TensorRT engines need NVIDIA's Python package cuda-bindings, which cannot be imported: {error}; "
            "pip install 'sluice-video[tensorrt]'"
        ) from error
    return runtime


class Cuda:
    """A GPU, and a stream on it.

    Args:
        gpu: number of the GPU.

    Raises:
        ConfigurationError: ``cuda.bindings`` is not installed, or there is no such GPU.
    """

    def __init__(self, gpu: int) -> None:
        self._runtime = import_cuda()
        self.gpu = gpu
        try:
            count = self._call("cudaGetDeviceCount")
        except CudaError as error:
            raise ConfigurationError(f"device 'cuda:{gpu}' cannot be used: {error}") from error
        if gpu >= count:
            raise ConfigurationError(f"device 'cuda:{gpu}': this machine has {count} GPUs, numbered from 0")
        self.use()
        self.stream: int = int(self._call("cudaStreamCreate"))

    def use(self) -> None:
        """Make this thread's calls go to the GPU; CUDA keeps the choice per thread."""
        self._call("cudaSetDevice", self.gpu)

    def allocate(self, size: int) -> int:
        """Address of `size` bytes on the GPU."""
        return int(self._call("cudaMalloc", max(size, 1)))

    def free(self, address: int) -> None:
        """Give memory back."""
        self._call("cudaFree", address)

    def upload(self, array: npt.NDArray[Any], address: int) -> None:
        """Queue a copy of a contiguous array to the GPU."""
        self._copy(address, array.ctypes.data, array.nbytes, "cudaMemcpyHostToDevice")

    def download(self, address: int, array: npt.NDArray[Any]) -> None:
        """Queue a copy from the GPU into a contiguous array; read it after `wait`."""
        self._copy(array.ctypes.data, address, array.nbytes, "cudaMemcpyDeviceToHost")

    def wait(self) -> None:
        """Until all that was queued is done."""
        self._call("cudaStreamSynchronize", self.stream)

    def close(self) -> None:
        """Give the stream back."""
        with contextlib.suppress(CudaError):  # what failed on the stream was reported by the call that failed
            self._call("cudaStreamDestroy", self.stream)

    def _copy(self, target: int, source: int, size: int, direction: str) -> None:
        kind = getattr(self._runtime.cudaMemcpyKind, direction)
        self._call("cudaMemcpyAsync", target, source, size, kind, self.stream)

    def _call(self, name: str, *arguments: Any) -> Any:
        """One call; each returns its error code and then what it gives."""
        code, *values = getattr(self._runtime, name)(*arguments)
        if code != self._runtime.cudaError_t.cudaSuccess:
            _, text = self._runtime.cudaGetErrorString(code)
            raise CudaError(f"{name} failed: {text.decode() if isinstance(text, bytes) else text}")
        return values[0] if values else None
