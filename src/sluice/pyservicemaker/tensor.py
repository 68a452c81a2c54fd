"""``Tensor``, ``as_tensor`` and ``ColorFormat``: pixels and network outputs that any array library can take."""

from dataclasses import replace
from enum import IntEnum
from typing import TYPE_CHECKING, Any

import numpy as np

from sluice.contract.dlpack import KDL_CPU, KDL_CUDA, PlaneTensor
from sluice.contract.metadata import Lease
from sluice.pyservicemaker import cuda, dlpack
from sluice.pyservicemaker.base import ApiError, refuse
from sluice.pyservicemaker.dlpack import Memory

if TYPE_CHECKING:
    from sluice.pyservicemaker.buffer import Buffer

_ON_GPU = (KDL_CUDA, dlpack.KDL_CUDA_MANAGED)


class ColorFormat(IntEnum):
    """Formats for `Tensor.wrap`, with NvBufSurface's values."""

    I420 = 2
    RGBA = 19
    RGB = 27


_CHANNELS = {ColorFormat.RGB: 3, ColorFormat.RGBA: 4}


class Tensor:
    """An array in host or GPU memory, for ``numpy.from_dlpack``, ``torch.from_dlpack`` and the like, without a copy.

    An empty one is falsy, and raises `ApiError` with the reason where its shape or elements are asked for. A tensor of
    a frame keeps the frame's pixels alive, and not the buffer: it may be used after the callback, though whoever wants
    to write those pixels then copies them first. Outputs of networks are good as long as the metadata they are in.
    """

    __slots__ = ("_format", "_lease", "_memory", "_plane", "_reason")
    _memory: Memory | None
    _format: str
    _lease: Lease | None
    _plane: PlaneTensor | None
    _reason: str

    def __init__(self) -> None:
        raise TypeError("Tensor: no constructor defined; use as_tensor() or Buffer.extract()")

    @classmethod
    def _make(
        cls,
        memory: Memory | None,
        format: str = "",
        *,
        lease: Lease | None = None,
        plane: PlaneTensor | None = None,
        reason: str = "",
    ) -> "Tensor":
        tensor = cls.__new__(cls)
        tensor._memory, tensor._format, tensor._lease = memory, format, lease
        tensor._plane, tensor._reason = plane, reason
        return tensor

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape; (height, width, channels) for a frame."""
        return self._need().shape

    @property
    def strides(self) -> tuple[int, ...]:
        """The strides in elements; rows of a frame are usually padded."""
        return self._need().strides

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of the elements."""
        return self._need().dtype

    @property
    def device_type(self) -> str:
        """``"GPU"``, ``"CPU"``, or ``"NONE"`` when empty."""
        if self._memory is None:
            return "NONE"
        return "GPU" if self._memory.device[0] in _ON_GPU else "CPU"

    def size(self) -> int:
        """Return the number of bytes of all elements."""
        memory = self._need()
        return int(np.prod(memory.shape, dtype=np.int64)) * memory.dtype.itemsize

    def __bool__(self) -> bool:
        """Whether there is anything."""
        return self._memory is not None

    def __dlpack_device__(self) -> tuple[int, int]:
        """Return DLPack's (device type, device id), which NVIDIA's package always calls CUDA."""
        return self._need().device

    def __dlpack__(
        self,
        stream: Any = None,
        *,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """Return a capsule, "dltensor" or, for a consumer of DLPack 1.0 or later, "dltensor_versioned".

        `stream` is accepted and needs no answer: what is here is complete.

        Raises:
            BufferError: a copy, or another device, was asked for.
        """
        memory = self._need()
        if self._plane is not None:
            return self._plane.__dlpack__(stream=stream, max_version=max_version, dl_device=dl_device, copy=copy)
        if copy:
            raise BufferError("a tensor is exported as it is; clone() it, or copy what is made of it")
        if dl_device is not None and tuple(map(int, dl_device)) != memory.device:
            raise BufferError(f"the tensor is on DLPack device {memory.device}, not on {dl_device}")
        return dlpack.export(memory, max_version is not None and max_version[0] >= 1)

    def clone(self) -> "Tensor | None":
        """Return a copy of its own without padding, on the same device; None when empty.

        Raises:
            ApiError: on a GPU, more than the rows are padded, or the GPU refused.
        """
        if self._memory is None:
            return None
        memory = self._need()
        if self.device_type == "GPU":
            return self._make(cuda.clone(memory, memory.device[1]), self._format)
        array = np.array(self._host(), order="C")
        return self._make(_of_array(array), self._format)

    def to_gpu(self, device_id: int) -> "Tensor":
        """Return a copy on a GPU.

        Raises:
            ApiError: there is no such GPU, or more than the rows are padded.
        """
        return self._make(cuda.clone(self._need(), device_id), self._format)

    def wrap(self, format: ColorFormat, /) -> "Buffer":
        """Return a buffer of one frame with these elements, or with the bytes of a tensor of rank 1 on the host.

        On a GPU the frame is the tensor's own memory when that is packed and was made by `clone` or `to_gpu`, otherwise
        a copy. On the host it is a copy; NVIDIA's package wraps no host frames.

        Args:
            format: RGB or RGBA, for a tensor uint8 (height, width, 3 or 4) with the tag "HWC".

        Raises:
            TypeError: not a `ColorFormat`.
            ApiError: a tensor of another shape or type, or a format that cannot be wrapped.
        """
        from sluice.pyservicemaker.buffer import Buffer
        from sluice.pyservicemaker.frame import cuda_frame, host_frame

        if not isinstance(format, ColorFormat):
            refuse("wrap", format, "a ColorFormat")
        memory = self._need()
        if memory.dtype.itemsize != 1:
            raise ApiError(f"a buffer is made of bytes, not of {memory.dtype}")
        if self.device_type == "CPU" and len(memory.shape) == 1:
            return Buffer(list(self._host().view(np.uint8).tobytes()))
        channels = _CHANNELS.get(format)
        if channels is None or self._format != "HWC" or len(memory.shape) != 3 or memory.shape[2] != channels:
            raise ApiError(
                f"a tensor {memory.shape} tagged {self._format!r} is no {format.name} frame; (height, width, 3) is "
                'RGB, (height, width, 4) RGBA, tagged "HWC"'
            )
        if self.device_type == "CPU":
            return Buffer(host_frame(np.ascontiguousarray(self._host()).view(np.uint8), format.name))
        owned = memory if cuda.owns(memory) else cuda.clone(memory, memory.device[1])
        return Buffer(cuda_frame(owned, int(format)))

    def __repr__(self) -> str:
        if self._memory is None:
            return f"<Tensor (empty: {self._reason})>"
        memory = self._memory
        return f"<Tensor shape={memory.shape} dtype={memory.dtype} device={self.device_type}:{memory.device[1]}>"

    def _need(self) -> Memory:
        if self._memory is None:
            raise ApiError(f"the tensor is empty: {self._reason}")
        if self._lease is not None:
            self._lease.check()
        return self._memory

    def _host(self) -> np.ndarray[Any, Any]:
        """Return a view as a numpy array of elements in host memory."""
        return np.asarray(_Interface(self._need()))


class _Interface:
    """What numpy makes a view of; the view keeps it, and with it the memory."""

    def __init__(self, memory: Memory) -> None:
        self.memory = memory
        self.__array_interface__ = {
            "version": 3,
            "typestr": memory.dtype.str,
            "shape": memory.shape,
            "strides": tuple(step * memory.dtype.itemsize for step in memory.strides),
            "data": (memory.address, not memory.writable),
        }


def _of_array(array: np.ndarray[Any, Any]) -> Memory:
    strides = tuple(step // array.itemsize for step in array.strides)
    return Memory(array.ctypes.data, array.shape, strides, array.dtype, (KDL_CPU, 0), array)


def as_tensor(object: Any, format: str, /) -> Tensor:
    """Return an object that speaks DLPack (a numpy array, a torch tensor) as a `Tensor`, without a copy.

    Args:
        object: the array; one without DLPack gives an empty tensor, as in NVIDIA's package.
        format: what the axes are, such as "HWC" or "CHW"; checked by `Tensor.wrap` only.

    Raises:
        ApiError: the array's device, dtype or rank cannot be used.
    """
    if not isinstance(format, str):
        refuse("as_tensor", format, "a str as format")
    if not (hasattr(object, "__dlpack__") and hasattr(object, "__dlpack_device__")):
        return Tensor._make(None, format, reason=f"a {type(object).__name__} does not speak DLPack")
    try:
        return Tensor._make(dlpack.read(object), format)
    except (ValueError, BufferError) as error:
        raise ApiError(str(error)) from error


def borrowed(
    address: int, shape: tuple[int, ...], dtype: np.dtype[Any], device: tuple[int, int], lease: Lease, format: str
) -> Tensor:
    """Return a packed tensor over memory that is good as long as a lease."""
    if not address:
        return Tensor._make(None, format, reason="the metadata hold no elements, neither on the host nor on a GPU")
    return Tensor._make(Memory(address, shape, dlpack.packed(shape), dtype, device, None), format, lease=lease)


def of_plane(plane: PlaneTensor) -> Tensor:
    """Return a plane of packed pixels as a tensor (height, width, channels)."""
    if len(plane.shape) == 2:
        plane = replace(plane, shape=(*plane.shape, 1), strides=(*plane.strides, 1))
    memory = Memory(
        plane.address, plane.shape, plane.strides, np.dtype(np.uint8), plane.__dlpack_device__(), plane, plane.writable
    )
    return Tensor._make(memory, "HWC", plane=plane)
