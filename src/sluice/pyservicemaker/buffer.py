"""``Buffer``: a GStreamer buffer with its frames and their metadata."""

from collections.abc import Sequence
from typing import Any

import gi
import numpy as np
import numpy.typing as npt

gi.require_version("Gst", "1.0")
from gi.repository import Gst

from sluice.contract.formats import plane_shapes
from sluice.contract.surface import Surface, SurfaceBatch, SurfaceError
from sluice.errors import ContractError
from sluice.pyservicemaker.base import ApiError, Session, index
from sluice.pyservicemaker.frames import BatchMetadata
from sluice.pyservicemaker.tensor import Tensor, of_plane

NO_TIMESTAMP = Gst.CLOCK_TIME_NONE
_PACKED = ("RGB", "BGR", "RGBA", "BGRA", "RGBx", "BGRx", "GRAY8")


class Buffer:
    """A buffer of a pipeline: ``Buffer(gst_buffer)``; or bytes: ``Buffer([1, 2, 3])``; or nothing: ``Buffer()``.

    The buffer, and what is got from it, hold one reference of the ``Gst.Buffer`` together: until the last of them is
    gone, elements behind may not write into the buffer and would copy it. So let them go before the buffer is passed
    on, which leaving a function does by itself, or end the time of all of them at once with
    ``with Buffer(gst_buffer) as buffer:``; whatever was got from it raises ``StaleBufferError`` afterwards. Tensors are
    an exception: they hold the pixels only, and outlive the buffer.
    """

    __slots__ = ("_buffer", "_session")

    def __init__(self, data: "Gst.Buffer | Sequence[int] | npt.NDArray[Any] | None" = None, /) -> None:
        """Wrap a buffer, or make one of numbers 0 to 255.

        Raises:
            TypeError: neither; NVIDIA's package makes an empty buffer of it, or crashes.
        """
        if isinstance(data, Gst.Buffer):
            self._buffer: Gst.Buffer | None = data
        elif data is None:
            self._buffer = None
        elif isinstance(data, Sequence | np.ndarray) and not isinstance(data, str | bytes):
            self._buffer = Gst.Buffer.new_wrapped(_bytes(data))
        else:
            raise TypeError(
                f"Buffer() takes a Gst.Buffer or a sequence of numbers 0 to 255, not "
                f"{type(data).__module__}.{type(data).__qualname__}"
            )
        self._session = None if self._buffer is None else Session(self._buffer)

    @property
    def batch_size(self) -> int:
        """For how many frames there is room; 0 when empty, 1 for anything but a batch."""
        self._check()
        if self._buffer is None:
            return 0
        surfaces = self._surfaces()
        return 1 if isinstance(surfaces, str) else surfaces.capacity

    @property
    def batch_meta(self) -> BatchMetadata:
        """The metadata; without frames where the buffer carries none."""
        self._check()
        return BatchMetadata._wrap(self._session.batch if self._session else None, self._session)

    @property
    def timestamp(self) -> int:
        """The buffer's PTS in ns; 2⁶⁴-1 without one."""
        self._check()
        return int(NO_TIMESTAMP if self._buffer is None else self._buffer.pts)

    def extract(self, batch_id: int) -> Tensor:
        """Return the pixels of a frame, without a copy, as a tensor uint8 (height, width, channels) where they are.

        The channels are in the surface's own order: RGB and RGBA surfaces as in NVIDIA's package, and besides BGR,
        BGRA, RGBx, BGRx, and GRAY8 with one channel. Pixels in several planes (NV12, I420), and what is no batch, give
        an empty tensor. The tensor keeps the pixels alive; they are for reading.

        Args:
            batch_id: the frame's place in the batch, `FrameMetadata.batch_id`.

        Raises:
            IndexError: the batch has no such frame.
        """
        self._check()
        if self._buffer is None:
            return Tensor._make(None, reason="the buffer is empty")
        surfaces = self._surfaces()
        if isinstance(surfaces, str):
            return _empty(surfaces)
        return _tensor(surfaces[index(batch_id, len(surfaces), "frame in the batch,")])

    def get_chunk_id(self, batch_id: int, /) -> int:
        """Return 0: only DeepStream's ``nvdsdynamicsrcbin`` numbers chunks, and Sluice does not know where.

        Raises:
            IndexError: the batch has no such frame.
        """
        index(batch_id, self.batch_size, "frame in the batch,")
        return 0

    def __enter__(self) -> "Buffer":
        self._check()
        return self

    def __exit__(self, *_: object) -> None:
        self._release()

    def __repr__(self) -> str:
        if self._session is not None and self._session.lease.ended:
            return "<Buffer (stale)>"
        return f"<Buffer batch_size={self.batch_size} timestamp={self.timestamp} batch_meta={self.batch_meta!r}>"

    def _release(self) -> None:
        """Let the ``Gst.Buffer`` go and make everything that was got from this buffer stale."""
        self._buffer = None
        if self._session is not None:
            self._session.end()

    def _check(self) -> None:
        if self._session is not None:
            self._session.lease.check()

    def _surfaces(self) -> SurfaceBatch | str:
        """Return the frames, or why there are none."""
        assert self._buffer is not None
        try:
            return SurfaceBatch.of(self._buffer)
        except ContractError as error:
            return str(error)


def _bytes(data: "Sequence[int] | npt.NDArray[Any]") -> bytes:
    try:
        return bytes(list(data))
    except (TypeError, ValueError) as error:
        raise TypeError(f"Buffer() takes numbers 0 to 255: {error}") from None


def _tensor(surface: Surface) -> Tensor:
    try:
        if surface.format not in _PACKED or len(plane_shapes(surface.format, surface.width, surface.height)) != 1:
            return _empty(
                f"surface {surface.index} is {surface.format}, whose pixels are not (height, width, channels); "
                "convert the stream to RGB before the batch"
            )
        return of_plane(surface.dlpack())
    except SurfaceError as error:
        return _empty(str(error))
    except ContractError as error:
        raise ApiError(str(error)) from error


def _empty(reason: str) -> Tensor:
    Gst.warning(f"Buffer.extract: {reason}")
    return Tensor._make(None, reason=reason)
